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
//   state.json             step, seed, data position, order, identity of
//                          the data, hyperparameters, model hash, and size and
//                          XXH64 of every other file
//
// It does not depend on its writer's mesh. Writing is atomic: whenever the
// writer is killed, the folder holds the old or the new checkpoint, whole.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CHECKPOINT_H
#define OPTIMUS_RUNTIME_CHECKPOINT_H

#include "optimus-runtime/CheckpointFile.h"
#include "optimus-runtime/DataIdentity.h"
#include "optimus-runtime/Hyperparameters.h"
#include "optimus-runtime/ModelRecord.h"
#include "optimus-runtime/Status.h"
#include "optimus-support/FileLock.h"
#include "optimus-support/Shard.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace optrt {

/// The largest data position: far beyond the reach of reading, and small enough
/// to never overflow.
inline constexpr int64_t kMostDataPosition = int64_t(1) << 44;

/// The data that a run reads, and how it counts its position there.
struct DataRecord {
  std::string file; ///< its name, for people
  DataIdentity identity;
  int64_t sequence = 0; ///< tokens of a sequence
  int64_t batch = 0;    ///< sequences of a step, all microbatches together
  int64_t position = 0; ///< tokens read

  bool operator==(const DataRecord &) const = default;
};

/// Where in a training run a checkpoint was taken.
struct TrainingState {
  int64_t step = 0;         ///< optimizer steps done
  uint64_t seed = 0;        ///< of initial values and of the data's order
  int64_t dataPosition = 0; ///< sequences read: the next one's position
  std::string order;        ///< "shuffled" or "sequential"
  std::string modelHash;    ///< the manifest's
  /// What the run was trained with; earlier versions did not keep it.
  std::optional<Hyperparameters> hyperparameters;
  std::optional<DataRecord> data; ///< earlier versions did not keep it
  /// Of the library that wrote it; earlier versions did not keep it.
  std::optional<ModelRecord> model;

  bool operator==(const TrainingState &) const = default;
};

struct TensorInfo {
  std::string name;
  std::vector<int64_t> shape; ///< Hugging Face's

  bool operator==(const TensorInfo &) const = default;
};

/// What a library expects of a checkpoint.
struct ExpectedModel {
  std::string hash; ///< the manifest's
  std::vector<TensorInfo> params;
  std::vector<TensorInfo> states; ///< what the optimizer keeps
  ModelRecord record;
};

struct CheckpointWriterOptions {
  /// Most bytes of tensors in one model file; a larger tensor has its own.
  int64_t shardLimitBytes = 5'000'000'000;
  /// Put the new folder in place with one exchange where the file system can;
  /// without it, with two renames that readers know to look behind.
  bool useExchange = true;
};

/// Writes one checkpoint: declare every tensor, append to each in the order of
/// the declarations, commit. It holds nothing of them: what is appended goes to
/// the file and into its checksum.
///
/// Until commit, everything lies in a hidden folder beside the destination; a
/// writer destroyed earlier removes it, and a killed one leaves it to the next
/// writer to the same destination. One writer a destination at a time.
class CheckpointWriter {
public:
  /// Prepares to write to folder `dir`, making parents as needed. Refuses, with
  /// InvalidArgument, a destination that is a file, or a folder with anything
  /// in it besides a checkpoint's files (it would be deleted).
  static StatusOr<std::unique_ptr<CheckpointWriter>>
  create(const std::string &dir, CheckpointWriterOptions options = {});
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter &) = delete;
  CheckpointWriter &operator=(const CheckpointWriter &) = delete;

  /// Declares a tensor. Names are unique over both files. All tensors are
  /// declared before the first is written.
  Status addTensor(CheckpointFile file, const std::string &name,
                   std::span<const int64_t> shape);

  /// Writes the next elements of a tensor, row-major. It must be the first of
  /// its file that is not whole yet; the two files may take turns. Unavailable
  /// if the disk is full; InvalidArgument if an element is not finite: no run
  /// can go on from there.
  Status append(const std::string &name, std::span<const float> elements);

  /// Makes the checkpoint durable and puts it in place. Fails with Internal if
  /// some element was not written. Nothing but the destructor may follow.
  Status commit(const TrainingState &state);

private:
  struct Impl;
  explicit CheckpointWriter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

/// Keeps other runs from saving to `dir` while it lives, from this machine or,
/// where the file system has locks for that, another one. Makes parents of the
/// folder as needed.
///
/// Errors: InvalidArgument if a run saves there, and as for
/// CheckpointWriter::create().
StatusOr<optimus_support::FileLock> lockCheckpoint(const std::string &dir);

/// Whether a reader would find a checkpoint, whole or not, at `dir`: false
/// where there is no folder, or an empty one. InvalidArgument if it cannot be
/// told, or for something that is neither.
StatusOr<bool> hasCheckpoint(const std::string &dir);

struct CheckpointReaderOptions {
  /// Read every file once to compare its checksum.
  bool verifyChecksums = true;
};

/// An open checkpoint. Its tensors stay in its files until they are read, each
/// rank's part by itself. Nothing in the folder is trusted; damage is reported
/// as DataLoss, naming file and tensor. All const functions may be called from
/// several threads at once.
class Checkpoint {
public:
  static StatusOr<std::unique_ptr<Checkpoint>>
  open(const std::string &dir, CheckpointReaderOptions options = {});
  ~Checkpoint();
  Checkpoint(const Checkpoint &) = delete;
  Checkpoint &operator=(const Checkpoint &) = delete;

  /// open() in its steps, for processes that open one checkpoint together and
  /// verify it once (see openCheckpoint() in Session.h): reads state.json and
  /// opens the files that it lists, of the sizes it says; compares their
  /// checksums; and finds the tensors in them. Nothing else may be called
  /// before the last but what follows here.
  static StatusOr<std::unique_ptr<Checkpoint>>
  openFiles(const std::string &dir);
  Status verifyChecksums() const;
  Status readHeaders();
  /// Of state.json, and so of everything. Copies of a checkpoint share it.
  const std::string &fingerprint() const;
  /// Names the open files among those of this machine: what is verified for one
  /// process is so for all with the same.
  std::string identity() const;

  /// DataLoss if one of its files was written to since it was opened. After the
  /// last read.
  Status checkUnchanged() const;

  const std::string &path() const;
  const TrainingState &state() const;
  /// In the files' order.
  std::span<const TensorInfo> tensors(CheckpointFile file) const;

  /// Checks that its parameters are those of this model: the same function,
  /// every parameter and no other, each with the expected shape. Otherwise
  /// InvalidArgument, naming what differs.
  Status checkParameters(const ExpectedModel &expected) const;
  /// Checks that besides it has the state of this model's optimizer.
  Status checkModel(const ExpectedModel &expected) const;
  /// For people: the parts that could not be compared, and the differences
  /// without influence on the function. May be empty.
  std::vector<std::string> notesOn(const ExpectedModel &expected) const;

  /// Reads `piece`, from the local offset `begin` on, of the shard of `rank` of
  /// a tensor with this layout, padding zeroed: besides `piece` it takes 256
  /// KiB. DataLoss if there is no tensor of that name, or its file cannot be
  /// read, or an element is not finite.
  Status readShard(const std::string &name,
                   const optimus_support::ShardLayout &layout,
                   const optimus_support::Mesh &mesh, int64_t rank,
                   int64_t begin, std::span<float> piece) const;

  /// All elements of a tensor, row-major.
  StatusOr<std::vector<float>> readTensor(const std::string &name) const;

private:
  struct Impl;
  explicit Checkpoint(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CHECKPOINT_H
