//===- OwnMachine.cpp - The profile of this machine -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Prices/OwnMachine.h"

#include "optimus/Prices/ReadMachineProfile.h"

#include "optimus-support/CpuInfo.h"
#include "optimus-support/FileLock.h"
#include "optimus-support/OutputFile.h"
#include "optimus-support/ResourceLimits.h"
#include "optimus-support/ScratchFolder.h"
#include "optimus-support/Subprocess.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <sstream>
#include <sys/wait.h>

using namespace optimus_support;
using nlohmann::ordered_json;
namespace fs = std::filesystem;

namespace optimus_prices {

//===----------------------------------------------------------------------===//
// Which machine this is
//===----------------------------------------------------------------------===//

/// The last of those which products are faster with; each implies those before
/// it.
static std::string findInstructions(std::string_view cpuInfo) {
  std::istringstream flags{
      std::string(findCpuInfo(cpuInfo, "flags").value_or(""))};
  const std::string known[] = {"avx2", "avx512f", "avx512_bf16", "amx_bf16"};
  std::string found = "usual";
  const std::vector<std::string> has{std::istream_iterator<std::string>(flags),
                                     {}};
  for (const std::string &one : known)
    if (std::ranges::count(has, one))
      found = one;
  return found;
}

/// What "machine" of a profile says.
static ordered_json describeMachine() {
  const ResourceLimits &limits = resourceLimits();
  const std::string cpuInfo = readCpuInfo();
  ordered_json machine{{"processor", findProcessorName(cpuInfo)},
                       {"instructions", findInstructions(cpuInfo)},
                       {"cores", limits.cores.size()},
                       {"optimus", OPTIMUS_VERSION}};
  for (const CpuQuota &quota : limits.quotas)
    machine["quota"] =
        std::min(machine.value("quota", quota.cores), quota.cores);
  return machine;
}

static std::string nameFile(const ordered_json &machine) {
  std::string name;
  for (const char c : machine["processor"].get<std::string>())
    if (std::isalnum(static_cast<unsigned char>(c)))
      name += c;
    else if (!name.empty() && name.back() != '-')
      name += '-';
  constexpr size_t kMostLetters = 40;
  std::string limits = concat(machine["cores"].get<size_t>(), "c-");
  if (machine.contains("quota"))
    limits += concat(machine["quota"].get<double>(), "q-");
  return concat(name.substr(0, kMostLetters), "-", limits,
                machine["instructions"].get<std::string>(), ".json");
}

//===----------------------------------------------------------------------===//
// Measuring
//===----------------------------------------------------------------------===//

/// What is measured, the most important first: products of one rank with all
/// cores; collectives of as many ranks as cores and of twice as many; products
/// of as many ranks as cores, of one with one core, and of two that share all.
static std::vector<std::vector<std::string>> listParts(int cores) {
  auto compute = [](int ranks, int threads) -> std::vector<std::string> {
    return {"--gemm",
            "--rounds",
            "1",
            "--largest",
            "512",
            "--ranks",
            std::to_string(ranks),
            "--threads-per-rank",
            std::to_string(threads)};
  };
  auto communicate = [](int ranks) -> std::vector<std::string> {
    return {"--comm", "--max-bytes", "4194304", "--ranks",
            std::to_string(ranks)};
  };
  std::vector<std::vector<std::string>> parts{compute(1, cores)};
  constexpr int kMostRanks = 64;
  for (const int ranks : {cores, 2 * cores})
    if (ranks > 1 && ranks <= kMostRanks)
      parts.push_back(communicate(ranks));
  if (cores > 1) {
    parts.push_back(compute(cores, 1));
    parts.push_back(compute(1, 1));
  }
  if (cores > 3)
    parts.push_back(compute(2, cores / 2));
  return parts;
}

/// Writes a profile. After some seconds no part is begun any more.
static Status measureInto(const std::string &profile, const std::string &log) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::seconds(13);
  const std::string tool = findTool("optimus-run");
  for (const std::vector<std::string> &part :
       listParts(resourceLimits().usableCores())) {
    std::vector<std::string> command{tool, "bench", "--profile", profile};
    command.insert(command.end(), part.begin(), part.end());
    OPTRT_ASSIGN_OR_RETURN(const int status, runProgram(command, log));
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
      const std::string said = readLog(log);
      return unavailable(
          concat("`optimus-run bench ", part.front(),
                 "` failed: ", said.substr(said.rfind('\n') + 1)));
    }
    if (Clock::now() > end)
      break;
  }
  return okStatus();
}

