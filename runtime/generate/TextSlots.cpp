//===- TextSlots.cpp - Texts in slots, and those that wait ----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TextSlots.h"

using namespace optrt;

std::vector<int64_t> TextSlots::findTaken() const {
  std::vector<int64_t> taken;
  for (int64_t slot = 0; slot != size(); ++slot)
    if (has(slot))
      taken.push_back(slot);
  return taken;
}

std::vector<int64_t> TextSlots::findFree() const {
  std::vector<bool> isTaken(texts.size());
  for (int64_t slot : findTaken()) {
    isTaken[slot] = true;
    if (const std::optional<TextBeams> &beams = (*this)[slot].beams)
      for (int64_t kept : beams->kept)
        isTaken[kept] = true;
  }
  std::vector<int64_t> free;
  for (int64_t slot = 0; slot != size(); ++slot)
    if (!isTaken[slot])
      free.push_back(slot);
  return free;
}

Text &TextSlots::enter(std::vector<int64_t> slots) {
  Text &text = texts[slots.front()].emplace(std::move(waiting.front()));
  waiting.pop_front();
  if (text.beams)
    text.beams->kept = std::move(slots);
  return text;
}

bool TextSlots::cancel(int64_t number) {
  for (int64_t slot : findTaken())
    if ((*this)[slot].number == number)
      (*this)[slot].isCancelled = true;
  return std::erase_if(waiting, [&](const Text &text) {
           return text.number == number;
         }) != 0;
}
