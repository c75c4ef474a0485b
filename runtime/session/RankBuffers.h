//===- RankBuffers.h - The memory of one rank -------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_SESSION_RANKBUFFERS_H
#define OPTIMUS_RUNTIME_SESSION_RANKBUFFERS_H

#include "model/ProgramAgreement.h"
#include "optimus-runtime/Device.h"
#include "optimus-runtime/Manifest.h"

#include <array>
#include <functional>
#include <span>
#include <vector>

namespace optrt {

/// Memory in each space that there is.
using SpaceMemory = std::array<DeviceMemory, 3>;

/// Makes so many bytes in a space, for a purpose; in a file, in this folder.
StatusOr<DeviceMemory> allocateIn(Device &device, MemorySpace space,
                                  int64_t bytes, const char *purpose,
                                  const std::string &scratchFolder);

/// Elements of a shard that host code has at a time where it cannot reach the
/// device's memory: 4 MiB, which no plan of memory knows of.
constexpr int64_t kPiece = 1 << 20;

/// What a rank has of a batch in an i32 buffer [batch, sequence].
struct BatchRows {
  BatchRows(const Manifest &manifest, int64_t buffer, int64_t rank);

  int64_t buffer;
  int64_t begin, count; ///< rows of the global batch
  int64_t sequence;     ///< words of one of these
  /// Of its own rows, which begin at word `first` of a global one; behind
  /// `real` words they are beyond the sequence.
  int64_t columns, first, real;
};

/// The model's buffers that a rank holds, in its device's memory or outside.
/// Nothing else touches them, but for the functions of the library, which are
/// passed them.
class RankBuffers {
public:
  RankBuffers() = default;
  /// Makes the memory of the buffers with these indices, zeroed, each in its
  /// space, of which there is one a buffer of the manifest; none for the
  /// device's. Files are in `scratchFolder`. The manifest and the device must
  /// outlive it. With several lanes each buffer is there once a lane,
  /// laneStride() behind each other.
  static StatusOr<RankBuffers>
  create(const Manifest &manifest, int64_t rank, std::span<const int64_t> held,
         Device &device, std::span<const MemorySpace> spaces = {},
         const std::string &scratchFolder = "", int64_t lanes = 1);

  /// Takes memory of the device for so many bytes of buffers that are held for
  /// some time; 0 gives it back.
  Status reserveStage(int64_t bytes);
  /// Holds other buffers, too, in that memory, until unstage(). Those without
  /// an initial value are zero.
  Status stage(std::span<const int64_t> buffers);
  void unstage();

  bool holds(int64_t buffer) const { return addresses[buffer] != nullptr; }
  /// The address passed to functions for a held buffer: the first lane's.
  void *argument(int64_t buffer) const { return addresses[buffer]; }

  /// Of the lanes, the one that all below is about; at first the first.
  void chooseLane(int64_t lane) { chosen = lane; }
  /// Copies all of the chosen lane into a lane of a rank of the same session.
  Status copyLane(RankBuffers &to, int64_t lane) const;

  /// Sets a buffer to its initial value, which it has.
  Status initialize(int64_t buffer, uint64_t seed);
  /// Moves the elements of a buffer that are not 0 to a number of so many
  /// bits of precision beside them; false if there is none.
  StatusOr<bool> perturb(int64_t buffer, uint64_t seed, uint32_t stream,
                         int precision);

  Status setNumber(int64_t buffer, float value);
  StatusOr<float> number(int64_t buffer) const;
  /// Sets all elements of an i32 buffer.
  Status setWords(int64_t buffer, std::span<const int32_t> words);
  /// Sets a buffer from the rows of the batch that this rank has; what lies
  /// beyond the sequence becomes `padding`.
  Status setRows(const BatchRows &to, const int32_t *rows, int32_t padding);

  /// Whether host code reaches a buffer's memory: the two that follow then copy
  /// nothing.
  bool isOnHost(int64_t buffer) const;
  /// Words [begin, begin + count) of a shard, as elements or bytes: where they
  /// lie, or in a copy. As floats bf16 and f16 are widened.
  template <typename Word>
  StatusOr<const Word *> read(int64_t buffer, int64_t begin, int64_t count,
                              std::vector<Word> &copy) const;
  /// Lets host code set elements [begin, begin + count): where they lie, or in
  /// zeros that replace them, rounded to the nearest where they are narrower.
  Status write(int64_t buffer, int64_t begin, int64_t count,
               const std::function<void(float *)> &set);
  /// Sets bytes from byte `begin` on, which may be of the buffer itself.
  Status writeBytes(int64_t buffer, int64_t begin,
                    std::span<const uint8_t> bytes);
  /// Copies bytes of a buffer, of which both parts have so many.
  Status copyWithin(int64_t buffer, int64_t from, int64_t to, int64_t bytes);
  /// Sets all elements to zero.
  Status clear(int64_t buffer);

  /// A hash of what this rank has of a buffer of any type, padding included.
  StatusOr<uint64_t> hash(int64_t buffer) const;

private:
  /// Lets host code fill a buffer of floats: in place where it can reach the
  /// device's memory and they are f32, else in pieces of which one is in the
  /// host's at a time.
  using FillPiece =
      std::function<Status(int64_t begin, std::span<float> piece)>;
  Status fill(int64_t buffer, const FillPiece &work);
  /// Sets elements from `begin` on.
  Status writeElements(int64_t buffer, int64_t begin,
                       std::span<const float> elements);
  optimus_support::ElementType typeOf(int64_t buffer) const {
    return manifest->buffers[buffer].type;
  }
  /// Lets host code work on a buffer: in place where it can reach the device's
  /// memory, else on a copy that is read before and written back after, as
  /// `access` asks for.
  template <typename Work>
  Status visit(int64_t buffer, Access access, Work work) const;
  /// What became of a transfer of a buffer, once it is over.
  Status moved(int64_t buffer, Status status) const;

  /// Where the chosen lane has a held buffer.
  char *at(int64_t buffer) const;

  const Manifest *manifest = nullptr;
  int64_t rank = 0;
  int64_t lanes = 1, chosen = 0;
  Device *device = nullptr;
  SpaceMemory memory;
  DeviceMemory stagedMemory;
  std::vector<int64_t> staged;
  std::vector<void *> addresses; ///< one a buffer; null: not held
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_SESSION_RANKBUFFERS_H
