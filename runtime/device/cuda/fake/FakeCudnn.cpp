//===- FakeCudnn.cpp - cuDNN's graphs on a fake GPU -----------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For tests: cuDNN's objects as far as attention asks for them. An object keeps
// what it is given and is complete once finalized; a plan is refused where
// cuDNN's attention is not for it. FakeCudnnGraph.cpp checks and computes.
//
//===----------------------------------------------------------------------===//

#include "CudnnApi.h"
#include "FakeCudnnGraph.h"
#include "FakeGpu.h"

#include "optimus-support/Status.h"

#include <cstdlib>
#include <cstring>
#include <map>

using namespace optrt;
using optimus_support::concat;
using namespace optrt::cuda;
using namespace optrt::cuda::fake;

#define OPTRT_FAKE_DECLARE(name, symbol, parameters)                           \
  extern "C" __attribute__((visibility("default"))) DnnResult symbol parameters;
OPTRT_CUDNN_FUNCTIONS(OPTRT_FAKE_DECLARE)
extern "C" {
__attribute__((visibility("default"))) size_t cudnnGetVersion();
__attribute__((visibility("default"))) const char *
cudnnGetErrorString(DnnResult result);
__attribute__((visibility("default"))) void
cudnnGetLastErrorString(char *text, size_t bytes);
}

struct optrt::cuda::DnnHandleOpaque {
  Stream stream = nullptr;
};

namespace {
thread_local std::string latest;

DnnResult refuse(DnnResult result, std::string why) {
  latest = std::move(why);
  return result;
}

struct Object {
  struct Attribute {
    int type;
    int64_t count;
    std::vector<char> bytes;
  };
  int kind;
  bool isFinal = false;
  std::map<int, Attribute> attributes;
  FakeGraph graph; ///< of an operation graph, a configuration or a plan

  bool has(int attribute) const { return attributes.contains(attribute); }
  template <typename T>
  std::vector<T> all(int attribute) const {
    const auto found = attributes.find(attribute);
    if (found == attributes.end())
      return {};
    std::vector<T> values(found->second.bytes.size() / sizeof(T));
    std::memcpy(values.data(), found->second.bytes.data(),
                values.size() * sizeof(T));
    return values;
  }
  template <typename T>
  T one(int attribute, T otherwise = {}) const {
    const std::vector<T> values = all<T>(attribute);
    return values.empty() ? otherwise : values.front();
  }
  const Object *object(int attribute) const {
    return static_cast<const Object *>(one<DnnObject>(attribute));
  }
};

size_t bytesOf(int type) {
  switch (type) {
  case kDnnTypeBoolean:
  case kDnnTypeChar:
    return 1;
  case kDnnTypeHandle:
  case kDnnTypeInt64:
  case kDnnTypePointer:
  case kDnnTypeObject:
    return 8;
  default:
    return 4;
  }
}

/// What each kind cannot do without.
std::vector<int> neededOf(int kind) {
  switch (kind) {
  case kDnnTensor:
    return {kDnnTensorDataType, kDnnTensorExtents, kDnnTensorStrides,
            kDnnTensorId, kDnnTensorAlignment};
  case kDnnPointwise:
    return {kDnnPointwiseMode, kDnnPointwisePrecision};
  case kDnnMatmul:
    return {kDnnMatmulPrecision};
  case kDnnReduction:
    return {kDnnReductionOperator, kDnnReductionPrecision};
  case kDnnOperationPointwise:
    return {kDnnPointwiseObject, kDnnPointwiseX, kDnnPointwiseY};
  case kDnnOperationMatmul:
    return {kDnnMatmulObject, kDnnMatmulA, kDnnMatmulB, kDnnMatmulC};
  case kDnnOperationReduction:
    return {kDnnReductionObject, kDnnReductionX, kDnnReductionY};
  case kDnnOperationReshape:
    return {kDnnReshapeX, kDnnReshapeY};
  case kDnnOperationGraph:
    return {kDnnGraphHandle, kDnnGraphOperations};
  case kDnnEngineHeuristic:
    return {kDnnHeuristicGraph, kDnnHeuristicMode};
  case kDnnPlan:
    return {kDnnPlanHandle, kDnnPlanConfig};
  case kDnnVariantPack:
    return {kDnnPackIds, kDnnPackPointers, kDnnPackWorkspace};
  default:
    return {};
  }
}

FakeTensor tensorOf(const Object *object) {
  FakeTensor tensor;
  if (!object)
    return tensor;
  const auto extents = object->all<int64_t>(kDnnTensorExtents),
             strides = object->all<int64_t>(kDnnTensorStrides);
  tensor.id = object->one<int64_t>(kDnnTensorId);
  tensor.type = object->one<int>(kDnnTensorDataType);
  for (size_t i = 0; i != 4; ++i) {
    tensor.extents[i] = i < extents.size() ? extents[i] : 0;
    tensor.strides[i] = i < strides.size() ? strides[i] : 0;
  }
  tensor.isVirtual = object->one<char>(kDnnTensorIsVirtual) != 0;
  tensor.isByValue = object->one<char>(kDnnTensorIsByValue) != 0;
  tensor.alignment = object->one<int64_t>(kDnnTensorAlignment);
  return tensor;
}

FakeOperation operationOf(const Object &object) {
  auto tensor = [&](int attribute) {
    return tensorOf(object.object(attribute));
  };
  switch (object.kind) {
  case kDnnOperationMatmul:
    return {FakeOperation::Matmul,
            0,
            0,
            tensor(kDnnMatmulA),
            tensor(kDnnMatmulB),
            {},
            tensor(kDnnMatmulC),
            tensor(kDnnMatmulRows),
            tensor(kDnnMatmulCols),
            tensor(kDnnMatmulDepth)};
  case kDnnOperationReduction:
    return {FakeOperation::Reduction,
            object.object(kDnnReductionObject)->one<int>(kDnnReductionOperator),
            0,
            tensor(kDnnReductionX),
            {},
            {},
            tensor(kDnnReductionY)};
  case kDnnOperationReshape:
    return {FakeOperation::Reshape, 0, 0, tensor(kDnnReshapeX), {}, {},
            tensor(kDnnReshapeY)};
  default: {
    const Object &mode = *object.object(kDnnPointwiseObject);
    return {FakeOperation::Pointwise,
            mode.one<int>(kDnnPointwiseMode),
            mode.one<int64_t>(kDnnPointwiseAxis, -1),
            tensor(kDnnPointwiseX),
            tensor(kDnnPointwiseB),
            tensor(kDnnPointwiseT),
            tensor(kDnnPointwiseY)};
  }
  }
}

/// The workspace of a plan as tests set it, in place of the real need.
int64_t workspaceOf(const FakeGraph &graph) {
  const char *said = std::getenv("OPTIMUS_FAKE_CUDNN_WORKSPACE");
  return said ? std::atoll(said) : graph.workspaceBytes();
}
} // namespace

