//===- WeightFiles.h - The files of a folder of weights ---------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CHECKPOINT_WEIGHTFILES_H
#define OPTIMUS_RUNTIME_CHECKPOINT_WEIGHTFILES_H

#include "optimus-runtime/Status.h"
#include "optimus-support/InputFile.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace optrt {

/// Of an index, which is read at once: a line for each tensor.
inline constexpr size_t kMostIndexBytes = 32 << 20;
/// Each is open while it is read.
inline constexpr size_t kMostModelFiles = 512;

/// InvalidArgument for more files, with which somebody asked for so small ones.
Status checkNumModelFiles(size_t files, int64_t shardLimitBytes);

/// Whether a folder has model.safetensors or the index of several files, or an
/// adapter's.
bool hasWeightFiles(const std::string &folder);

/// Why weights that are there cannot be read: nothing, unless all are pickles.
std::string describePickles(const std::string &folder);

/// Of a configuration.
inline constexpr size_t kMostConfigBytes = 16 << 20;

struct TextFile {
  std::string path, text;
};

struct WeightFiles {
  std::vector<optimus_support::InputFile> tensors; ///< sorted by name
  std::optional<optimus_support::InputFile> index; ///< of several
  std::optional<TextFile> config;
  std::string base; ///< the folder of the model's own tensors
};

/// The folder with the rest of a model, if `folder` has adapters alone:
/// `given`, or if that is empty the one named by adapter_config.json, read by
/// `readConfig`; else `folder`. InvalidArgument where it has no tensors
/// of the model's own, and where `folder` has them and something is given.
StatusOr<std::string>
findBase(const std::string &folder, const std::string &given,
         const std::function<StatusOr<TextFile>()> &readConfig);

/// Opens the files of a folder for which hasWeightFiles(): model.safetensors
/// alone, or the files named by the index, all of the same folder; and an
/// adapter's. Where it has an adapter alone, as PEFT writes it, the rest is of
/// the folder findBase().
StatusOr<WeightFiles> openWeightFiles(const std::string &folder,
                                      const std::string &base);

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CHECKPOINT_WEIGHTFILES_H
