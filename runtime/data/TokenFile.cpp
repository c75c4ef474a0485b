//===- TokenFile.cpp - Reading the tokens of a file -----------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TokenFile.h"

#include "core/Thread.h"
#include "optimus-support/Hash.h"

#include <algorithm>
#include <cassert>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

using namespace optrt;
using optimus_support::Hash64;

static constexpr int64_t kSamplePieces = 64, kSamplePieceBytes = 16 << 10;
static constexpr int64_t kMostSampleBytes = kSamplePieces * kSamplePieceBytes;
/// Of what is read at a time to hash all.
static constexpr int64_t kHashedPiece = 1 << 20;

StatusOr<std::unique_ptr<TokenFile>>
TokenFile::open(const std::string &path, int64_t vocabulary,
                std::optional<TokenType> stated) {
  std::unique_ptr<TokenFile> result(new TokenFile);
  OPTRT_ASSIGN_OR_RETURN(result->file, optimus_support::InputFile::open(
                                           path, StatusCode::InvalidArgument));
  OPTRT_ASSIGN_OR_RETURN(result->format,
                         findTokenFormat(result->file, vocabulary, stated));
  OPTRT_RETURN_IF_ERROR(result->checkVocabulary(vocabulary));
  OPTRT_RETURN_IF_ERROR(result->hashSample());
  return result;
}

TokenFile::~TokenFile() {
  ends = true;
  if (hashing.joinable())
    hashing.join();
}

Status TokenFile::read(int64_t begin, int64_t count,
                       std::vector<uint8_t> &bytes) const {
  const int64_t width = bytesOf(format.type);
  bytes.resize(count * width);
  return file.read(format.headerBytes + begin * width, bytes.data(),
                   bytes.size());
}

template <int width>
static void decodeAs(const uint8_t *from, std::span<uint32_t> tokens) {
  for (uint32_t &token : tokens) {
    token = from[0];
    for (int byte = 1; byte != width; ++byte)
      token |= uint32_t(from[byte]) << (8 * byte);
    from += width;
  }
}

void TokenFile::decode(std::span<const uint8_t> bytes,
                       std::span<uint32_t> tokens) const {
  assert(int64_t(bytes.size()) ==
         int64_t(tokens.size()) * bytesOf(format.type));
  switch (format.type) {
  case TokenType::U8:
    return decodeAs<1>(bytes.data(), tokens);
  case TokenType::U16:
    return decodeAs<2>(bytes.data(), tokens);
  case TokenType::U32:
    return decodeAs<4>(bytes.data(), tokens);
  }
}

/// Finds a token that is at or above the vocabulary.
Status TokenFile::checkVocabulary(int64_t vocabulary) const {
  const int64_t width = bytesOf(format.type);
  if (vocabulary >= int64_t(1) << (8 * width))
    return okStatus();
  constexpr int64_t chunk = 1 << 18;
  std::vector<uint8_t> bytes;
  std::vector<uint32_t> values;
  for (int64_t begin = 0; begin < format.tokens; begin += chunk) {
    int64_t count = std::min(chunk, format.tokens - begin);
    OPTRT_RETURN_IF_ERROR(read(begin, count, bytes));
    values.resize(count);
    decode(bytes, values);
    // Almost always no token is too large: a maximum without branches first.
    uint32_t largest = 0;
    for (uint32_t value : values)
      largest = std::max(largest, value);
    if (largest < vocabulary)
      continue;
    int64_t bad = 0;
    while (values[bad] < vocabulary)
      ++bad;
    return invalidArgument(
               concat("the data file ", path(), " has token ", values[bad],
                      " at offset ", begin + bad, " (byte ",
                      format.headerBytes + (begin + bad) * width,
                      "), but the model's vocabulary has ", vocabulary,
                      " tokens; compile the model for a larger vocabulary or "
                      "convert the file"))
        .withAdvice(adviceOnWidth(format, path()));
  }
  return okStatus();
}

Status TokenFile::hashSample() {
  const int64_t bytes = numBytes();
  Hash64 hash;
  std::vector<char> piece(std::min(bytes, kMostSampleBytes));
  auto add = [&](int64_t begin, int64_t count) -> Status {
    OPTRT_RETURN_IF_ERROR(
        file.read(format.headerBytes + begin, piece.data(), count));
    hash.update(piece.data(), count);
    return okStatus();
  };
  const bool isWhole = bytes <= kMostSampleBytes;
  if (isWhole)
    OPTRT_RETURN_IF_ERROR(add(0, bytes));
  for (int64_t i = 0; i != kSamplePieces && !isWhole; ++i)
    OPTRT_RETURN_IF_ERROR(
        add(i * (bytes - kSamplePieceBytes) / (kSamplePieces - 1),
            kSamplePieceBytes));
  sample = hash.digest();
  if (isWhole) {
    contents = sample;
    isHashed = true;
  }
  return okStatus();
}

DataIdentity TokenFile::identity() const {
  DataIdentity result{format.type, format.tokens, sample, std::nullopt};
  if (isHashed)
    result.contents = contents;
  return result;
}

Status TokenFile::hashInBackground() {
  if (isHashed)
    return okStatus();
  // A thread has nobody to tell that memory is short.
  auto piece = std::make_shared<std::vector<char>>(kHashedPiece);
  auto hash = std::make_shared<Hash64>();
  OPTRT_ASSIGN_OR_RETURN(hashing, startThread("the thread that hashes the data",
                                              [this, piece, hash] {
                                                hashContents(*piece, *hash);
                                              }));
  return okStatus();
}

void TokenFile::hashContents(std::span<char> piece, Hash64 &hash) {
  // Steps come first, with the processor and with the disk. Where the system
  // refuses, the thread is like any other.
  sched_param none = {};
  (void)pthread_setschedparam(pthread_self(), SCHED_IDLE, &none);
  constexpr int kThisThread = 1, kIdleClass = 3 << 13;
  (void)syscall(SYS_ioprio_set, kThisThread, 0, kIdleClass);

  for (int64_t begin = 0; begin < numBytes(); begin += kHashedPiece) {
    const int64_t count = std::min(kHashedPiece, numBytes() - begin);
    if (ends ||
        !file.read(format.headerBytes + begin, piece.data(), count).ok())
      return;
    hash.update(piece.data(), count);
  }
  // Of a file that changes meanwhile it would be nobody's.
  if (!file.checkUnchanged().ok())
    return;
  contents = hash.digest();
  isHashed = true;
}
