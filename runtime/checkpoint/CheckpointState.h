//===- CheckpointState.h - The state.json of a checkpoint -------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CHECKPOINT_CHECKPOINTSTATE_H
#define OPTIMUS_RUNTIME_CHECKPOINT_CHECKPOINTSTATE_H

#include "optimus-runtime/Checkpoint.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace optrt {

/// XXH64 of a tensor file's header, and of each piece of its data.
struct PieceChecksums {
  size_t headerBytes = 0; ///< all that lies before the data
  uint64_t header = 0;
  size_t pieceBytes = 0; ///< TensorFileExtent::pieceBytes
  std::vector<uint64_t> pieces;
};

/// What state.json says of another file.
struct FileRecord {
  std::string name;
  int64_t size = 0;
  uint64_t hash = 0; ///< XXH64 of all of it, where it is not in pieces
  /// Of files with tensors; earlier versions have none.
  std::optional<PieceChecksums> pieces = {};
};

/// The text of state.json. It ends with its own checksum: the XXH64 of its
/// other members, written compactly with sorted keys.
std::string formatState(const TrainingState &state,
                        const std::vector<FileRecord> &files);

struct ParsedState {
  TrainingState state;
  std::vector<FileRecord> files; ///< sorted by name
};

/// The inverse. Fails with DataLoss; `path` is for messages. The files' names
/// are ones that a checkpoint may have.
StatusOr<ParsedState> parseState(std::string_view text,
                                 const std::string &path);

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CHECKPOINT_CHECKPOINTSTATE_H
