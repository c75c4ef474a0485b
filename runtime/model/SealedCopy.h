//===- SealedCopy.h - A copy of a file that stays as it is ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_MODEL_SEALEDCOPY_H
#define OPTIMUS_RUNTIME_MODEL_SEALEDCOPY_H

#include "optimus-runtime/Status.h"

#include <cstdint>
#include <span>
#include <string>

namespace optrt {

/// A copy of a file in memory, sealed: nobody can write to it or cut it short,
/// this process included. Code is checked and loaded from one copy, so that the
/// checked code runs, also where somebody copies another file over the original
/// meanwhile: a mapped file that becomes shorter is a bus error.
class SealedCopy {
public:
  SealedCopy() = default;
  SealedCopy(SealedCopy &&other) noexcept { swap(other); }
  SealedCopy &operator=(SealedCopy &&other) noexcept {
    swap(other);
    return *this;
  }
  ~SealedCopy();

  /// InvalidArgument where the file cannot be read, Unavailable where this
  /// machine lacks the memory.
  static StatusOr<SealedCopy> make(const std::string &path);

  /// Its bytes, as long as the copy is there.
  std::span<const uint8_t> bytes() const { return contents; }
  /// A path that leads other programs, as debuggers, to it, too. Of all copies
  /// that are there at one time, each has its own.
  std::string path() const;

private:
  void swap(SealedCopy &other) {
    std::swap(handle, other.handle);
    std::swap(contents, other.contents);
  }

  int handle = -1;
  std::span<const uint8_t> contents;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_MODEL_SEALEDCOPY_H
