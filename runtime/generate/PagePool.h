//===- PagePool.h - The pages of a cache that texts hold --------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Slots on the same ranks have pages in common: a pool for each such group. A
// page has as many holders as sequences with it in their lists. Pages are
// promised when a text is let in, and taken when it comes to them, so that no
// text ever waits for one.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_GENERATE_PAGEPOOL_H
#define OPTIMUS_RUNTIME_GENERATE_PAGEPOOL_H

#include "optimus-runtime/Generator.h"

#include <map>

namespace optrt {

class PagePool {
public:
  /// Without pages if the cache has none. Beside them so many may be in host
  /// memory, of each group alike.
  explicit PagePool(const CacheExtents &cache, int64_t hostPages = 0);

  int64_t groupOf(int64_t slot) const { return slot / slotsOfGroup; }
  /// Pages that the slots of a group have on their ranks.
  int64_t numPages(int64_t group) const { return groups[group].pages; }
  int64_t numFree(int64_t group) const {
    return std::ssize(groups[group].free);
  }
  int64_t numFreeOnHost(int64_t group) const {
    return std::ssize(groups[group].freeOnHost);
  }
  /// Free pages of a group, on the host too, but for those promised.
  int64_t available(int64_t group) const {
    return numFree(group) + numFreeOnHost(group) - numSpare -
           groups[group].promised;
  }
  /// Changes what is promised of a group.
  void promise(int64_t group, int64_t pages) {
    groups[group].promised += pages;
  }
  /// Of those that are promised: the caller is its only holder.
  int32_t take(int64_t group);
  /// Adds a holder to a page with some.
  void hold(int32_t page) { ++holders[page]; }
  /// Removes one; true where it was the last, and the page is free.
  bool drop(int32_t page);

  /// Pages on the host have numbers below kNoPage, and holders as others.
  static bool isOnHost(int32_t page) { return page < kNoPage; }
  /// Where such a page is among all of the host.
  static int64_t placeOnHost(int32_t page) { return kNoPage - 1 - page; }
  int64_t numOnHost() const { return std::ssize(hostHolders); }
  /// Moves the holders of a page to a free one on the host, of which there is
  /// one, to spare, where no more is promised than there is; and back to a free
  /// page.
  int32_t moveOut(int32_t page);
  int32_t moveIn(int32_t page);

  /// The page with these tokens, as many as it has, behind another one with
  /// its own, or behind none (-1); -1 where nobody holds it.
  int32_t findPrefix(int64_t group, int32_t before,
                     std::span<const int32_t> tokens) const;
  /// Whether later texts find a page so.
  bool isPrefix(int32_t page) const { return places[page].has_value(); }
  /// Lets them, as long as it is held, unless there is such a page.
  void addPrefix(int64_t group, int32_t before, std::span<const int32_t> tokens,
                 int32_t page);

  PageCounts counts() const;

private:
  /// Whoever holds a page holds the one before, so neither is another
  /// meanwhile.
  using Prefixes = std::map<std::pair<int32_t, std::vector<int32_t>>, int32_t>;
  struct Group {
    std::vector<int32_t> free, freeOnHost; ///< the last one is taken first
    int64_t pages = 0, promised = 0;
    Prefixes prefixes;
  };
  int64_t &holdersOf(int32_t page) {
    return isOnHost(page) ? hostHolders[placeOnHost(page)] : holders[page];
  }
  /// Ends its being found, and frees it.
  void release(int32_t page);

  int64_t slotsOfGroup = 1, pagesOfGroup = 1;
  int64_t hostPagesOfGroup = 0, numSpare = 0; ///< of these, to change places
  std::vector<Group> groups;
  std::vector<int64_t> holders, hostHolders;
  std::vector<std::optional<Prefixes::iterator>> places;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_GENERATE_PAGEPOOL_H
