//===- CommunicatorScratch.h - What communicators keep ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CORE_COMMUNICATORSCRATCH_H
#define OPTIMUS_RUNTIME_CORE_COMMUNICATORSCRATCH_H

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
    program.visitCollectives(
        [&](uint32_t number, const optrt_collective_desc &desc) {
          // 64 at most are in flight: the table was checked.
          Slot *free = slots[desc.axis].findFree();
          free->used = true;
          free->id = {number, 0};
          const std::vector<int64_t> needed =
              communicators[desc.axis]->bufferBytes(desc);
          free->bytes.resize(std::max(free->bytes.size(), needed.size()));
          for (size_t kind = 0; kind != needed.size(); ++kind)
            free->bytes[kind] = std::max(free->bytes[kind], needed[kind]);
        },
        [&](uint32_t number) {
          for (InFlightSlots<Slot> &ofAxis : slots)
            if (Slot *slot = ofAxis.find({number, 0}))
              slot->used = false;
        });
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

  const std::vector<Communicator *> &communicators;
  std::vector<InFlightSlots<Slot>> slots; ///< of each communicator
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CORE_COMMUNICATORSCRATCH_H
