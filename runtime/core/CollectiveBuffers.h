//===- CollectiveBuffers.h - What communicators keep ------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CORE_COLLECTIVEBUFFERS_H
#define OPTIMUS_RUNTIME_CORE_COLLECTIVEBUFFERS_H

#include "BoundProgram.h"
#include "ccl/InFlightSlots.h"

#include <algorithm>
#include <memory>
#include <vector>

namespace optrt {

/// The buffers that a rank's communicators keep for programs that run one after
/// the other. Collectives take places as they do there, and a place's buffers
/// are as large as the largest that was in it.
class CollectiveBuffers {
public:
  explicit CollectiveBuffers(const std::vector<Communicator *> &communicators)
      : communicators(communicators), places(communicators.size()) {}

  void add(const BoundProgram &program) {
    program.visitCollectives(
        [&](uint32_t number, const optrt_collective_desc &desc) {
          // 64 at most are in flight: the table was checked.
          Place *free = places[desc.axis].findFree();
          free->used = true;
          free->id = {number, 0};
          const std::vector<int64_t> needed =
              communicators[desc.axis]->bufferBytes(desc);
          free->bytes.resize(std::max(free->bytes.size(), needed.size()));
          for (size_t kind = 0; kind != needed.size(); ++kind)
            free->bytes[kind] = std::max(free->bytes[kind], needed[kind]);
        },
        [&](uint32_t number) {
          for (InFlightSlots<Place> &slots : places)
            if (Place *place = slots.find({number, 0}))
              place->used = false;
        });
  }

  int64_t bytes() const {
    int64_t sum = 0;
    for (const InFlightSlots<Place> &slots : places)
      for (const std::unique_ptr<Place> &place : slots.all())
        for (int64_t bytes : place->bytes)
          sum += bytes;
    return sum;
  }

private:
  struct Place {
    bool used = false;
    CommandId id;
    std::vector<int64_t> bytes; ///< of each kind
  };

  const std::vector<Communicator *> &communicators;
  std::vector<InFlightSlots<Place>> places; ///< of each communicator
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CORE_COLLECTIVEBUFFERS_H
