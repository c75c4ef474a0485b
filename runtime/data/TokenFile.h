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
#include "TokenSource.h"
#include "optimus-support/Hash.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>

namespace optrt {

/// An open file of tokens, all of them below a vocabulary when it was opened.
class TokenFile final : public TokenSource {
public:
  /// Fails with InvalidArgument as findTokenFormat() does, and for a token at
  /// or above `vocabulary`.
  static StatusOr<std::unique_ptr<TokenFile>>
  open(const std::string &path, int64_t vocabulary,
       std::optional<TokenType> stated);
  ~TokenFile() override;
  TokenFile(const TokenFile &) = delete;
  TokenFile &operator=(const TokenFile &) = delete;

  const std::string &path() const override { return file.path(); }
  TokenType type() const override { return format.type; }
  int64_t numTokens() const override { return format.tokens; }
  Status readBytes(int64_t begin, char *to, int64_t count) const override;
  DataIdentity identity() const override;
  Status hashInBackground() override;
  std::string place() const override { return file.identity(); }
  bool wasWrittenTo() const override;
  Status dropFromMemory() const override {
    drop(file.descriptor());
    return okStatus();
  }
  Status unexpectedToken(uint32_t token, int64_t vocabulary) const override;

private:
  TokenFile() = default;
  Status checkVocabulary(int64_t vocabulary) const;
  void hashContents(std::span<char> piece, optimus_support::Hash64 &hash);

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
