//===- ElfFile.h - What a shared object consists of -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CORE_ELFFILE_H
#define OPTIMUS_RUNTIME_CORE_ELFFILE_H

#include "optimus-runtime/Status.h"

#include <cstdint>
#include <span>
#include <string>

namespace optrt {

/// Checks that a file is a 64-bit shared object for this kind of processor and
/// that every segment and section its headers tell of lies within it. dlopen
/// maps segments without asking whether the file has them: on a file that was
/// cut short the process gets a bus error. InvalidArgument names the file.
Status checkSharedObject(const std::string &path);

/// The same of a file's contents, `path` being its name in messages.
Status checkSharedObject(std::span<const uint8_t> file,
                         const std::string &path);

/// The contents of the section called `name` of a file that has passed
/// checkSharedObject(). InvalidArgument where it has none, or where one is
/// longer than `most` bytes.
StatusOr<std::string> readSection(const std::string &path,
                                  const std::string &name, uint64_t most);

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CORE_ELFFILE_H
