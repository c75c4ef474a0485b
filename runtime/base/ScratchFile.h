//===- ScratchFile.h - Memory that lies in a file ---------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_BASE_SCRATCHFILE_H
#define OPTIMUS_RUNTIME_BASE_SCRATCHFILE_H

#include "optimus-runtime/Status.h"

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

namespace optrt {

/// Bytes in a file that has no name any more: whatever ends the process leaves
/// nothing behind. All of its space is taken when it is made. It has addresses
/// that nothing else has and nobody can touch; read() and write() take them.
///
/// Reads and writes go past the system's cache where the file system lets them,
/// so that they take no memory and hardly a core: docs/paging.md has the
/// measurements. Several threads may call them at a time, for bytes that are
/// apart.
class ScratchFile {
public:
  /// Zeroed. `purpose` is for the message: "the parameters of a rank".
  ///
  /// Errors: Unavailable where the folder, its disk or addresses are short.
  static StatusOr<std::unique_ptr<ScratchFile>>
  create(const std::string &folder, int64_t bytes, const std::string &purpose);
  ~ScratchFile();
  ScratchFile(const ScratchFile &) = delete;
  ScratchFile &operator=(const ScratchFile &) = delete;

  char *start() const { return addresses; }
  bool contains(const void *address) const {
    const auto *byte = static_cast<const char *>(address);
    return byte >= addresses && byte < addresses + size;
  }

  /// Errors: Internal beyond its end, Unavailable where the disk fails.
  Status read(const void *address, void *to, int64_t bytes);
  Status write(void *address, const void *from, int64_t bytes);

private:
  ScratchFile() = default;

  /// Takes the offset of an address, where so many bytes follow it.
  StatusOr<int64_t> offsetOf(const void *address, int64_t bytes) const;
  Status transfer(bool writes, int64_t offset, char *memory, int64_t bytes);
  /// What is no whole number of pages at page boundaries, through pages of its
  /// own.
  Status transferParts(bool writes, int64_t offset, char *memory,
                       int64_t bytes);
  /// Whole pages.
  Status transferPages(bool writes, int64_t offset, char *memory,
                       int64_t bytes) const;

  struct Free {
    void operator()(void *memory) const { std::free(memory); }
  };

  int file = -1;
  char *addresses = nullptr;
  int64_t size = 0; ///< in whole pages
  std::mutex mutex; ///< of `bounce`
  std::unique_ptr<char, Free> bounce;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_BASE_SCRATCHFILE_H
