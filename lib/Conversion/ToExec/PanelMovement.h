//===- PanelMovement.h - How panels get to and from ranks -------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_CONVERSION_TOEXEC_PANELMOVEMENT_H
#define OPTIMUS_LIB_CONVERSION_TOEXEC_PANELMOVEMENT_H

#include "PanelProduct.h"

namespace mlir::optimus {

/// The movement of the panels of products that are expanded together. Each
/// panel of a factor is fetched once.
class PanelMovement {
public:
  explicit PanelMovement(Lowering &lowering) : lowering(lowering) {}

  /// Begins panel `panel` of the products. Those of the next one that must be
  /// packed are packed now: copies keep their place among products, and so this
  /// panel can be multiplied while the next one moves.
  void begin(ArrayRef<PanelProduct> products, int64_t panel);

  /// A factor's panel on every rank, as a matrix.
  Matrix getFactor(const PanelOperand &operand, int64_t panel);

  /// Where the partial sums of a result's panel are made.
  Value allocatePartial(const PanelOperand &c, int64_t panel);

  /// Brings them to where they belong.
  void reduce(const PanelOperand &c, int64_t panel, Value partial);

  /// Finishes what is on its way.
  void end();

  /// This rank's part of panel `panel` where it lies, as rows of slices; the
  /// whole panel on its owner.
  Matrix getOwn(const PanelOperand &operand, int64_t panel);
  /// A panel that is a matrix where it lies.
  static Matrix getMatrix(const PanelOperand &operand, Value own);

private:
  struct FetchedPanel {
    const PanelOperand *operand;
    Matrix matrix;
  };

  /// A factor's panel that is ready to move.
  struct PreparedPanel {
    const PanelOperand *operand;
    Movement movement;
    Matrix matrix;
  };

  /// A result's panel that is on its way, and copied to its place later.
  struct ScatteredPanel {
    const PanelOperand *operand;
    Movement movement;
    /// The place of this rank's part, and a packed one that comes before it.
    Matrix own;
    Value packed;
  };

  void copyPart(const PanelOperand &operand, Matrix own, Value packed,
                bool packs);
  Value allocatePanel(const PanelOperand &operand, int64_t panel,
                      StringRef name);
  Value allocatePart(const PanelOperand &operand, int64_t panel);
  Value selectOwner(const PanelOperand &operand, int64_t panel, Value own,
                    Value other);
  Matrix fetch(const PanelOperand &operand, int64_t panel);
  Collective getMove(const PanelOperand &operand, int64_t panel, Value own,
                     Value panelBuffer);
  PreparedPanel prepare(const PanelOperand &operand, int64_t panel);
  SmallVector<PreparedPanel> packAhead(ArrayRef<PanelProduct> products,
                                       int64_t panel);
  void finish(const ScatteredPanel &panel);

  Lowering &lowering;
  /// The panels of the present step.
  SmallVector<FetchedPanel> fetched;
  /// What was packed for the present step, and for the next one.
  SmallVector<PreparedPanel> prepared, next;
  /// The last panel of each result whose copies are still to come.
  SmallVector<ScatteredPanel> scattered;
};

/// The id of a tensor; an argument's is what the program calls it.
std::string getTensorId(Value tensor);

/// The type of a tensor's elements.
Type getElements(const PanelOperand &operand);

} // namespace mlir::optimus

#endif // OPTIMUS_LIB_CONVERSION_TOEXEC_PANELMOVEMENT_H
