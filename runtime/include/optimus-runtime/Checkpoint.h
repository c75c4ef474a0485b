//===- Checkpoint.h - Saving and loading a model in training ----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A checkpoint is a folder:
//
//   model.safetensors      whole parameters, F32, under Hugging Face's names
//                          and shapes; beyond a limit (5 GB) instead
//                          model-0000i-of-0000n.safetensors and
//                          model.safetensors.index.json
//   optimizer.safetensors  exp_avg.NAME and exp_avg_sq.NAME
//   state.json             step, seed, data position, order, model hash, and
//                          size and XXH64 of every other file
//
// It does not depend on the mesh that wrote it. Writing is atomic: whenever the
// writer is killed, the folder holds the old or the new checkpoint, whole.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CHECKPOINT_H
#define OPTIMUS_RUNTIME_CHECKPOINT_H

#include "optimus-runtime/Status.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace optrt {

/// Where in a training run a checkpoint was taken.
struct TrainingState {
  int64_t step = 0;         ///< optimizer steps done
  uint64_t seed = 0;        ///< of initial values and of the data's order
  int64_t dataPosition = 0; ///< sequences read: steps times the global batch
  std::string order;        ///< "shuffled" or "sequential"
  std::string modelHash;    ///< the manifest's

  bool operator==(const TrainingState &) const = default;
};

struct TensorInfo {
  std::string name;
  std::vector<int64_t> shape; ///< Hugging Face's

  bool operator==(const TensorInfo &) const = default;
};

enum class CheckpointFile { Model, Optimizer };

/// The name of what an optimizer keeps of a parameter, in its file: "exp_avg"
/// and "wte.weight" make "exp_avg.wte.weight".
inline std::string stateName(std::string_view state, const std::string &param) {
  return std::string(state) + "." + param;
}

struct CheckpointWriterOptions {
  /// Most bytes of tensors in one model file; a larger tensor has its own.
  int64_t shardLimitBytes = 5'000'000'000;
  /// Put the new folder in place with one exchange where the file system can;
  /// without it, with two renames that readers know to look behind.
  bool useExchange = true;
};

/// Writes one checkpoint: declare every tensor, fill each, commit.
///
/// Until commit, everything lies in a hidden folder beside the destination; a
/// writer that is destroyed earlier removes it, and one that is killed leaves
/// it to the next writer to the same destination. One writer a destination at a
/// time.
class CheckpointWriter {
public:
  /// Prepares to write to folder `dir`, making parents as needed. Refuses, with
  /// InvalidArgument, a destination that is a file, or that is a folder with
  /// anything in it that is not a checkpoint's (it would be deleted).
  static StatusOr<std::unique_ptr<CheckpointWriter>>
  create(const std::string &dir, CheckpointWriterOptions options = {});
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter &) = delete;
  CheckpointWriter &operator=(const CheckpointWriter &) = delete;

  /// Declares a tensor. Names are unique over both files. All tensors are
  /// declared before the first is written.
  Status addTensor(CheckpointFile file, const std::string &name,
                   std::span<const int64_t> shape);

  /// Writes `count` elements of a tensor from its element `offset` on. May be
  /// called from several threads for disjoint elements.
  Status write(const std::string &name, int64_t offset, const float *data,
               int64_t count);

  /// The tensor's elements in the mapped file, to be filled in place, by
  /// several threads if so wished; they count as written. Valid until commit.
  StatusOr<std::span<float>> buffer(const std::string &name);

  /// Makes the checkpoint durable and puts it in place. Fails with Internal if
  /// some element was not written. Nothing but the destructor may follow.
  Status commit(const TrainingState &state);

private:
  struct Impl;
  explicit CheckpointWriter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

struct CheckpointReaderOptions {
  /// Read every file once to compare its checksum. With several processes, one
  /// of them is enough.
  bool verifyChecksums = true;
};

/// An open checkpoint, mapped into memory. Nothing in the folder is trusted;
/// damage is reported as DataLoss, naming file and tensor. All functions may be
/// called from several threads at once.
class Checkpoint {
public:
  static StatusOr<std::unique_ptr<Checkpoint>>
  open(const std::string &dir, CheckpointReaderOptions options = {});
  ~Checkpoint();
  Checkpoint(const Checkpoint &) = delete;
  Checkpoint &operator=(const Checkpoint &) = delete;

  const std::string &path() const;
  const TrainingState &state() const;
  /// In the files' order.
  std::span<const TensorInfo> tensors(CheckpointFile file) const;

  /// Checks that it is a checkpoint of this model: the same model hash, and
  /// every parameter with the expected shape, and so `states`, what the
  /// optimizer keeps of each. Otherwise InvalidArgument, naming what differs.
  Status checkModel(const std::string &modelHash,
                    std::span<const TensorInfo> params,
                    std::span<const std::string_view> states) const;

  /// All elements of a tensor, row-major; they live as long as the checkpoint.
  /// DataLoss if there is none of that name.
  StatusOr<std::span<const float>> readTensor(const std::string &name) const;

private:
  struct Impl;
  explicit Checkpoint(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CHECKPOINT_H
