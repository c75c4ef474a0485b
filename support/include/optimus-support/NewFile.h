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
  /// Makes it so long, with nothing where nobody has written.
  Status resize(size_t bytes) const;
  /// Prepares for writing these bytes. Fails if there is no room for them: a
  /// full disk shows now, and not when most is written; on a file system in
  /// memory, where it takes longer than it saves, write() says so. From several
  /// threads at once, as write().
  Status reserve(size_t offset, size_t bytes) const;
  /// Writes at a place. On a file system in memory, processes that write to
  /// places within its length do not wait for one another.
  Status write(size_t offset, const void *data, size_t bytes) const;
  /// Waits until what was written is on the disk.
  Status sync();

  int descriptor() const { return handle; }
  /// Whether its file system has no disk.
  bool isInMemory() const { return inMemory; }

private:
  int open(const std::string &path, int flags, mode_t mode);
  Status allocate(size_t offset, size_t bytes) const;
  Status writeAt(size_t offset, const char *next, size_t bytes) const;
  bool writeMapped(size_t offset, const void *data, size_t bytes) const;
  void swap(NewFile &other) {
    path.swap(other.path);
    std::swap(handle, other.handle);
    std::swap(inMemory, other.inMemory);
  }

  std::string path;
  int handle = -1;
  bool inMemory = false;
};

/// Writes all of it, however many calls that takes. Unavailable where the
/// system refuses; `name` is for the message.
Status writeAll(int descriptor, std::string_view bytes,
                const std::string &name);

/// Unavailable: "cannot write 'NAME': No space left on device", for an errno.
Status cannotWrite(const std::string &name, int error);

} // namespace optimus_support

#endif // OPTIMUS_SUPPORT_NEWFILE_H
