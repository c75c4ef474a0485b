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

#include <algorithm>
#include <optional>
#include <vector>

namespace optrt {

/// The buffers that a rank's communicators keep for programs that run one after
/// the other. As they do, each collective takes the first place that is free,
/// whose buffers are as large as the largest that was there.
class CollectiveBuffers {
public:
  explicit CollectiveBuffers(const std::vector<Communicator *> &communicators)
      : communicators(communicators), places(communicators.size()) {}

  void add(const BoundProgram &program) {
    program.visitCollectives(
        [&](uint32_t number, const optrt_collective_desc &desc) {
          std::vector<Place> &list = places[desc.axis];
          auto free = std::find_if(list.begin(), list.end(),
                                   [](const Place &p) { return !p.taken; });
          if (free == list.end())
            free = list.insert(list.end(), Place());
          free->taken = number;
          const std::vector<int64_t> needed =
              communicators[desc.axis]->bufferBytes(desc);
          free->bytes.resize(std::max(free->bytes.size(), needed.size()));
          for (size_t kind = 0; kind != needed.size(); ++kind)
            free->bytes[kind] = std::max(free->bytes[kind], needed[kind]);
        },
        [&](uint32_t number) {
          for (std::vector<Place> &list : places)
            for (Place &place : list)
              if (place.taken == number)
                place.taken.reset();
        });
  }

  int64_t bytes() const {
    int64_t sum = 0;
    for (const std::vector<Place> &list : places)
      for (const Place &place : list)
        for (int64_t bytes : place.bytes)
          sum += bytes;
    return sum;
  }

private:
  struct Place {
    std::optional<uint32_t> taken;
    std::vector<int64_t> bytes;
  };

  const std::vector<Communicator *> &communicators;
  std::vector<std::vector<Place>> places; ///< of each communicator
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CORE_COLLECTIVEBUFFERS_H
