//===- CudaRowGroups.cpp - Rows that a block does together ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaRowGroups.h"

#include "CudaThreads.h"

#include <numeric>

using namespace mlir;
using namespace mlir::optimus;

/// Rows of a turn: enough that sums are little beside them, and few enough for
/// a cache.
static constexpr int64_t kTurn = 32;
/// Groups that occupy the largest GPU: with four blocks on each of some 130
/// multiprocessors. More would be more partial sums to add.
static constexpr int64_t kGroups = 512;

int64_t CudaRowGroups::getTogether(int64_t rows) const {
  return llvm::alignTo(std::max<int64_t>(llvm::divideCeil(rows, kGroups), 1),
                       kTurn);
}

void CudaRowGroups::forGroups(KernelBuilder &k, int64_t rows, int64_t together,
                              function_ref<void(const RowGroup &)> body) const {
  CudaThreads threads(k);
  threads.stride(threads.getBlockIndex(), k.getEnd(), threads.getNumBlocks(),
                 [&](Value number) {
                   Value begin = k.mulIndex(number, k.index(together));
                   Value end = k.addIndex(begin, k.index(together));
                   body({number, begin, k.minIndex(end, k.index(rows)), {}});
                 });
}

void CudaRowGroups::forTurns(KernelBuilder &k, const RowGroup &group,
                             int64_t together,
                             function_ref<void(const RowGroup &)> body) const {
  if (together <= kTurn)
    return body(group);
  k.loop(group.begin, group.end, kTurn, [&](Value begin) {
    Value end = k.minIndex(k.addIndex(begin, k.index(kTurn)), group.end);
    body({group.number, begin, end, k.less(group.begin, begin)});
  });
}

void CudaRowGroups::forRows(KernelBuilder &k, const RowGroup &group,
                            IndexFn body) const {
  CudaThreads threads(k);
  threads.stride(k.addIndex(group.begin, threads.getTeam()), group.end,
                 k.index(threads.getBlock().getTeams()), body);
}

void CudaRowGroups::forColumns(KernelBuilder &k, int64_t cols,
                               LanesFn body) const {
  CudaThreads threads(k);
  const int64_t lanes = std::gcd(cols, kLoadBytes / int64_t(sizeof(float)));
  threads.stride(k.mulIndex(threads.getThread(), k.index(lanes)), k.index(cols),
                 k.index(threads.getBlock().threads * lanes),
                 [&](Value at) { body(at, threads.getLanes(lanes)); });
}

void CudaRowGroups::separate(KernelBuilder &k) const {
  CudaThreads(k).synchronizeBlock();
}
