//===- Message.h - Words as bytes -------------------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_GENERATE_MESSAGE_H
#define OPTIMUS_RUNTIME_GENERATE_MESSAGE_H

#include <cstring>
#include <string>
#include <type_traits>

namespace optrt {

/// What one process says to others of the same program, as bytes.
class Message {
public:
  Message() = default;
  explicit Message(std::string bytes) : bytes(std::move(bytes)) {}

  template <typename Word> void add(const Word &word) {
    static_assert(std::is_trivially_copyable_v<Word>);
    bytes.append(reinterpret_cast<const char *>(&word), sizeof(Word));
  }
  /// False where there is too little.
  template <typename Word> bool take(Word &word) {
    static_assert(std::is_trivially_copyable_v<Word>);
    if (bytes.size() - next < sizeof(Word))
      return false;
    std::memcpy(&word, bytes.data() + next, sizeof(Word));
    next += sizeof(Word);
    return true;
  }
  bool isOver() const { return next == bytes.size(); }
  const std::string &text() const { return bytes; }

private:
  std::string bytes;
  std::size_t next = 0;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_GENERATE_MESSAGE_H
