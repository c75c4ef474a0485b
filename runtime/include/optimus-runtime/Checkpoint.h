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
//   model.safetensors      whole parameters, F32 or, if asked, BF16 or F16,
//                          under Hugging Face's names and shapes; beyond a
//                          limit (5 GB) instead
//                          model-0000i-of-0000n.safetensors and
//                          model.safetensors.index.json
//   adapter_model.safetensors  of these, the parameters of adapters, as PEFT
//                          has them
//   optimizer.safetensors  exp_avg.NAME and exp_avg_sq.NAME
//   state.json             step, seed, data position, order, identity of
//                          the data, hyperparameters, model hash, and size and
//                          XXH64 of every other file, of those with tensors
//                          piece by piece
//   config.json, ...       what Transformers opens the folder with: companions
//
// One of adapters alone has no model.safetensors: the rest of the model is in
// the folder that adapter_config.json names, and state.json has the hash of the
// weights there.
//
// A folder without state.json and optimizer.safetensors has weights alone:
// those of a model that another program wrote, in files of the same format,
// F32, BF16 or F16.
//
// A checkpoint does not depend on its writer's mesh. Writing is atomic:
// whenever the writer is killed, the folder holds the old or the new
// checkpoint, whole.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CHECKPOINT_H
#define OPTIMUS_RUNTIME_CHECKPOINT_H

#include "optimus-runtime/CheckpointFile.h"
#include "optimus-runtime/CheckpointPieces.h"
#include "optimus-runtime/DataIdentity.h"
#include "optimus-runtime/Hyperparameters.h"
#include "optimus-runtime/ModelRecord.h"
#include "optimus-runtime/Status.h"
#include "optimus-support/ElementType.h"
#include "optimus-support/FileLock.h"
#include "optimus-support/InputFile.h"
#include "optimus-support/Shard.h"

#include <cstdint>
#include <functional>
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
  /// Hash of whoever made the tokens of a store; empty where nobody says.
  std::string tokenizer = {};

  bool operator==(const DataRecord &) const = default;
};

/// The least held-out loss of a run so far.
struct BestEvaluation {
  double loss = 0; ///< finite
  int64_t step = 0;
  int64_t evaluationsSince = 0; ///< none of which was better

  bool operator==(const BestEvaluation &) const = default;
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
  std::optional<BestEvaluation> best = {}; ///< of a run that evaluates
  /// The names of the parameters that were trained; empty: all.
  std::vector<std::string> trained = {};
  /// Of a checkpoint of adapters alone: BaseWeights::hash.
  std::optional<uint64_t> base = {};

  bool operator==(const TrainingState &) const = default;
};

/// What a library expects of a checkpoint.
struct ExpectedModel {
  std::string hash; ///< the manifest's
  std::vector<TensorInfo> params;
  std::vector<TensorInfo> states; ///< what the optimizer keeps
  ModelRecord record;
  std::string config;       ///< the library's config.json; may be empty
  std::string adapter = {}; ///< its adapter_config.json, likewise
};

/// A model's configuration, in the fields of Transformers.
inline constexpr const char *kConfigFile = "config.json";

/// The configuration of adapters, in the fields of PEFT.
inline constexpr const char *kAdapterConfigFile = "adapter_config.json";

/// Before the names of adapters' parameters.
inline constexpr std::string_view kAdapterPrefix = "base_model.model.";

/// Whether a parameter of this name is an adapter's.
inline bool isAdapterTensor(std::string_view name) {
  return name.starts_with(kAdapterPrefix);
}

/// The same adapter_config.json, laid out for people, with the folder of the
/// weights that it is beside.
std::string withBaseModel(const std::string &adapterConfig,
                          const std::string &folder);

/// Weights that adapters are beside.
struct BaseWeights {
  std::string folder; ///< an absolute path
  /// XXH64 of their names, types, shapes, and values: of 16 stretches of 4 KiB
  /// of each tensor, spread evenly, or of all of a small one. It does not
  /// depend on how they lie in files.
  uint64_t hash = 0;
};

/// A small file beside the tensors, for programs that open the folder as a
/// model: config.json, a tokenizer's.
struct CompanionFile {
  std::string name, text;

  bool operator==(const CompanionFile &) const = default;
};

