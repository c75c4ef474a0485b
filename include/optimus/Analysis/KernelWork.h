//===- KernelWork.h - What the body of a kernel computes --------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_ANALYSIS_KERNELWORK_H
#define OPTIMUS_ANALYSIS_KERNELWORK_H

#include "optimus/Dialect/Exec/IR/Exec.h"
#include "optimus/Dialect/Optimus/IR/Work.h"
#include "optimus/Prices/CommandWork.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallBitVector.h"

#include <map>
#include <optional>

namespace mlir::optimus {

using optimus_prices::KernelWork;

/// Counts in the kernel that a launch runs; nothing where it is not built yet.
/// A rank-dependent number, or the extent of a loop that depends on the data,
/// is taken as large as an iteration's part of the largest buffer. Branches
/// count by their shares of a loop where its variable decides, else the first.
KernelWork getKernelWork(exec::LaunchOp launch);

/// Of its buffers, those whose elements it reads along columns of a matrix:
/// more than a vector apart, one after the other.
llvm::SmallBitVector getBuffersByColumns(exec::LaunchOp launch);

/// The work of a launch of one of attention's kernels, including products
/// repeated by the gradient's other kernel; nothing for other kernels.
std::optional<Work> getAttentionWork(exec::LaunchOp launch);

/// The work of the launches of a module: a step has a hundred thousand of a few
/// kinds, and what is alike is counted once. For one thread, as long as kernels
/// stay as they are.
class KernelWorks {
public:
  /// As getKernelWork().
  KernelWork get(exec::LaunchOp launch);
  /// As getAttentionWork().
  std::optional<Work> getAttention(exec::LaunchOp launch);

private:
  /// The numbers that decide beside the kernel: its extent, its largest buffer,
  /// and scalars.
  using Numbers = SmallVector<int64_t, 4>;
  llvm::DenseMap<Attribute, std::map<Numbers, KernelWork>> works;
  llvm::DenseMap<Attribute, std::optional<Work>> attentions;
};

} // namespace mlir::optimus

#endif // OPTIMUS_ANALYSIS_KERNELWORK_H
