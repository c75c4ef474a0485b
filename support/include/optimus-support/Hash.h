//===- Hash.h - 64-bit hashes and their text --------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// XXH64 with seed 0: of programs, models and checkpoint files. Not
// cryptographic: it finds accidents, not attacks.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_SUPPORT_HASH_H
#define OPTIMUS_SUPPORT_HASH_H

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace optimus_support {

uint64_t hash64(const void *data, size_t size);
inline uint64_t hash64(std::string_view text) {
  return hash64(text.data(), text.size());
}

/// The same hash of bytes that come in pieces.
class Hash64 {
public:
  Hash64();
  ~Hash64();
  Hash64(Hash64 &&) noexcept;
  Hash64 &operator=(Hash64 &&) noexcept;

  void update(const void *data, size_t size);
  /// Of all bytes so far.
  uint64_t digest() const;

private:
  struct State;
  std::unique_ptr<State> state;
};

/// 16 lower-case hexadecimal digits.
std::string hashToHex(uint64_t hash);

/// The inverse; nothing for any other text.
std::optional<uint64_t> hashFromHex(std::string_view text);

} // namespace optimus_support

#endif // OPTIMUS_SUPPORT_HASH_H
