//===- DataIdentity.h - Which tokens a file holds ---------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_DATAIDENTITY_H
#define OPTIMUS_RUNTIME_DATAIDENTITY_H

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

namespace optrt {

/// How a file holds a token: as an unsigned number, little-endian.
enum class TokenType { U8, U16, U32 };

inline constexpr std::string_view kTokenTypes[] = {"u8", "u16", "u32"};

inline std::string toString(TokenType type) {
  return std::string(kTokenTypes[int(type)]);
}

inline std::optional<TokenType> parseTokenType(std::string_view text) {
  auto found = std::find(std::begin(kTokenTypes), std::end(kTokenTypes), text);
  if (found == std::end(kTokenTypes))
    return std::nullopt;
  return static_cast<TokenType>(found - std::begin(kTokenTypes));
}

inline int64_t bytesOf(TokenType type) { return int64_t(1) << int(type); }

/// The tokens of a file, without its name, its header and where it lies. Hashes
/// are XXH64 of the tokens' bytes.
struct DataIdentity {
  TokenType type = TokenType::U8;
  int64_t tokens = 0;
  /// Of 64 pieces of 16 KiB, the first and the last among them; of all where
  /// the tokens have no more bytes than these.
  uint64_t sample = 0;
  std::optional<uint64_t> contents; ///< of all; absent while not computed

  /// Whether nothing that both know differs.
  bool agreesWith(const DataIdentity &other) const {
    return type == other.type && tokens == other.tokens &&
           sample == other.sample &&
           (!contents || !other.contents || *contents == *other.contents);
  }
  bool operator==(const DataIdentity &) const = default;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_DATAIDENTITY_H
