//===- SealedCopy.cpp - A copy of a file that stays as it is --------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SealedCopy.h"

#include "optimus-support/InputFile.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace optrt {

SealedCopy::~SealedCopy() {
  if (!contents.empty())
    munmap(const_cast<uint8_t *>(contents.data()), contents.size());
  if (handle >= 0)
    close(handle);
}

std::string SealedCopy::path() const {
  return concat("/proc/", getpid(), "/fd/", handle);
}

static Status noMemoryFor(const std::string &path, int error) {
  return unavailable(concat("cannot keep a copy of `", path,
                            "` in memory: ", strerror(error)));
}

static Status writeAll(int handle, const std::vector<char> &piece,
                       std::size_t bytes, const std::string &path) {
  for (std::size_t done = 0; done != bytes;) {
    ssize_t wrote = write(handle, piece.data() + done, bytes - done);
    if (wrote < 0 && errno == EINTR)
      continue;
    if (wrote < 0)
      return noMemoryFor(path, errno);
    done += static_cast<std::size_t>(wrote);
  }
  return okStatus();
}

StatusOr<SealedCopy> SealedCopy::make(const std::string &path) {
  using optimus_support::InputFile;
  OPTRT_ASSIGN_OR_RETURN(InputFile file,
                         InputFile::open(path, StatusCode::InvalidArgument));
  SealedCopy copy;
  // The name is what /proc/PID/maps and profilers show; it has at most 249
  // characters.
  const std::string name =
      std::filesystem::path(path).filename().string().substr(0, 200);
  copy.handle = memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (copy.handle < 0)
    return noMemoryFor(path, errno);
  std::vector<char> piece(std::min(file.size(), std::size_t(1) << 20));
  for (std::size_t at = 0; at != file.size();) {
    const std::size_t bytes = std::min(piece.size(), file.size() - at);
    if (Status status = file.read(at, piece.data(), bytes); !status.ok())
      return invalidArgument(status.message());
    OPTRT_RETURN_IF_ERROR(writeAll(copy.handle, piece, bytes, path));
    at += bytes;
  }
  if (Status status = file.checkUnchanged(); !status.ok())
    return invalidArgument(status.message());
  if (fcntl(copy.handle, F_ADD_SEALS,
            F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) != 0)
    return noMemoryFor(path, errno);
  if (file.size() == 0)
    return copy;
  void *mapped =
      mmap(nullptr, file.size(), PROT_READ, MAP_SHARED, copy.handle, 0);
  if (mapped == MAP_FAILED)
    return noMemoryFor(path, errno);
  copy.contents = {static_cast<const uint8_t *>(mapped), file.size()};
  return copy;
}

} // namespace optrt
