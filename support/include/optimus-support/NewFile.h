//===- NewFile.h - A file that is written from its start --------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_SUPPORT_NEWFILE_H
#define OPTIMUS_SUPPORT_NEWFILE_H

#include "optimus-support/Status.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <utility>

namespace optimus_support {

/// A file that did not exist before, written in pieces from its start to its
/// end, or by several processes at places of their own; closed when destroyed,
/// and left where it is. All failures are Unavailable.
class NewFile {
public:
  NewFile() = default;
  NewFile(NewFile &&other) noexcept { swap(other); }
  NewFile &operator=(NewFile &&other) noexcept {
    swap(other);
    return *this;
  }
  ~NewFile();

  /// Fails if there is such a file or no room for `size` bytes; 0: a size that
  /// is not known. The umask takes from `mode`.
  static StatusOr<NewFile> create(const std::string &path, size_t size,
                                  mode_t mode = 0666);

  /// Opens one that another process has created, to write to places of it.
  static StatusOr<NewFile> join(const std::string &path);

  Status append(const void *data, size_t bytes);
  /// Fails if there is no room for these bytes: a full disk shows now, and not
  /// when most is written. From several threads at once, as write().
  Status reserve(size_t offset, size_t bytes) const;
  /// Writes at a place.
  Status write(size_t offset, const void *data, size_t bytes) const;
  /// Waits until what was written is on the disk.
  Status sync();

  int descriptor() const { return handle; }

private:
  void swap(NewFile &other) {
    path.swap(other.path);
    std::swap(handle, other.handle);
  }

  std::string path;
  int handle = -1;
};

/// Writes all of it, however many calls that takes. Unavailable where the
/// system refuses; `name` is for the message.
Status writeAll(int descriptor, std::string_view bytes,
                const std::string &name);

/// Unavailable: "cannot write 'NAME': No space left on device", for an errno.
Status cannotWrite(const std::string &name, int error);

} // namespace optimus_support

#endif // OPTIMUS_SUPPORT_NEWFILE_H
