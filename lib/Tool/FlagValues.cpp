//===- FlagValues.cpp - Values of flags and options -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Tool/FlagValues.h"

#include "optimus-support/NearestName.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::optimus;

std::string mlir::optimus::unknownName(StringRef flag, StringRef what,
                                       StringRef name,
                                       ArrayRef<StringRef> known) {
  std::vector<std::string> names(known.begin(), known.end());
  return llvm::formatv("{0}: unknown {1} '{2}'; known are {3}{4}", flag, what,
                       name, llvm::join(known, ", "),
                       optimus_support::didYouMean(name, names))
      .str();
}

optimus_support::StatusOr<uint64_t> mlir::optimus::readCount(StringRef flag,
                                                             StringRef text,
                                                             uint64_t least,
                                                             uint64_t most) {
  uint64_t value = 0;
  if (!text.getAsInteger(10, value) && value >= least && value <= most)
    return value;
  return optimus_support::invalidArgument(
      llvm::formatv("{0}: expected a number {1}, found {2}", flag,
                    most == INT64_MAX
                        ? llvm::formatv("of at least {0}", least).str()
                        : llvm::formatv("from {0} to {1}", least, most).str(),
                    text)
          .str());
}
