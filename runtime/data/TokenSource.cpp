//===- TokenSource.cpp - Where tokens lie ---------------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TokenSource.h"

#include "optimus-support/Hash.h"

#include <algorithm>
#include <cassert>
#include <fcntl.h>
#include <unistd.h>

using namespace optrt;

Status TokenSource::read(int64_t begin, int64_t count,
                         std::vector<uint8_t> &bytes) const {
  const int64_t width = bytesOf(type());
  bytes.resize(count * width);
  char *to = reinterpret_cast<char *>(bytes.data());
  if (!cache)
    return readBytes(begin * width, to, count * width);
  return cache->get(begin * width, to, count * width,
                    [this](int64_t begin, char *to, int64_t count) {
                      return readBytes(begin, to, count);
                    });
}

Status TokenSource::keepInMemory(const std::string &folder, int64_t bytes) {
  // What somebody has written over has another sample, or almost always.
  const std::string name =
      concat(place(), " ", optimus_support::hashToHex(identity().sample));
  OPTRT_ASSIGN_OR_RETURN(cache,
                         SharedCache::open(folder, name, numBytes(), bytes));
  return okStatus();
}

void TokenSource::drop(int descriptor) {
  // The system forgets nothing that the disk has not, and may decline.
  (void)fdatasync(descriptor);
  (void)posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
}

Status TokenSource::readLabels(int64_t, std::span<uint8_t> labels) const {
  std::ranges::fill(labels, uint8_t(1));
  return okStatus();
}

Status TokenSource::readEnds(int64_t, std::span<uint8_t> ends) const {
  std::ranges::fill(ends, uint8_t(0));
  return okStatus();
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

void TokenSource::decode(std::span<const uint8_t> bytes,
                         std::span<uint32_t> tokens) const {
  assert(int64_t(bytes.size()) == int64_t(tokens.size()) * bytesOf(type()));
  switch (type()) {
  case TokenType::U8:
    return decodeAs<1>(bytes.data(), tokens);
  case TokenType::U16:
    return decodeAs<2>(bytes.data(), tokens);
  case TokenType::U32:
    return decodeAs<4>(bytes.data(), tokens);
  }
}

StatusOr<uint64_t> TokenSource::hashSample() const {
  const int64_t bytes = numBytes();
  optimus_support::Hash64 hash;
  std::vector<char> piece(std::min(bytes, kMostSampleBytes));
  auto add = [&](int64_t begin, int64_t count) -> Status {
    OPTRT_RETURN_IF_ERROR(readBytes(begin, piece.data(), count));
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
  return hash.digest();
}
