//===- ExtraWorkspace.cpp - What a schedule may add to the peak -*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/Exec/Transforms/ExtraWorkspace.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::exec;

std::optional<int64_t> exec::parseBytes(StringRef text) {
  unsigned shift = text.consume_back("KiB")   ? 10
                   : text.consume_back("MiB") ? 20
                   : text.consume_back("GiB") ? 30
                                              : 0;
  constexpr int64_t kMost = int64_t(1) << 50;
  int64_t count;
  if (text.getAsInteger(10, count) || count < 0 || count > kMost >> shift)
    return std::nullopt;
  return count << shift;
}

llvm::Expected<ExtraWorkspace> ExtraWorkspace::parse(StringRef text) {
  ExtraWorkspace result;
  auto fail = [&]() {
    return llvm::createStringError(
        llvm::Twine("extra workspace '") + text +
        "': expected a percentage of the peak, as 10%, or bytes, as 1048576 "
        "or 1MiB");
  };
  StringRef number = text;
  if (number.consume_back("%")) {
    // Digits and a point only: no sign, exponent or infinity.
    bool isPlain = !number.empty() && llvm::all_of(number, [](char c) {
      return llvm::isDigit(c) || c == '.';
    });
    if (!isPlain || number.getAsDouble(result.percent) || result.percent > 1e6)
      return fail();
    return result;
  }
  std::optional<int64_t> bytes = parseBytes(number);
  if (!bytes)
    return fail();
  result.bytes = *bytes;
  return result;
}
