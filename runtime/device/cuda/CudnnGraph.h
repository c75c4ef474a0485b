//===- CudnnGraph.h - Graphs of operations for cuDNN ------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_DEVICE_CUDA_CUDNNGRAPH_H
#define OPTIMUS_RUNTIME_DEVICE_CUDA_CUDNNGRAPH_H

#include "CudnnApi.h"

#include "optimus-runtime/Status.h"

#include <array>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace optrt::cuda {

/// An object of cuDNN's.
class DnnOwned {
public:
  DnnOwned() = default;
  DnnOwned(const CudnnApi &api, DnnObject object)
      : owner(object, api.destroyObject) {}
  DnnObject get() const { return owner.get(); }

private:
  std::unique_ptr<void, DnnResult (*)(DnnObject)> owner{nullptr, nullptr};
};

/// What an object is given; nothing where there are no values.
struct DnnPart {
  DnnAttribute attribute;
  DnnAttributeType type;
  int64_t count;
  const void *values;
};

/// cuDNN, opened: libcudnn.so.9, or the file in $OPTIMUS_CUDNN_LIBRARY.
class Cudnn {
public:
  /// Opened once for a process. Unavailable for one before 9.16, whose backward
  /// attention needs detours.
  static StatusOr<const Cudnn *> open();

  const CudnnApi &api() const { return functions; }
  /// "cuDNN 9.26.0".
  std::string version() const;
  /// Fine for success; else what cuDNN says went wrong in a call.
  Status check(DnnResult result, const char *call) const;
  /// An object of these parts, complete.
  StatusOr<DnnOwned> make(DnnKind kind, std::span<const DnnPart> parts) const;

private:
  Status load();

  CudnnApi functions = {};
};

/// What plans are made for: the GPU of a handle, or one that is described, as
/// cuDNN writes it down, and need not be there.
struct DnnPlace {
  DnnHandle handle = nullptr;
  std::string properties = {};
};

/// A graph that can be executed.
struct DnnExecutable {
  DnnOwned plan;
  std::vector<DnnOwned> graph; ///< what the plan was made of
  int64_t workspaceBytes = 0;
  /// The numbers of tensors: those in memory first, in the order of the graph's
  /// description, then those given by value.
  std::vector<int64_t> ids;
  std::vector<float> values;
};

/// Puts a graph on the handle's stream. `pointers` are those of its numbers.
Status execute(const Cudnn &cudnn, DnnHandle handle,
               const DnnExecutable &executable, std::span<void *const> pointers,
               void *workspace);

/// Writes a graph of operations on tensors of four dimensions, [batch, heads,
/// rows, columns]. What cuDNN refuses first is kept and told by finish(); what
/// follows it does nothing.
class DnnGraph {
public:
  using Extents = std::array<int64_t, 4>;
  struct Tensor {
    DnnObject object = nullptr;
    Extents extents = {}, strides = {};
  };

  explicit DnnGraph(const Cudnn &cudnn) : cudnn(cudnn) {}

  /// One in the device's memory, at a multiple of 16 bytes.
  Tensor operand(DnnType type, const Extents &extents, const Extents &strides);
  /// A number that broadcasts.
  Tensor value(float value);

  // Operations, in f32 where nothing else is said. Their results are in no
  // memory, except where they are written into `into`.

  Tensor pointwise(DnnPointwise mode, const Tensor &x, const Tensor &b,
                   const Tensor *into = nullptr, DnnType type = kDnnF32);
  Tensor unary(DnnPointwise mode, const Tensor &x,
               const Tensor *into = nullptr);
  /// Of two numbers or truths.
  Tensor condition(DnnPointwise mode, const Tensor &x, const Tensor &b);
  /// The index of each element in a dimension.
  Tensor index(const Tensor &like, int64_t dimension, DnnType precision);
  /// `x` where `condition` holds, else `other`.
  Tensor select(const Tensor &x, const Tensor &other, const Tensor &condition);
  /// Of each row.
  Tensor reduce(DnnReduction how, const Tensor &x);
  /// Adds up heads of `x` that follow each other to those of `into`.
  void addHeads(const Tensor &x, const Tensor &into);
  /// Where rows, columns or the sum stop earlier in some batches.
  struct Limits {
    const Tensor *rows = nullptr, *cols = nullptr, *depth = nullptr;
  };
  Tensor matmul(const Tensor &a, const Tensor &b, const Limits &limits,
                const Tensor *into = nullptr, DnnType type = kDnnF32);
  Tensor transposed(const Tensor &x, DnnType type);

  /// The graph as the place executes it best.
  StatusOr<DnnExecutable> finish(const DnnPlace &place) &&;

private:
  /// An object that the graph keeps; null once something failed.
  DnnObject make(DnnKind kind, std::initializer_list<DnnPart> parts);
  void operation(DnnKind kind, std::initializer_list<DnnPart> parts);
  Tensor tensor(DnnType type, const Extents &extents, const Extents &strides,
                bool isVirtual, bool isByValue = false);
  Tensor result(DnnType type, const Extents &extents, const Tensor *into);
  /// A sum or maximum along the dimensions in which `y` has fewer elements.
  void addReduction(DnnReduction how, const Tensor &x, const Tensor &y);
  DnnObject mode(DnnPointwise mode, DnnType precision, int64_t dimension = -1);
  /// What cuDNN would try in turn.
  StatusOr<std::vector<DnnOwned>> configurations(DnnObject graph,
                                                 DnnObject device,
                                                 DnnHeuristic heuristic) const;
  StatusOr<DnnOwned> plan(DnnObject graph, const DnnPlace &place) const;

  const Cudnn &cudnn;
  Status failure;
  std::vector<DnnOwned> objects;
  std::vector<DnnObject> operations;
  int64_t numTensors = 0;
  std::vector<int64_t> inMemory, byValue;
  std::vector<float> values;
};

} // namespace optrt::cuda

#endif // OPTIMUS_RUNTIME_DEVICE_CUDA_CUDNNGRAPH_H