//===----------------------------------------------------------------------===//
// What a device calls
//===----------------------------------------------------------------------===//

size_t cudnnGetVersion() {
  const char *said = std::getenv("OPTIMUS_FAKE_CUDNN_VERSION");
  return said ? size_t(std::atoll(said)) : 91600;
}
const char *cudnnGetErrorString(DnnResult result) {
  switch (result) {
  case kDnnNotInitialized:
    return "CUDNN_STATUS_NOT_INITIALIZED";
  case kDnnBadParameter:
    return "CUDNN_STATUS_BAD_PARAM";
  case kDnnNotFinalized:
    return "CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED";
  case kDnnNotSupported:
    return "CUDNN_STATUS_NOT_SUPPORTED";
  default:
    return "CUDNN_STATUS_EXECUTION_FAILED";
  }
}
void cudnnGetLastErrorString(char *text, size_t bytes) {
  std::strncpy(text, latest.c_str(), bytes - 1);
  text[bytes - 1] = 0;
}

DnnResult cudnnCreate(DnnHandle *handle) {
  if (std::getenv("OPTIMUS_FAKE_CUDNN_OLD_DRIVER"))
    return refuse(kDnnNotInitialized, "the driver is too old");
  if (optimus_fake_gpu_current() < 0)
    return refuse(kDnnExecutionFailed, "no context is the thread's");
  *handle = new DnnHandleOpaque();
  return kDnnSuccess;
}
DnnResult cudnnDestroy(DnnHandle handle) {
  delete handle;
  return kDnnSuccess;
}
DnnResult cudnnSetStream(DnnHandle handle, Stream stream) {
  handle->stream = stream;
  return kDnnSuccess;
}

DnnResult cudnnBackendCreateDescriptor(int kind, DnnObject *object) {
  *object = new Object{kind, false, {}, {}};
  return kDnnSuccess;
}
DnnResult cudnnBackendDestroyDescriptor(DnnObject object) {
  delete static_cast<Object *>(object);
  return kDnnSuccess;
}

