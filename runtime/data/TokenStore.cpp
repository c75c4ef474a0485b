//===- TokenStore.cpp - Reading the tokens of a store ---------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TokenStore.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <sys/stat.h>

using namespace optrt;
using optimus_support::InputFile;
namespace fs = std::filesystem;

namespace {

/// A path leads to a store, or to one of its splits.
struct Place {
  fs::path store;
  std::optional<StoreSplit> split;
};

bool hasIndex(const fs::path &folder) {
  std::error_code error;
  return fs::exists(folder / kStoreIndexFile, error);
}

std::optional<Place> findStore(const std::string &path) {
  std::error_code error;
  // Without a slash at the end, after which there is no name.
  fs::path folder = fs::path(path).lexically_normal();
  if (!folder.has_filename())
    folder = folder.parent_path();
  if (!fs::is_directory(folder, error))
    return std::nullopt;
  if (hasIndex(folder))
    return Place{folder, std::nullopt};
  for (StoreSplit split : {StoreSplit::Train, StoreSplit::HeldOut})
    if (folder.filename() == kStoreSplits[int(split)] &&
        hasIndex(folder / ".."))
      return Place{folder / "..", split};
  return std::nullopt;
}

} // namespace

bool TokenStore::isAt(const std::string &path) {
  return findStore(path).has_value();
}

StatusOr<std::unique_ptr<TokenStore>>
TokenStore::open(const std::string &path, StoreSplit split, int64_t vocabulary,
                 std::optional<TokenType> stated) {
  const std::optional<Place> place = findStore(path);
  if (!place)
    return internal(concat(path, " leads to no store"));
  split = place->split.value_or(split);
  std::unique_ptr<TokenStore> result(new TokenStore);
  result->name = path;
  result->splitName = kStoreSplits[int(split)];
  result->folder = place->store / result->splitName;
  OPTRT_ASSIGN_OR_RETURN(result->indexFile,
                         InputFile::open(place->store / kStoreIndexFile,
                                         StatusCode::InvalidArgument));
  OPTRT_ASSIGN_OR_RETURN(result->index, readStoreIndex(result->indexFile));
  StoreIndex &index = result->index;
  if (index.hasTokenizerFile)
    index.origin.tokenizerFile = place->store / kStoreTokenizerFile;
  if (stated && *stated != index.type)
    return invalidArgument(concat("--token-type ", toString(*stated),
                                  ": the store ", path, " has tokens of type ",
                                  toString(index.type)));
  if (index.vocabulary > vocabulary)
    return invalidArgument(
        concat("the store ", path, " has tokens of a vocabulary of ",
               index.vocabulary, ", but the model's has ", vocabulary,
               "; build the model with --vocab ", index.vocabulary,
               " or more, or prepare the text with the model's tokenizer"));
  result->split = std::move(index.splits[int(split)]);
  for (StoreIndex::Split &other : index.splits)
    other = {};
  if (result->split.tokens == 0)
    return invalidArgument(
        concat("the store ", path, " has no tokens in ", result->splitName,
               split == StoreSplit::HeldOut
                   ? "; prepare it with a larger --held-out, or name the "
                     "others by STORE/train"
                   : ""));
  OPTRT_RETURN_IF_ERROR(result->findShards());
  OPTRT_ASSIGN_OR_RETURN(result->sample, result->hashSample());
  return result;
}

TokenStore::Stamp TokenStore::stampOf(const struct stat &found) {
  return {int64_t(found.st_ino), found.st_mtim.tv_sec, found.st_mtim.tv_nsec};
}

std::vector<TokenStore::Kind> TokenStore::kinds() const {
  std::vector<Kind> kinds = {Kind::Tokens, Kind::Ends};
  if (index.hasLabels)
    kinds.push_back(Kind::Labels);
  return kinds;
}

std::string TokenStore::pathOf(ShardFile which) const {
  static constexpr const char *suffixes[] = {"bin", "ends", "labels"};
  char name[32];
  std::snprintf(name, sizeof(name), "/%05zu.%s", which.shard,
                suffixes[int(which.kind)]);
  return folder + name;
}

int64_t TokenStore::bytesOfFile(ShardFile which) const {
  const StoreIndex::Shard &shard = split.shards[which.shard];
  switch (which.kind) {
  case Kind::Tokens:
    return shard.tokens * bytesOf(index.type);
  case Kind::Ends:
    return shard.documents * int64_t(sizeof(uint32_t));
  case Kind::Labels:
    return (shard.tokens + 7) / 8;
  }
  return 0;
}

/// All are there, with as many bytes as the index says.
Status TokenStore::findShards() {
  begins.push_back(0);
  for (const StoreIndex::Shard &shard : split.shards)
    begins.push_back(begins.back() + shard.tokens);
  for (std::size_t shard = 0; shard != split.shards.size(); ++shard)
    for (Kind kind : kinds())
      OPTRT_RETURN_IF_ERROR(findShard({shard, kind}));
  return okStatus();
}

Status TokenStore::findShard(ShardFile which) {
  struct stat found = {};
  const std::string path = pathOf(which);
  if (::stat(path.c_str(), &found) != 0)
    return invalidArgument(concat("cannot open ", path, ", of which ",
                                  indexFile.path(),
                                  " speaks: ", strerror(errno)));
  if (!S_ISREG(found.st_mode))
    return invalidArgument(
        concat("expected a file, but ", path, " is not a regular file"));
  if (found.st_size != bytesOfFile(which))
    return invalidArgument(
        concat(path, " has ", found.st_size, " bytes; by ", indexFile.path(),
               " it has ", bytesOfFile(which), "; prepare the store again"));
  stamps[int(which.kind)].push_back(stampOf(found));
  return okStatus();
}

