//===- CoreShare.cpp - The cores of a rank --------------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-runtime/CoreShare.h"

#include <algorithm>
#include <nlohmann/json.hpp>

using namespace optimus_support;

namespace optrt {

namespace {
struct Process {
  ResourceLimits limits;
  int ranks = 1;
};

StatusOr<Process> decode(const std::string &text) {
  auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  try {
    Process process;
    process.ranks = json.at("ranks").get<int>();
    process.limits.machine = json.at("machine").get<std::string>();
    process.limits.cores = json.at("cores").get<std::set<int>>();
    for (const nlohmann::json &quota : json.at("quotas"))
      process.limits.quotas.push_back({quota.at("cores").get<double>(),
                                       quota.at("group").get<std::string>(),
                                       quota.at("file").get<std::string>()});
    return process;
  } catch (const nlohmann::json::exception &) {
    return internal(
        concat("a process tells its cores as nobody understands: ", text));
  }
}

bool overlap(const std::set<int> &a, const std::set<int> &b) {
  return std::ranges::any_of(a, [&](int core) { return b.contains(core); });
}

bool hasGroup(const ResourceLimits &limits, const std::string &group) {
  return std::ranges::count(limits.quotas, group, &CpuQuota::group) != 0;
}
} // namespace

std::string encodeCores(const ResourceLimits &limits, int numRanks) {
  auto quotas = nlohmann::json::array();
  for (const CpuQuota &quota : limits.quotas)
    quotas.push_back(
        {{"cores", quota.cores}, {"group", quota.group}, {"file", quota.file}});
  // A path may be of bytes that are no text.
  return nlohmann::json{{"machine", limits.machine},
                        {"cores", limits.cores},
                        {"quotas", quotas},
                        {"ranks", numRanks}}
      .dump(-1, ' ', /*ensure_ascii=*/true,
            nlohmann::json::error_handler_t::replace);
}

StatusOr<CoreShare> shareCores(std::span<const std::string> all,
                               std::size_t own) {
  std::vector<Process> processes;
  for (const std::string &text : all) {
    OPTRT_ASSIGN_OR_RETURN(Process process, decode(text));
    processes.push_back(std::move(process));
  }
  const ResourceLimits &limits = processes[own].limits;
  // The ranks of this machine that share something with this process.
  auto count = [&](auto &&shares) {
    int ranks = 0;
    for (const Process &process : processes)
      if (process.limits.machine == limits.machine && shares(process.limits))
        ranks += process.ranks;
    return ranks;
  };
  CoreShare share{int(limits.cores.size()), count([&](const auto &other) {
                    return overlap(limits.cores, other.cores);
                  }),
                  ""};
  for (const CpuQuota &quota : limits.quotas) {
    CoreShare part{wholeCores(quota), count([&](const auto &other) {
                     return hasGroup(other, quota.group);
                   }),
                   quota.file};
    if (int64_t(part.cores) * share.ranks < int64_t(share.cores) * part.ranks)
      share = part;
  }
  return share;
}

StatusOr<CoreShare> shareCores(ControlPlane &control) {
  const std::string text =
      encodeCores(resourceLimits(), control.numLocalRanks());
  const std::vector<std::string> all = control.allGather(text);
  // A process has one rank, or there is one process.
  return shareCores(all,
                    std::min<std::size_t>(control.firstRank(), all.size() - 1));
}

} // namespace optrt
