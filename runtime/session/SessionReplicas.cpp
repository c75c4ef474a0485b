//===- SessionReplicas.cpp - Whether copies are alike ---------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Ranks hold the same shard of a buffer if they differ only on mesh axes that
// do not shard it. Of [{row}, {}] on row:2,col:2, ranks 0 and 1 are one group
// of copies, and ranks 2 and 3 another.
//
//===----------------------------------------------------------------------===//

#include "LocalRank.h"

#include "optimus-runtime/RankTeam.h"
#include "optimus-support/Hash.h"

#include <algorithm>
#include <map>
#include <sstream>
#include <unistd.h>

namespace optrt {
namespace {

/// What a process says of one of its ranks.
struct RankHashes {
  std::string host;
  std::vector<std::string> hashes; ///< one a compared buffer
};

/// The first of the ranks that hold the same shard.
int64_t firstHolder(const Mesh &mesh, const ShardLayout &layout, int64_t rank) {
  std::vector<int64_t> coordinates = mesh.coordinates(rank);
  for (int axis = 0; axis != mesh.numAxes(); ++axis) {
    auto has = [&](const std::vector<int> &axes) {
      return std::find(axes.begin(), axes.end(), axis) != axes.end();
    };
    if (std::none_of(layout.axes.begin(), layout.axes.end(), has))
      coordinates[axis] = 0;
  }
  return mesh.rank(coordinates);
}

std::string listOf(const std::vector<int> &ranks,
                   const std::vector<RankHashes> &all) {
  constexpr std::size_t kMost = 8;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i != std::min(ranks.size(), kMost); ++i)
    text += concat(i == 0 ? "" : ", ", ranks[i], " on ", all[ranks[i]].host);
  return ranks.size() > kMost ? concat(text, ", …") : text;
}

/// What is wrong with copies of one shard, or nothing.
std::string compareCopies(const std::vector<int> &holders, std::size_t number,
                          const std::vector<RankHashes> &all) {
  std::map<std::string, std::vector<int>> byHash;
  for (int rank : holders)
    byHash[all[rank].hashes[number]].push_back(rank);
  if (byHash.size() <= 1)
    return "";
  std::size_t most = 0;
  for (const auto &[hash, ranks] : byHash)
    most = std::max(most, ranks.size());
  std::vector<int> others;
  std::string groups, agreeing;
  std::size_t numLargest = 0;
  for (const auto &[hash, ranks] : byHash) {
    const std::string list = listOf(ranks, all);
    groups += concat(groups.empty() ? "" : "; ", list, " ", hash);
    numLargest += ranks.size() == most;
    if (ranks.size() == most)
      agreeing = list;
    else
      others.insert(others.end(), ranks.begin(), ranks.end());
  }
  // With equal numbers for and against, the right copy is unknown.
  if (numLargest > 1)
    return concat("copies differ, hashes are: ", groups);
  std::sort(others.begin(), others.end());
  return concat(listOf(others, all), others.size() == 1 ? " holds" : " hold",
                " another copy than ", agreeing);
}

} // namespace

Status Session::compareReplicas() {
  OPTRT_RETURN_IF_ERROR(checkIdle("copies were compared"));
  OPTRT_RETURN_IF_ERROR(finishCarried());
  std::vector<int64_t> compared;
  for (int64_t index : held) {
    const Buffer &buffer = manifest().buffers[index];
    if ((buffer.lifetime == Lifetime::Parameter ||
         buffer.lifetime == Lifetime::State) &&
        buffer.unreduced.empty())
      compared.push_back(index);
  }
  std::vector<std::string> lines(ranks.size());
  Status read = team->run([&](int i) -> Status {
    for (int64_t index : compared) {
      if (!ranks[i]->plan.holds(index)) {
        lines[i] += " -";
        continue;
      }
      OPTRT_ASSIGN_OR_RETURN(uint64_t hash, ranks[i]->buffers.hash(index));
      lines[i] += concat(' ', optimus_support::hashToHex(hash));
    }
    return okStatus();
  });
  OPTRT_RETURN_IF_ERROR(control.agree(read));
  char host[256] = "";
  gethostname(host, sizeof(host) - 1);
  std::string own;
  for (const std::string &line : lines)
    own += concat(*host ? host : "localhost", line, '\n');
  std::vector<RankHashes> all;
  for (const std::string &text : control.allGather(own)) {
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) {
      std::istringstream words(line);
      all.emplace_back();
      words >> all.back().host;
      for (std::string hash; words >> hash;)
        all.back().hashes.push_back(hash);
    }
  }
  const Mesh &mesh = manifest().mesh;
  for (std::size_t number = 0; number != compared.size(); ++number) {
    const Buffer &buffer = manifest().buffers[compared[number]];
    std::map<int64_t, std::vector<int>> holders;
    for (int rank = 0; rank != control.size(); ++rank)
      if (planOf(rank).holds(compared[number]))
        holders[firstHolder(mesh, buffer.layout, rank)].push_back(rank);
    for (const auto &[first, ranks] : holders)
      if (std::string wrong = compareCopies(ranks, number, all); !wrong.empty())
        return unavailable(concat(
            "`", buffer.name, "` (", buffer.role,
            ") should be the same on "
            "these ranks: ",
            wrong, "; memory or a processor of that host may be at fault"));
  }
  return okStatus();
}

} // namespace optrt
