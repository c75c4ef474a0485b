//===- StoreIndex.h - What a store says of itself ---------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_DATA_STOREINDEX_H
#define OPTIMUS_RUNTIME_DATA_STOREINDEX_H

#include "optimus-runtime/DataIdentity.h"
#include "optimus-runtime/Dataset.h"
#include "optimus-support/InputFile.h"

#include <cstdint>
#include <string>
#include <vector>

namespace optrt {

inline constexpr const char *kStoreIndexFile = "index.json";
inline constexpr const char *kStoreTokenizerFile = "tokenizer.json";
inline constexpr const char *kStoreSplits[] = {"train", "held-out"};

inline constexpr std::size_t kMostStoreIndexBytes = 16 << 20;
inline constexpr std::size_t kMostStoreShards = 1 << 16; ///< of a split
inline constexpr int64_t kMostShardTokens = int64_t(1) << 31;

struct StoreIndex {
  struct Shard {
    int64_t tokens = 0, documents = 0; ///< those that end there
  };
  struct Split {
    std::vector<Shard> shards;
    int64_t tokens = 0;
    uint64_t hash = 0; ///< of all, made of the shards' hashes
  };

  TokenType type = TokenType::U8;
  int64_t vocabulary = 0;
  TokenOrigin origin; ///< without its file's path
  bool hasTokenizerFile = false;
  bool hasLabels = false; ///< a file for each shard says which tokens are
  Split splits[2]; ///< as kStoreSplits
};

/// Errors: InvalidArgument for more bytes or shards than a store may have, for
/// members missing or out of range, and for sums and hashes unlike those of the
/// shards.
StatusOr<StoreIndex> readStoreIndex(const optimus_support::InputFile &file);

} // namespace optrt

#endif // OPTIMUS_RUNTIME_DATA_STOREINDEX_H
