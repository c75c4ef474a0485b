//===- TokenSource.h - Where tokens lie -------------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_DATA_TOKENSOURCE_H
#define OPTIMUS_RUNTIME_DATA_TOKENSOURCE_H

#include "SharedCache.h"
#include "optimus-runtime/DataIdentity.h"
#include "optimus-runtime/Dataset.h"
#include "optimus-runtime/Status.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace optrt {

/// Tokens one after the other, in a file or in many. The const functions may be
/// called from several threads at once.
class TokenSource {
public:
  virtual ~TokenSource() = default;

  /// As the user named it.
  virtual const std::string &path() const = 0;
  virtual TokenType type() const = 0;
  virtual int64_t numTokens() const = 0;
  int64_t numBytes() const { return numTokens() * bytesOf(type()); }

  /// Bytes [begin, begin + count) of the tokens, little-endian, without
  /// whatever lies between or before them. DataLoss where they are no longer
  /// there.
  virtual Status readBytes(int64_t begin, char *to, int64_t count) const = 0;

  /// Whether some tokens are no labels: nobody is asked for them.
  virtual bool hasLabels() const { return false; }
  /// Of tokens [begin, begin + count), 1 for a label and 0 for any other.
  /// Only where there are labels. DataLoss as readBytes().
  virtual Status readLabels(int64_t begin, std::span<uint8_t> labels) const;

  /// Whether it is known where documents end.
  virtual bool hasEnds() const { return false; }
  /// Of tokens [begin, begin + ends.size()), 1 for the last of a document and 0
  /// for any other. Only where it is known. DataLoss as readBytes().
  virtual Status readEnds(int64_t begin, std::span<uint8_t> ends) const;

  /// What is known so far.
  virtual DataIdentity identity() const = 0;
  /// Hashes all tokens on a thread that runs only where a core is idle, unless
  /// their hash is known already. Called once.
  virtual Status hashInBackground() = 0;
  /// Names these contents among the files of this machine.
  virtual std::string place() const = 0;
  /// Whether somebody has written to what was opened; a few system calls.
  virtual bool wasWrittenTo() const = 0;
  /// Asks the system to forget what it keeps of these tokens in memory.
  virtual Status dropFromMemory() const = 0;
  /// DataLoss for a token that was not there when all was well.
  virtual Status unexpectedToken(uint32_t token, int64_t vocabulary) const = 0;
  /// Who made the tokens, where the source says so.
  virtual std::optional<TokenOrigin> origin() const { return std::nullopt; }

  /// What Dataset::keepInMemory() says, of this source.
  Status keepInMemory(const std::string &folder, int64_t bytes);
  CacheUse cacheUse() const { return cache ? cache->use() : CacheUse(); }

  /// The bytes of tokens [begin, begin + count), in the caller's memory.
  Status read(int64_t begin, int64_t count, std::vector<uint8_t> &bytes) const;
  /// The tokens that such bytes hold.
  void decode(std::span<const uint8_t> bytes, std::span<uint32_t> tokens) const;

protected:
  /// Of an open file. What was written to it is written to the disk first.
  static void drop(int descriptor);
  /// DataIdentity::sample.
  StatusOr<uint64_t> hashSample() const;

private:
  std::unique_ptr<SharedCache> cache; ///< or null
};

/// Up to so many bytes a sample is of all tokens.
inline constexpr int64_t kSamplePieces = 64, kSamplePieceBytes = 16 << 10;
inline constexpr int64_t kMostSampleBytes = kSamplePieces * kSamplePieceBytes;

} // namespace optrt

#endif // OPTIMUS_RUNTIME_DATA_TOKENSOURCE_H
