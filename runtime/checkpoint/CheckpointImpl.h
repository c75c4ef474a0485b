//===- CheckpointImpl.h - What an open checkpoint has -----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CHECKPOINT_CHECKPOINTIMPL_H
#define OPTIMUS_RUNTIME_CHECKPOINT_CHECKPOINTIMPL_H

#include "CheckpointState.h"
#include "WeightFiles.h"
#include "WeightMatch.h"
#include "optimus-runtime/Checkpoint.h"

#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace optrt {

/// Pieces of files that state.json knows no pieces of.
inline constexpr size_t kDefaultPieceBytes = 4 << 20;

/// A file that state.json lists.
struct ListedFile {
  FileRecord record;
  optimus_support::InputFile file;
  /// Of its tensors; F32 until the header is read.
  optimus_support::ElementType type = optimus_support::ElementType::F32;
};

/// Where a tensor lies.
struct StoredTensor {
  size_t number; ///< in the pieces
  CheckpointFile kind;
  size_t index;         ///< in the TensorInfos of that kind
  std::string fileName; ///< in the folder
};

struct Checkpoint::Impl {
  /// What makes a folder of weights a checkpoint: F32 elements, one after the
  /// other, of the tensors that the model has. Pieces are of these.
  struct Weights {
    std::vector<StoredWeight> stored;
    std::vector<size_t> numbers;      ///< in `stored`, by a piece's tensor
    std::vector<std::string> headers; ///< of the files, until they are read
    std::optional<TextFile> config;
    std::string base; ///< its folder
    std::optional<optimus_support::InputFile> index;
    std::vector<std::string> notes;
  };

  std::string path;
  std::string fingerprint;
  TrainingState state;
  std::vector<ListedFile> files; ///< sorted by name
  bool verifiesChecksums = true;
  CheckpointPieces pieces;
  std::vector<const ListedFile *> tensorFiles; ///< those that have pieces
  std::vector<TensorInfo> infos[2];            ///< by CheckpointFile
  std::unordered_map<std::string, StoredTensor> tensors;
  std::optional<Weights> weights;
  std::unique_ptr<Checkpoint> base; ///< of adapters alone: the rest
  std::vector<size_t> basePieces;   ///< the last pieces, by their numbers there

  Status openFiles(const CheckpointReaderOptions &options);
  Status openWeights(const CheckpointReaderOptions &options);
  Status readWeightHeaders();
  Status matchParameters(const ExpectedModel &expected,
                         std::span<const std::string> ignored);
  Status checkTie(const WeightMatch::Tie &tie) const;
  /// `stored` is memory for elements as the file has them.
  Status readWeight(size_t number, int64_t begin, std::span<float> elements,
                    std::vector<std::byte> &stored) const;
  Status readElements(size_t piece, size_t begin, std::span<float> elements,
                      std::vector<std::byte> &stored) const;
  Status addTensor(const TensorInfo &info, size_t number, CheckpointFile kind,
                   const ListedFile &listed);
  Status addTensors(ListedFile &listed);
  /// Checks the file of each tensor of an index; returns their number.
  StatusOr<size_t> checkIndex(const optimus_support::InputFile &file) const;
  /// Checks that an index names the file of each tensor.
  Status checkWholeIndex(const optimus_support::InputFile &file) const;

  /// A small file of this folder, or its base's: as state.json says, where that
  /// lists it.
  StatusOr<TextFile> readText(const std::string &folder,
                              std::string_view name) const;
  StatusOr<TextFile> readAdapterConfig() const {
    return readText(path, kAdapterConfigFile);
  }
  Status openBase(const CheckpointReaderOptions &options);
  /// Checks that the base has the weights of before.
  Status checkBase() const;
  /// Takes over what the base has besides adapters, once it is known.
  Status addBase();
  /// Whose piece it is, and its number there.
  std::pair<const Impl *, size_t> resolve(size_t piece) const;

  /// Null if the file has none of this name.
  const TensorInfo *find(CheckpointFile file, const std::string &name) const;
  StatusOr<const StoredTensor *> locate(const std::string &name) const;
  bool hasAdapters() const;
  /// Compares the configuration of its adapters with the library's.
  Status checkAdapter(const ExpectedModel &expected) const;
  std::string describeDifference(std::span<const TensorInfo> params) const;
};

/// The failure where bytes [begin, end) of a file have another checksum than
/// state.json says.
Status isDamagedBetween(const optimus_support::InputFile &file, uint64_t found,
                        size_t begin, size_t end, uint64_t expected);

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CHECKPOINT_CHECKPOINTIMPL_H
