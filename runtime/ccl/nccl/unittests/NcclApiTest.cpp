//===- NcclApiTest.cpp - Our declarations against NCCL's own --------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Built where the headers of NCCL and CUDA are, and run where NCCL is.
//
//===----------------------------------------------------------------------===//

#include "NcclApi.h"

#include "device/cuda/unittests/FunctionShape.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <nccl.h>

using namespace optrt::nccl;

#define CHECK(name, symbol, parameters)                                        \
  static_assert(isSame<decltype(NcclApi::name), decltype(&::symbol)>, #symbol);
OPTRT_NCCL_FUNCTIONS(CHECK)
OPTRT_NCCL_TEXTS(CHECK)
#undef CHECK

#define SAME(ours, theirs) static_assert(int(ours) == int(theirs), #theirs)
SAME(kSuccess, ncclSuccess);
SAME(kUnhandledCudaError, ncclUnhandledCudaError);
SAME(kSystemError, ncclSystemError);
SAME(kInternalError, ncclInternalError);
SAME(kInvalidArgument, ncclInvalidArgument);
SAME(kInvalidUsage, ncclInvalidUsage);
SAME(kRemoteError, ncclRemoteError);
SAME(kInProgress, ncclInProgress);
SAME(kI8, ncclInt8);
SAME(kI32, ncclInt32);
SAME(kI64, ncclInt64);
SAME(kF16, ncclFloat16);
SAME(kF32, ncclFloat32);
SAME(kF64, ncclFloat64);
SAME(kBF16, ncclBfloat16);
SAME(kSum, ncclSum);
SAME(kMax, ncclMax);
SAME(Config().version, NCCL_VERSION(2, 18, 0));
static_assert(sizeof(UniqueId) == sizeof(ncclUniqueId));

/// What NCCL would begin with, field by field.
constexpr ncclConfig_t kTheirs = NCCL_CONFIG_INITIALIZER;
SAME(Config().magic, kTheirs.magic);
SAME(Config().maxBlocks, kTheirs.maxCTAs);
SAME(Config().sharesOnSplit, kTheirs.splitShare);
#define PLACE(ours, theirs)                                                    \
  static_assert(offsetof(Config, ours) == offsetof(ncclConfig_t, theirs),      \
                #theirs)
PLACE(size, size);
PLACE(magic, magic);
PLACE(version, version);
PLACE(blocking, blocking);
PLACE(clusterSize, cgaClusterSize);
PLACE(minBlocks, minCTAs);
PLACE(maxBlocks, maxCTAs);
PLACE(network, netName);
PLACE(sharesOnSplit, splitShare);

TEST(NcclApi, TheLibraryHasAllFunctions) {
  void *library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (!library)
    GTEST_SKIP() << dlerror();
#define FIND(name, symbol, parameters)                                         \
  EXPECT_NE(dlsym(library, #symbol), nullptr) << #symbol;
  OPTRT_NCCL_FUNCTIONS(FIND)
  OPTRT_NCCL_TEXTS(FIND)
#undef FIND
}
