//===- OutOfMemory.h - How a tool ends without memory -----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Programs that link OptimusOutOfMemory end with one message where malloc() or
// operator new finds no memory, from the first initializer of a static on. For
// tools that could do nothing better with a null or std::bad_alloc. What may
// return null with std::nothrow still does.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_SUPPORT_OUTOFMEMORY_H
#define OPTIMUS_SUPPORT_OUTOFMEMORY_H

#include <cstddef>

namespace optimus_support {

/// Prints to standard error the bytes asked for, the process's memory and its
/// limit, removes temporary files and ends the process with exit code 1.
/// Allocates nothing. 0 bytes: it is not known how many.
[[noreturn]] void exitOutOfMemory(size_t bytes);

} // namespace optimus_support

#endif // OPTIMUS_SUPPORT_OUTOFMEMORY_H
