//===- RankBuffers.cpp - The memory of one rank ---------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RankBuffers.h"

#include "checkpoint/WeightTypes.h"
#include "optimus-support/ElementType.h"
#include "optimus-support/Hash.h"
#include "optimus-support/Pages.h"
#include "optimus-support/Perturb.h"
#include "optimus-support/Program.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <type_traits>
#include <utility>

using namespace optrt;

StatusOr<DeviceMemory> optrt::allocateIn(Device &device, MemorySpace space,
                                         int64_t bytes, const char *purpose,
                                         const std::string &scratchFolder) {
  switch (space) {
  case MemorySpace::Device:
    return device.allocate(bytes, purpose);
  case MemorySpace::Host:
    return device.allocateOnHost(bytes, purpose);
  case MemorySpace::File:
    return device.allocateInFile(bytes, purpose, scratchFolder);
  }
  return internal(concat("unknown memory space ", int(space)));
}

StatusOr<RankBuffers>
RankBuffers::create(const Manifest &manifest, int64_t rank,
                    std::span<const int64_t> held, Device &device,
                    std::span<const MemorySpace> spaces,
                    const std::string &scratchFolder, int64_t lanes) {
  RankBuffers buffers;
  buffers.manifest = &manifest;
  buffers.rank = rank;
  buffers.lanes = lanes;
  buffers.device = &device;
  buffers.addresses.resize(manifest.buffers.size());
  auto spaceOf = [&](int64_t buffer) {
    return spaces.empty() ? MemorySpace::Device : spaces[buffer];
  };
  for (MemorySpace space :
       {MemorySpace::Device, MemorySpace::Host, MemorySpace::File}) {
    // Files are read and written by pages.
    auto sizeOf = [&](int64_t buffer) {
      const int64_t bytes = alignedSize(manifest.buffers[buffer].numBytes());
      return lanes * (space == MemorySpace::File
                          ? optimus_support::roundToPages(bytes)
                          : bytes);
    };
    int64_t bytes = 0;
    for (int64_t buffer : held)
      if (spaceOf(buffer) == space)
        bytes += sizeOf(buffer);
    if (bytes == 0 && space != MemorySpace::Device)
      continue;
    DeviceMemory &memory = buffers.memory[static_cast<size_t>(space)];
    OPTRT_ASSIGN_OR_RETURN(memory, allocateIn(device, space, bytes,
                                              space == MemorySpace::Device
                                                  ? "the parameters of a rank"
                                                  : "what a rank has offloaded",
                                              scratchFolder));
    char *next = memory.data();
    for (int64_t buffer : held) {
      if (spaceOf(buffer) != space)
        continue;
      buffers.addresses[buffer] = next;
      next += sizeOf(buffer);
    }
  }
  return buffers;
}

Status RankBuffers::reserveStage(int64_t bytes) {
  stagedMemory = {};
  if (bytes == 0)
    return okStatus();
  OPTRT_ASSIGN_OR_RETURN(
      stagedMemory,
      device->allocate(lanes * bytes, "the parameters that a rank prepares"));
  return okStatus();
}

Status RankBuffers::stage(std::span<const int64_t> buffers) {
  char *next = stagedMemory.data();
  for (int64_t buffer : buffers) {
    const Buffer &described = manifest->buffers[buffer];
    const int64_t bytes = lanes * alignedSize(described.numBytes());
    assert(next + bytes <= stagedMemory.data() + stagedMemory.size());
    if (!described.init)
      OPTRT_RETURN_IF_ERROR(device->clear(kCompute, next, bytes));
    staged.push_back(buffer);
    addresses[buffer] = next;
    next += bytes;
  }
  return okStatus();
}

void RankBuffers::unstage() {
  for (int64_t buffer : staged)
    addresses[buffer] = nullptr;
  staged.clear();
}

char *RankBuffers::at(int64_t buffer) const {
  char *first = static_cast<char *>(addresses[buffer]);
  return chosen == 0
             ? first
             : first + chosen * optimus_support::program::laneStride(
                                    manifest->buffers[buffer].numBytes());
}

Status RankBuffers::moved(int64_t index, Status status) const {
  if (status.ok())
    status = device->synchronize();
  return status.ok()
             ? status
             : status.withContext(concat("rank ", rank, ", the buffer \"",
                                         manifest->buffers[index].name, "\""));
}

template <typename Work>
Status RankBuffers::visit(int64_t index, Access access, Work work) const {
  if (void *direct = device->hostAddress(at(index)))
    return work(direct);
  // Words of eight bytes, so that they are aligned for any element.
  const int64_t bytes = manifest->buffers[index].numBytes();
  std::vector<int64_t> copy((bytes + 7) / 8);
  if (access != Access::Write)
    OPTRT_RETURN_IF_ERROR(
        moved(index, device->read(kCompute, copy.data(), at(index), bytes)));
  OPTRT_RETURN_IF_ERROR(work(copy.data()));
  if (access == Access::Read)
    return okStatus();
  return moved(index, device->write(kCompute, at(index), copy.data(), bytes));
}

