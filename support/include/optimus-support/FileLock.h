//===- FileLock.h - One process at a time -----------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_SUPPORT_FILELOCK_H
#define OPTIMUS_SUPPORT_FILELOCK_H

#include "optimus-support/Status.h"
#include "optimus-support/TemporaryPath.h"

#include <chrono>
#include <string>
#include <utility>

namespace optimus_support {

/// A claim on something for one process at a time, held by a small file that
/// names its holder. The file is removed with the claim. One that a killed
/// process left is taken over: the system has released its lock, or, where the
/// file system has no locks, the process that it names is gone.
class FileLock {
public:
  FileLock() = default;
  FileLock(FileLock &&other) noexcept { swap(other); }
  FileLock &operator=(FileLock &&other) noexcept {
    swap(other);
    return *this;
  }
  ~FileLock();

  /// InvalidArgument if somebody else has it; the message begins with `what`,
  /// as all do, and names the process and its host: "the checkpoint X is being
  /// written by process 17 on host h, `optimus-run train …`, since …".
  /// `patience` is how long to wait for that process's end. InvalidArgument too
  /// where the file cannot be made, and Unavailable where it has no room.
  static StatusOr<FileLock> acquire(const std::string &path,
                                    const std::string &what,
                                    std::chrono::milliseconds patience = {});

private:
  void swap(FileLock &other) {
    std::swap(file, other.file);
    std::swap(handle, other.handle);
  }

  TemporaryPath file; ///< removed while the lock is held
  int handle = -1;
};

} // namespace optimus_support

#endif // OPTIMUS_SUPPORT_FILELOCK_H
