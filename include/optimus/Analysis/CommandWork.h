//===- CommandWork.h - Commands as prices see them --------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_ANALYSIS_COMMANDWORK_H
#define OPTIMUS_ANALYSIS_COMMANDWORK_H

#include "optimus/Dialect/Exec/IR/Exec.h"
#include "optimus/Prices/ReuseDistances.h"

namespace mlir::optimus {

/// What a command other than a collective or a wait computes.
optimus_prices::CommandWork getCommandWork(exec::CommandOpInterface command);

/// What a command touches by itself: as though nobody had used it. Which
/// buffers a kernel reads along columns is looked up only where `byColumns`.
SmallVector<optimus_prices::Touch> getTouches(exec::CommandOpInterface command,
                                              bool byColumns);

/// Follows the commands of a function in their order.
class OperandReuse {
public:
  explicit OperandReuse(bool byColumns) : byColumns(byColumns) {}

  /// What the next command touches.
  SmallVector<optimus_prices::Touch> advance(exec::CommandOpInterface command);

private:
  bool byColumns;
  optimus_prices::ReuseDistances distances;
};

/// An element type as prices and tables have it; f32 where it is null.
optimus_support::ElementType getFactorType(Type type);

} // namespace mlir::optimus

#endif // OPTIMUS_ANALYSIS_COMMANDWORK_H
