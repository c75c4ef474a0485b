//===- OutputFile.cpp - A file that is written from its start -------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "core/OutputFile.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

using namespace optrt;

OutputFile::~OutputFile() {
  if (descriptor >= 0)
    close(descriptor);
}

Status OutputFile::failure(int error) const {
  return unavailable(concat("cannot write ", path, ": ", strerror(error)));
}

StatusOr<OutputFile> OutputFile::create(const std::string &path, size_t size) {
  OutputFile file;
  file.path = path;
  file.descriptor =
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file.descriptor < 0)
    return unavailable(concat("cannot create ", path, ": ", strerror(errno)));
  // A full disk shows now, and not when most is written.
  if (size > 0)
    if (int error = posix_fallocate(file.descriptor, 0, off_t(size)))
      return unavailable(concat("cannot reserve ", size, " bytes for ", path,
                                ": ", strerror(error)));
  return file;
}

Status OutputFile::append(const void *data, size_t bytes) {
  // One call moves at most 2 GiB.
  constexpr size_t kMost = size_t(1) << 30;
  const char *next = static_cast<const char *>(data);
  while (bytes > 0) {
    ssize_t put = ::write(descriptor, next, std::min(bytes, kMost));
    if (put < 0 && errno == EINTR)
      continue;
    if (put < 0)
      return failure(errno);
    next += put;
    bytes -= size_t(put);
  }
  return okStatus();
}

Status OutputFile::sync() {
  return fsync(descriptor) == 0 ? okStatus() : failure(errno);
}
