//===- JobKey.cpp - How ranks of a job know each other --------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "JobKey.h"

#include <cstdint>
#include <sodium.h>
#include <stdexcept>

namespace optrt {
namespace {

constexpr std::size_t kHashBytes = 32;

void prepare() {
  static const bool isReady = sodium_init() >= 0;
  if (!isReady)
    throw std::runtime_error("libsodium cannot start: the system gives no "
                             "random numbers");
}

const unsigned char *bytesOf(std::string_view text) {
  return reinterpret_cast<const unsigned char *>(text.data());
}

std::string inDigits(const unsigned char *bytes, std::size_t size) {
  std::string text(2 * size + 1, '\0');
  sodium_bin2hex(text.data(), text.size(), bytes, size);
  text.pop_back();
  return text;
}

} // namespace

static_assert(2 * kHashBytes == JobKey::kDigits);

JobKey::JobKey(std::string_view secret) {
  prepare();
  // Keys of other programs from the same secret are others.
  constexpr std::string_view kPurpose = "optimus-run: ranks of a job, 1";
  crypto_generichash(key.data(), key.size(), bytesOf(secret), secret.size(),
                     bytesOf(kPurpose), kPurpose.size());
}

std::string JobKey::sign(std::initializer_list<std::string_view> parts) const {
  crypto_generichash_state state;
  crypto_generichash_init(&state, key.data(), key.size(), kHashBytes);
  for (std::string_view part : parts) {
    // Lists that only together are the same text have other hashes.
    const uint64_t size = part.size();
    crypto_generichash_update(
        &state, reinterpret_cast<const unsigned char *>(&size), sizeof(size));
    crypto_generichash_update(&state, bytesOf(part), part.size());
  }
  unsigned char hash[kHashBytes];
  crypto_generichash_final(&state, hash, sizeof(hash));
  return inDigits(hash, sizeof(hash));
}

bool JobKey::verify(std::string_view hash,
                    std::initializer_list<std::string_view> parts) const {
  const std::string expected = sign(parts);
  return hash.size() == expected.size() &&
         sodium_memcmp(hash.data(), expected.data(), expected.size()) == 0;
}

std::string randomDigits() {
  prepare();
  unsigned char bytes[kHashBytes];
  randombytes_buf(bytes, sizeof(bytes));
  return inDigits(bytes, sizeof(bytes));
}

} // namespace optrt
