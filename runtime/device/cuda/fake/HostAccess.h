//===- HostAccess.h - Host code that follows a GPU's pointer ----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_DEVICE_CUDA_FAKE_HOSTACCESS_H
#define OPTIMUS_RUNTIME_DEVICE_CUDA_FAKE_HOSTACCESS_H

namespace optrt::cuda::fake {

/// From now on, host code that touches the fake GPU's memory ends the process
/// with SIGSEGV as before, and with a message about the address.
void tellOfHostAccesses();

} // namespace optrt::cuda::fake

#endif // OPTIMUS_RUNTIME_DEVICE_CUDA_FAKE_HOSTACCESS_H
