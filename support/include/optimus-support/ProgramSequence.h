//===- ProgramSequence.h - Calls in the order of a sequence -----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The loops of a sequence, unrolled: a rank's calls, and the buffers that each
// is passed. Only of sequences that have passed check().
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_SUPPORT_PROGRAMSEQUENCE_H
#define OPTIMUS_SUPPORT_PROGRAMSEQUENCE_H

#include "optimus-support/Program.h"

#include <cstdint>
#include <string>
#include <vector>

namespace optimus_support::program {

/// Calls of a sequence with all turns of its loops, where a loop that the
/// caller counts is turned once.
inline constexpr int64_t kMaxCalls = int64_t(1) << 16;

/// A call on one turn of the loops around it.
struct SequencedCall {
  const CallT *call = nullptr;
  uint32_t number = 0; ///< of the call as written, from 0
  /// The counters of the loops around it, but of one that the caller counts.
  std::vector<uint32_t> counters = {};

  /// Which of a binding's buffers is passed. Only of what was checked.
  const std::string &bufferOf(const BindingT &binding) const;
  /// "call 2 of forward", "call 2 of forward on turn 0, 3".
  std::string name() const;
};

/// A part of a sequence: some calls, and then others as often as the caller
/// says.
struct SequencePart {
  std::vector<SequencedCall> once, repeated;
};

/// All parts of a sequence, in their order; only the last may repeat nothing.
std::vector<SequencePart> partsOf(const SequenceT &sequence);

/// The same with the caller's number of turns, at least 1.
std::vector<SequencedCall> callsOf(const SequenceT &sequence, int64_t times);

} // namespace optimus_support::program

#endif // OPTIMUS_SUPPORT_PROGRAMSEQUENCE_H
