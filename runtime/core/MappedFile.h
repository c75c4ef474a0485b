//===- MappedFile.h - A file as memory --------------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CORE_MAPPEDFILE_H
#define OPTIMUS_RUNTIME_CORE_MAPPEDFILE_H

#include "optimus-runtime/Status.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace optrt {

/// A mapped file; unmapped and closed when destroyed.
class MappedFile {
public:
  MappedFile() = default;
  MappedFile(MappedFile &&other) noexcept { swap(other); }
  MappedFile &operator=(MappedFile &&other) noexcept {
    swap(other);
    return *this;
  }
  ~MappedFile();

  /// Maps a regular file to be read. What is wrong with the path (missing, a
  /// folder, not readable) has the code `code`.
  static StatusOr<MappedFile> open(const std::string &path, StatusCode code);

  /// Creates a file of `size` bytes, its space reserved, mapped to be written.
  /// Unavailable if there is no room.
  static StatusOr<MappedFile> create(const std::string &path, size_t size);

  const uint8_t *data() const { return static_cast<const uint8_t *>(base); }
  /// Only of a created file.
  uint8_t *mutableData() { return static_cast<uint8_t *>(base); }
  size_t size() const { return bytes; }

  /// Waits until what was written is on the disk.
  Status sync();

private:
  void swap(MappedFile &other) {
    std::swap(base, other.base);
    std::swap(bytes, other.bytes);
    std::swap(descriptor, other.descriptor);
    path.swap(other.path);
  }

  void *base = nullptr;
  size_t bytes = 0;
  int descriptor = -1;
  std::string path;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CORE_MAPPEDFILE_H
