//===- OffloadChoice.cpp - What a user wants offloaded ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/Exec/Transforms/OffloadChoice.h"

#include "optimus/Dialect/Exec/Transforms/ExtraWorkspace.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Error.h"

using namespace mlir;
using namespace mlir::exec;
using optimus::ValuePattern;

static constexpr StringLiteral kKinds[] = {"state", "parameters", "gradients",
                                           "activations"};

llvm::Error OffloadChoice::add(StringRef entry) {
  StringRef kind = entry.split('=').first;
  if (kind == "state" && (stateBytes || kinds.contains(kind)))
    return llvm::createStringError(
        "expected the state once, in whole or as state=512MiB; found '" +
        entry + "' besides");
  if (llvm::is_contained(kKinds, entry)) {
    kinds.insert(entry);
    return llvm::Error::success();
  }
  if (StringRef size = entry; size.consume_front("state=")) {
    stateBytes = parseBytes(size);
    if (stateBytes)
      return llvm::Error::success();
    return llvm::createStringError(
        "expected a size of state, as state=512MiB; found '" + entry + "'");
  }
  // The id of a value ends with its number among the results.
  if (!entry.contains(':'))
    return llvm::createStringError(
        "expected state, parameters, gradients, activations or ids of values, "
        "as h.*.mlp.gelu:*; found '" +
        entry + "'");
  auto pattern = ValuePattern::create(entry);
  if (!pattern)
    return pattern.takeError();
  patterns.push_back(std::move(*pattern));
  return llvm::Error::success();
}

llvm::Expected<OffloadChoice> OffloadChoice::parse(ArrayRef<StringRef> entries) {
  OffloadChoice choice;
  for (StringRef entry : entries)
    if (llvm::Error error = choice.add(entry))
      return error;
  return choice;
}
