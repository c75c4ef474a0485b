//===- RankBuffers.cpp - The memory of one rank ---------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RankBuffers.h"

#include "optimus-support/Perturb.h"

#include <algorithm>
#include <cassert>
#include <cstring>

using namespace optrt;

StatusOr<RankBuffers> RankBuffers::create(const Manifest &manifest,
                                          int64_t rank,
                                          std::span<const int64_t> held) {
  int64_t bytes = 0;
  for (int64_t buffer : held)
    bytes += alignedSize(manifest.buffers[buffer].numBytes());
  RankBuffers buffers;
  buffers.manifest = &manifest;
  buffers.rank = rank;
  OPTRT_ASSIGN_OR_RETURN(buffers.memory,
                         HostMemory::create(bytes, "the parameters of a rank"));
  buffers.addresses.resize(manifest.buffers.size());
  char *next = buffers.memory.data();
  for (int64_t buffer : held) {
    buffers.addresses[buffer] = next;
    next += alignedSize(manifest.buffers[buffer].numBytes());
  }
  return buffers;
}

void RankBuffers::initialize(int64_t index, uint64_t seed) {
  const Buffer &buffer = manifest->buffers[index];
  if (buffer.type == ElementType::F32)
    optimus_support::initializeShard(*buffer.init, seed, buffer.layout,
                                     manifest->mesh, rank,
                                     elements<float>(index));
  else // The manifest says zeros.
    std::memset(addresses[index], 0, buffer.numBytes());
}

bool RankBuffers::perturb(int64_t index, uint64_t seed, uint32_t stream) {
  return optimus_support::perturbShard(
      seed, stream, manifest->buffers[index].layout, manifest->mesh, rank,
      elements<float>(index));
}

void RankBuffers::setNumber(int64_t index, float value) {
  assert(manifest->buffers[index].isNumber());
  *elements<float>(index) = value;
}

float RankBuffers::number(int64_t index) const {
  assert(manifest->buffers[index].isNumber());
  return *elements<float>(index);
}

void RankBuffers::setWords(int64_t index, std::span<const int32_t> words) {
  assert(manifest->buffers[index].numBytes() ==
         static_cast<int64_t>(words.size_bytes()));
  std::copy(words.begin(), words.end(), elements<int32_t>(index));
}

void RankBuffers::setRows(int64_t index, const int32_t *rows, int32_t padding) {
  const ShardLayout &layout = manifest->buffers[index].layout;
  const int64_t sequence = layout.shape[1], columns = layout.localShape[1];
  int64_t first = manifest->mesh.combinedIndex(rank, layout.axes[1]) * columns;
  int64_t real = std::clamp<int64_t>(sequence - first, 0, columns);
  int32_t *to = elements<int32_t>(index);
  for (int64_t row = 0; row != layout.localShape[0]; ++row, to += columns) {
    std::copy_n(rows + row * sequence + (real ? first : 0), real, to);
    std::fill_n(to + real, columns - real, padding);
  }
}

Status RankBuffers::load(int64_t index, const Checkpoint &checkpoint) {
  const Buffer &buffer = manifest->buffers[index];
  return checkpoint.readShard(buffer.saved->name, buffer.layout, manifest->mesh,
                              rank, elements<float>(index));
}
