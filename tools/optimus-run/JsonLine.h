//===- JsonLine.h - Records, a line each ------------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_RUN_JSONLINE_H
#define OPTIMUS_TOOLS_OPTIMUS_RUN_JSONLINE_H

#include <string>

namespace optimus_run {

/// A value of nlohmann's, without a line's end. Bytes other than UTF-8, as in
/// paths and in texts of a model, become U+FFFD.
template <typename Json>
std::string toLine(const Json &value) {
  return value.dump(-1, ' ', /*ensure_ascii=*/false,
                    Json::error_handler_t::replace);
}

} // namespace optimus_run

#endif // OPTIMUS_TOOLS_OPTIMUS_RUN_JSONLINE_H
