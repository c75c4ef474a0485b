//===- CheckpointPieces.h - A checkpoint's files in pieces ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The data of the files with tensors is divided into pieces of a fixed size:
// the same ones whoever writes or reads them, and on whatever mesh. Each is
// written by one process, read by one, and has a checksum of its own.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CHECKPOINTPIECES_H
#define OPTIMUS_RUNTIME_CHECKPOINTPIECES_H

#include "optimus-runtime/CheckpointFile.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace optrt {

struct TensorInfo {
  std::string name;
  std::vector<int64_t> shape; ///< Hugging Face's

  bool operator==(const TensorInfo &) const = default;
};

/// A tensor's bytes in a file, counted from the file's start.
struct TensorExtent {
  TensorInfo info;
  size_t offset = 0; ///< multiple of an element's bytes
  size_t bytes = 0;
};

/// A file with tensors, which begin at `dataBegin` and have no gaps.
struct TensorFileExtent {
  CheckpointFile kind = CheckpointFile::Model;
  size_t dataBegin = 0, bytes = 0;
  /// A piece ends where the file's offset is a multiple of this.
  size_t pieceBytes = 0;
  std::vector<TensorExtent> tensors; ///< in the order of their offsets
  size_t elementBytes = sizeof(float); ///< of all of them
};

/// Elements of a tensor that lie together in a file.
struct TensorPart {
  size_t tensor = 0; ///< counted over all files
  int64_t begin = 0, count = 0;

  bool operator==(const TensorPart &) const = default;
};

/// A piece's bytes in its file.
struct PieceExtent {
  size_t file = 0; ///< in the order in which they were added
  size_t offset = 0, bytes = 0;
  size_t elementBytes = sizeof(float);

  size_t numElements() const { return bytes / elementBytes; }
};

/// The pieces of all files, one file after the other.
class CheckpointPieces {
public:
  void addFile(TensorFileExtent file);

  const std::vector<TensorFileExtent> &files() const { return tensorFiles; }
  size_t size() const { return firstPieces.back(); }
  PieceExtent operator[](size_t piece) const;
  /// The number of a file's first piece; of the last file's end, size().
  size_t firstOf(size_t file) const { return firstPieces[file]; }

  size_t numTensors() const { return firstTensors.back(); }
  const TensorExtent &tensor(size_t tensor) const;
  /// What elements [begin, begin + count) of a piece are.
  std::vector<TensorPart> parts(size_t piece, size_t begin, size_t count) const;

private:
  std::vector<TensorFileExtent> tensorFiles;
  std::vector<size_t> firstPieces{0}, firstTensors{0}; ///< and the end
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CHECKPOINTPIECES_H
