//===- HostWordKernel.h - A kernel that writes a word -----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_DEVICE_CUDA_HOSTWORDKERNEL_H
#define OPTIMUS_RUNTIME_DEVICE_CUDA_HOSTWORDKERNEL_H

namespace optrt::cuda {

inline constexpr const char *kHostWordKernelName = "optimus_host_word";

/// One thread writes a number to a word of the host's memory, behind all that
/// the stream wrote before. For every GPU from sm_80 on: the driver compiles
/// it. Numbers have 64 bits, as those of all our kernels.
inline constexpr const char *kHostWordKernel = R"(
.version 7.0
.target sm_80
.address_size 64
.visible .entry optimus_host_word(.param .u64 word, .param .u64 number)
{
  .reg .b64 %to, %wide;
  .reg .b32 %value;
  ld.param.u64 %to, [word];
  ld.param.u64 %wide, [number];
  cvt.u32.u64 %value, %wide;
  fence.sc.sys;
  st.release.sys.u32 [%to], %value;
  ret;
}
)";

} // namespace optrt::cuda

#endif // OPTIMUS_RUNTIME_DEVICE_CUDA_HOSTWORDKERNEL_H
