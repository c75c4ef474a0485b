//===- MachineMemory.h - What a program may hold ----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_SUPPORT_MACHINEMEMORY_H
#define OPTIMUS_SUPPORT_MACHINEMEMORY_H

#include <cstdint>

namespace optimus_support {

/// The bytes of memory that processes here may use together: the machine's, or
/// what its container allows if that is less.
int64_t machineMemoryBytes();

} // namespace optimus_support

#endif // OPTIMUS_SUPPORT_MACHINEMEMORY_H
