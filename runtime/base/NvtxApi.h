//===- NvtxApi.h - What is used of NVTX -------------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// NVTX is a protocol between a program and the library of a tool that listens,
// as NVIDIA's headers nvtx3 speak it: the tool's library asks for tables of
// function pointers and fills in those that it listens to. The part of it for a
// program that pushes and pops ranges is declared here, so the runtime is built
// where there is no toolkit; ApiTest.cpp of the device for GPUs holds it
// against the headers where these are.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_BASE_NVTXAPI_H
#define OPTIMUS_RUNTIME_BASE_NVTXAPI_H

#include <cstddef>
#include <cstdint>

namespace optrt::nvtx {

using Domain = struct DomainOpaque *; ///< nvtxDomainHandle_t

/// nvtxEventAttributes_t.
struct Attributes {
  uint16_t version = 3;
  uint16_t size = sizeof(Attributes);
  uint32_t category = 0;
  int32_t colorType = 0;
  uint32_t color = 0;
  int32_t payloadType = 0;
  int32_t reserved = 0;
  uint64_t payload = 0;
  int32_t messageType = 1; ///< NVTX_MESSAGE_TYPE_ASCII
  const char *message = nullptr;
};

/// NvtxCallbackModule, and how many functions each has, with number 0, which is
/// none.
enum Module : int { kCore = 1, kCore2 = 5 };
inline constexpr unsigned kNumFunctions[] = {0, 16, 9, 15, 7, 16, 7};
/// NvtxCallbackIdCore2.
enum Core2 : unsigned {
  kDomainRangePush = 4,
  kDomainRangePop = 5,
  kDomainCreate = 12,
};
using DomainRangePush = int (*)(Domain domain, const Attributes *attributes);
using DomainRangePop = int (*)(Domain domain);
using DomainCreate = Domain (*)(const char *name);

using Function = void (*)();
/// NvtxExportTableID.
enum Table : uint32_t { kCallbacks = 1, kVersionInfo = 3 };
/// NvtxExportTableCallbacks.
struct Callbacks {
  size_t size;
  int (*getModuleFunctionTable)(int module, Function ***table,
                                unsigned *numFunctions);
};
/// NvtxExportTableVersionInfo.
struct VersionInfo {
  size_t size;
  uint32_t version, reserved;
  void (*setInjectionVersion)(uint32_t version);
};
using GetExportTable = const void *(*)(uint32_t table);
/// What a tool's library exports as InitializeInjectionNvtx2; 0 where it fails.
using InitializeInjection = int (*)(GetExportTable getExportTable);

} // namespace optrt::nvtx

#endif // OPTIMUS_RUNTIME_BASE_NVTXAPI_H
