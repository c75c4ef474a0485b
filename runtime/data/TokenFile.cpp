//===- TokenFile.cpp - Reading the tokens of a file -----------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TokenFile.h"

#include "base/Thread.h"
#include "optimus-support/Hash.h"

#include <algorithm>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

using namespace optrt;
using optimus_support::Hash64;

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
  OPTRT_ASSIGN_OR_RETURN(result->sample, result->hashSample());
  if (result->numBytes() <= kMostSampleBytes) {
    result->contents = result->sample;
    result->isHashed = true;
  }
  return result;
}

TokenFile::~TokenFile() {
  ends = true;
  if (hashing.joinable())
    hashing.join();
}

Status TokenFile::readBytes(int64_t begin, char *to, int64_t count) const {
  return file.read(format.headerBytes + begin, to, count);
}

bool TokenFile::wasWrittenTo() const { return !file.checkUnchanged().ok(); }

Status TokenFile::unexpectedToken(uint32_t token, int64_t vocabulary) const {
  return dataLoss(concat(
      "the data file ", path(), " changed while it was read: it has token ",
      token, " now, and the model's vocabulary ", vocabulary, " tokens"));
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
    if (ends || !readBytes(begin, piece.data(), count).ok())
      return;
    hash.update(piece.data(), count);
  }
  // Of a file that changes meanwhile it would be nobody's.
  if (!file.checkUnchanged().ok())
    return;
  contents = hash.digest();
  isHashed = true;
}
