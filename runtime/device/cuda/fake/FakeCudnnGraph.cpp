//===- FakeCudnnGraph.cpp - Graphs of operations, checked -----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FakeCudnnGraph.h"

#include "optimus-support/Status.h"

#include <algorithm>
#include <cstdlib>
#include <set>

using optimus_support::concat;

namespace optrt::cuda::fake {

using Place = std::array<int64_t, 4>;

std::vector<FakeTensor> FakeOperation::inputs() const {
  std::vector<FakeTensor> result;
  for (const FakeTensor *one : {&x, &b, &t, &rows, &cols, &depth})
    if (*one)
      result.push_back(*one);
  return result;
}

static std::string checkShapes(const FakeOperation &o) {
  const Place &x = o.x.extents, &b = o.b.extents, &y = o.y.extents;
  bool fits = true;
  switch (o.kind) {
  case FakeOperation::Matmul:
    fits = x[3] == b[2] && y[2] == x[2] && y[3] == b[3] && y[0] == x[0] &&
           x[0] == b[0] && y[1] == x[1] && x[1] % b[1] == 0;
    break;
  case FakeOperation::Reduction:
    for (size_t i = 0; i != 4; ++i)
      fits &= x[i] % y[i] == 0;
    break;
  case FakeOperation::Reshape:
    fits = o.x.elements() == o.y.elements();
    break;
  case FakeOperation::Pointwise:
    for (const FakeTensor *one : {&o.x, &o.b, &o.t})
      for (size_t i = 0; *one && i != 4; ++i)
        fits &= one->extents[i] == y[i] || one->extents[i] == 1;
    break;
  }
  return fits ? "" : "extents of an operation that do not fit each other";
}

std::string FakeGraph::check() const {
  std::map<int64_t, FakeTensor> known;
  std::set<int64_t> written;
  for (const FakeOperation &operation : operations) {
    std::vector<FakeTensor> tensors = operation.inputs();
    for (const FakeTensor &one : tensors)
      if (one.isVirtual && !written.contains(one.id))
        return concat("tensor ", one.id, " is read before it is written");
    tensors.push_back(operation.y);
    for (const FakeTensor &one : tensors) {
      if (*std::min_element(one.extents.begin(), one.extents.end()) < 1 ||
          *std::min_element(one.strides.begin(), one.strides.end()) < 1)
        return concat("tensor ", one.id, " has an extent or stride below 1");
      if (!(known.emplace(one.id, one).first->second == one))
        return concat("two tensors have the number ", one.id);
    }
    if (operation.y.isByValue || !written.insert(operation.y.id).second)
      return concat("tensor ", operation.y.id, " is written twice");
    if (std::string wrong = checkShapes(operation); !wrong.empty())
      return wrong;
  }
  return "";
}

std::string FakeGraph::whyNotAttention() const {
  for (const FakeOperation &operation : operations) {
    if (operation.kind != FakeOperation::Matmul)
      continue;
    for (const FakeTensor *one : {&operation.x, &operation.b}) {
      if (!one->isInMemory())
        continue;
      if (one->type != kDnnBF16)
        return "attention is for bf16";
      const bool isTurned = one->strides[3] != 1;
      const int64_t size = one->extents[isTurned ? 2 : 3];
      if (size % 8 != 0 || size > 128)
        return concat("heads of ", size,
                      "; expected a multiple of 8, at most 128");
      if (one->strides[isTurned ? 2 : 3] != 1 ||
          one->strides[isTurned ? 3 : 2] % 8 != 0)
        return "rows that do not begin at multiples of 16 bytes";
    }
  }
  return "";
}

/// Some for all; scores' gradients of the deterministic kind; gradients of all
/// heads where these share keys.
int64_t FakeGraph::workspaceBytes() const {
  int64_t bytes = 4096;
  for (const FakeOperation &operation : operations) {
    if (operation.kind == FakeOperation::Matmul && operation.x.isVirtual &&
        operation.x.type == kDnnF32 && operation.y.type == kDnnBF16)
      bytes += operation.x.elements() * 2;
    if (operation.kind == FakeOperation::Reduction &&
        operation.y.extents[3] > 1)
      bytes += operation.x.elements() * 2;
  }
  return bytes;
}

static bool isAligned(const void *address, int64_t alignment) {
  return reinterpret_cast<uintptr_t>(address) % uintptr_t(alignment) == 0;
}

std::string FakeExecution::check() {
  if (workspaceBytes > 0 && (!workspace || !isAligned(workspace, 256)))
    return "a workspace that is missing or not at a multiple of 256";
  for (const FakeOperation &operation : graph.operations) {
    std::vector<FakeTensor> tensors = operation.inputs();
    tensors.push_back(operation.y);
    for (const FakeTensor &one : tensors) {
      if (one.isVirtual)
        continue;
      const auto found = pointers.find(one.id);
      if (found == pointers.end() || !found->second)
        return concat("no pointer for tensor ", one.id);
      if (one.isByValue)
        values[one.id] = *static_cast<const float *>(found->second);
      else if (!isAligned(found->second, one.alignment))
        return concat("tensor ", one.id, " is not aligned as was said");
    }
  }
  return "";
}

} // namespace optrt::cuda::fake
