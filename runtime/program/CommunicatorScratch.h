//===- CommunicatorScratch.h - What communicators keep ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_PROGRAM_COMMUNICATORSCRATCH_H
#define OPTIMUS_RUNTIME_PROGRAM_COMMUNICATORSCRATCH_H

#include "BoundProgram.h"
#include "ccl/InFlightSlots.h"

#include <algorithm>
#include <memory>
#include <vector>

namespace optrt {

/// The buffers of a rank's communicators for programs that run one after the
/// other. A collective takes a slot as it does there, and a slot's buffers are
/// as large as the largest collective in it needs.
class CommunicatorScratch {
public:
  explicit CommunicatorScratch(const std::vector<Communicator *> &communicators)
      : communicators(communicators), slots(communicators.size()) {}

  void add(const BoundProgram &program) {
    // The second call begins with what the first one has carried.
    if (addCall(program))
      (void)addCall(program);
  }

  int64_t bytes() const {
    int64_t sum = 0;
    for (const InFlightSlots<Slot> &ofAxis : slots)
      for (const std::unique_ptr<Slot> &slot : ofAxis.all())
        for (int64_t bytes : slot->bytes)
          sum += bytes;
    return sum;
  }

private:
  struct Slot {
    bool used = false;
    CommandId id;
    std::vector<int64_t> bytes; ///< of each kind
  };

  /// What is carried goes by its number, in whatever function.
  static CommandId idOf(BoundProgram::CollectiveNumber number) {
    return number.carried != 0 ? CommandId{number.carried, 1}
                               : CommandId{number.command, 0};
  }

  void end(CommandId id) {
    for (InFlightSlots<Slot> &ofAxis : slots)
      if (Slot *slot = ofAxis.find(id))
        slot->used = false;
  }

  /// Returns whether it carries something.
  bool addCall(const BoundProgram &program) {
    bool carries = false;
    program.visitCollectives(
        [&](BoundProgram::CollectiveNumber number,
            const optrt_collective_desc &desc) {
          const CommandId id = idOf(number);
          carries |= number.carried != 0;
          // Other functions may carry the same.
          end(id);
          // 64 at most are in flight: the table was checked.
          Slot *free = slots[desc.axis].findFree();
          free->used = true;
          free->id = id;
          const std::vector<int64_t> needed =
              communicators[desc.axis]->bufferBytes(desc);
          free->bytes.resize(std::max(free->bytes.size(), needed.size()));
          for (size_t kind = 0; kind != needed.size(); ++kind)
            free->bytes[kind] = std::max(free->bytes[kind], needed[kind]);
        },
        [&](BoundProgram::CollectiveNumber number) { end(idOf(number)); });
    return carries;
  }

  const std::vector<Communicator *> &communicators;
  std::vector<InFlightSlots<Slot>> slots; ///< of each communicator
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_PROGRAM_COMMUNICATORSCRATCH_H
