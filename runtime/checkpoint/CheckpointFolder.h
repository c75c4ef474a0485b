//===- CheckpointFolder.h - Where a checkpoint lies on disk -----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// How a folder is replaced so that, whenever the writer is killed, one whole
// checkpoint can be found:
//
//   1. Everything is written to a hidden sibling, .NAME.optimus-tmp-*, and
//      synced to disk.
//   2. The sibling and NAME are exchanged in one system call. Where the file
//      system has no exchange, NAME becomes .NAME.optimus-old and then the
//      sibling becomes NAME; between the two, readers take .optimus-old.
//   3. The old folder is deleted.
//
// The writer holds a lock on its sibling, so the next writer can tell what a
// killed one left behind, and removes it.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CHECKPOINT_CHECKPOINTFOLDER_H
#define OPTIMUS_RUNTIME_CHECKPOINT_CHECKPOINTFOLDER_H

#include "optimus-runtime/Status.h"

#include <memory>
#include <string>
#include <string_view>

namespace optrt {

inline constexpr const char *kStateFile = "state.json";
inline constexpr const char *kModelFile = "model.safetensors";
inline constexpr const char *kModelIndexFile = "model.safetensors.index.json";
inline constexpr const char *kOptimizerFile = "optimizer.safetensors";

/// "model-00001-of-00003.safetensors"; `index` counts from 0.
std::string modelShardName(size_t index, size_t count);
/// Whether it is kModelFile or the name of a shard.
bool isModelFileName(std::string_view name);
/// Whether a checkpoint may have a file of that name.
bool isCheckpointFileName(std::string_view name);

/// The folder to read for a checkpoint called `dir`. InvalidArgument if there
/// is none.
StatusOr<std::string> findCheckpoint(const std::string &dir);

/// A folder that is to become the checkpoint `dir`. Removed by the destructor
/// unless it was put in place.
class StagingFolder {
public:
  /// Checks the destination, removes what killed writers left, and makes an
  /// empty folder beside it.
  static StatusOr<std::unique_ptr<StagingFolder>>
  create(const std::string &dir);
  ~StagingFolder();
  StagingFolder(const StagingFolder &) = delete;
  StagingFolder &operator=(const StagingFolder &) = delete;

  const std::string &path() const { return staging; }
  const std::string &destination() const { return target; }

  /// Syncs the folder and puts it in place of the destination.
  Status place(bool useExchange);

private:
  StagingFolder() = default;

  std::string target;  ///< without symbolic links
  std::string staging; ///< beside it
  int lock = -1;
  bool placed = false;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CHECKPOINT_CHECKPOINTFOLDER_H
