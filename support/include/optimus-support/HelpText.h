//===- HelpText.h - Lines of --help -----------------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_SUPPORT_HELPTEXT_H
#define OPTIMUS_SUPPORT_HELPTEXT_H

#include <string>
#include <string_view>

namespace optimus_support {

/// A line of `--help`, or several of at most 80 columns: a flag, and beside it
/// what it does.
std::string describeFlag(std::string_view flag, std::string_view text);

} // namespace optimus_support

#endif // OPTIMUS_SUPPORT_HELPTEXT_H
