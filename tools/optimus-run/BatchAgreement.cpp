//===- BatchAgreement.cpp - That processes read the same tokens -----------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BatchAgreement.h"

#include "optimus-support/Hash.h"

#include <algorithm>
#include <map>

using namespace optrt;

namespace optimus_run {

/// Of a hash in hexadecimal digits.
static constexpr std::size_t kDigits = 16;

static bool contains(const auto &list, const auto &element) {
  return std::find(list.begin(), list.end(), element) != list.end();
}

static std::string writeHashes(std::span<const uint64_t> hashes) {
  std::string text;
  for (uint64_t hash : hashes)
    text += optimus_support::hashToHex(hash);
  return text;
}

std::vector<std::vector<int>>
chooseWitnessed(std::span<const std::string> places) {
  // Processes by file, in the order of the first of each.
  std::vector<std::vector<int>> groups;
  std::map<std::string, std::size_t> groupOf;
  for (std::size_t process = 0; process != places.size(); ++process) {
    auto [found, isNew] = groupOf.emplace(places[process], groups.size());
    if (isNew)
      groups.emplace_back();
    groups[found->second].push_back(static_cast<int>(process));
  }
  std::vector<std::vector<int>> witnessed(places.size());
  if (groups.size() == 1)
    return witnessed;
  for (std::size_t g = 0; g != groups.size(); ++g) {
    const std::vector<int> &witnesses = groups[g];
    const std::vector<int> &next = groups[(g + 1) % groups.size()];
    for (std::size_t i = 0; i != next.size(); ++i)
      witnessed[witnesses[i % witnesses.size()]].push_back(next[i]);
  }
  return witnessed;
}

BatchAgreement::BatchAgreement(const Session &session, ControlPlane &control,
                               const Dataset &data)
    : session(session), control(control), data(data) {
  const int perProcess = control.numLocalRanks();
  if (perProcess == control.size())
    return;
  const std::vector<std::vector<int>> witnessed =
      chooseWitnessed(control.allGather(data.place()));
  ranges.resize(witnessed.size());
  auto add = [&](std::size_t to, int process) {
    for (int i = 0; i != perProcess; ++i)
      for (const RowRange &range :
           session.rowsOfBatch(process * perProcess + i))
        if (!contains(ranges[to], range))
          ranges[to].push_back(range);
  };
  for (std::size_t process = 0; process != ranges.size(); ++process) {
    add(process, static_cast<int>(process));
    for (int other : witnessed[process])
      add(process, other);
  }
}

Session::FindEnds endsOf(const Dataset &data,
                         std::function<int64_t(int64_t row)> window) {
  if (!data.hasEnds())
    return {};
  return [&data, window = std::move(window)](int64_t begin, int64_t count,
                                             uint8_t *ends) -> Status {
    const std::size_t sequence = data.sequence();
    for (int64_t row = begin; row != begin + count; ++row, ends += sequence)
      OPTRT_RETURN_IF_ERROR(data.findEnds(window(row), {ends, sequence}));
    return okStatus();
  };
}

Status BatchAgreement::read(BatchRows rows, HostBatch &batch) {
  batches.clear();
  own.clear();
  return readAnother(std::move(rows), batch);
}

Status BatchAgreement::readAnother(BatchRows rows, HostBatch &batch) {
  Status status =
      readInto(batches.emplace_back(Batch{std::move(rows), {}}), batch);
  if (!status.ok())
    own.clear();
  return status;
}

Status BatchAgreement::readInto(Batch &read, HostBatch &batch) {
  const Session::FindEnds ends = endsOf(data, read.rows.window);
  if (ranges.empty())
    return session.read(
        [&](int64_t begin, int64_t count, int32_t *tokens, int32_t *targets) {
          return read.rows.fill(begin, count, tokens, targets, nullptr);
        },
        batch, ends);
  auto hashesOf = [&](const RowRange &range) -> std::vector<uint64_t> & {
    for (auto &[known, list] : read.hashes)
      if (known == range)
        return list;
    return read.hashes.emplace_back(range, std::vector<uint64_t>(range.second))
        .second;
  };
  OPTRT_RETURN_IF_ERROR(session.read(
      [&](int64_t begin, int64_t count, int32_t *tokens, int32_t *targets) {
        return read.rows.fill(begin, count, tokens, targets,
                              hashesOf({begin, count}).data());
      },
      batch, ends));
  for (const RowRange &range :
       ranges[control.firstRank() / control.numLocalRanks()]) {
    const bool isRead =
        std::any_of(read.hashes.begin(), read.hashes.end(),
                    [&](const auto &entry) { return entry.first == range; });
    std::vector<uint64_t> &list = hashesOf(range);
    if (!isRead) {
      std::vector<int64_t> windows;
      for (int64_t row = range.first; row != range.first + range.second; ++row)
        windows.push_back(read.rows.window(row));
      OPTRT_RETURN_IF_ERROR(data.hashWindows(windows, list.data()));
    }
    own += optimus_support::hashToHex(
        optimus_support::hash64(list.data(), list.size() * sizeof(uint64_t)));
  }
  return okStatus();
}

Status BatchAgreement::compare(std::span<const std::string> all) {
  struct First {
    std::size_t process;
    std::string_view digest;
  };
  for (std::size_t batch = 0; batch != batches.size(); ++batch) {
    std::map<RowRange, First> firsts;
    for (std::size_t process = 0; process != ranges.size(); ++process)
      for (std::size_t i = 0; i != ranges[process].size(); ++i) {
        const RowRange &range = ranges[process][i];
        const std::string_view text = all[process];
        const std::size_t place = batch * ranges[process].size() + i;
        const std::string_view digest =
            text.substr(std::min(place * kDigits, text.size()), kDigits);
        const auto [found, isNew] =
            firsts.emplace(range, First{process, digest});
        if (!isNew && found->second.digest != digest)
          return difference(found->second.process, process, batch, range);
      }
  }
  return okStatus();
}

/// Both say where their files are and what they have of each row.
Status BatchAgreement::difference(std::size_t one, std::size_t other,
                                  std::size_t batch, const RowRange &range) {
  std::string text = data.path() + "\n";
  for (const auto &[known, list] : batches[batch].hashes)
    if (known == range)
      text += writeHashes(list);
  const std::vector<std::string> all = control.allGather(text);
  auto split = [](const std::string &text) {
    const std::size_t end = text.find('\n');
    return std::pair(text.substr(0, end),
                     std::string_view(text).substr(end + 1));
  };
  const auto [path, rows] = split(all[one]);
  const auto [otherPath, otherRows] = split(all[other]);
  int64_t row = 0;
  while (row + 1 < range.second && rows.substr(row * kDigits, kDigits) ==
                                       otherRows.substr(row * kDigits, kDigits))
    ++row;
  const int64_t window = batches[batch].rows.window(range.first + row);
  const int perProcess = control.numLocalRanks();
  const int oneRank = one * perProcess, otherRank = other * perProcess;
  return invalidArgument(concat(
      "rank ", otherRank, " and rank ", oneRank,
      " have read different tokens in ", data.describeWindow(window),
      " of the data: ", otherPath, " on rank ", otherRank, " differs from ",
      path, " on rank ", oneRank, "; give all ranks the same file"));
}

Status BatchAgreement::agree(const Status &status) {
  // Digests have no spaces.
  std::vector<std::string> digests;
  Status failure;
  for (const std::string &text :
       control.allGather(concat(own, " ", ControlPlane::encode(status)))) {
    const std::size_t space = text.find(' ');
    digests.push_back(text.substr(0, space));
    if (failure.ok())
      failure = ControlPlane::decode(std::string_view(text).substr(space + 1));
  }
  OPTRT_RETURN_IF_ERROR(failure);
  return compare(digests);
}

} // namespace optimus_run
