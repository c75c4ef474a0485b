//===- CheckpointFile.h - The files of a checkpoint -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CHECKPOINTFILE_H
#define OPTIMUS_RUNTIME_CHECKPOINTFILE_H

namespace optrt {

/// The files that tensors are saved in: model.safetensors, which holds the model
/// and nothing else, and optimizer.safetensors.
enum class CheckpointFile { Model, Optimizer };

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CHECKPOINTFILE_H
