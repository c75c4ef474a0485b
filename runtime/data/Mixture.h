//===- Mixture.h - How data share the sequences of a run --------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// `a=0.7,b=0.3` makes blocks of 10 positions, the fewest for both shares: 7 are
// a's and 3 are b's. Each block has its own order, so every block has the
// shares exactly, and a position is found without those before it.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_DATA_MIXTURE_H
#define OPTIMUS_RUNTIME_DATA_MIXTURE_H

#include "optimus-runtime/Status.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace optrt {

/// A path, and its positions in a block.
struct MixturePart {
  std::string path;
  int64_t share = 1;

  bool operator==(const MixturePart &) const = default;
};

inline constexpr int64_t kMostMixtureBlock = 1'000'000;

/// The parts of PATH=WEIGHT,PATH=WEIGHT,…, or `text` as the only one: where
/// there is a file of this name, and where nothing in it is a weight.
///
/// InvalidArgument for weights that are no positive decimals, a path without
/// one or named twice, and a block of more than kMostMixtureBlock positions.
StatusOr<std::vector<MixturePart>> parseMixture(const std::string &text);

/// Finds the part that has a position of the whole, and its own position there.
class Mixture {
public:
  struct Place {
    std::size_t part;
    int64_t position;

    bool operator==(const Place &) const = default;
  };

  Mixture() = default;
  /// With a `seed` blocks are shuffled; else they have the parts in turn.
  Mixture(const std::vector<MixturePart> &parts, const uint64_t *seed);

  Place at(int64_t position) const;
  int64_t shareOf(std::size_t part) const {
    return begins[part + 1] - begins[part];
  }

private:
  /// First elements of the parts in a block, and the block's end.
  std::vector<int64_t> begins = {0, 1};
  bool isShuffled = false;
  uint64_t seed = 0;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_DATA_MIXTURE_H
