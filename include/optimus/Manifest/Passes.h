//===- Passes.h - What model libraries say of themselves --------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_MANIFEST_PASSES_H
#define OPTIMUS_MANIFEST_PASSES_H

#include "mlir/Pass/Pass.h"

namespace mlir::optimus {

#define GEN_PASS_DECL
#include "optimus/Manifest/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "optimus/Manifest/Passes.h.inc"

} // namespace mlir::optimus

#endif // OPTIMUS_MANIFEST_PASSES_H
