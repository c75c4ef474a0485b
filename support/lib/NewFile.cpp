//===- NewFile.cpp - A file that is written from its start ----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/NewFile.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

using namespace optimus_support;

// One call moves at most 2 GiB.
static constexpr size_t kMostInACall = size_t(1) << 30;

Status optimus_support::cannotWrite(const std::string &name, int error) {
  return unavailable(concat("cannot write '", name, "': ", strerror(error)));
}

Status optimus_support::writeAll(int descriptor, std::string_view bytes,
                                 const std::string &name) {
  while (!bytes.empty()) {
    ssize_t put =
        ::write(descriptor, bytes.data(), std::min(bytes.size(), kMostInACall));
    if (put < 0 && errno == EINTR)
      continue;
    if (put < 0)
      return cannotWrite(name, errno);
    bytes.remove_prefix(size_t(put));
  }
  return okStatus();
}

NewFile::~NewFile() {
  if (handle >= 0)
    close(handle);
}

StatusOr<NewFile> NewFile::create(const std::string &path, size_t size,
                                  mode_t mode) {
  NewFile file;
  file.path = path;
  file.handle =
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (file.handle < 0)
    return unavailable(concat("cannot create '", path, "': ", strerror(errno)));
  if (size > 0)
    OPTRT_RETURN_IF_ERROR(file.reserve(0, size));
  return file;
}

StatusOr<NewFile> NewFile::join(const std::string &path) {
  NewFile file;
  file.path = path;
  file.handle = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
  if (file.handle < 0)
    return cannotWrite(path, errno);
  return file;
}

Status NewFile::reserve(size_t offset, size_t bytes) const {
  int error = 0;
  do
    error = posix_fallocate(handle, off_t(offset), off_t(bytes));
  while (error == EINTR);
  if (error)
    return unavailable(concat("cannot reserve ", bytes, " bytes for '", path,
                              "': ", strerror(error)));
  return okStatus();
}

Status NewFile::write(size_t offset, const void *data, size_t bytes) const {
  const char *next = static_cast<const char *>(data);
  for (const size_t end = offset + bytes; offset < end;) {
    ssize_t put = pwrite(handle, next, std::min(end - offset, kMostInACall),
                         static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR)
      continue;
    if (put < 0)
      return cannotWrite(path, errno);
    next += put;
    offset += size_t(put);
  }
  return okStatus();
}

Status NewFile::append(const void *data, size_t bytes) {
  return writeAll(handle, {static_cast<const char *>(data), bytes}, path);
}

Status NewFile::sync() {
  return fsync(handle) == 0 ? okStatus() : cannotWrite(path, errno);
}