struct CheckpointWriterOptions {
  /// Of the parameters: F32, or BF16 or F16, rounded to the nearest, ties to
  /// even. The optimizer's state is F32.
  optimus_support::ElementType modelType = optimus_support::ElementType::F32;
  /// Most bytes of tensors in one model file; a larger tensor has its own.
  int64_t shardLimitBytes = 5'000'000'000;
  /// Bytes of a piece: a multiple of four.
  size_t pieceBytes = 4 << 20;
  /// Put the new folder in place with one exchange where the file system can;
  /// without it, with two renames that readers know to look behind.
  bool useExchange = true;
};

/// Writes one checkpoint, alone or together with other processes that see the
/// same folder: where everything lies follows from the tensors' shapes, so each
/// writes pieces of its own, side by side.
///
///   in one process                        in the others
///   create(), addTensor() ..., begin()
///                                         addTensor() ..., layOut()
///                                         join(folder())
///   PieceWriter of each of its pieces     the same
///   sync()                                sync()
///   setChecksum() of the others' pieces
///   commit()
///
/// Until commit, everything lies in a hidden folder beside the destination; a
/// writer destroyed earlier removes it, and a killed one leaves it to the next
/// writer to the same destination. One that commits a destination at a time.
class CheckpointWriter {
public:
  /// Of a process that joins another's; it has no folder yet.
  explicit CheckpointWriter(CheckpointWriterOptions options = {});
  /// Prepares to write to folder `dir`, making parents as needed. Refuses, with
  /// InvalidArgument, a destination that is a file, or a folder with anything
  /// in it besides a checkpoint's files (it would be deleted).
  static StatusOr<std::unique_ptr<CheckpointWriter>>
  create(const std::string &dir, CheckpointWriterOptions options = {});
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter &) = delete;
  CheckpointWriter &operator=(const CheckpointWriter &) = delete;

  /// Declares a tensor. Names are unique over both files. All tensors are
  /// declared before begin() or layOut().
  Status addTensor(CheckpointFile file, const std::string &name,
                   std::span<const int64_t> shape);

  /// Adds a companion: of the process that commits, before it does. A
  /// config.json gets the type of the parameters.
  Status addFile(CompanionFile file);

  /// Decides where everything lies. InvalidArgument for more model files than a
  /// reader opens.
  Status layOut();
  /// The same, and makes all files, with their headers. Unavailable if the disk
  /// has no room for them.
  Status begin();
  /// The name of the hidden folder: no other has it, on any machine.
  std::string folder() const;
  /// Opens the files that another process has made in a hidden folder of this
  /// name beside `dir`. False where this process sees no such folder or may not
  /// write to it.
  bool join(const std::string &dir, const std::string &folder);

  /// After begin() or layOut(): the model's tensors, then the optimizer's, each
  /// in the order of their declarations.
  const CheckpointPieces &pieces() const;

  /// Waits until all that was written through this object is on the disk.
  Status sync();
  uint64_t checksum(size_t piece) const;
  void setChecksum(size_t piece, uint64_t checksum);

  /// Makes the checkpoint durable and puts it in place. Fails with Internal if
  /// the checksum of some piece is not known. Nothing but the destructor may
  /// follow.
  Status commit(const TrainingState &state);

private:
  friend class PieceWriter;
  struct Impl;
  std::unique_ptr<Impl> impl;
};

/// Writes a piece from its first element to its last, to space that is reserved
/// for all of it. Several write different pieces at once.
class PieceWriter {
public:
  PieceWriter(CheckpointWriter &writer, size_t piece);
  ~PieceWriter();

  size_t numLeft() const;
  /// Writes the next elements. Unavailable if the disk is full; InvalidArgument
  /// if an element is not finite, or not once it is rounded: no run can go on
  /// from there. A failure is final for the whole checkpoint.
  Status append(std::span<const float> elements);

private:
  struct Impl;
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
  /// Compare the checksums of what is read.
  bool verifyChecksums = true;
  /// Of adapters alone: the folder with the rest of the model; empty: the one
  /// that their adapter_config.json names.
  std::string base = {};
  /// Without it only state() and fingerprint() are there.
  bool opensBase = true;
};

