//===- TokenStore.h - Reading the tokens of a store -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A folder that `python3 -m optimus.data prepare` wrote (docs/data.md). Its
// index is believed where it speaks of tokens, whose hashes it has, and checked
// where it speaks of files.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_DATA_TOKENSTORE_H
#define OPTIMUS_RUNTIME_DATA_TOKENSTORE_H

#include "StoreIndex.h"
#include "TokenSource.h"
#include "optimus-support/InputFile.h"

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace optrt {

/// The shards of one split of a store, as one sequence of tokens. At most
/// kMostOpenFiles files of them are open.
class TokenStore final : public TokenSource {
public:
  static constexpr std::size_t kMostOpenFiles = 32;

  /// Whether a path leads to a store, or to a split of one.
  static bool isAt(const std::string &path);

  /// `path` is a store, of which `split` is read, or a split in one.
  ///
  /// Errors: InvalidArgument for an index at odds with itself, a shard missing
  /// or of another size, a split without tokens, a vocabulary larger than
  /// `vocabulary`, and another width than `stated`.
  static StatusOr<std::unique_ptr<TokenStore>>
  open(const std::string &path, StoreSplit split, int64_t vocabulary,
       std::optional<TokenType> stated);

  const std::string &path() const override { return name; }
  TokenType type() const override { return index.type; }
  int64_t numTokens() const override { return split.tokens; }
  Status readBytes(int64_t begin, char *to, int64_t count) const override;
  bool hasLabels() const override { return index.hasLabels; }
  Status readLabels(int64_t begin, std::span<uint8_t> labels) const override;
  bool hasEnds() const override { return true; }
  Status readEnds(int64_t begin, std::span<uint8_t> ends) const override;
  DataIdentity identity() const override;
  Status hashInBackground() override { return okStatus(); }
  std::string place() const override;
  bool wasWrittenTo() const override;
  Status dropFromMemory() const override;
  Status unexpectedToken(uint32_t token, int64_t vocabulary) const override;
  std::optional<TokenOrigin> origin() const override { return index.origin; }

private:
  using SharedFile = std::shared_ptr<const optimus_support::InputFile>;
  /// Of each shard.
  enum class Kind { Tokens, Ends, Labels };
  struct ShardFile {
    std::size_t shard;
    Kind kind = Kind::Tokens;
    bool operator==(const ShardFile &) const = default;
  };
  struct OpenFile {
    ShardFile which;
    SharedFile file;
  };
  /// Of a shard, when the store was opened.
  struct Stamp {
    int64_t inode, seconds, nanoseconds;
    bool operator==(const Stamp &) const = default;
  };

  TokenStore() = default;
  static Stamp stampOf(const struct stat &found);
  /// What the store has of each shard.
  std::vector<Kind> kinds() const;
  Status findShards();
  Status findShard(ShardFile which);
  std::string pathOf(ShardFile which) const;
  int64_t bytesOfFile(ShardFile which) const;
  std::size_t shardOf(int64_t token) const;
  StatusOr<SharedFile> fileOf(ShardFile which) const;

  std::string name;   ///< of the user
  std::string folder; ///< of the split
  std::string splitName;
  optimus_support::InputFile indexFile;
  StoreIndex index; ///< without shards
  StoreIndex::Split split;
  std::vector<int64_t> begins;  ///< first tokens of the shards, and the end
  std::vector<Stamp> stamps[3]; ///< by kind
  uint64_t sample = 0;

  mutable std::mutex mutex;
  /// The one used last is the last.
  mutable std::vector<OpenFile> openFiles;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_DATA_TOKENSTORE_H
