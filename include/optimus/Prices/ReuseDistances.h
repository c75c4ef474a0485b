//===- ReuseDistances.h - How long ago bytes were touched -------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_PRICES_REUSEDISTANCES_H
#define OPTIMUS_PRICES_REUSEDISTANCES_H

#include "optimus/Prices/CommandWork.h"

#include <algorithm>
#include <span>
#include <unordered_map>

namespace optimus_prices {

/// Follows the commands of a rank in their order.
///
///   a: write %x, 4 MiB    reuse of %x: infinite
///   b: write %y, 8 MiB
///   c: read %x, 4 MiB     reuse of %x: 8 + 4 MiB; a cache of 12 MiB has it
///
/// Where ranks take turns on a core, each of them touches as much while this
/// one waits as it has touched since its last wait. Of four, with a wait after
/// b, the reuse at c is 8 + 3 · 12 + 4 MiB.
class ReuseDistances {
public:
  /// So many ranks have a core.
  explicit ReuseDistances(double ranksOfCore = 1) : ranksOfCore(ranksOfCore) {}

  /// Says of what the next command touches how far back the last use was.
  /// `basesOf(i)` has the numbers of the buffers that the i-th may lie in.
  template <typename BasesOf>
  void advance(std::span<Touch> touches, BasesOf basesOf) {
    const double before = touched;
    for (const Touch &one : touches)
      touched += one.bytes;
    for (std::size_t i = 0; i != touches.size(); ++i)
      for (const uint64_t base : basesOf(i))
        if (auto found = lastUse.find(base); found != lastUse.end())
          touches[i].reuseBytes = std::min(
              touches[i].reuseBytes, before - found->second + touches[i].bytes);
    for (std::size_t i = 0; i != touches.size(); ++i)
      for (const uint64_t base : basesOf(i))
        lastUse[base] = touched;
  }

  /// The rank waits, and the others have the core.
  void wait() {
    touched += (ranksOfCore - 1) * (touched - touchedAtWait);
    touchedAtWait = touched;
  }

private:
  double ranksOfCore;
  /// By all ranks of the core, now and at the end of the last wait.
  double touched = 0, touchedAtWait = 0;
  /// What had been touched at the last use.
  std::unordered_map<uint64_t, double> lastUse;
};

} // namespace optimus_prices

#endif // OPTIMUS_PRICES_REUSEDISTANCES_H
