//===- ApiTest.cpp - Our declarations against CUDA's own ------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Built where CUDA's headers are. There is nothing to run.
//
//===----------------------------------------------------------------------===//

#include "CublasLtApi.h"
#include "FunctionShape.h"

#include <cublasLt.h>
#include <cuda.h>

#include <cstddef>
#include <iterator>
#include <type_traits>

#if __has_include(<nvtx3/nvToolsExt.h>)
#include "base/NvtxApi.h"

#include <nvtx3/nvToolsExt.h>

namespace nvtx = optrt::nvtx;
static_assert(sizeof(nvtx::Attributes) == NVTX_EVENT_ATTRIB_STRUCT_SIZE &&
              offsetof(nvtx::Attributes, payload) ==
                  offsetof(nvtxEventAttributes_t, payload) &&
              offsetof(nvtx::Attributes, messageType) ==
                  offsetof(nvtxEventAttributes_t, messageType) &&
              offsetof(nvtx::Attributes, message) ==
                  offsetof(nvtxEventAttributes_t, message));
static_assert(sizeof(nvtx::Callbacks) == sizeof(NvtxExportTableCallbacks) &&
              sizeof(nvtx::VersionInfo) == sizeof(NvtxExportTableVersionInfo) &&
              offsetof(nvtx::VersionInfo, setInjectionVersion) ==
                  offsetof(NvtxExportTableVersionInfo,
                           SetInjectionNvtxVersion));
static_assert(nvtx::Attributes().version == NVTX_VERSION &&
              nvtx::Attributes().messageType == NVTX_MESSAGE_TYPE_ASCII);
static_assert(
    std::size(nvtx::kNumFunctions) == NVTX_CB_MODULE_SIZE &&
    nvtx::kNumFunctions[NVTX_CB_MODULE_CORE] == NVTX_CBID_CORE_SIZE &&
    nvtx::kNumFunctions[NVTX_CB_MODULE_CUDA] == NVTX_CBID_CUDA_SIZE &&
    nvtx::kNumFunctions[NVTX_CB_MODULE_OPENCL] == NVTX_CBID_OPENCL_SIZE &&
    nvtx::kNumFunctions[NVTX_CB_MODULE_CUDART] == NVTX_CBID_CUDART_SIZE &&
    nvtx::kNumFunctions[NVTX_CB_MODULE_CORE2] == NVTX_CBID_CORE2_SIZE &&
    nvtx::kNumFunctions[NVTX_CB_MODULE_SYNC] == NVTX_CBID_SYNC_SIZE);
static_assert(int(nvtx::kDomainRangePush) ==
                  NVTX_CBID_CORE2_DomainRangePushEx &&
              int(nvtx::kDomainRangePop) == NVTX_CBID_CORE2_DomainRangePop &&
              int(nvtx::kDomainCreate) == NVTX_CBID_CORE2_DomainCreateA &&
              int(nvtx::kCallbacks) == NVTX_ETID_CALLBACKS &&
              int(nvtx::kVersionInfo) == NVTX_ETID_VERSIONINFO);
#endif

using namespace optrt::cuda;

// Macros of the header stand for the newest version of a function.
#define CHECK(name, symbol, parameters)                                        \
  static_assert(isSame<decltype(DriverApi::name), decltype(&::symbol)>,        \
                #symbol);
OPTRT_CUDA_FUNCTIONS(CHECK)
OPTRT_CUDA_LATER_FUNCTIONS(CHECK)
#undef CHECK
#define CHECK(name, symbol, parameters)                                        \
  static_assert(isSame<decltype(CublasLtApi::name), decltype(&::symbol)>,      \
                #symbol);
OPTRT_CUBLASLT_FUNCTIONS(CHECK)
#undef CHECK

#define CHECK(value, name) static_assert(int(::name) == value, #name);
OPTRT_CUBLAS_FAILURES(CHECK)
#undef CHECK

#define SAME(ours, theirs) static_assert(int(ours) == int(theirs), #theirs)
SAME(kOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY);
SAME(kCapturedEvent, CUDA_ERROR_CAPTURED_EVENT);
SAME(kEccUncorrectable, CUDA_ERROR_ECC_UNCORRECTABLE);
SAME(kNvlinkUncorrectable, CUDA_ERROR_NVLINK_UNCORRECTABLE);
SAME(kIllegalAddress, CUDA_ERROR_ILLEGAL_ADDRESS);
SAME(kLaunchFailed, CUDA_ERROR_LAUNCH_FAILED);
SAME(kMaxPitch, CU_DEVICE_ATTRIBUTE_MAX_PITCH);
SAME(kNumMultiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME(kThreadsPerMultiprocessor,
     CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
SAME(kCapabilityMajor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME(kCapabilityMinor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME(kStreamNonBlocking, CU_STREAM_NON_BLOCKING);
SAME(kEventDisableTiming, CU_EVENT_DISABLE_TIMING);
SAME(kMemoryUnified, CU_MEMORYTYPE_UNIFIED);
SAME(kCaptureThreadLocal, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
SAME(kWriteAfterAll, CU_STREAM_WRITE_VALUE_DEFAULT);
SAME(kLtF32, CUDA_R_32F);
SAME(kLtF16, CUDA_R_16F);
SAME(kLtBF16, CUDA_R_16BF);
SAME(kLtComputeF32, CUBLAS_COMPUTE_32F);
SAME(kLtComputeTF32, CUBLAS_COMPUTE_32F_FAST_TF32);
SAME(kLtMajor, MAJOR_VERSION);
SAME(kLtPatch, PATCH_LEVEL);
SAME(kLtTransposed, CUBLAS_OP_T);
SAME(kLtNoEpilogue, CUBLASLT_EPILOGUE_DEFAULT);
SAME(kLtBias, CUBLASLT_EPILOGUE_BIAS);
SAME(kLtTransA, CUBLASLT_MATMUL_DESC_TRANSA);
SAME(kLtTransB, CUBLASLT_MATMUL_DESC_TRANSB);
SAME(kLtEpilogue, CUBLASLT_MATMUL_DESC_EPILOGUE);
SAME(kLtBiasPointer, CUBLASLT_MATMUL_DESC_BIAS_POINTER);
SAME(kLtBiasType, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE);
SAME(kLtMaxWorkspaceBytes, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
SAME(kLtReductionSchemes, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
SAME(kLtReduceInPlace, CUBLASLT_REDUCTION_SCHEME_INPLACE);
SAME(kLtReduceComputeType, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
SAME(kLtReduceOutputType, CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE);
SAME(kLtMinAlignmentA, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
SAME(kLtMinAlignmentD, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);

static_assert(sizeof(Copy2D) == sizeof(CUDA_MEMCPY2D) &&
              offsetof(Copy2D, srcPitch) == offsetof(CUDA_MEMCPY2D, srcPitch) &&
              offsetof(Copy2D, dstDevice) ==
                  offsetof(CUDA_MEMCPY2D, dstDevice) &&
              offsetof(Copy2D, height) == offsetof(CUDA_MEMCPY2D, Height));
static_assert(sizeof(LtAlgorithm) == sizeof(cublasLtMatmulAlgo_t));
static_assert(sizeof(LtHeuristic) == sizeof(cublasLtMatmulHeuristicResult_t) &&
              offsetof(LtHeuristic, state) ==
                  offsetof(cublasLtMatmulHeuristicResult_t, state));
