//===- MachineProfile.cpp - What a machine was measured to do ---*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Analysis/MachineProfile.h"

using namespace mlir;
using namespace mlir::optimus;
using optimus_support::StatusOr;

template <typename To, typename From>
static llvm::Expected<To> convert(StatusOr<From> read) {
  if (!read.ok())
    return llvm::createStringError(read.status().message());
  return To{std::move(*read)};
}

llvm::Expected<MachineProfile> MachineProfile::parse(StringRef text,
                                                     StringRef name) {
  return convert<MachineProfile>(
      optimus_prices::parseMachineProfile(text, name.str()));
}

llvm::Expected<std::string> MachineProfile::readText(StringRef nameOrPath) {
  return convert<std::string>(
      optimus_prices::readMachineProfileText(nameOrPath.str()));
}

llvm::Expected<MachineProfile> MachineProfile::load(StringRef nameOrPath) {
  return convert<MachineProfile>(
      optimus_prices::loadMachineProfile(nameOrPath.str()));
}
