//===- CudnnApi.h - What is used of cuDNN -----------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The types and functions of cudnn_graph.h that the device uses; ApiTest.cpp
// holds them against the header where that is there.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_DEVICE_CUDA_CUDNNAPI_H
#define OPTIMUS_RUNTIME_DEVICE_CUDA_CUDNNAPI_H

#include "DriverApi.h"

namespace optrt::cuda {

using DnnResult = int; ///< cudnnStatus_t
using DnnHandle = struct DnnHandleOpaque *;
using DnnObject = void *; ///< cudnnBackendDescriptor_t

enum : DnnResult {
  kDnnSuccess = 0,
  kDnnNotInitialized = 1001,
  kDnnBadParameter = 2000,
  kDnnNotFinalized = 2004,
  kDnnNotSupported = 3000,
  kDnnExecutionFailed = 5000,
};

/// cudnnDataType_t.
enum DnnType : int {
  kDnnF32 = 0,
  kDnnI32 = 4,
  kDnnBF16 = 9,
  kDnnBoolean = 11,
};

/// cudnnPointwiseMode_t.
enum DnnPointwise : int {
  kDnnAdd = 0,
  kDnnMul = 1,
  kDnnDiv = 6,
  kDnnSub = 9,
  kDnnExp = 13,
  kDnnLog = 15,
  kDnnIdentity = 21,
  kDnnGreaterEqual = 303,
  kDnnLess = 304,
  kDnnAnd = 400,
  kDnnIndex = 501,
  kDnnSelect = 601,
};
/// cudnnReduceTensorOp_t.
enum DnnReduction : int { kDnnSum = 0, kDnnMaximum = 3 };
/// cudnnBackendHeurMode_t.
enum DnnHeuristic : int { kDnnFallback = 2, kDnnModeA = 3 };

/// cudnnBackendDescriptorType_t.
enum DnnKind : int {
  kDnnPointwise = 0,
  kDnnEngineConfig = 3,
  kDnnEngineHeuristic = 4,
  kDnnPlan = 5,
  kDnnOperationPointwise = 13,
  kDnnOperationGraph = 15,
  kDnnVariantPack = 16,
  kDnnTensor = 17,
  kDnnMatmul = 18,
  kDnnOperationMatmul = 19,
  kDnnReduction = 21,
  kDnnOperationReduction = 22,
  kDnnOperationReshape = 31,
  kDnnDeviceProperties = 38,
};

/// cudnnBackendAttributeType_t.
enum DnnAttributeType : int {
  kDnnTypeHandle = 0,
  kDnnTypeDataType = 1,
  kDnnTypeBoolean = 2,
  kDnnTypeInt64 = 3,
  kDnnTypePointer = 6,
  kDnnTypeHeuristic = 8,
  kDnnTypePointwise = 14,
  kDnnTypeObject = 15,
  kDnnTypeReduction = 18,
  kDnnTypeChar = 24,
};

/// cudnnBackendAttributeName_t.
enum DnnAttribute : int {
  kDnnPointwiseMode = 0,
  kDnnPointwisePrecision = 1,
  kDnnPointwiseAxis = 9,
  kDnnHeuristicMode = 200,
  kDnnHeuristicGraph = 201,
  kDnnHeuristicResults = 202,
  kDnnHeuristicDevice = 204,
  kDnnPlanHandle = 400,
  kDnnPlanConfig = 401,
  kDnnPlanWorkspaceBytes = 402,
  kDnnPlanDevice = 407,
  kDnnPointwiseObject = 750,
  kDnnPointwiseX = 751,
  kDnnPointwiseB = 752,
  kDnnPointwiseY = 753,
  kDnnPointwiseT = 758,
  kDnnGraphHandle = 800,
  kDnnGraphOperations = 801,
  kDnnTensorAlignment = 900,
  kDnnTensorDataType = 901,
  kDnnTensorExtents = 902,
  kDnnTensorStrides = 903,
  kDnnTensorId = 906,
  kDnnTensorIsVirtual = 907,
  kDnnTensorIsByValue = 908,
  kDnnPackIds = 1000,
  kDnnPackPointers = 1001,
  kDnnPackWorkspace = 1003,
  kDnnMatmulPrecision = 1500,
  kDnnMatmulA = 1520,
  kDnnMatmulB = 1521,
  kDnnMatmulC = 1522,
  kDnnMatmulObject = 1523,
  kDnnMatmulRows = 1525,
  kDnnMatmulCols = 1526,
  kDnnMatmulDepth = 1527,
  kDnnReductionOperator = 1600,
  kDnnReductionPrecision = 1601,
  kDnnReductionX = 1610,
  kDnnReductionY = 1611,
  kDnnReductionObject = 1612,
  kDnnReshapeX = 2200,
  kDnnReshapeY = 2201,
  kDnnDeviceJson = 2702,
};

/// Name here, cuDNN's own, parameters; all return a cudnnStatus_t.
#define OPTRT_CUDNN_FUNCTIONS(X)                                               \
  X(create, cudnnCreate, (DnnHandle * handle))                                 \
  X(destroy, cudnnDestroy, (DnnHandle handle))                                 \
  X(setStream, cudnnSetStream, (DnnHandle handle, Stream stream))              \
  X(createObject, cudnnBackendCreateDescriptor, (int kind, DnnObject *object)) \
  X(destroyObject, cudnnBackendDestroyDescriptor, (DnnObject object))          \
  X(finalize, cudnnBackendFinalize, (DnnObject object))                        \
  X(set, cudnnBackendSetAttribute,                                             \
    (DnnObject object, int attribute, int type, int64_t count,                 \
     const void *values))                                                      \
  X(get, cudnnBackendGetAttribute,                                             \
    (DnnObject object, int attribute, int type, int64_t requested,             \
     int64_t *count, void *values))                                            \
  X(execute, cudnnBackendExecute,                                              \
    (DnnHandle handle, DnnObject plan, DnnObject pack))

/// cuDNN's functions, where they were found.
struct CudnnApi {
#define OPTRT_CUDNN_POINTER(name, symbol, parameters)                          \
  DnnResult(*name) parameters;
  OPTRT_CUDNN_FUNCTIONS(OPTRT_CUDNN_POINTER)
#undef OPTRT_CUDNN_POINTER
  /// cudnnGetVersion: 91600 is 9.16.0.
  size_t (*version)();
  /// cudnnGetErrorString.
  const char *(*nameOf)(DnnResult result);
  /// cudnnGetLastErrorString: what the thread's latest error was about.
  void (*latestError)(char *text, size_t bytes);
};

} // namespace optrt::cuda

#endif // OPTIMUS_RUNTIME_DEVICE_CUDA_CUDNNAPI_H