/// An open checkpoint. Its tensors stay in its files until they are read, piece
/// by piece, and each piece is verified as it is read. Nothing in the folder is
/// trusted; damage is reported as DataLoss, naming file and tensor. All const
/// functions may be called from several threads at once.
class Checkpoint {
public:
  static StatusOr<std::unique_ptr<Checkpoint>>
  open(const std::string &dir, CheckpointReaderOptions options = {});
  ~Checkpoint();
  Checkpoint(const Checkpoint &) = delete;
  Checkpoint &operator=(const Checkpoint &) = delete;

  /// open() in its steps, for processes that open one checkpoint together (see
  /// openCheckpoint() in Session.h): reads state.json and opens the files that
  /// it lists, of the sizes it says; compares the checksums of files without
  /// pieces, as of earlier versions, and reads these whole; and finds the
  /// tensors in them. Nothing else may be called before the last but what
  /// follows here.
  static StatusOr<std::unique_ptr<Checkpoint>>
  openFiles(const std::string &dir, CheckpointReaderOptions options = {});
  Status verifyFiles() const;
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
  /// Whether it is a folder of weights alone: its state() is that of step 0,
  /// and it has no pieces before findParameters().
  bool hasWeightsAlone() const;
  /// Whether its parameters, or those beside its adapters, are of such a
  /// folder.
  bool readsWeights() const;
  /// False before findParameters() where it must be called to read anything.
  bool knowsParameters() const;
  const TrainingState &state() const;
  /// In the files' order.
  std::span<const TensorInfo> tensors(CheckpointFile file) const;

  /// Checks that its parameters are those of this model: the same function,
  /// every parameter and no other, each with the expected shape. Otherwise
  /// InvalidArgument, naming what differs.
  Status checkParameters(const ExpectedModel &expected) const;
  /// The same of a checkpoint. Of weights it finds the model's parameters among
  /// the tensors, to be read as F32 under the model's names: with or without
  /// the prefix of a class around it; the first rows of a longer table of
  /// positions. A tied head that is there must equal its table. InvalidArgument
  /// for tensors without a parameter, unless they match one of the patterns
  /// `ignored`, and where config.json differs from the model's function. To be
  /// called before weights are read.
  Status findParameters(const ExpectedModel &expected,
                        std::span<const std::string> ignored = {});
  /// Finds the parameters, and checks that besides it has the state of this
  /// model's optimizer.
  Status findModel(const ExpectedModel &expected,
                   std::span<const std::string> ignored = {});
  /// For people: the parts that could not be compared, and the differences
  /// without influence on the function. May be empty.
  std::vector<std::string> notesOn(const ExpectedModel &expected) const;

  const CheckpointPieces &pieces() const;

  /// All parameters that are no adapter's, where they lie.
  StatusOr<BaseWeights> baseWeights() const;

  /// The adapter_config.json of its adapters; empty where it has none.
  StatusOr<std::string> readAdapterConfig() const;

  /// The companions that lie in the folder, or beside the rest of the model,
  /// verified where state.json lists them. DataLoss for one of more than 128
  /// MiB.
  StatusOr<std::vector<CompanionFile>> readCompanions() const;

  /// Visits what the model is made of where it lies: each tensor with its type,
  /// as "BF16", its file and its place there. Of weights without
  /// findParameters(), all tensors.
  void forEachWeight(
      const std::function<void(const TensorInfo &, const std::string &,
                               const optimus_support::InputFile &,
                               size_t offset)> &visit) const;

  /// Whether it has a tensor. Adapters may be missing, and are drawn then.
  bool has(const std::string &name) const;

  /// All elements of a tensor, row-major.
  StatusOr<std::vector<float>> readTensor(const std::string &name) const;

private:
  friend class PieceReader;
  struct Impl;
  explicit Checkpoint(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

/// Reads a piece from its first element to its last.
class PieceReader {
public:
  PieceReader(const Checkpoint &checkpoint, size_t piece);
  ~PieceReader();

  size_t numLeft() const;
  /// Reads the next elements: at most numLeft(). DataLoss if the file cannot be
  /// read or, with the last element, if the piece has another checksum than
  /// state.json says, or an element that is not finite.
  Status read(std::span<float> elements);
  /// Passes over as many elements, which are read for a checksum alone.
  Status skip(std::span<float> elements);

private:
  struct Impl;
  std::unique_ptr<Impl> impl;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CHECKPOINT_H
