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

/// A file mapped to be read; unmapped when destroyed.
class MappedFile {
public:
  MappedFile() = default;
  MappedFile(MappedFile &&other) noexcept { swap(other); }
  MappedFile &operator=(MappedFile &&other) noexcept {
    swap(other);
    return *this;
  }
  ~MappedFile();

  /// Maps a regular file. What is wrong with the path (missing, a
  /// folder, not readable) has the code `code`.
  static StatusOr<MappedFile> open(const std::string &path, StatusCode code);

  const uint8_t *data() const { return static_cast<const uint8_t *>(base); }
  size_t size() const { return bytes; }

private:
  void swap(MappedFile &other) {
    std::swap(base, other.base);
    std::swap(bytes, other.bytes);
  }

  void *base = nullptr;
  size_t bytes = 0;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CORE_MAPPEDFILE_H
