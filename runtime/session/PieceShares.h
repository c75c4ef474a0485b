//===- PieceShares.h - The pieces of a checkpoint by process ----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// All processes compute the same shares from the same manifest, without
// messages about them.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_SESSION_PIECESHARES_H
#define OPTIMUS_RUNTIME_SESSION_PIECESHARES_H

#include "ShardExchange.h"
#include "optimus-runtime/CheckpointPieces.h"
#include "optimus-runtime/RankTeam.h"
#include "optimus-runtime/Status.h"

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace optrt {

/// Pieces of one process.
using PieceList = std::vector<std::size_t>;

PieceList allPieces(const CheckpointPieces &pieces);
std::size_t numElements(const CheckpointPieces &pieces, const PieceList &list);

/// What a file's tensor has of a buffer, or of none: it is rows of equally many
/// elements, of each of which these are `count`, from `begin` on.
struct TensorMember {
  int64_t buffer = BufferPart::kNoBuffer, begin = 0, count = 0;
};
/// All of a tensor's, which fill a row.
using TensorMembers = std::vector<TensorMember>;

/// The manifest's buffers in the tensors of pieces: a list for each tensor,
/// with kNoBuffer for those that `takes` refuses.
std::vector<TensorMembers> membersOf(const Manifest &manifest,
                                     const CheckpointPieces &pieces,
                                     const std::function<bool(int64_t)> &takes);

/// A checkpoint's pieces, slab by slab, as parts of buffers.
class PieceSlabs {
public:
  /// `tensors` has a list for each. The pieces must outlive it.
  PieceSlabs(const CheckpointPieces &pieces, std::vector<TensorMembers> tensors)
      : checkpoint(pieces), tensors(std::move(tensors)) {}

  const CheckpointPieces &pieces() const { return checkpoint; }
  /// What elements [begin, begin + count) of a piece are.
  Slab slab(std::size_t piece, std::size_t begin, std::size_t count) const;
  Slab whole(std::size_t piece) const {
    return slab(piece, 0, checkpoint[piece].numElements());
  }
  /// A buffer's element somewhere in a piece.
  BufferPart sampleOf(std::size_t piece) const;

  /// Hands out memory for a piece's slabs, one after the other: that of all its
  /// elements, or, without it, always the same.
  using Visit = std::function<Status(const Slab &, std::span<float>)>;
  Status forEach(std::size_t piece, const Visit &visit) const;
  Status forEach(std::size_t piece, std::span<float> all,
                 const Visit &visit) const;

private:
  const CheckpointPieces &checkpoint;
  const std::vector<TensorMembers> tensors;
};

/// Shares pieces out over processes: all have as many, give or take one, and
/// most have a piece with elements of one of their ranks: what is held need not
/// be sent.
void shareOut(const ShardExchange &exchange, const PieceSlabs &slabs,
              std::span<const int> processes, const PieceList &pieces,
              std::vector<PieceList> &lists);

/// Lets processes, and so many threads of each, begin far from one another: a
/// file is locked while it is written to, and others are not.
///
///   one process of two threads: 0 1 2 3 -> 0 2 1 3
///   two processes of a thread: 0 1 | 2 3 -> 0 1 | 3 2
void spreadOut(std::vector<PieceList> &lists, std::size_t threads);

/// Shares out, over these processes, the pieces of processes whose first reader
/// is `first`.
void shareOutReading(const ShardExchange &exchange, const PieceSlabs &slabs,
                     std::span<const int> readers, int first,
                     std::vector<PieceList> &lists);

/// Calls fn for each piece, on so many threads of all ranks at once, or on
/// fewer where the system gives no more. Returns the failure that came first;
/// the team does not take it for a rank's.
Status onEachPiece(RankTeam &team, int threadsOfRank, const PieceList &pieces,
                   const std::function<Status(std::size_t)> &fn);

/// All processes at once go through their pieces, a slab each at a time.
class SlabRounds {
public:
  /// Both must outlive it.
  SlabRounds(const PieceSlabs &slabs, const std::vector<PieceList> &lists);

  bool done() const;
  void advance();
  /// One a process; empty for those that are done.
  std::span<const Slab> slabs() const { return current; }
  /// Elements of a process's slab, and the piece that it is of.
  std::size_t countOf(int process) const { return cursors[process].count; }
  std::size_t pieceOf(int process) const {
    return lists[process][cursors[process].index];
  }
  bool beginsPiece(int process) const {
    return cursors[process].count > 0 && cursors[process].begin == 0;
  }

private:
  struct Cursor {
    std::size_t index = 0; ///< in the process's list
    std::size_t begin = 0, count = 0;
  };
  void look(std::size_t process);

  const PieceSlabs &all;
  const std::vector<PieceList> &lists;
  std::vector<Cursor> cursors;
  std::vector<Slab> current;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_SESSION_PIECESHARES_H
