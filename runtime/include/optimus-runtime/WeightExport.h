//===- WeightExport.h - Folders of weights ----------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Writes a model as Transformers' save_pretrained() does: weights, config.json
// and a tokenizer's files, without an optimizer's state or a run's.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_WEIGHTEXPORT_H
#define OPTIMUS_RUNTIME_WEIGHTEXPORT_H

#include "optimus-runtime/Checkpoint.h"

#include <cstdint>
#include <optional>
#include <string>

namespace optrt {

struct WeightExportOptions {
  /// F32, BF16 or F16, rounded to the nearest, ties to even; absent: what each
  /// tensor has. Tensors of other types stay as they are.
  std::optional<optimus_support::ElementType> type;
  /// Most bytes of tensors in one file; a larger tensor has its own.
  int64_t shardLimitBytes = CheckpointWriterOptions().shardLimitBytes;
  /// The text of the config.json; empty: the one of the folder read from.
  std::string config;
  /// Adds B·A · alpha/r of each adapter to the weight that it is beside, in
  /// f64, rounded once, and leaves the adapters out.
  bool merges = false;
};

struct WeightExportSummary {
  int64_t tensors = 0, bytes = 0;
  std::size_t files = 0; ///< with tensors
  /// Of the others.
  std::vector<std::string> companions;
};

/// Writes the parameters of an open checkpoint to the folder `dir`, which is
/// there whole or not at all. After findParameters(), weights are the model's,
/// under its names; without it, all tensors under their own. A checkpoint of
/// ours is verified before anything is written. Adapters are written beside, as
/// PEFT has them, unless they are merged.
///
/// Errors: InvalidArgument for a `dir` with files in it, without a config.json,
/// for a number beyond the type's range; DataLoss for damage; Unavailable when
/// the disk is full.
StatusOr<WeightExportSummary>
exportWeights(const Checkpoint &checkpoint, const std::string &dir,
              const WeightExportOptions &options = {});

} // namespace optrt

#endif // OPTIMUS_RUNTIME_WEIGHTEXPORT_H
