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
// killed one left behind, and removes it. Readers hold no lock: they start
// again when the folder was replaced before all its files were open; files that
// are open can be read to their end.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CHECKPOINT_CHECKPOINTFOLDER_H
#define OPTIMUS_RUNTIME_CHECKPOINT_CHECKPOINTFOLDER_H

#include "optimus-runtime/Checkpoint.h"
#include "optimus-runtime/Status.h"

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace optrt {

inline constexpr const char *kStateFile = "state.json";
inline constexpr const char *kModelFile = "model.safetensors";
inline constexpr const char *kModelIndexFile = "model.safetensors.index.json";
inline constexpr const char *kOptimizerFile = "optimizer.safetensors";
/// The parameters of adapters, in PEFT's form.
inline constexpr const char *kAdapterFile = "adapter_model.safetensors";

/// The remedy where a library has no adapters.
inline constexpr const char *kAdapterAdvice =
    "compile with --lora, or merge them: optimus-run convert --merge";

/// "model-00001-of-00003.safetensors"; `index` counts from 0.
std::string modelShardName(size_t index, size_t count);
/// Whether it is kModelFile or the name of a shard.
bool isModelFileName(std::string_view name);
/// config.json, a tokenizer's and generation's files: what Transformers wants
/// beside weights.
std::span<const std::string_view> companionFileNames();
bool isCompanionFileName(std::string_view name);
/// Whether a checkpoint may have a file of that name.
bool isCheckpointFileName(std::string_view name);

/// The folder to read for a checkpoint called `dir`, held open, so that a
/// reader can tell whether a writer replaced it while its files were opened.
class ReadFolder {
public:
  /// InvalidArgument if there is none.
  static StatusOr<ReadFolder> find(const std::string &dir);
  ReadFolder(ReadFolder &&other) noexcept;
  ~ReadFolder();

  const std::string &path() const { return found; }
  /// Whether the name still leads to this very folder: if so, all that was
  /// opened in path() since find() was opened in it.
  bool isCurrent() const;

private:
  ReadFolder() = default;

  std::string name, found;
  int handle = -1;
};

/// The hidden folder of this name in which another process of the job prepares
/// the checkpoint `dir`, or nothing where this one does not see it.
std::optional<std::string> findStagingFolder(const std::string &dir,
                                             const std::string &name);

/// A folder that is to become the checkpoint `dir`. Removed by the destructor
/// unless it was put in place.
class StagingFolder {
public:
  /// Checks the destination, removes what killed writers left, and makes an
  /// empty folder beside it, under a random name.
  static StatusOr<std::unique_ptr<StagingFolder>>
  create(const std::string &dir);
  ~StagingFolder();
  StagingFolder(const StagingFolder &) = delete;
  StagingFolder &operator=(const StagingFolder &) = delete;

  const std::string &path() const { return staging; }
  const std::string &destination() const { return target; }

  /// Unavailable where so many bytes are more than the file system has left, as
  /// far as it says: whoever writes learns it before the first of them.
  Status checkRoom(uint64_t bytes) const;

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
