//===- CommandWork.h - Commands as prices see them --------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_ANALYSIS_COMMANDWORK_H
#define OPTIMUS_ANALYSIS_COMMANDWORK_H

#include "optimus/Analysis/KernelWork.h"
#include "optimus/Dialect/Exec/IR/Exec.h"
#include "optimus/Prices/ReuseDistances.h"

namespace mlir::optimus {

/// What a command other than a collective or a wait computes.
optimus_prices::CommandWork getCommandWork(exec::CommandOpInterface command,
                                           KernelWorks &kernels);

/// What a command touches by itself: as though nobody had used it. Which
/// buffers a kernel reads along columns is looked up only where `byColumns`.
SmallVector<optimus_prices::Touch> getTouches(exec::CommandOpInterface command,
                                              bool byColumns);

/// The same, with the numbers of the buffers in which each may lie.
struct TouchedBases {
  SmallVector<optimus_prices::Touch, 3> touches;
  /// Those of the first touch, then of the others, up to `ends` of each.
  SmallVector<uint64_t, 3> bases;
  SmallVector<unsigned, 3> ends;

  ArrayRef<uint64_t> getBases(size_t touch) const {
    return ArrayRef(bases)
        .slice(0, ends[touch])
        .drop_front(touch == 0 ? 0 : ends[touch - 1]);
  }
};
TouchedBases getTouchedBases(exec::CommandOpInterface command, bool byColumns);

/// An element type as prices and tables have it; f32 where it is null.
optimus_support::ElementType getFactorType(Type type);

} // namespace mlir::optimus

#endif // OPTIMUS_ANALYSIS_COMMANDWORK_H
