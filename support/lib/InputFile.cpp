//===- InputFile.cpp - A file that is read in pieces ----------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/InputFile.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <unistd.h>

using namespace optimus_support;

InputFile::~InputFile() {
  if (handle >= 0)
    close(handle);
}

StatusOr<InputFile> InputFile::open(const std::string &path, StatusCode code) {
  InputFile file;
  file.name = path;
  // Non-blocking, or opening a named pipe would wait for its writer.
  file.handle = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file.handle < 0)
    return Status(code, concat("cannot open ", path, ": ", strerror(errno)));
  if (fstat(file.handle, &file.atOpen) != 0)
    return Status(code, concat("cannot read ", path, ": ", strerror(errno)));
  if (!S_ISREG(file.atOpen.st_mode))
    return Status(code,
                  concat("expected a file, but ", path, " is ",
                         S_ISDIR(file.atOpen.st_mode) ? "a folder"
                                                      : "not a regular file"));
  return file;
}

std::string InputFile::identity() const {
  return concat(atOpen.st_dev, ":", atOpen.st_ino, ":", atOpen.st_size, ":",
                atOpen.st_mtim.tv_sec, ".", atOpen.st_mtim.tv_nsec);
}

Status InputFile::read(size_t offset, void *to, size_t bytes) const {
  // One call moves at most 2 GiB.
  constexpr size_t kMost = size_t(1) << 30;
  char *next = static_cast<char *>(to);
  for (const size_t end = offset + bytes; offset < end;) {
    ssize_t got = pread(handle, next, std::min(end - offset, kMost),
                        static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return dataLoss(concat("cannot read ", name, " from byte ", offset,
                             " on: ", strerror(errno)));
    if (got == 0)
      return dataLoss(concat(name,
                             " changed while it was read: it ends at "
                             "byte ",
                             offset, ", it had ", size(),
                             " bytes when it was opened"));
    next += got;
    offset += size_t(got);
  }
  return okStatus();
}

static Status tooLong(const std::string &path, size_t mostBytes) {
  return dataLoss(concat("'", path, "' has more than the ", mostBytes,
                         " bytes that such a file may have"));
}

StatusOr<std::string> InputFile::readAll(size_t mostBytes) const {
  if (size() > mostBytes)
    return tooLong(name, mostBytes);
  std::string text(size(), '\0');
  OPTRT_RETURN_IF_ERROR(read(0, text.data(), text.size()));
  return text;
}

Status InputFile::checkUnchanged() const {
  struct stat now;
  if (fstat(handle, &now) != 0)
    return dataLoss(concat("cannot read ", name, ": ", strerror(errno)));
  if (now.st_size != atOpen.st_size ||
      now.st_mtim.tv_sec != atOpen.st_mtim.tv_sec ||
      now.st_mtim.tv_nsec != atOpen.st_mtim.tv_nsec)
    return dataLoss(concat(name, " changed while it was read: somebody wrote "
                                 "to it; load it again"));
  return okStatus();
}

std::string optimus_support::machineIdentity() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  return boot;
}

/// The descriptor of this process that a path stands for, or -1.
static int openDescriptorOf(const std::string &path) {
  if (path == "-" || path == "/dev/stdin")
    return STDIN_FILENO;
  for (const char *folder : {"/dev/fd/", "/proc/self/fd/"})
    if (path.starts_with(folder)) {
      int number = -1;
      const char *begin = path.data() + strlen(folder);
      const char *end = path.data() + path.size();
      auto [stop, error] = std::from_chars(begin, end, number);
      return error == std::errc() && stop == end ? number : -1;
    }
  return -1;
}

StatusOr<std::string> optimus_support::readInput(const std::string &path,
                                                 size_t mostBytes) {
  int stream = openDescriptorOf(path);
  if (stream < 0) {
    OPTRT_ASSIGN_OR_RETURN(InputFile file,
                           InputFile::open(path, StatusCode::InvalidArgument));
    StatusOr<std::string> text = file.readAll(mostBytes);
    if (!text.ok())
      return invalidArgument(text.status().message());
    return text;
  }
  std::string text;
  for (char piece[1 << 16];;) {
    ssize_t got = ::read(stream, piece, sizeof(piece));
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      return invalidArgument(
          concat("cannot read '", path, "': ", strerror(errno)));
    if (got == 0)
      return text;
    if (size_t(got) > mostBytes - text.size())
      return invalidArgument(tooLong(path, mostBytes).message());
    text.append(piece, size_t(got));
  }
}
