//===- OutputFile.h - A file that is written from its start -----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CORE_OUTPUTFILE_H
#define OPTIMUS_RUNTIME_CORE_OUTPUTFILE_H

#include "optimus-runtime/Status.h"

#include <cstddef>
#include <string>
#include <utility>

namespace optrt {

/// A new file of a known size, written in pieces from its start to its end;
/// closed when destroyed. All failures are Unavailable.
class OutputFile {
public:
  OutputFile() = default;
  OutputFile(OutputFile &&other) noexcept { swap(other); }
  OutputFile &operator=(OutputFile &&other) noexcept {
    swap(other);
    return *this;
  }
  ~OutputFile();

  /// Fails if there is such a file or no room for `size` bytes.
  static StatusOr<OutputFile> create(const std::string &path, size_t size);

  Status append(const void *data, size_t bytes);
  /// Waits until what was written is on the disk.
  Status sync();

private:
  void swap(OutputFile &other) {
    path.swap(other.path);
    std::swap(descriptor, other.descriptor);
  }
  Status failure(int error) const;

  std::string path;
  int descriptor = -1;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CORE_OUTPUTFILE_H
