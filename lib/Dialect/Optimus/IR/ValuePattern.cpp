//===- ValuePattern.cpp - Values named by patterns of ids -------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/Optimus/IR/ValuePattern.h"

using namespace mlir;
using namespace mlir::optimus;

llvm::Expected<ValuePattern> ValuePattern::create(StringRef text) {
  auto glob = llvm::GlobPattern::create(text);
  if (!glob)
    return llvm::createStringError(
        "expected a value, in which * stands for any part of it; found '" +
        text + "': " + llvm::toString(glob.takeError()));
  return ValuePattern(text, std::move(*glob));
}

std::string mlir::optimus::getPattern(StringRef id) {
  size_t begin = id.find_first_of("0123456789");
  size_t end = id.find_first_not_of("0123456789", begin);
  // The last number is that of the result.
  if (end == StringRef::npos)
    return id.str();
  return (id.take_front(begin) + "*" + id.drop_front(end)).str();
}
