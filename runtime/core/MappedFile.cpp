//===- MappedFile.cpp - A file as memory ----------------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/MappedFile.h"

#include "optimus-support/InputFile.h"

#include <cerrno>
#include <cstring>
#include <sys/mman.h>

using namespace optrt;

MappedFile::~MappedFile() {
  if (base)
    munmap(base, bytes);
}

StatusOr<MappedFile> MappedFile::open(const std::string &path,
                                      StatusCode code) {
  OPTRT_ASSIGN_OR_RETURN(optimus_support::InputFile input,
                         optimus_support::InputFile::open(path, code));
  MappedFile file;
  if (input.size() == 0)
    return file;
  // The mapping outlives the descriptor.
  void *base =
      mmap(nullptr, input.size(), PROT_READ, MAP_SHARED, input.descriptor(), 0);
  if (base == MAP_FAILED)
    return unavailable(concat("cannot map ", path, ": ", strerror(errno)));
  file.base = base;
  file.bytes = input.size();
  return file;
}
