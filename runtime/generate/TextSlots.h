//===- TextSlots.h - Texts in slots, and those that wait --------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_GENERATE_TEXTSLOTS_H
#define OPTIMUS_RUNTIME_GENERATE_TEXTSLOTS_H

#include "Text.h"

#include <algorithm>
#include <deque>

namespace optrt {

class TextSlots {
public:
  explicit TextSlots(int64_t count) : texts(count) {}

  bool has(int64_t slot) const { return texts[slot].has_value(); }
  Text &operator[](int64_t slot) { return *texts[slot]; }
  const Text &operator[](int64_t slot) const { return *texts[slot]; }
  int64_t size() const { return std::ssize(texts); }
  /// Slots with texts, ascending; a text of beams has one.
  std::vector<int64_t> findTaken() const;
  /// Slots that no text has, and no beam of one; ascending.
  std::vector<int64_t> findFree() const;

  void queue(Text text) { waiting.push_back(std::move(text)); }
  /// The text that has waited the longest, or null.
  const Text *next() const {
    return waiting.empty() ? nullptr : &waiting.front();
  }
  /// Gives it free slots, several to one of beams.
  Text &enter(std::vector<int64_t> slots);
  void leave(int64_t slot) { texts[slot].reset(); }
  /// Marks a text as cancelled, or ends its waiting: true.
  bool cancel(int64_t number);

  bool hasTexts() const {
    return anyOf([](const Text &) { return true; });
  }
  /// Of all texts, waiting ones too.
  template <typename Fn>
  bool anyOf(Fn isSo) const {
    return std::ranges::any_of(waiting, isSo) ||
           std::ranges::any_of(texts, [&](const std::optional<Text> &text) {
             return text && isSo(*text);
           });
  }

private:
  std::vector<std::optional<Text>> texts;
  std::deque<Text> waiting;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_GENERATE_TEXTSLOTS_H
