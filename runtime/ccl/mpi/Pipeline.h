//===- Pipeline.h - A rank's place in a chain of ranks ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A large tensor goes along a chain of ranks in segments: a rank hands one on
// while it receives the next. So the whole takes about the time of one link for
// the tensor, however long the chain.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CCL_MPI_PIPELINE_H
#define OPTIMUS_RUNTIME_CCL_MPI_PIPELINE_H

#include "Exchange.h"

#include <array>
#include <cstdint>
#include <functional>

namespace optrt {

/// Receives segments from one rank, works on them, and sends them to another,
/// in order, kWindow at a time. Either end may be missing.
class Pipeline {
public:
  static constexpr int kNobody = -1;
  /// Segments under way in each direction. MPI moves them side by side, so that
  /// all would arrive late: one to move, and one so that the link is not idle.
  static constexpr int64_t kWindow = 2;

  struct Plan {
    MPI_Comm comm = MPI_COMM_NULL;
    int from = kNobody, fromTag = 0;
    int to = kNobody, toTag = 0;
    ElementUnit unit;
    int64_t count = 0;         ///< elements of the tensor
    int64_t segmentLength = 1; ///< elements of all segments but the last
    /// Where segment k is received to and sent from. If `inRing`, that is its
    /// place only until segment k + kWindow takes it.
    std::function<std::byte *(int64_t k)> place;
    bool inRing = true;
    /// What is done with a segment between receiving and sending it: elements
    /// [begin, begin + length) of the tensor at `place(k)`. False: not yet.
    std::function<bool(int64_t begin, int64_t length, std::byte *data)> process;
  };

  void begin(Plan newPlan);

  /// Does what can be done without waiting.
  Status advance();
  bool isDone() const {
    return processed == numSegments &&
           (plan.to == kNobody || sent == numSegments);
  }

private:
  int lengthOf(int64_t k) const;
  Status receive(bool &moved);
  Status send(bool &moved);

  Plan plan;
  int64_t numSegments = 0;
  // Each counts segments: posted receives, processed segments, posted sends,
  // complete sends.
  int64_t posted = 0, processed = 0, started = 0, sent = 0;
  std::array<MPI_Request, kWindow> receives, sends;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CCL_MPI_PIPELINE_H
