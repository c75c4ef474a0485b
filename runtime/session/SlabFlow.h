//===- SlabFlow.h - Slabs that all processes fill ---------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_SESSION_SLABFLOW_H
#define OPTIMUS_RUNTIME_SESSION_SLABFLOW_H

#include "PieceShares.h"
#include "SlabSignals.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <vector>

namespace optrt {

/// Puts the pieces of every process together, slab by slab, in its region of
/// shared memory. The processes of its machine write their elements there, each
/// as far ahead as there is room, and the others' come in messages. Nobody
/// waits for one process while another one could be served.
///
///   process 0   puts its elements of slabs 0 and 1 into process 1's region;
///               those of slab 2 have to wait until 1 has taken slab 0:
///               meanwhile it serves process 2, or takes a slab of its own
class SlabFlow {
public:
  /// How much of a process's pieces its region has at a time.
  enum class Keeps { SomeSlabs, All };

  /// The regions that a flow needs, one a process.
  static std::vector<std::size_t> regionBytes(const CheckpointPieces &pieces,
                                              std::span<const PieceList> lists,
                                              Keeps keeps);

  /// All must outlive it, and are alike in every process; `regions` are at
  /// least of these sizes, and new unless all is kept: counts begin at zero.
  SlabFlow(ShardExchange &exchange, const PieceSlabs &slabs,
           const std::vector<PieceList> &lists, SharedRegions &regions,
           Keeps keeps);

  /// Takes the slabs of this process's pieces, in order.
  using Take =
      std::function<Status(std::size_t piece, std::span<const float> slab)>;
  /// Moves all slabs. Where all are kept, `take` is not called, and what other
  /// processes give is there when they have returned, too. After a failure
  /// nothing is taken any more; the others get what they wait for. Collective.
  ///
  /// Errors: Unavailable when a process of the machine has ended, those of
  /// `take`, and those of ShardExchange::collect().
  Status run(const Take &take = {});

  /// Where all are kept: the pieces of this process, one after the other.
  std::span<float> kept();

private:
  struct Turn {
    std::size_t piece, count;
  };

  /// The memory of a process's slab in this round.
  std::span<float> slabOf(int process);
  /// Serves one process, or ends the round: false where that has to wait.
  bool advance(Status &failure);
  /// Whether this process's next slab has all elements.
  bool isFilled();

  ShardExchange &exchange;
  SharedRegions &regions;
  const bool keepsAll;
  const int processes, here;
  /// A process is done with slabs that it has taken, another one with those it
  /// has served.
  SlabSignals signals;

  SlabRounds rounds;
  uint64_t round = 0;
  int shift = 1;                    ///< to the process that is served next
  std::vector<std::size_t> offsets; ///< of slabs where all are kept, elements
  std::deque<Turn> own;             ///< served and not yet taken
  uint64_t taken = 0;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_SESSION_SLABFLOW_H
