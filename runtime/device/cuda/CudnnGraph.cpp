//===- CudnnGraph.cpp - Graphs of operations for cuDNN --------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudnnGraph.h"

#include "optimus-support/DynamicLibrary.h"

#include <algorithm>
#include <utility>

using optimus_support::DynamicLibrary;

namespace optrt::cuda {

//===----------------------------------------------------------------------===//
// The library
//===----------------------------------------------------------------------===//

/// The first whose gradient of attention needs no detours.
static constexpr size_t kLeastVersion = 91600;

static std::string describeVersion(size_t version) {
  return concat(version / 10000, ".", version / 100 % 100, ".", version % 100);
}

Status Cudnn::load() {
  OPTRT_ASSIGN_OR_RETURN(
      const DynamicLibrary library,
      DynamicLibrary::open(
          {"cuDNN",
           "OPTIMUS_CUDNN_LIBRARY",
           {"libcudnn.so.9"},
           "the model's attention was compiled for it: install 9.16 or later "
           "(PyTorch brings one, or `pip install nvidia-cudnn-cu13`), or "
           "compile the model with --attention builtin"}));
#define OPTRT_CUDNN_LOAD(name, symbol, parameters)                             \
  OPTRT_RETURN_IF_ERROR(library.find(#symbol, functions.name));
  OPTRT_CUDNN_FUNCTIONS(OPTRT_CUDNN_LOAD)
#undef OPTRT_CUDNN_LOAD
  OPTRT_RETURN_IF_ERROR(library.find("cudnnGetVersion", functions.version));
  OPTRT_RETURN_IF_ERROR(library.find("cudnnGetErrorString", functions.nameOf));
  OPTRT_RETURN_IF_ERROR(
      library.find("cudnnGetLastErrorString", functions.latestError));
  if (const size_t found = functions.version(); found < kLeastVersion)
    return library.refuse(concat("is ", describeVersion(found)));
  return okStatus();
}

StatusOr<const Cudnn *> Cudnn::open() {
  static Cudnn cudnn;
  static const Status loaded = cudnn.load();
  OPTRT_RETURN_IF_ERROR(loaded);
  return &cudnn;
}

std::string Cudnn::version() const {
  return concat("cuDNN ", describeVersion(functions.version()));
}

Status Cudnn::check(DnnResult result, const char *call) const {
  if (result == kDnnSuccess)
    return okStatus();
  char text[1024] = "";
  functions.latestError(text, sizeof(text));
  std::string message = concat(call, ": ", functions.nameOf(result));
  if (*text)
    message += concat(" (", text, ")");
  return result / 1000 == kDnnNotSupported / 1000
             ? unavailable(std::move(message))
             : internal(std::move(message));
}

//===----------------------------------------------------------------------===//
// Objects
//===----------------------------------------------------------------------===//

StatusOr<DnnOwned> Cudnn::make(DnnKind kind,
                               std::span<const DnnPart> parts) const {
  DnnObject object = nullptr;
  OPTRT_RETURN_IF_ERROR(check(functions.createObject(kind, &object),
                              "cudnnBackendCreateDescriptor"));
  DnnOwned owned(functions, object);
  for (const DnnPart &part : parts)
    if (part.values)
      OPTRT_RETURN_IF_ERROR(
          check(functions.set(object, part.attribute, part.type, part.count,
                              part.values),
                "cudnnBackendSetAttribute"));
  OPTRT_RETURN_IF_ERROR(
      check(functions.finalize(object), "cudnnBackendFinalize"));
  return owned;
}

DnnObject DnnGraph::make(DnnKind kind, std::initializer_list<DnnPart> parts) {
  if (!failure.ok())
    return nullptr;
  StatusOr<DnnOwned> made = cudnn.make(kind, {parts.begin(), parts.size()});
  if (!made.ok()) {
    failure = made.status();
    return nullptr;
  }
  objects.push_back(std::move(*made));
  return objects.back().get();
}

void DnnGraph::operation(DnnKind kind, std::initializer_list<DnnPart> parts) {
  operations.push_back(make(kind, parts));
}

DnnGraph::Tensor DnnGraph::tensor(DnnType type, const Extents &extents,
                                  const Extents &strides, bool isVirtual,
                                  bool isByValue) {
  const int64_t id = ++numTensors, alignment = 16;
  if (isByValue)
    byValue.push_back(id);
  else if (!isVirtual)
    inMemory.push_back(id);
  const DnnObject object =
      make(kDnnTensor, {{kDnnTensorDataType, kDnnTypeDataType, 1, &type},
                        {kDnnTensorExtents, kDnnTypeInt64, 4, extents.data()},
                        {kDnnTensorStrides, kDnnTypeInt64, 4, strides.data()},
                        {kDnnTensorId, kDnnTypeInt64, 1, &id},
                        {kDnnTensorAlignment, kDnnTypeInt64, 1, &alignment},
                        {kDnnTensorIsVirtual, kDnnTypeBoolean, 1, &isVirtual},
                        {kDnnTensorIsByValue, kDnnTypeBoolean, 1, &isByValue}});
  return {object, extents, strides};
}

DnnGraph::Tensor DnnGraph::operand(DnnType type, const Extents &extents,
                                   const Extents &strides) {
  return tensor(type, extents, strides, /*isVirtual=*/false);
}

DnnGraph::Tensor DnnGraph::value(float value) {
  values.push_back(value);
  return tensor(kDnnF32, {1, 1, 1, 1}, {1, 1, 1, 1}, /*isVirtual=*/false,
                /*isByValue=*/true);
}

DnnGraph::Tensor DnnGraph::result(DnnType type, const Extents &extents,
                                  const Tensor *into) {
  if (into)
    return *into;
  const auto &[batch, heads, rows, cols] = extents;
  return tensor(type, extents, {heads * rows * cols, rows * cols, cols, 1},
                /*isVirtual=*/true);
}

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

DnnObject DnnGraph::mode(DnnPointwise mode, DnnType precision,
                         int64_t dimension) {
  return make(kDnnPointwise,
              {{kDnnPointwiseMode, kDnnTypePointwise, 1, &mode},
               {kDnnPointwisePrecision, kDnnTypeDataType, 1, &precision},
               {kDnnPointwiseAxis, kDnnTypeInt64, 1,
                dimension < 0 ? nullptr : &dimension}});
}

DnnGraph::Tensor DnnGraph::pointwise(DnnPointwise how, const Tensor &x,
                                     const Tensor &b, const Tensor *into,
                                     DnnType type) {
  const Tensor y = result(type, x.extents, into);
  const DnnObject object = mode(how, type == kDnnBoolean ? type : kDnnF32);
  operation(kDnnOperationPointwise,
            {{kDnnPointwiseObject, kDnnTypeObject, 1, &object},
             {kDnnPointwiseX, kDnnTypeObject, 1, &x.object},
             {kDnnPointwiseB, kDnnTypeObject, 1, &b.object},
             {kDnnPointwiseY, kDnnTypeObject, 1, &y.object}});
  return y;
}

DnnGraph::Tensor DnnGraph::unary(DnnPointwise how, const Tensor &x,
                                 const Tensor *into) {
  const Tensor y = result(kDnnF32, x.extents, into);
  const DnnObject object = mode(how, kDnnF32);
  operation(kDnnOperationPointwise,
            {{kDnnPointwiseObject, kDnnTypeObject, 1, &object},
             {kDnnPointwiseX, kDnnTypeObject, 1, &x.object},
             {kDnnPointwiseY, kDnnTypeObject, 1, &y.object}});
  return y;
}

DnnGraph::Tensor DnnGraph::condition(DnnPointwise how, const Tensor &x,
                                     const Tensor &b) {
  return pointwise(how, x, b, /*into=*/nullptr, kDnnBoolean);
}

DnnGraph::Tensor DnnGraph::index(const Tensor &like, int64_t dimension,
                                 DnnType precision) {
  const Tensor y = result(kDnnI32, like.extents, /*into=*/nullptr);
  const DnnObject object = mode(kDnnIndex, precision, dimension);
  operation(kDnnOperationPointwise,
            {{kDnnPointwiseObject, kDnnTypeObject, 1, &object},
             {kDnnPointwiseX, kDnnTypeObject, 1, &like.object},
             {kDnnPointwiseY, kDnnTypeObject, 1, &y.object}});
  return y;
}

DnnGraph::Tensor DnnGraph::select(const Tensor &x, const Tensor &other,
                                  const Tensor &condition) {
  const Tensor y = result(kDnnF32, x.extents, /*into=*/nullptr);
  const DnnObject object = mode(kDnnSelect, kDnnF32);
  operation(kDnnOperationPointwise,
            {{kDnnPointwiseObject, kDnnTypeObject, 1, &object},
             {kDnnPointwiseX, kDnnTypeObject, 1, &x.object},
             {kDnnPointwiseB, kDnnTypeObject, 1, &other.object},
             {kDnnPointwiseT, kDnnTypeObject, 1, &condition.object},
             {kDnnPointwiseY, kDnnTypeObject, 1, &y.object}});
  return y;
}

DnnGraph::Tensor DnnGraph::reduce(DnnReduction how, const Tensor &x) {
  Extents extents = x.extents;
  extents[3] = 1;
  const Tensor y = result(kDnnF32, extents, /*into=*/nullptr);
  addReduction(how, x, y);
  return y;
}

void DnnGraph::addHeads(const Tensor &x, const Tensor &into) {
  addReduction(kDnnSum, x, into);
}

void DnnGraph::addReduction(DnnReduction how, const Tensor &x,
                            const Tensor &y) {
  const DnnType precision = kDnnF32;
  const DnnObject object =
      make(kDnnReduction,
           {{kDnnReductionOperator, kDnnTypeReduction, 1, &how},
            {kDnnReductionPrecision, kDnnTypeDataType, 1, &precision}});
  operation(kDnnOperationReduction,
            {{kDnnReductionObject, kDnnTypeObject, 1, &object},
             {kDnnReductionX, kDnnTypeObject, 1, &x.object},
             {kDnnReductionY, kDnnTypeObject, 1, &y.object}});
}

DnnGraph::Tensor DnnGraph::matmul(const Tensor &a, const Tensor &b,
                                  const Limits &limits, const Tensor *into,
                                  DnnType type) {
  const Tensor c = result(
      type, {a.extents[0], a.extents[1], a.extents[2], b.extents[3]}, into);
  const DnnType precision = kDnnF32;
  const DnnObject object = make(
      kDnnMatmul, {{kDnnMatmulPrecision, kDnnTypeDataType, 1, &precision}});
  auto limit = [](DnnAttribute attribute, const Tensor *tensor) {
    return DnnPart{attribute, kDnnTypeObject, 1,
                   tensor ? &tensor->object : nullptr};
  };
  operation(kDnnOperationMatmul,
            {{kDnnMatmulObject, kDnnTypeObject, 1, &object},
             {kDnnMatmulA, kDnnTypeObject, 1, &a.object},
             {kDnnMatmulB, kDnnTypeObject, 1, &b.object},
             {kDnnMatmulC, kDnnTypeObject, 1, &c.object},
             limit(kDnnMatmulRows, limits.rows),
             limit(kDnnMatmulCols, limits.cols),
             limit(kDnnMatmulDepth, limits.depth)});
  return c;
}

DnnGraph::Tensor DnnGraph::transposed(const Tensor &x, DnnType type) {
  Extents extents = x.extents, strides = x.strides;
  std::swap(extents[2], extents[3]);
  std::swap(strides[2], strides[3]);
  const Tensor y = tensor(type, extents, strides, /*isVirtual=*/true);
  operation(kDnnOperationReshape,
            {{kDnnReshapeX, kDnnTypeObject, 1, &x.object},
             {kDnnReshapeY, kDnnTypeObject, 1, &y.object}});
  return y;
}

//===----------------------------------------------------------------------===//
// Plans
//===----------------------------------------------------------------------===//

StatusOr<std::vector<DnnOwned>>
DnnGraph::configurations(DnnObject graph, DnnObject device,
                         DnnHeuristic heuristic) const {
  const CudnnApi &api = cudnn.api();
  const DnnPart parts[] = {
      {kDnnHeuristicGraph, kDnnTypeObject, 1, &graph},
      {kDnnHeuristicMode, kDnnTypeHeuristic, 1, &heuristic},
      {kDnnHeuristicDevice, kDnnTypeObject, 1, device ? &device : nullptr}};
  OPTRT_ASSIGN_OR_RETURN(const DnnOwned found,
                         cudnn.make(kDnnEngineHeuristic, parts));
  int64_t count = 0;
  OPTRT_RETURN_IF_ERROR(cudnn.check(api.get(found.get(), kDnnHeuristicResults,
                                            kDnnTypeObject, 0, &count, nullptr),
                                    "cudnnBackendGetAttribute"));
  std::vector<DnnOwned> result;
  std::vector<DnnObject> objects;
  for (int64_t i = 0; i != count; ++i) {
    DnnObject object = nullptr;
    OPTRT_RETURN_IF_ERROR(
        cudnn.check(api.createObject(kDnnEngineConfig, &object),
                    "cudnnBackendCreateDescriptor"));
    result.emplace_back(api, object);
    objects.push_back(object);
  }
  if (count == 0)
    return result;
  OPTRT_RETURN_IF_ERROR(
      cudnn.check(api.get(found.get(), kDnnHeuristicResults, kDnnTypeObject,
                          count, &count, objects.data()),
                  "cudnnBackendGetAttribute"));
  result.resize(static_cast<size_t>(count));
  return result;
}

StatusOr<DnnOwned> DnnGraph::plan(DnnObject graph,
                                  const DnnPlace &place) const {
  const DnnHandle handle = place.handle;
  DnnOwned properties;
  if (!handle) {
    const DnnPart text[] = {{kDnnDeviceJson, kDnnTypeChar,
                             static_cast<int64_t>(place.properties.size()),
                             place.properties.data()}};
    OPTRT_ASSIGN_OR_RETURN(properties, cudnn.make(kDnnDeviceProperties, text));
  }
  const DnnObject device = properties.get();
  // The fastest by expectation comes first, and the first that becomes a plan
  // is taken.
  Status refused = unavailable("cuDNN has no engine for it");
  for (DnnHeuristic heuristic : {kDnnModeA, kDnnFallback}) {
    StatusOr<std::vector<DnnOwned>> found =
        configurations(graph, device, heuristic);
    if (!found.ok()) {
      refused = found.status();
      continue;
    }
    for (const DnnOwned &configuration : *found) {
      const DnnObject config = configuration.get();
      const DnnPart parts[] = {
          {kDnnPlanHandle, kDnnTypeHandle, 1, handle ? &handle : nullptr},
          {kDnnPlanDevice, kDnnTypeObject, 1, device ? &device : nullptr},
          {kDnnPlanConfig, kDnnTypeObject, 1, &config}};
      StatusOr<DnnOwned> plan = cudnn.make(kDnnPlan, parts);
      if (plan.ok())
        return plan;
      refused = plan.status();
    }
  }
  return refused;
}

StatusOr<DnnExecutable> DnnGraph::finish(const DnnPlace &place) && {
  const DnnHandle handle = place.handle;
  const DnnObject graph =
      make(kDnnOperationGraph,
           {{kDnnGraphOperations, kDnnTypeObject,
             static_cast<int64_t>(operations.size()), operations.data()},
            {kDnnGraphHandle, kDnnTypeHandle, 1, handle ? &handle : nullptr}});
  OPTRT_RETURN_IF_ERROR(failure);
  DnnExecutable made;
  OPTRT_ASSIGN_OR_RETURN(made.plan, plan(graph, place));
  int64_t count = 0;
  OPTRT_RETURN_IF_ERROR(cudnn.check(
      cudnn.api().get(made.plan.get(), kDnnPlanWorkspaceBytes, kDnnTypeInt64, 1,
                      &count, &made.workspaceBytes),
      "cudnnBackendGetAttribute"));
  made.graph = std::move(objects);
  made.ids = std::move(inMemory);
  made.ids.insert(made.ids.end(), byValue.begin(), byValue.end());
  made.values = std::move(values);
  return made;
}

Status execute(const Cudnn &cudnn, DnnHandle handle,
               const DnnExecutable &executable, std::span<void *const> pointers,
               void *workspace) {
  const auto count = static_cast<int64_t>(pointers.size());
  if (pointers.size() != executable.ids.size())
    return internal(concat("a graph of ", executable.ids.size(),
                           " tensors, found ", count, " pointers"));
  const DnnPart parts[] = {
      {kDnnPackIds, kDnnTypeInt64, count, executable.ids.data()},
      {kDnnPackPointers, kDnnTypePointer, count, pointers.data()},
      {kDnnPackWorkspace, kDnnTypePointer, 1, &workspace}};
  OPTRT_ASSIGN_OR_RETURN(const DnnOwned pack,
                         cudnn.make(kDnnVariantPack, parts));
  return cudnn.check(
      cudnn.api().execute(handle, executable.plan.get(), pack.get()),
      "cudnnBackendExecute");
}

} // namespace optrt::cuda
