//===- TokenFile.h - Reading the tokens of a file ---------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_DATA_TOKENFILE_H
#define OPTIMUS_RUNTIME_DATA_TOKENFILE_H

#include "TokenFormat.h"
#include "optimus-support/Hash.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace optrt {

/// An open file of tokens, all of them below a vocabulary when it was opened.
/// Its const functions may be called from several threads at once.
class TokenFile {
public:
  /// Fails with InvalidArgument as findTokenFormat() does, and for a token at
  /// or above `vocabulary`.
  static StatusOr<std::unique_ptr<TokenFile>>
  open(const std::string &path, int64_t vocabulary,
       std::optional<TokenType> stated);
  ~TokenFile();
  TokenFile(const TokenFile &) = delete;
  TokenFile &operator=(const TokenFile &) = delete;

  const std::string &path() const { return file.path(); }
  int64_t numTokens() const { return format.tokens; }
  const optimus_support::InputFile &input() const { return file; }

  /// The bytes of tokens [begin, begin + count), in the caller's memory.
  Status read(int64_t begin, int64_t count, std::vector<uint8_t> &bytes) const;
  /// The tokens that such bytes hold.
  void decode(std::span<const uint8_t> bytes, std::span<uint32_t> tokens) const;

  /// What is known so far.
  DataIdentity identity() const;
  /// Hashes all tokens on a thread that runs only where a core is idle, unless
  /// they are hashed already. Called once.
  Status hashInBackground();

private:
  TokenFile() = default;
  Status checkVocabulary(int64_t vocabulary) const;
  Status hashSample();
  void hashContents(std::span<char> piece, optimus_support::Hash64 &hash);
  int64_t numBytes() const { return format.tokens * bytesOf(format.type); }

  optimus_support::InputFile file;
  TokenFormat format;
  uint64_t sample = 0;
  /// Written before `isHashed` is set.
  uint64_t contents = 0;
  std::atomic<bool> isHashed = false, ends = false;
  std::thread hashing;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_DATA_TOKENFILE_H