/// The text of a profile.
static StatusOr<std::string> measure(const ordered_json &machine) {
  OPTRT_ASSIGN_OR_RETURN(const std::unique_ptr<ScratchFolder> scratch,
                         ScratchFolder::create("optimus-machine"));
  const std::string file = scratch->file("profile.json");
  OPTRT_RETURN_IF_ERROR(measureInto(file, scratch->file("log")));
  OPTRT_ASSIGN_OR_RETURN(const std::string text, readMachineProfileText(file));
  ordered_json profile = ordered_json::parse(text, nullptr, false);
  if (!profile.is_object())
    return internal(concat("'", file, "' is no JSON object"));
  profile["machine"] = machine;
  return profile.dump() + "\n";
}

//===----------------------------------------------------------------------===//
// The cache
//===----------------------------------------------------------------------===//

/// By the XDG Base Directory Specification; empty where there is none.
static fs::path findFolder() {
  auto get = [](const char *name) -> fs::path {
    const char *value = std::getenv(name);
    return value ? value : "";
  };
  if (const fs::path given = get(kMachineCacheVariable); !given.empty())
    return given == kNoProfile ? fs::path() : fs::absolute(given);
  fs::path base = get("XDG_CACHE_HOME");
  if (!base.is_absolute() && !get("HOME").empty())
    base = get("HOME") / ".cache";
  return base.is_absolute() ? base / "optimus" / "machines" : fs::path();
}

/// What is kept of this machine by this version, if anything is.
static std::optional<OwnMachine> read(const std::string &path,
                                      const ordered_json &machine) {
  std::error_code failed;
  if (!fs::exists(path, failed))
    return std::nullopt;
  const StatusOr<std::string> text = readMachineProfileText(path);
  if (!text.ok())
    return std::nullopt;
  StatusOr<MachineProfile> profile = parseMachineProfile(*text, path);
  if (!profile.ok() || profile->computes.empty())
    return std::nullopt;
  const ordered_json found = ordered_json::parse(*text);
  if (!found.contains("machine") || found["machine"] != machine)
    return std::nullopt;
  return OwnMachine{*std::move(profile), path};
}

static StatusOr<FileLock> lockProfile(const std::string &path,
                                      std::chrono::milliseconds patience) {
  return FileLock::acquire(hiddenSibling(path, "lock"),
                           concat("the machine profile ", path), patience);
}

std::optional<OwnMachine>
findOwnMachine(const std::function<void(const std::string &)> &say) {
  const fs::path folder = findFolder();
  if (folder.empty())
    return std::nullopt;
  const ordered_json machine = describeMachine();
  const std::string path = folder / nameFile(machine);
  if (std::optional<OwnMachine> kept = read(path, machine); kept || !say) {
    // A process killed since has left its lock; taking one removes it.
    std::error_code failed;
    if (kept && fs::exists(hiddenSibling(path, "lock"), failed))
      (void)lockProfile(path, std::chrono::milliseconds(0));
    return kept;
  }
  auto measureOnce = [&]() -> Status {
    std::error_code failed;
    fs::create_directories(folder, failed);
    if (failed)
      return unavailable(concat("cannot make the folder '", folder.string(),
                                "': ", failed.message()));
    OPTRT_ASSIGN_OR_RETURN(const FileLock lock,
                           lockProfile(path, std::chrono::minutes(2)));
    // Somebody else may have measured meanwhile.
    if (read(path, machine))
      return okStatus();
    OPTRT_RETURN_IF_ERROR(checkOutput(path));
    say(concat("predictions are of this machine, which is measured once, in "
               "up to 20 s, and kept in '",
               path, "'; --machine-profile none does without"));
    // What was made for a while is gone before the profile is kept: nobody
    // would measure again, and remove it.
    OPTRT_ASSIGN_OR_RETURN(const std::string profile, measure(machine));
    return OutputFile::write(path, profile);
  };
  const Status measured = measureOnce();
  std::optional<OwnMachine> own = read(path, machine);
  if (!own)
    say(concat("predictions are of the built-in machine: this one is not "
               "measured: ",
               measured.ok() ? concat("'", path, "' is no profile of it")
                             : measured.message()));
  return own;
}

} // namespace optimus_prices
