//===- CheckpointPieces.cpp - A checkpoint's files in pieces --------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-runtime/CheckpointPieces.h"

#include <algorithm>

using namespace optrt;

/// The entry of a list of first numbers, and their end, that a number is of.
static size_t entryOf(const std::vector<size_t> &firsts, size_t number) {
  return std::upper_bound(firsts.begin(), firsts.end(), number) -
         firsts.begin() - 1;
}

void CheckpointPieces::addFile(TensorFileExtent file) {
  const size_t first = file.dataBegin / file.pieceBytes;
  const size_t end = (file.bytes + file.pieceBytes - 1) / file.pieceBytes;
  firstPieces.push_back(size() +
                        (file.bytes > file.dataBegin ? end - first : 0));
  firstTensors.push_back(numTensors() + file.tensors.size());
  tensorFiles.push_back(std::move(file));
}

PieceExtent CheckpointPieces::operator[](size_t piece) const {
  const size_t number = entryOf(firstPieces, piece);
  const TensorFileExtent &file = tensorFiles[number];
  const size_t begin =
      (file.dataBegin / file.pieceBytes + piece - firstPieces[number]) *
      file.pieceBytes;
  const size_t offset = std::max(begin, file.dataBegin);
  return {number, offset,
          std::min(begin + file.pieceBytes, file.bytes) - offset,
          file.elementBytes};
}

const TensorExtent &CheckpointPieces::tensor(size_t tensor) const {
  const size_t file = entryOf(firstTensors, tensor);
  return tensorFiles[file].tensors[tensor - firstTensors[file]];
}

std::vector<TensorPart> CheckpointPieces::parts(size_t piece, size_t first,
                                                size_t count) const {
  const PieceExtent extent = (*this)[piece];
  const std::vector<TensorExtent> &tensors = tensorFiles[extent.file].tensors;
  size_t begin = extent.offset + first * extent.elementBytes;
  const size_t end = begin + count * extent.elementBytes;
  auto tensor = std::upper_bound(tensors.begin(), tensors.end(), begin,
                                 [](size_t byte, const TensorExtent &one) {
                                   return byte < one.offset;
                                 }) -
                1;
  std::vector<TensorPart> parts;
  for (; begin < end; ++tensor) {
    const size_t stop = std::min(end, tensor->offset + tensor->bytes);
    parts.push_back(
        {firstTensors[extent.file] + size_t(tensor - tensors.begin()),
         int64_t((begin - tensor->offset) / extent.elementBytes),
         int64_t((stop - begin) / extent.elementBytes)});
    begin = stop;
  }
  return parts;
}
