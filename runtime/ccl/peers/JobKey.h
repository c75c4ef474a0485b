//===- JobKey.h - How ranks of a job know each other ------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CCL_PEERS_JOBKEY_H
#define OPTIMUS_RUNTIME_CCL_PEERS_JOBKEY_H

#include <array>
#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>

namespace optrt {

/// The key that follows from a job's secret. Ranks never send it: they send
/// keyed hashes of their messages (BLAKE2b, as a MAC).
class JobKey {
public:
  /// Of a secret of any length; the empty one is everybody's.
  explicit JobKey(std::string_view secret);

  /// How long a hash is, in hexadecimal digits.
  static constexpr std::size_t kDigits = 64;

  /// The hash of a list of texts. The first names the purpose, so that no hash
  /// can be used for another.
  std::string sign(std::initializer_list<std::string_view> parts) const;
  /// Whether this is their hash; takes as long for every wrong one.
  bool verify(std::string_view hash,
              std::initializer_list<std::string_view> parts) const;

private:
  std::array<unsigned char, 32> key;
};

/// 256 random bits of the system's, as 64 hexadecimal digits: what is asked,
/// once, or a secret.
std::string randomDigits();

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CCL_PEERS_JOBKEY_H
