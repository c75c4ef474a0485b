//===- OneDnn.cpp - What products share of oneDNN ------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OneDnn.h"

#include <cstdlib>
#include <stdexcept>
#include <sys/mman.h>

using namespace optrt;

Status optrt::checkRoomForCode() {
  constexpr size_t kRoom = size_t(32) << 20;
  void *room = mmap(nullptr, kRoom, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED)
    return unavailable(concat("out of memory: fewer than ", kRoom,
                              " bytes are left, too few to generate the code "
                              "of matrix products; allow more (ulimit -v)"));
  munmap(room, kRoom);
  return okStatus();
}

/// oneDNN's instruction sets by the names of DNNL_MAX_CPU_ISA.
static const char *nameOf(dnnl::cpu_isa isa) {
  switch (isa) {
  case dnnl::cpu_isa::sse41:
    return "SSE41";
  case dnnl::cpu_isa::avx:
    return "AVX";
  case dnnl::cpu_isa::avx2:
    return "AVX2";
  case dnnl::cpu_isa::avx2_vnni:
    return "AVX2_VNNI";
  case dnnl::cpu_isa::avx512_mic:
    return "AVX512_MIC";
  case dnnl::cpu_isa::avx512_mic_4ops:
    return "AVX512_MIC_4OPS";
  case dnnl::cpu_isa::avx512_core:
    return "AVX512_CORE";
  case dnnl::cpu_isa::avx512_core_vnni:
    return "AVX512_CORE_VNNI";
  case dnnl::cpu_isa::avx512_core_bf16:
    return "AVX512_CORE_BF16";
  case dnnl::cpu_isa::avx512_core_amx:
    return "AVX512_CORE_AMX";
  default:
    return "ALL";
  }
}

std::string optrt::describeOneDnn() {
  const dnnl_version_t &version = *dnnl_version();
  const bool prefersYmm =
      dnnl::get_cpu_isa_hints() == dnnl::cpu_isa_hints::prefer_ymm;
  return concat("oneDNN ", version.major, ".", version.minor, ".",
                version.patch, " with ", nameOf(dnnl::get_effective_cpu_isa()),
                prefersYmm ? " and PREFER_YMM" : "");
}

std::string optrt::refusedOfOneDnn() {
  for (const char *name : {"ONEDNN_VERBOSE", "DNNL_VERBOSE"})
    if (const char *level = std::getenv(name); level && std::atoi(level) > 0)
      return concat(name, "=", level,
                    " is not followed: oneDNN would write between the lines of "
                    "standard output; --profile FILE times every command");
  return "";
}

dnnl::engine optrt::createEngine() {
  dnnl_set_verbose(0);
  dnnl_set_default_fpmath_mode(dnnl_fpmath_mode_strict);
  // It crashes without memory, too. How it fails otherwise is an exception.
  if (Status room = checkRoomForCode(); !room.ok())
    throw std::runtime_error(room.message());
  return dnnl::engine(dnnl::engine::kind::cpu, 0);
}
