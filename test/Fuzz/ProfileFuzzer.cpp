//===- ProfileFuzzer.cpp - Machine profiles -------------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Analysis/CostModel.h"
#include "optimus/Analysis/MachineProfile.h"

#include "llvm/Support/Error.h"

using namespace mlir::optimus;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  llvm::StringRef text(reinterpret_cast<const char *>(data), size);
  llvm::Expected<MachineProfile> profile = MachineProfile::parse(text, "input");
  if (!profile)
    llvm::consumeError(profile.takeError());
  return 0;
}