StatusOr<TokenStore::SharedFile> TokenStore::fileOf(ShardFile which) const {
  std::lock_guard<std::mutex> lock(mutex);
  auto found =
      std::find_if(openFiles.begin(), openFiles.end(),
                   [&](const OpenFile &open) { return open.which == which; });
  if (found != openFiles.end()) {
    std::rotate(found, found + 1, openFiles.end());
    return openFiles.back().file;
  }
  OPTRT_ASSIGN_OR_RETURN(InputFile file,
                         InputFile::open(pathOf(which), StatusCode::DataLoss));
  struct stat now = {};
  if (fstat(file.descriptor(), &now) != 0 ||
      int64_t(file.size()) != bytesOfFile(which) ||
      stampOf(now) != stamps[int(which.kind)][which.shard])
    return dataLoss(concat(file.path(),
                           " changed while the store was read; leave it as it "
                           "was prepared"));
  if (openFiles.size() == kMostOpenFiles)
    openFiles.erase(openFiles.begin());
  // Whoever reads from one that is closed here keeps it open.
  openFiles.push_back(
      {which, std::make_shared<const InputFile>(std::move(file))});
  return openFiles.back().file;
}

std::size_t TokenStore::shardOf(int64_t token) const {
  return std::upper_bound(begins.begin(), begins.end(), token) -
         begins.begin() - 1;
}

Status TokenStore::readBytes(int64_t begin, char *to, int64_t count) const {
  const int64_t width = bytesOf(index.type);
  for (std::size_t shard = shardOf(begin / width); count > 0; ++shard) {
    const int64_t part = std::min(count, begins[shard + 1] * width - begin);
    OPTRT_ASSIGN_OR_RETURN(SharedFile file, fileOf({shard}));
    OPTRT_RETURN_IF_ERROR(file->read(begin - begins[shard] * width, to, part));
    begin += part;
    to += part;
    count -= part;
  }
  return okStatus();
}

Status TokenStore::readLabels(int64_t begin, std::span<uint8_t> labels) const {
  std::vector<char> bytes;
  for (std::size_t shard = shardOf(begin); !labels.empty(); ++shard) {
    const int64_t first = begin - begins[shard];
    const int64_t part =
        std::min<int64_t>(labels.size(), begins[shard + 1] - begin);
    OPTRT_ASSIGN_OR_RETURN(SharedFile file, fileOf({shard, Kind::Labels}));
    bytes.resize((first + part + 7) / 8 - first / 8);
    OPTRT_RETURN_IF_ERROR(file->read(first / 8, bytes.data(), bytes.size()));
    for (int64_t i = 0; i != part; ++i)
      labels[i] = bytes[(first + i) / 8 - first / 8] >> ((first + i) % 8) & 1;
    labels = labels.subspan(part);
    begin += part;
  }
  return okStatus();
}

/// The ends of a shard are numbers of its tokens, up to and with the last one
/// of a document, and rise.
Status TokenStore::readEnds(int64_t begin, std::span<uint8_t> ends) const {
  std::ranges::fill(ends, uint8_t(0));
  for (std::size_t shard = shardOf(begin); !ends.empty(); ++shard) {
    const auto [tokens, documents] = split.shards[shard];
    const int64_t first = begin - begins[shard];
    const int64_t part = std::min<int64_t>(ends.size(), tokens - first);
    OPTRT_ASSIGN_OR_RETURN(SharedFile file, fileOf({shard, Kind::Ends}));
    auto read = [&](int64_t at, std::span<uint32_t> to) {
      return file->read(at * int64_t(sizeof(uint32_t)), to.data(),
                        to.size_bytes());
    };
    // The first document that ends behind token `first`.
    int64_t next = 0;
    for (int64_t end = documents; next != end;) {
      const int64_t middle = next + (end - next) / 2;
      uint32_t found = 0;
      OPTRT_RETURN_IF_ERROR(read(middle, {&found, 1}));
      if (found > first)
        end = middle;
      else
        next = middle + 1;
    }
    // No more than one ends at a token.
    std::vector<uint32_t> found(std::min(documents - next, part));
    OPTRT_RETURN_IF_ERROR(read(next, found));
    for (int64_t before = first; uint32_t end : found) {
      if (end <= before || end > tokens)
        return dataLoss(concat(file->path(), " is damaged: a document ends ",
                               "behind token ", end, ", and the one before ",
                               "behind ", before, " of ", tokens,
                               "; prepare the store again"));
      if (end > first + part)
        break;
      ends[end - 1 - first] = 1;
      before = end;
    }
    ends = ends.subspan(part);
    begin += part;
  }
  return okStatus();
}

DataIdentity TokenStore::identity() const {
  return {index.type, split.tokens, sample, split.hash};
}

std::string TokenStore::place() const {
  return concat(indexFile.identity(), " ", splitName);
}

bool TokenStore::wasWrittenTo() const {
  std::lock_guard<std::mutex> lock(mutex);
  return !indexFile.checkUnchanged().ok() ||
         std::any_of(openFiles.begin(), openFiles.end(),
                     [](const OpenFile &open) {
                       return !open.file->checkUnchanged().ok();
                     });
}

Status TokenStore::dropFromMemory() const {
  for (std::size_t shard = 0; shard != split.shards.size(); ++shard)
    for (Kind kind : kinds()) {
      OPTRT_ASSIGN_OR_RETURN(SharedFile file, fileOf({shard, kind}));
      drop(file->descriptor());
    }
  return okStatus();
}

Status TokenStore::unexpectedToken(uint32_t token, int64_t vocabulary) const {
  return dataLoss(concat("the store ", name, " has token ", token,
                         ", but its vocabulary has ", index.vocabulary,
                         " tokens, and the model's ", vocabulary,
                         "; python3 -m optimus.data check finds the shard"));
}
