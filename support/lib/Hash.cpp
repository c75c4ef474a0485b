//===- Hash.cpp - 64-bit hashes and their text ----------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/Hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

using namespace optimus_support;

uint64_t optimus_support::hash64(const void *data, size_t size) {
  return XXH64(data, size, /*seed=*/0);
}

struct Hash64::State {
  XXH64_state_t words;
};

Hash64::Hash64() : state(std::make_unique<State>()) {
  XXH64_reset(&state->words, /*seed=*/0);
}
Hash64::~Hash64() = default;
Hash64::Hash64(Hash64 &&) noexcept = default;
Hash64 &Hash64::operator=(Hash64 &&) noexcept = default;

void Hash64::update(const void *data, size_t size) {
  XXH64_update(&state->words, data, size);
}

uint64_t Hash64::digest() const { return XXH64_digest(&state->words); }

std::string optimus_support::hashToHex(uint64_t hash) {
  std::string text(16, '0');
  for (int digit = 15; digit >= 0; --digit, hash >>= 4)
    text[digit] = "0123456789abcdef"[hash & 15];
  return text;
}

std::optional<uint64_t> optimus_support::hashFromHex(std::string_view text) {
  if (text.size() != 16)
    return std::nullopt;
  uint64_t hash = 0;
  for (char c : text) {
    uint64_t digit;
    if (c >= '0' && c <= '9')
      digit = c - '0';
    else if (c >= 'a' && c <= 'f')
      digit = c - 'a' + 10;
    else
      return std::nullopt;
    hash = hash << 4 | digit;
  }
  return hash;
}
