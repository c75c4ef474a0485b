//===- StoreIndex.cpp - What a store says of itself -----------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StoreIndex.h"

#include "optimus-support/Hash.h"
#include "optimus-support/JsonCursor.h"

#include <limits>

using namespace optrt;
using optimus_support::hashFromHex;
using optimus_support::hashToHex;
using optimus_support::JsonCursor;
using optimus_support::JsonDocument;

namespace {

/// The second has labels.
constexpr int64_t kFormat = 1, kFormatWithLabels = 2;

std::string readHash(const JsonCursor &cursor) {
  std::string text = cursor.string();
  if (!hashFromHex(text))
    cursor.fail(concat("expected 16 hexadecimal digits, found \"", text, "\""));
  return text;
}

void expect(const JsonCursor &cursor, const std::string &found,
            const std::string &made) {
  if (found != made)
    cursor.fail(concat("the shards make ", made, ", found ", found));
}

/// Shards are [tokens, documents, hash, hash of the documents' ends], and of
/// the labels where there are some.
StoreIndex::Split readSplit(const JsonCursor &cursor, bool hasLabels) {
  StoreIndex::Split split;
  int64_t documents = 0;
  // The identity of all: a line for each shard.
  optimus_support::Hash64 hash;
  const std::vector<JsonCursor> shards = cursor["shards"].elements();
  if (shards.size() > kMostStoreShards) {
    cursor["shards"].fail(concat("expected at most ", kMostStoreShards,
                                 " shards, found ", shards.size()));
    return split;
  }
  for (const JsonCursor &shard : shards) {
    const std::vector<JsonCursor> members = shard.elements();
    const std::size_t count = hasLabels ? 5 : 4;
    if (members.size() != count) {
      shard.fail(
          concat("expected ", count, " members, found ", members.size()));
      return split;
    }
    const int64_t tokens = members[0].integer(1, kMostShardTokens);
    const int64_t ends = members[1].integer(0, tokens);
    std::string line = concat(tokens, " ", ends);
    for (std::size_t member = 2; member != count; ++member)
      line += " " + readHash(members[member]);
    line += '\n';
    hash.update(line.data(), line.size());
    split.shards.push_back({tokens, ends});
    split.tokens += tokens;
    documents += ends;
  }
  split.hash = hash.digest();
  const int64_t most = std::numeric_limits<int64_t>::max();
  expect(cursor["tokens"], concat(cursor["tokens"].integer(0, most)),
         concat(split.tokens));
  expect(cursor["documents"], concat(cursor["documents"].integer(0, most)),
         concat(documents));
  expect(cursor["xxh64"], cursor["xxh64"].string(), hashToHex(split.hash));
  return split;
}

} // namespace

StatusOr<StoreIndex>
optrt::readStoreIndex(const optimus_support::InputFile &file) {
  StatusOr<std::string> text = file.readAll(kMostStoreIndexBytes);
  if (!text.ok())
    return invalidArgument(text.status().message());
  JsonDocument document(*text, concat(file.path(), " is no index of a store"),
                        StatusCode::InvalidArgument);
  JsonCursor root = document.root();
  const int64_t format = root["format"].integer(0, INT64_MAX);
  OPTRT_RETURN_IF_ERROR(document.status());
  if (format != kFormat && format != kFormatWithLabels)
    return invalidArgument(concat("the store ", file.path(), " has format ",
                                  format, ", this program reads ", kFormat,
                                  " and ", kFormatWithLabels));
  StoreIndex index;
  index.hasLabels = format == kFormatWithLabels;
  const std::string type = root["token_type"].string();
  if (std::optional<TokenType> known = parseTokenType(type))
    index.type = *known;
  else
    root["token_type"].fail(
        concat("expected \"u8\", \"u16\" or \"u32\", found \"", type, "\""));
  index.vocabulary = root["vocabulary"].integer(
      1, std::min<int64_t>(int64_t(1) << (8 * bytesOf(index.type)),
                           std::numeric_limits<int32_t>::max()));
  index.origin.tokenizer = readHash(root["tokenizer"]["xxh64"]);
  // The folder has one of this name, or none.
  index.hasTokenizerFile =
      root["tokenizer"]["name"].string() == kStoreTokenizerFile;
  if (JsonCursor end = root["document_end"]; end && end.dump() != "null")
    index.origin.documentEnd = end.integer(0, index.vocabulary - 1);
  for (int i = 0; i != 2; ++i)
    index.splits[i] =
        readSplit(root["splits"][kStoreSplits[i]], index.hasLabels);
  OPTRT_RETURN_IF_ERROR(document.status());
  return index;
}
