//===- CollectiveAgreement.cpp - That ranks start the same ----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CollectiveAgreement.h"

#include "optimus-runtime/Collectives.h"
#include "optimus-support/Hash.h"

#include <map>
#include <sstream>

using namespace optimus_support::program;

namespace optrt {

namespace {

/// Of a function, on some axes.
struct Place {
  std::string function;
  std::vector<uint32_t> axes;

  auto operator<=>(const Place &) const = default;
};

CollectiveOrder orderOn(const TargetT &target, int64_t rank,
                        const std::string &function) {
  const ProgramTableT &table = tableOf(target, rank);
  return orderOfCollectives(target, table, *findFunction(table, function));
}

/// A line for each function and axes of each rank of this process: the rank,
/// the digest, the function and the axes.
std::string writeDigests(const ControlPlane &control, const TargetT &target,
                         std::span<const std::string> functions) {
  std::ostringstream text;
  for (int i = 0; i != control.numLocalRanks(); ++i) {
    const int rank = control.firstRank() + i;
    for (const std::string &function : functions)
      for (const auto &[axes, starts] : orderOn(target, rank, function)) {
        std::string all;
        for (const CollectiveStart &start : starts)
          all += start.what + "\n";
        text << rank << ' ' << optimus_support::hash64(all) << ' ' << function;
        for (uint32_t axis : axes)
          text << ' ' << axis;
        text << '\n';
      }
  }
  return text.str();
}

/// By place and rank; a rank that starts nothing there has none.
using Digests = std::map<Place, std::map<int64_t, uint64_t>>;

Digests readDigests(const std::vector<std::string> &texts) {
  Digests digests;
  for (const std::string &text : texts) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      int64_t rank = 0;
      uint64_t digest = 0;
      Place place;
      words >> rank >> digest >> place.function;
      for (uint32_t axis; words >> axis;)
        place.axes.push_back(axis);
      digests[place][rank] = digest;
    }
  }
  return digests;
}

std::string writeStarts(const std::vector<CollectiveStart> &starts) {
  std::string text;
  for (const CollectiveStart &start : starts)
    text += start.name + '\t' + start.what + '\n';
  return text;
}

std::vector<CollectiveStart> readStarts(const std::string &text) {
  std::vector<CollectiveStart> starts;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t tab = line.find('\t');
    starts.push_back({line.substr(0, tab), line.substr(tab + 1)});
  }
  return starts;
}

/// What a rank, of whatever process, starts. Collective.
std::vector<CollectiveStart> fetchStarts(ControlPlane &control,
                                         const TargetT &target,
                                         const Place &place, int64_t rank) {
  const int64_t local = rank - control.firstRank();
  std::string own;
  if (local >= 0 && local < control.numLocalRanks())
    own = writeStarts(orderOn(target, rank, place.function)[place.axes]);
  std::string all;
  for (const std::string &text : control.allGather(own))
    all += text;
  return readStarts(all);
}

} // namespace

Status agreeOnCollectives(ControlPlane &control, const TargetT &target,
                          const optimus_support::Mesh &mesh,
                          std::span<const std::string> functions) {
  // Tables of one library were compared when it was loaded.
  if (control.numLocalRanks() == control.size())
    return okStatus();
  Digests digests =
      readDigests(control.allGather(writeDigests(control, target, functions)));
  for (auto &[place, byRank] : digests) {
    for (int64_t rank = 0; rank != mesh.numRanks(); ++rank) {
      const int64_t first = mesh.firstOfGroup(rank, place.axes);
      if (byRank[rank] == byRank[first])
        continue;
      const std::vector<CollectiveStart> one =
          fetchStarts(control, target, place, first);
      const std::vector<CollectiveStart> other =
          fetchStarts(control, target, place, rank);
      Status status = compareStarts(place.function, axesName(mesh, place.axes),
                                    {first, one}, {rank, other});
      return Status(status.code(),
                    concat(status.message(),
                           "; copy the same model library to every host"));
    }
  }
  return okStatus();
}

} // namespace optrt
