//===- CublasLtApi.h - What is used of cuBLASLt -----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The types and functions of cublasLt.h that the device uses; ApiTest.cpp holds
// them against the header where that is there.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_DEVICE_CUDA_CUBLASLTAPI_H
#define OPTIMUS_RUNTIME_DEVICE_CUDA_CUBLASLTAPI_H

#include "DriverApi.h"

namespace optrt::cuda {

using LtResult = int; ///< cublasStatus_t
using LtHandle = struct LtHandleOpaque *;
using LtOperation = struct LtOperationOpaque *; ///< cublasLtMatmulDesc_t
using LtLayout = struct LtLayoutOpaque *;       ///< cublasLtMatrixLayout_t
using LtPreference =
    struct LtPreferenceOpaque *; ///< cublasLtMatmulPreference_t

/// Value, name.
#define OPTRT_CUBLAS_FAILURES(X)                                               \
  X(1, CUBLAS_STATUS_NOT_INITIALIZED)                                          \
  X(3, CUBLAS_STATUS_ALLOC_FAILED)                                             \
  X(7, CUBLAS_STATUS_INVALID_VALUE)                                            \
  X(8, CUBLAS_STATUS_ARCH_MISMATCH)                                            \
  X(11, CUBLAS_STATUS_MAPPING_ERROR)                                           \
  X(13, CUBLAS_STATUS_EXECUTION_FAILED)                                        \
  X(14, CUBLAS_STATUS_INTERNAL_ERROR)                                          \
  X(15, CUBLAS_STATUS_NOT_SUPPORTED)                                           \
  X(16, CUBLAS_STATUS_LICENSE_ERROR)
enum : LtResult {
  kLtSuccess = 0,
  kLtNotInitialized = 1,
  kLtAllocFailed = 3,
  kLtInvalidValue = 7,
  kLtExecutionFailed = 13,
  kLtNotSupported = 15,
};

/// cudaDataType_t.
enum LtType : int { kLtF32 = 0, kLtF16 = 2, kLtBF16 = 14 };
/// cublasComputeType_t: sums are f32. Factors of f32 are that, too, or may be
/// rounded to TF32.
enum LtCompute : int { kLtComputeF32 = 68, kLtComputeTF32 = 77 };
/// cublasOperation_t.
enum LtTranspose : int32_t { kLtPlain = 0, kLtTransposed = 1 };
/// cublasLtEpilogue_t. The last writes to the bias what A's columns add up to,
/// as its op() has them: as many numbers as D has rows.
enum LtEpilogue : uint32_t {
  kLtNoEpilogue = 1,
  kLtBias = 4,
  kLtBiasGradA = 256
};
/// cublasLtMatmulDescAttributes_t.
enum LtOperationAttribute : int {
  kLtTransA = 3,
  kLtTransB = 4,
  kLtEpilogue = 7,
  kLtBiasPointer = 8,
  kLtBiasType = 26,
};
/// cublasLtMatmulPreferenceAttributes_t.
enum LtPreferenceAttribute : int {
  kLtMaxWorkspaceBytes = 1,
  kLtReductionSchemes = 3,
  kLtMinAlignmentA = 5,
  kLtMinAlignmentB = 6,
  kLtMinAlignmentC = 7,
  kLtMinAlignmentD = 8,
};

/// cublasLtReductionScheme_t, as a mask: how the parts of a sum that is split
/// are added.
enum LtReductionScheme : uint32_t {
  kLtReduceInPlace = 1,     ///< one by one to the result, in its type
  kLtReduceComputeType = 2, ///< kept in f32 and added in a step of its own
  kLtReduceOutputType = 4,  ///< kept in the result's type
};

/// libraryPropertyType.
enum LtProperty : int { kLtMajor = 0, kLtMinor = 1, kLtPatch = 2 };

/// cublasLtMatmulAlgo_t, which may be written down and read by the same version
/// of the library.
struct LtAlgorithm {
  uint64_t data[8];
};
/// cublasLtMatmulHeuristicResult_t.
struct LtHeuristic {
  LtAlgorithm algorithm;
  size_t workspaceBytes;
  LtResult state;
  float waves;
  int reserved[4];
};

/// Name here, cuBLASLt's own, parameters.
#define OPTRT_CUBLASLT_FUNCTIONS(X)                                            \
  X(create, cublasLtCreate, (LtHandle * handle))                               \
  X(destroy, cublasLtDestroy, (LtHandle handle))                               \
  X(getProperty, cublasLtGetProperty, (int property, int *value))              \
  X(operationCreate, cublasLtMatmulDescCreate,                                 \
    (LtOperation * operation, int computeType, int scaleType))                 \
  X(operationDestroy, cublasLtMatmulDescDestroy, (LtOperation operation))      \
  X(operationSet, cublasLtMatmulDescSetAttribute,                              \
    (LtOperation operation, int attribute, const void *value, size_t bytes))   \
  X(layoutCreate, cublasLtMatrixLayoutCreate,                                  \
    (LtLayout * layout, int type, uint64_t rows, uint64_t cols, int64_t ld))   \
  X(layoutDestroy, cublasLtMatrixLayoutDestroy, (LtLayout layout))             \
  X(preferenceCreate, cublasLtMatmulPreferenceCreate,                          \
    (LtPreference * preference))                                               \
  X(preferenceDestroy, cublasLtMatmulPreferenceDestroy,                        \
    (LtPreference preference))                                                 \
  X(preferenceSet, cublasLtMatmulPreferenceSetAttribute,                       \
    (LtPreference preference, int attribute, const void *value, size_t bytes)) \
  X(getHeuristic, cublasLtMatmulAlgoGetHeuristic,                              \
    (LtHandle handle, LtOperation operation, LtLayout a, LtLayout b,           \
     LtLayout c, LtLayout d, LtPreference preference, int requested,           \
     LtHeuristic *results, int *returned))                                     \
  X(algorithmCheck, cublasLtMatmulAlgoCheck,                                   \
    (LtHandle handle, LtOperation operation, LtLayout a, LtLayout b,           \
     LtLayout c, LtLayout d, const LtAlgorithm *algorithm,                     \
     LtHeuristic *result))                                                     \
  X(matmul, cublasLtMatmul,                                                    \
    (LtHandle handle, LtOperation operation, const void *alpha, const void *a, \
     LtLayout layoutA, const void *b, LtLayout layoutB, const void *beta,      \
     const void *c, LtLayout layoutC, void *d, LtLayout layoutD,               \
     const LtAlgorithm *algorithm, void *workspace, size_t workspaceBytes,     \
     Stream stream))

/// cuBLASLt's functions, where they were found.
struct CublasLtApi {
#define OPTRT_CUBLASLT_POINTER(name, symbol, parameters)                       \
  LtResult(*name) parameters;
  OPTRT_CUBLASLT_FUNCTIONS(OPTRT_CUBLASLT_POINTER)
#undef OPTRT_CUBLASLT_POINTER
};

} // namespace optrt::cuda

#endif // OPTIMUS_RUNTIME_DEVICE_CUDA_CUBLASLTAPI_H