Status RankBuffers::copyLane(RankBuffers &to, int64_t lane) const {
  for (size_t index = 0; index != addresses.size(); ++index) {
    if (!addresses[index])
      continue;
    // Both may be lanes of these buffers: `lane` is chosen after `from` is
    // known.
    OPTRT_RETURN_IF_ERROR(visit(index, Access::Read, [&](void *from) {
      const int64_t before = std::exchange(to.chosen, lane);
      Status status = to.visit(index, Access::Write, [&](void *into) {
        std::memcpy(into, from, manifest->buffers[index].numBytes());
        return okStatus();
      });
      to.chosen = before;
      return status;
    }));
  }
  return okStatus();
}

Status RankBuffers::fill(int64_t index, const FillPiece &work) {
  const int64_t elements = manifest->buffers[index].layout.numLocalElements();
  void *direct = device->hostAddress(at(index));
  if (direct && typeOf(index) == ElementType::F32)
    return work(0, {static_cast<float *>(direct), size_t(elements)});
  std::vector<float> piece;
  for (int64_t begin = 0; begin < elements; begin += kPiece) {
    piece.resize(std::min(elements - begin, kPiece));
    OPTRT_RETURN_IF_ERROR(work(begin, piece));
    OPTRT_RETURN_IF_ERROR(writeElements(index, begin, piece));
  }
  return okStatus();
}

Status RankBuffers::writeElements(int64_t index, int64_t begin,
                                  std::span<const float> elements) {
  const ElementType type = typeOf(index);
  const int64_t width = optimus_support::elementBytes(type);
  std::span<const std::byte> bytes = std::as_bytes(elements);
  std::vector<std::byte> narrowed;
  if (type != ElementType::F32) {
    narrowed.resize(elements.size() * size_t(width));
    narrow(type, elements, narrowed);
    bytes = narrowed;
  }
  if (void *direct = device->hostAddress(at(index))) {
    std::memcpy(static_cast<char *>(direct) + begin * width, bytes.data(),
                bytes.size());
    return okStatus();
  }
  return moved(index, device->write(kCompute, at(index) + begin * width,
                                    bytes.data(), int64_t(bytes.size())));
}

Status RankBuffers::initialize(int64_t index, uint64_t seed) {
  const Buffer &buffer = manifest->buffers[index];
  if (buffer.init->kind == optimus_support::InitKind::Zeros)
    return clear(index);
  return fill(index, [&](int64_t begin, std::span<float> piece) {
    optimus_support::initializePiece(*buffer.init, seed, buffer.layout,
                                     manifest->mesh, rank, begin, piece);
    return okStatus();
  });
}

StatusOr<bool> RankBuffers::perturb(int64_t index, uint64_t seed,
                                    uint32_t stream, int precision) {
  bool moved = false;
  const ElementType type = typeOf(index);
  OPTRT_RETURN_IF_ERROR(visit(index, Access::Update, [&](void *elements) {
    const std::span stored(static_cast<std::byte *>(elements),
                           manifest->buffers[index].numBytes());
    std::vector<float> widened;
    if (type != ElementType::F32) {
      widened.resize(manifest->buffers[index].layout.numLocalElements());
      widen(type, stored, widened);
      elements = widened.data();
    }
    moved = optimus_support::perturbShard(
        seed, stream, manifest->buffers[index].layout, manifest->mesh, rank,
        precision, static_cast<float *>(elements));
    if (type != ElementType::F32)
      narrow(type, widened, stored);
    return okStatus();
  }));
  return moved;
}

Status RankBuffers::setNumber(int64_t index, float value) {
  assert(manifest->buffers[index].isNumber());
  return visit(index, Access::Write, [&](void *element) {
    *static_cast<float *>(element) = value;
    return okStatus();
  });
}

StatusOr<float> RankBuffers::number(int64_t index) const {
  assert(manifest->buffers[index].isNumber());
  float value = 0;
  OPTRT_RETURN_IF_ERROR(visit(index, Access::Read, [&](void *element) {
    value = *static_cast<float *>(element);
    return okStatus();
  }));
  return value;
}

Status RankBuffers::setWords(int64_t index, std::span<const int32_t> words) {
  assert(manifest->buffers[index].numBytes() ==
         static_cast<int64_t>(words.size_bytes()));
  return visit(index, Access::Write, [&](void *elements) {
    std::copy(words.begin(), words.end(), static_cast<int32_t *>(elements));
    return okStatus();
  });
}

