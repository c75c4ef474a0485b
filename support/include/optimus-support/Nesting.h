//===- Nesting.h - How deep a text is nested --------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_SUPPORT_NESTING_H
#define OPTIMUS_SUPPORT_NESTING_H

#include "optimus-support/Status.h"

#include <string>
#include <string_view>

namespace optimus_support {

/// InvalidArgument, with name and line, if brackets of a JSON or MLIR text lie
/// more than `most` deep in each other: recursive parsers, and walks over their
/// results, would run out of stack. What stands in strings and comments does
/// not count.
Status checkNesting(std::string_view text, const std::string &name,
                    int most = 256);

} // namespace optimus_support

#endif // OPTIMUS_SUPPORT_NESTING_H
