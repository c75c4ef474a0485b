//===- LayerPrices.h - Predictions from one layer of a kind -----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_PLANNING_LAYERPRICES_H
#define OPTIMUS_LIB_PLANNING_LAYERPRICES_H

#include "optimus/Dialect/Optimus/Transforms/RepeatedBlocks.h"
#include "optimus/Planning/LayoutChoice.h"

namespace mlir::optimus {

/// Prices layouts of a deep model by compiling short ones: time and memory are
/// linear in the number of equal layers. As long as no layer runs on its own
/// terms, which only the whole model has.
class LayerPrices {
public:
  /// Nothing where the whole program is as short, or what is asked for names
  /// single values or layers.
  static std::optional<LayerPrices> of(ModuleOp module,
                                       const LayoutQuestion &question);

  /// Fills in the prediction of a policy's candidate.
  void predict(const PhaseOptions &options, Candidate &candidate) const;

  /// Of a quantity linear in the number of layers, the whole model's, from
  /// those of the short ones.
  double addUp(llvm::function_ref<double(size_t model)> get) const;

private:
  LayerPrices() = default;

  /// With few layers of each kind, and each of the others with a few more of
  /// one kind.
  std::vector<OwningOpRef<ModuleOp>> models;
  /// Of each kind, the layers missing in the first model, over those that its
  /// own model has more.
  std::vector<double> missing;
};

} // namespace mlir::optimus

#endif // OPTIMUS_LIB_PLANNING_LAYERPRICES_H