DnnResult cudnnBackendSetAttribute(DnnObject to, int attribute, int type,
                                   int64_t count, const void *values) {
  auto &object = *static_cast<Object *>(to);
  if (object.isFinal || count < 1 || !values)
    return refuse(kDnnBadParameter, "an attribute of a finished object, or "
                                    "without a value");
  const auto *bytes = static_cast<const char *>(values);
  object.attributes[attribute] = {
      type, count, {bytes, bytes + size_t(count) * bytesOf(type)}};
  return kDnnSuccess;
}

DnnResult cudnnBackendFinalize(DnnObject finished) {
  auto &object = *static_cast<Object *>(finished);
  for (int attribute : neededOf(object.kind))
    if (!object.has(attribute))
      return refuse(kDnnBadParameter, concat("object ", object.kind,
                                             " lacks attribute ", attribute));
  for (const auto &[name, attribute] : object.attributes)
    if (attribute.type == kDnnTypeObject)
      for (DnnObject part : object.all<DnnObject>(name))
        if (!static_cast<Object *>(part)->isFinal)
          return refuse(kDnnNotFinalized,
                        concat("attribute ", name, " is not finalized"));
  std::string wrong;
  if (object.kind == kDnnOperationGraph) {
    for (DnnObject operation : object.all<DnnObject>(kDnnGraphOperations))
      object.graph.operations.push_back(
          operationOf(*static_cast<Object *>(operation)));
    wrong = object.graph.check();
  }
  if (object.kind == kDnnPlan) {
    object.graph = object.object(kDnnPlanConfig)->graph;
    if (std::string why = object.graph.whyNotAttention(); !why.empty())
      return refuse(kDnnNotSupported, std::move(why));
  }
  if (object.kind == kDnnVariantPack &&
      object.all<int64_t>(kDnnPackIds).size() !=
          object.all<void *>(kDnnPackPointers).size())
    wrong = "as many pointers as numbers are expected";
  if (!wrong.empty())
    return refuse(kDnnBadParameter, std::move(wrong));
  object.isFinal = true;
  return kDnnSuccess;
}

DnnResult cudnnBackendGetAttribute(DnnObject from, int attribute, int type,
                                   int64_t requested, int64_t *count,
                                   void *values) {
  auto &object = *static_cast<Object *>(from);
  if (!object.isFinal)
    return refuse(kDnnNotFinalized, "an attribute of an unfinished object");
  *count = 1;
  if (attribute == kDnnPlanWorkspaceBytes && type == kDnnTypeInt64 &&
      requested == 1) {
    const int64_t bytes = workspaceOf(object.graph);
    std::memcpy(values, &bytes, sizeof(bytes));
    return kDnnSuccess;
  }
  if (attribute != kDnnHeuristicResults || type != kDnnTypeObject)
    return refuse(kDnnBadParameter, "an attribute that is not known");
  // The second mode's are for what the first has none for, as convolutions.
  if (object.one<int>(kDnnHeuristicMode) != kDnnModeA)
    *count = 0;
  if (requested < 1 || *count == 0)
    return kDnnSuccess;
  auto &configuration = **static_cast<Object **>(values);
  configuration.graph = object.object(kDnnHeuristicGraph)->graph;
  configuration.isFinal = true;
  return kDnnSuccess;
}

DnnResult cudnnBackendExecute(DnnHandle handle, DnnObject plan,
                              DnnObject pack) {
  const auto &planned = *static_cast<Object *>(plan),
             &given = *static_cast<Object *>(pack);
  if (!planned.isFinal || !given.isFinal)
    return refuse(kDnnNotFinalized, "a plan or a pack that is not finalized");
  const auto ids = given.all<int64_t>(kDnnPackIds);
  const auto pointers = given.all<void *>(kDnnPackPointers);
  std::map<int64_t, void *> at;
  for (size_t i = 0; i != ids.size(); ++i)
    at[ids[i]] = pointers[i];
  FakeExecution execution{planned.graph,
                          std::move(at),
                          given.one<void *>(kDnnPackWorkspace),
                          workspaceOf(planned.graph),
                          {}};
  if (std::string wrong = execution.check(); !wrong.empty())
    return refuse(kDnnBadParameter, std::move(wrong));
  if (optimus_fake_gpu_load(concat("the kernel of cuDNN's plan ", plan)) !=
      kSuccess)
    return refuse(kDnnExecutionFailed, "its kernel cannot be loaded");
  return optimus_fake_gpu_put(handle->stream, "cuDNN's attention",
                              [execution] { return execution.run(); }) ==
                 kSuccess
             ? kDnnSuccess
             : refuse(kDnnExecutionFailed, "the driver refused it");
}
