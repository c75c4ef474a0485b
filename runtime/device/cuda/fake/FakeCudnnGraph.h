//===- FakeCudnnGraph.h - Graphs of operations on a fake GPU ----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_DEVICE_CUDA_FAKE_FAKECUDNNGRAPH_H
#define OPTIMUS_RUNTIME_DEVICE_CUDA_FAKE_FAKECUDNNGRAPH_H

#include "CudnnApi.h"

#include <array>
#include <map>
#include <string>
#include <vector>

namespace optrt::cuda::fake {

struct FakeTensor {
  int64_t id = 0; ///< 0 for none
  int type = kDnnF32;
  std::array<int64_t, 4> extents = {}, strides = {};
  bool isVirtual = false, isByValue = false;
  int64_t alignment = 0;

  bool operator==(const FakeTensor &) const = default;
  explicit operator bool() const { return id != 0; }
  bool isInMemory() const { return !isVirtual && !isByValue; }
  int64_t elements() const {
    return extents[0] * extents[1] * extents[2] * extents[3];
  }
  int64_t elementBytes() const { return type == kDnnBF16 ? 2 : 4; }
  /// Where an element lies; those of a dimension with one are for all.
  int64_t place(const std::array<int64_t, 4> &at) const;
  /// Its number among all, in rows.
  int64_t number(const std::array<int64_t, 4> &at) const;
};

struct FakeOperation {
  enum Kind { Pointwise, Matmul, Reduction, Reshape } kind;
  int mode = 0; ///< how numbers are combined
  int64_t axis = -1;
  FakeTensor x, b, t, y;
  FakeTensor rows = {}, cols = {}, depth = {}; ///< a product's limits

  std::vector<FakeTensor> inputs() const;
};

struct FakeGraph {
  std::vector<FakeOperation> operations;

  /// What is wrong with it; empty for nothing.
  std::string check() const;
  /// Why the engines of attention are not for it, as cuDNN's are not.
  std::string whyNotAttention() const;
  int64_t workspaceBytes() const;
};

/// A graph as it was put on a stream.
struct FakeExecution {
  FakeGraph graph;
  std::map<int64_t, void *> pointers;
  void *workspace;
  int64_t workspaceBytes;
  std::map<int64_t, double> values; ///< of what is given by value

  /// What is wrong with pointers; reads values.
  std::string check();
  Result run() const;
};

} // namespace optrt::cuda::fake

#endif // OPTIMUS_RUNTIME_DEVICE_CUDA_FAKE_FAKECUDNNGRAPH_H
