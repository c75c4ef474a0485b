//===- Pages.h - What files are read and written by -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_SUPPORT_PAGES_H
#define OPTIMUS_SUPPORT_PAGES_H

#include <cstdint>

namespace optimus_support {

/// The alignment of reads and writes past the cache of the system, enough for
/// every disk: of their sizes, and of their places in memory and in the file.
inline constexpr int64_t kPageBytes = 4096;

/// The bytes of the pages that `bytes` take.
inline constexpr int64_t roundToPages(int64_t bytes) {
  return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}

} // namespace optimus_support

#endif // OPTIMUS_SUPPORT_PAGES_H