BatchRows::BatchRows(const Manifest &manifest, int64_t buffer, int64_t rank)
    : buffer(buffer) {
  const ShardLayout &layout = manifest.buffers[buffer].layout;
  count = layout.localShape[0];
  begin = count * manifest.mesh.combinedIndex(rank, layout.axes[0]);
  sequence = layout.shape[1];
  columns = layout.localShape[1];
  first = columns * manifest.mesh.combinedIndex(rank, layout.axes[1]);
  real = std::clamp<int64_t>(sequence - first, 0, columns);
}

Status RankBuffers::setRows(const BatchRows &to, const int32_t *rows,
                            int32_t padding) {
  return visit(to.buffer, Access::Write, [&](void *elements) {
    int32_t *row = static_cast<int32_t *>(elements);
    for (int64_t i = 0; i != to.count; ++i, row += to.columns) {
      std::copy_n(rows + i * to.sequence + (to.real ? to.first : 0), to.real,
                  row);
      std::fill_n(row + to.real, to.columns - to.real, padding);
    }
    return okStatus();
  });
}

bool RankBuffers::isOnHost(int64_t index) const {
  return device->hostAddress(at(index)) != nullptr;
}

template <typename Word>
StatusOr<const Word *> RankBuffers::read(int64_t index, int64_t begin,
                                         int64_t count,
                                         std::vector<Word> &copy) const {
  if constexpr (std::is_same_v<Word, float>)
    if (const ElementType type = typeOf(index); type != ElementType::F32) {
      const int64_t width = optimus_support::elementBytes(type);
      std::vector<uint8_t> bytes;
      OPTRT_ASSIGN_OR_RETURN(
          const uint8_t *stored,
          read<uint8_t>(index, begin * width, count * width, bytes));
      copy.resize(count);
      widen(type, std::as_bytes(std::span(stored, size_t(count * width))),
            copy);
      return static_cast<const float *>(copy.data());
    }
  if (void *direct = device->hostAddress(at(index)))
    return static_cast<const Word *>(direct) + begin;
  copy.resize(count);
  OPTRT_RETURN_IF_ERROR(
      moved(index, device->read(kCompute, copy.data(),
                                reinterpret_cast<Word *>(at(index)) + begin,
                                count * static_cast<int64_t>(sizeof(Word)))));
  return static_cast<const Word *>(copy.data());
}

template StatusOr<const uint8_t *>
RankBuffers::read(int64_t, int64_t, int64_t, std::vector<uint8_t> &) const;
template StatusOr<const uint16_t *>
RankBuffers::read(int64_t, int64_t, int64_t, std::vector<uint16_t> &) const;
template StatusOr<const float *> RankBuffers::read(int64_t, int64_t, int64_t,
                                                   std::vector<float> &) const;
template StatusOr<const uint64_t *>
RankBuffers::read(int64_t, int64_t, int64_t, std::vector<uint64_t> &) const;

Status RankBuffers::write(int64_t index, int64_t begin, int64_t count,
                          const std::function<void(float *)> &set) {
  void *direct = device->hostAddress(at(index));
  if (direct && typeOf(index) == ElementType::F32) {
    set(static_cast<float *>(direct) + begin);
    return okStatus();
  }
  std::vector<float> copy(count);
  set(copy.data());
  return writeElements(index, begin, copy);
}

Status RankBuffers::writeBytes(int64_t index, int64_t begin,
                               std::span<const uint8_t> bytes) {
  char *to = at(index) + begin;
  if (void *direct = device->hostAddress(to)) {
    std::memmove(direct, bytes.data(), bytes.size());
    return okStatus();
  }
  return moved(index, device->write(kCompute, to, bytes.data(),
                                    static_cast<int64_t>(bytes.size())));
}

Status RankBuffers::copyWithin(int64_t index, int64_t from, int64_t to,
                               int64_t count) {
  std::vector<uint8_t> copy;
  OPTRT_ASSIGN_OR_RETURN(const uint8_t *bytes,
                         read<uint8_t>(index, from, count, copy));
  return writeBytes(index, to, std::span(bytes, size_t(count)));
}

Status RankBuffers::clear(int64_t index) {
  return device->clear(kCompute, at(index),
                       manifest->buffers[index].numBytes());
}

StatusOr<uint64_t> RankBuffers::hash(int64_t index) const {
  // In pieces, so that no shard has a whole copy on the host.
  const int64_t bytes = manifest->buffers[index].numBytes();
  optimus_support::Hash64 hash;
  const char *const begin = at(index);
  if (const void *direct = device->hostAddress(at(index))) {
    hash.update(direct, bytes);
    return hash.digest();
  }
  std::vector<char> piece;
  constexpr int64_t kMostBytes = kPiece * int64_t(sizeof(float));
  for (int64_t done = 0; done != bytes; done += int64_t(piece.size())) {
    piece.resize(std::min(kMostBytes, bytes - done));
    OPTRT_RETURN_IF_ERROR(
        moved(index, device->read(kCompute, piece.data(), begin + done,
                                  int64_t(piece.size()))));
    hash.update(piece.data(), piece.size());
  }
  return hash.digest();
}
