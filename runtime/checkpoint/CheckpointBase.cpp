//===- CheckpointBase.cpp - Adapters and the weights beside them ----------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A checkpoint of adapters alone owns another one, its base, whose tensors and
// pieces follow its own.
//
//===----------------------------------------------------------------------===//

#include "CheckpointImpl.h"

#include "CheckpointFolder.h"
#include "WeightFiles.h"
#include "WeightTypes.h"
#include "optimus-support/Hash.h"
#include "optimus-support/Shard.h"

#include <algorithm>
#include <filesystem>
#include <map>

using namespace optrt;
using namespace optimus_support;

/// Of a tensor that is too large to be hashed whole.
static constexpr size_t kStretches = 16, kStretchBytes = 4096;

/// Of a tensor's bytes, with its type and shape.
static StatusOr<uint64_t> hashTensor(const TensorInfo &info,
                                     const std::string &type,
                                     const InputFile &file, size_t offset) {
  const size_t bytes = size_t(numElements(info.shape) * bytesOfElement(type));
  std::vector<std::byte> part(std::min(bytes, kStretches * kStretchBytes));
  if (part.size() == bytes) {
    OPTRT_RETURN_IF_ERROR(file.read(offset, part.data(), bytes));
  } else {
    // The first stretch is at the begin, the last at the end.
    for (size_t i = 0; i != kStretches; ++i)
      OPTRT_RETURN_IF_ERROR(
          file.read(offset + (bytes - kStretchBytes) / (kStretches - 1) * i,
                    part.data() + i * kStretchBytes, kStretchBytes));
  }
  Hash64 hash;
  const std::string kind = concat(type, " ", shapeToString(info.shape), "\n");
  hash.update(kind.data(), kind.size());
  hash.update(part.data(), part.size());
  return hash.digest();
}

StatusOr<BaseWeights> Checkpoint::baseWeights() const {
  if (impl->base)
    return impl->base->baseWeights();
  // Sorted by name, whatever the files' order.
  std::map<std::string, uint64_t> hashes;
  Status failure;
  auto add = [&](const TensorInfo &info, const std::string &type,
                 const InputFile &file, size_t offset) {
    if (isAdapterTensor(info.name) || !failure.ok())
      return;
    StatusOr<uint64_t> hash = hashTensor(info, type, file, offset);
    if (hash.ok())
      hashes[info.name] = *hash;
    else
      failure = hash.status();
  };
  // Under the files' names, whichever model has been found in them.
  if (impl->weights)
    for (const StoredWeight &weight : impl->weights->stored)
      add(weight.info, weight.type, impl->files[weight.file].file,
          weight.offset);
  else
    forEachWeight(add);
  OPTRT_RETURN_IF_ERROR(failure);
  std::string all;
  for (const auto &[name, hash] : hashes)
    all += concat(name, " ", hashToHex(hash), "\n");
  const std::string &folder = impl->weights ? impl->weights->base : impl->path;
  std::error_code error;
  const std::filesystem::path path = std::filesystem::absolute(folder, error);
  return BaseWeights{error ? folder : path.lexically_normal().string(),
                     hash64(all)};
}

Status Checkpoint::Impl::openBase(const CheckpointReaderOptions &options) {
  OPTRT_ASSIGN_OR_RETURN(
      const std::string folder,
      findBase(path, options.base, [&] { return readAdapterConfig(); }));
  if (folder == path)
    return dataLoss(concat(path, " is damaged: ", kStateFile,
                           " says that it has adapters alone, and it has ",
                           kModelFile));
  OPTRT_ASSIGN_OR_RETURN(
      base, Checkpoint::openFiles(
                folder, {.verifyChecksums = options.verifyChecksums}));
  return okStatus();
}

Status Checkpoint::Impl::checkBase() const {
  OPTRT_ASSIGN_OR_RETURN(const BaseWeights found, base->baseWeights());
  if (found.hash == state.base)
    return okStatus();
  return invalidArgument(
      concat("the adapters in ", path,
             " were trained beside weights with hash ", hashToHex(*state.base),
             ", and those in ", base->path(), " have ", hashToHex(found.hash),
             "; name the folder with the weights that they were trained "
             "beside: --base"));
}

Status Checkpoint::Impl::addBase() {
  const Impl &other = *base->impl;
  const CheckpointPieces &theirs = other.pieces;
  for (size_t i = 0; i != theirs.files().size(); ++i) {
    const TensorFileExtent &file = theirs.files()[i];
    if (file.kind != CheckpointFile::Model || file.tensors.empty() ||
        isAdapterTensor(file.tensors.front().info.name))
      continue;
    size_t number = pieces.numTensors();
    for (const TensorExtent &tensor : file.tensors)
      OPTRT_RETURN_IF_ERROR(
          addTensor(tensor.info, number++, file.kind, *other.tensorFiles[i]));
    for (size_t piece = theirs.firstOf(i); piece != theirs.firstOf(i + 1);
         ++piece)
      basePieces.push_back(piece);
    pieces.addFile(file);
  }
  return okStatus();
}

std::pair<const Checkpoint::Impl *, size_t>
Checkpoint::Impl::resolve(size_t piece) const {
  const size_t numOwn = pieces.size() - basePieces.size();
  if (piece < numOwn)
    return {this, piece};
  return {base->impl.get(), basePieces[piece - numOwn]};
}
