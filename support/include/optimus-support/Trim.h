//===- Trim.h - Text without spaces around it -------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_SUPPORT_TRIM_H
#define OPTIMUS_SUPPORT_TRIM_H

#include <string_view>

namespace optimus_support {

/// A line without spaces, tabs and carriage returns around it.
inline std::string_view trim(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\r";
  const size_t begin = text.find_first_not_of(kSpaces);
  if (begin == std::string_view::npos)
    return {};
  return text.substr(begin, text.find_last_not_of(kSpaces) + 1 - begin);
}

} // namespace optimus_support

#endif // OPTIMUS_SUPPORT_TRIM_H
