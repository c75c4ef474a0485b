//===- TextPages.h - The pages of texts -------------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each slot has a list of pages. A text is promised as many as it needs at most
// when it is let in, and takes one when it comes to it; where none is free,
// younger texts wait (HostPages.cpp). Texts with equal beginnings share pages,
// and beams those of their prompt.
//
// Without pages in the cache a slot has its own part, and these functions do
// nothing but choose slots, and copy those of beams.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_GENERATE_TEXTPAGES_H
#define OPTIMUS_RUNTIME_GENERATE_TEXTPAGES_H

#include "PagePool.h"
#include "TextSlots.h"

namespace optrt {

class TextPages {
public:
  /// Everything outlives it; `counters` are those of shared tokens and moved
  /// pages.
  TextPages(TextSlots &slots, Session &session, ControlPlane &control,
            const GenerationEntries &entries, GenerationCounters &counters,
            int64_t hostPages);

  /// Nothing where the cache has no pages.
  std::optional<PageCounts> counts() const;
  std::span<const int32_t> of(int64_t slot) const { return lists[slot]; }

  /// The slots for a text, of free ones, ascending; none where it has to wait.
  std::vector<int64_t> chooseSlots(const Text &text,
                                   std::span<const int64_t> free) const;
  /// Promises a text the pages that it needs at most.
  void promise(Text &text, int64_t slot);
  /// Takes pages for the first tokens of a slot. Where there are none, it parks
  /// younger texts, or else this one: false.
  StatusOr<bool> take(Text &text, int64_t slot, int64_t tokens);
  /// Gives back the pages of a text, and its promise of more.
  void leave(const Text &text, int64_t slot);
  /// Moves the pages of parked texts back, the oldest first.
  Status resumeParked();

  /// Gives a text those of a prompt's next tokens that another text has.
  void adoptPrefix(Text &text, int64_t slot);
  /// Lets other texts find the whole pages of a prompt's tokens in the cache.
  void publishPrefix(const Text &text, int64_t slot);
  /// Keeps first logits for other texts with the same prompt, which have yet to
  /// take it in.
  void keepForTwins(std::span<const Choice> choices);
  /// Gives these the pages of the whole prompt, a copy of the last one, and the
  /// logits behind it.
  Status forkPrompts(std::vector<Choice> &choices);
  /// Gives the slots of beams what their parents have.
  Status forkBeams(Text &text, const TextBeams::Moves &moves);

  /// Whether another text with the same prompt has yet to take it in, and may
  /// go on from where this one has.
  bool hasTwin(const Text &text) const;

private:
  /// The pages of other texts that the prompt of one begins with, in whole
  /// chunks, from so many tokens on.
  std::vector<int32_t> findPrefix(const Text &text, int64_t group,
                                  std::span<const int32_t> before) const;
  Status forkPrompt(int64_t from, int64_t into);
  /// Shares the pages of parents, and copies the last one where others write
  /// it, too.
  Status sharePages(Text &text, const TextBeams::Moves &moves);
  /// Gives back the pages that no token from the next one on sees.
  void dropBehindWindow(Text &text, int64_t slot);
  /// Of a slot; returns how many are free then.
  int64_t drop(int64_t slot);
  /// Gives a text so many more of what is promised.
  void promiseMore(Text &text, int64_t group, int64_t pages);

  /// Whether there are pages for the largest text of a group, with this one,
  /// beside all that cannot be parked; and nobody is parked there.
  bool fitsBeside(const Text &text, int64_t group) const;
  /// The page that goes to the host next, for texts from a number on: the last
  /// one of all of its holders, which are parked then. Or none.
  std::optional<int32_t> parkFor(int64_t group, int64_t number);
  /// Moves pages to the host until so many are free; false where it cannot.
  StatusOr<bool> makeRoom(const Text &text, int64_t group, int64_t pages);
  Status moveOut(int32_t page);
  Status moveIn(int32_t page);

  TextSlots &slots;
  Session &session;
  ControlPlane &control;
  const GenerationEntries &entries;
  GenerationCounters &counters;
  std::unique_ptr<PagePool> pool; ///< null without pages
  std::vector<std::vector<int32_t>> lists;
  std::vector<Session::HostPage> onHost; ///< by their places there
};

/// By fitsBeside() there are some.
inline Status noPages(const Text &text) {
  return internal(concat("text ", text.number, " found no page that is free"));
}

} // namespace optrt

#endif // OPTIMUS_RUNTIME_GENERATE_TEXTPAGES_H
