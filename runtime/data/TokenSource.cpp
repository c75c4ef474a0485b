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

using namespace optrt;

Status TokenSource::read(int64_t begin, int64_t count,
                         std::vector<uint8_t> &bytes) const {
  const int64_t width = bytesOf(type());
  bytes.resize(count * width);
  return readBytes(begin * width, reinterpret_cast<char *>(bytes.data()),
                   count * width);
}

Status TokenSource::readLabels(int64_t, std::span<uint8_t> labels) const {
  std::ranges::fill(labels, uint8_t(1));
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
