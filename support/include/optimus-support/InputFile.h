//===- InputFile.h - A file that is read in pieces --------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_SUPPORT_INPUTFILE_H
#define OPTIMUS_SUPPORT_INPUTFILE_H

#include "optimus-support/Status.h"

#include <cstddef>
#include <string>
#include <sys/stat.h>
#include <utility>

namespace optimus_support {

/// An open regular file; closed when destroyed. What is read of it takes no
/// memory but the caller's. Pieces may be read by several threads at once.
class InputFile {
public:
  InputFile() = default;
  InputFile(InputFile &&other) noexcept { swap(other); }
  InputFile &operator=(InputFile &&other) noexcept {
    swap(other);
    return *this;
  }
  ~InputFile();

  /// What is wrong with the path (missing, a folder, not readable) has the code
  /// `code`.
  static StatusOr<InputFile> open(const std::string &path, StatusCode code);

  const std::string &path() const { return name; }
  int descriptor() const { return handle; }
  /// In bytes, when it was opened.
  size_t size() const { return size_t(atOpen.st_size); }
  /// Names these contents among the files of this machine, for as long as
  /// somebody has them open.
  std::string identity() const;

  /// Fails with DataLoss where the file ends early or the disk gives up.
  Status read(size_t offset, void *to, size_t bytes) const;
  /// All of a file that has at most so many bytes; DataLoss if it has more.
  StatusOr<std::string> readAll(size_t mostBytes) const;

  /// DataLoss if somebody has written to the file since it was opened.
  Status checkUnchanged() const;

private:
  void swap(InputFile &other) {
    name.swap(other.name);
    std::swap(handle, other.handle);
    std::swap(atOpen, other.atOpen);
  }

  std::string name;
  int handle = -1;
  struct stat atOpen = {};
};

/// Differs between machines that run at the same time.
std::string machineIdentity();

/// All of an input that a tool reads at once: a regular file, or, up to its
/// end, a standard stream ("-") or a pipe of the shell's (<(…), /dev/stdin).
/// Devices and named pipes, which may never end or never begin, are refused,
/// and so is more than `mostBytes`. All failures are InvalidArgument.
StatusOr<std::string> readInput(const std::string &path, size_t mostBytes);

} // namespace optimus_support

#endif // OPTIMUS_SUPPORT_INPUTFILE_H
