//===- FormatBytes.h - Sizes of memory for people ---------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_SUPPORT_FORMATBYTES_H
#define OPTIMUS_SUPPORT_FORMATBYTES_H

#include <cstdint>
#include <string>

namespace optimus_support {

/// 1234 -> "1234 B", 12345678 -> "11.8 MiB".
std::string formatBytes(int64_t bytes);

} // namespace optimus_support

#endif // OPTIMUS_SUPPORT_FORMATBYTES_H
