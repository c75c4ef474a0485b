//===- MappedFile.cpp - A file as memory ----------------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/MappedFile.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace optrt;

MappedFile::~MappedFile() {
  if (base)
    munmap(base, bytes);
  if (descriptor >= 0)
    close(descriptor);
}

StatusOr<MappedFile> MappedFile::open(const std::string &path,
                                      StatusCode code) {
  MappedFile file;
  file.path = path;
  // Non-blocking, or opening a named pipe would wait for its writer.
  file.descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file.descriptor < 0)
    return Status(code, concat("cannot open ", path, ": ", strerror(errno)));
  struct stat info;
  if (fstat(file.descriptor, &info) != 0)
    return Status(code, concat("cannot read ", path, ": ", strerror(errno)));
  if (!S_ISREG(info.st_mode))
    return Status(code, concat("expected a file, but ", path, " is ",
                               S_ISDIR(info.st_mode) ? "a folder"
                                                     : "not a regular file"));
  if (info.st_size == 0)
    return file;
  void *base =
      mmap(nullptr, info.st_size, PROT_READ, MAP_SHARED, file.descriptor, 0);
  if (base == MAP_FAILED)
    return unavailable(concat("cannot map ", path, ": ", strerror(errno)));
  file.base = base;
  file.bytes = info.st_size;
  return file;
}

StatusOr<MappedFile> MappedFile::create(const std::string &path, size_t size) {
  MappedFile file;
  file.path = path;
  file.descriptor =
      ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file.descriptor < 0)
    return unavailable(concat("cannot create ", path, ": ", strerror(errno)));
  if (size == 0)
    return file;
  // Reserving the space now makes a full disk an error here, instead of a
  // signal when the mapping is written.
  if (int error = posix_fallocate(file.descriptor, 0, off_t(size)))
    return unavailable(concat("cannot reserve ", size, " bytes for ", path,
                              ": ", strerror(error)));
  void *base = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED,
                    file.descriptor, 0);
  if (base == MAP_FAILED)
    return unavailable(concat("cannot map ", path, ": ", strerror(errno)));
  file.base = base;
  file.bytes = size;
  return file;
}

Status MappedFile::sync() {
  if ((base && msync(base, bytes, MS_SYNC) != 0) || fsync(descriptor) != 0)
    return unavailable(concat("cannot write ", path, ": ", strerror(errno)));
  return okStatus();
}
