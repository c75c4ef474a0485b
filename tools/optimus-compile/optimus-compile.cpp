//===- optimus-compile.cpp - The compiler of our dialects -----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Tool/CompilerMain.h"

int main(int argc, char **argv) {
  return mlir::optimus::compilerMain(argc, argv);
}
