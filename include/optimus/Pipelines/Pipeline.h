//===- Pipeline.h - The whole compilation as a pass pipeline ----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_PIPELINES_PIPELINE_H
#define OPTIMUS_PIPELINES_PIPELINE_H

namespace mlir::optimus {

/// Registers --optimus-pipeline: all that optimus-compile runs on a program,
/// with its flags as options.
void registerPipelines();

} // namespace mlir::optimus

#endif // OPTIMUS_PIPELINES_PIPELINE_H
