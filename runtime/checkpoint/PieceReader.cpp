//===- PieceReader.cpp - Reading a checkpoint piece by piece --------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CheckpointImpl.h"

#include "Finite.h"
#include "WeightTypes.h"
#include "optimus-support/Hash.h"

using namespace optrt;
using namespace optimus_support;

struct PieceReader::Impl {
  const Checkpoint::Impl &checkpoint;
  size_t piece;
  PieceExtent extent;
  size_t done = 0; ///< elements
  Hash64 hash;
  Status notFinite;              ///< the first element; damage says more
  std::vector<std::byte> stored; ///< of elements that are not F32

  StatusOr<std::span<const std::byte>> readStored(const ListedFile &listed,
                                                  std::span<float> elements);
  const ListedFile &listed() const {
    return *checkpoint.tensorFiles[extent.file];
  }
  bool hasChecksum() const {
    return listed().record.pieces && checkpoint.verifiesChecksums;
  }
};

PieceReader::PieceReader(const Checkpoint &checkpoint, size_t piece) {
  const auto [owner, number] = checkpoint.impl->resolve(piece);
  impl.reset(new Impl{*owner, number, owner->pieces[number], 0, {}, {}, {}});
}
PieceReader::~PieceReader() = default;

size_t PieceReader::numLeft() const {
  return impl->extent.numElements() - impl->done;
}

/// Reads the next elements of a checkpoint's piece. Returns their bytes in the
/// file, for the checksum.
StatusOr<std::span<const std::byte>>
PieceReader::Impl::readStored(const ListedFile &listed,
                              std::span<float> elements) {
  std::span<std::byte> bytes = std::as_writable_bytes(elements);
  if (listed.type != ElementType::F32) {
    stored.resize(elements.size() * extent.elementBytes);
    bytes = stored;
  }
  OPTRT_RETURN_IF_ERROR(listed.file.read(
      extent.offset + done * extent.elementBytes, bytes.data(), bytes.size()));
  if (listed.type != ElementType::F32)
    widen(listed.type, bytes, elements);
  return std::span<const std::byte>(bytes);
}

Status PieceReader::read(std::span<float> elements) {
  const CheckpointPieces &pieces = impl->checkpoint.pieces;
  const PieceExtent &extent = impl->extent;
  const ListedFile &listed = impl->listed();
  if (elements.size() > numLeft())
    return internal(concat("cannot read ", elements.size(),
                           " elements of a piece that has ", numLeft(),
                           " more"));
  std::span<const std::byte> stored; // for the checksum
  if (impl->checkpoint.weights)
    OPTRT_RETURN_IF_ERROR(impl->checkpoint.readElements(
        impl->piece, impl->done, elements, impl->stored));
  else {
    OPTRT_ASSIGN_OR_RETURN(stored, impl->readStored(listed, elements));
  }
  const float *bad = findNotFinite(elements);
  if (bad && impl->notFinite.ok()) {
    const TensorPart part = pieces.parts(
        impl->piece, impl->done + size_t(bad - elements.data()), 1)[0];
    impl->notFinite =
        dataLoss(concat(listed.file.path(), ": the tensor ",
                        pieces.tensor(part.tensor).info.name,
                        " has an element that is not finite (", *bad,
                        impl->checkpoint.weights
                            ? "): no model can be trained or evaluated with it"
                            : "): the run that wrote it had diverged; use "
                              "another checkpoint"));
  }
  impl->done += elements.size();
  if (impl->hasChecksum()) {
    impl->hash.update(stored.data(), stored.size());
    const uint64_t expected =
        listed.record.pieces->pieces[impl->piece - pieces.firstOf(extent.file)];
    if (numLeft() == 0 && impl->hash.digest() != expected)
      return isDamagedBetween(listed.file, impl->hash.digest(), extent.offset,
                              extent.offset + extent.bytes, expected);
  }
  return numLeft() == 0 ? impl->notFinite : okStatus();
}

Status PieceReader::skip(std::span<float> elements) {
  if (impl->hasChecksum())
    return read(elements);
  impl->done += elements.size();
  return numLeft() == 0 ? impl->notFinite : okStatus();
}
