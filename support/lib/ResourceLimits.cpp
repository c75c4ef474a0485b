//===- ResourceLimits.cpp - What this process may use ---------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/ResourceLimits.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string_view>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

using namespace optimus_support;

namespace {

/// Numbers of cores beyond this are nonsense.
constexpr int kMostCores = 1 << 16;

/// The first line of a file; nothing where there is none.
std::optional<std::string> readLine(const std::string &path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line))
    return std::nullopt;
  return line;
}

std::optional<int64_t> toNumber(std::string_view text) {
  int64_t number = 0;
  const char *end = text.data() + text.size();
  auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end)
    return std::nullopt;
  return number;
}

std::vector<std::string> split(const std::string &text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);)
    parts.push_back(part);
  return parts;
}

/// "0-3,8" as numbers; nothing where it is empty or nonsense.
std::set<int> toCores(const std::string &text) {
  std::set<int> cores;
  for (const std::string &range : split(text, ',')) {
    const size_t dash = range.find('-');
    auto first = toNumber(std::string_view(range).substr(0, dash));
    auto last = dash == std::string::npos
                    ? first
                    : toNumber(std::string_view(range).substr(dash + 1));
    if (!first || !last || *first < 0 || *last >= kMostCores)
      return {};
    for (int64_t core = *first; core <= *last; ++core)
      cores.insert(int(core));
  }
  return cores;
}

/// What follows "name:" in a file of /proc, without blanks around it.
std::optional<std::string> readField(const std::string &path,
                                     const std::string &name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(name + ":")) {
      const size_t begin = line.find_first_not_of(" \t", name.size() + 1);
      return begin == std::string::npos ? "" : line.substr(begin);
    }
  return std::nullopt;
}

/// Blanks and the like are in octal in /proc/self/mountinfo.
std::string unescape(const std::string &text) {
  std::string plain;
  for (size_t i = 0; i != text.size(); ++i) {
    auto isOctal = [&](size_t at) {
      return at < text.size() && text[at] >= '0' && text[at] <= '7';
    };
    if (text[i] == '\\' && isOctal(i + 1) && isOctal(i + 2) && isOctal(i + 3)) {
      plain += char((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 +
                    (text[i + 3] - '0'));
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

/// A hierarchy of cgroups as this process sees it.
struct CgroupMount {
  bool isUnified = false;
  /// Of version 1: its controllers, among other options.
  std::vector<std::string> options;
  /// The group that is mounted, and where.
  std::string group, folder;
};

std::vector<CgroupMount> readMounts(const std::string &root) {
  std::vector<CgroupMount> mounts;
  std::ifstream file(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t dash = line.find(" - ");
    if (dash == std::string::npos)
      continue;
    std::vector<std::string> first = split(line.substr(0, dash), ' '),
                             second = split(line.substr(dash + 3), ' ');
    if (first.size() < 5 || second.empty() ||
        (second[0] != "cgroup" && second[0] != "cgroup2"))
      continue;
    mounts.push_back(
        {second[0] == "cgroup2",
         second.size() > 2 ? split(second[2], ',') : std::vector<std::string>(),
         unescape(first[3]), root + unescape(first[4])});
  }
  return mounts;
}

/// The folders of a group and of its parents as far as they are visible,
/// innermost first.
std::vector<std::string> foldersOf(const CgroupMount &mount,
                                   const std::string &group) {
  const std::string above = mount.group == "/" ? "" : mount.group;
  std::string inner;
  // A group outside of what is mounted is in another namespace: what is mounted
  // is all there is to see.
  if (group.starts_with(above + "/") && group.find("/..") == std::string::npos)
    inner = group.substr(above.size());
  while (inner.ends_with('/'))
    inner.pop_back();
  std::vector<std::string> folders;
  for (; !inner.empty(); inner.erase(inner.rfind('/')))
    folders.push_back(mount.folder + inner);
  folders.push_back(mount.folder);
  return folders;
}

class Reader {
public:
  explicit Reader(const std::string &root) : root(root) {}

  ResourceLimits read() {
    limits.machine =
        readLine(root + "/proc/sys/kernel/random/boot_id").value_or("");
    // Of the process's first thread.
    limits.cores =
        toCores(readField(root + "/proc/self/status", "Cpus_allowed_list")
                    .value_or(""));
    if (limits.cores.empty())
      for (unsigned i = 0;
           i != std::max(1u, std::thread::hardware_concurrency()); ++i)
        limits.cores.insert(int(i));
    limits.memoryBytes =
        int64_t(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
    if (auto text = readField(root + "/proc/meminfo", "MemTotal"))
      if (auto kibibytes = toNumber(text->substr(0, text->find(' '))))
        limits.memoryBytes = *kibibytes * 1024;
    readGroups();
    return limits;
  }

private:
  void readGroups() {
    const std::vector<CgroupMount> mounts = readMounts(root);
    std::ifstream file(root + "/proc/self/cgroup");
    for (std::string line; std::getline(file, line);) {
      // "4:cpu,cpuacct:/job", or of version 2 "0::/job".
      const size_t first = line.find(':');
      const size_t second = line.find(':', first + 1);
      if (first == std::string::npos || second == std::string::npos)
        continue;
      const std::vector<std::string> controllers =
          split(line.substr(first + 1, second - first - 1), ',');
      const std::string group = line.substr(second + 1);
      for (const CgroupMount &mount : mounts) {
        if (mount.isUnified && controllers.empty())
          for (const std::string &folder : foldersOf(mount, group))
            readUnified(folder);
        for (const std::string &controller : controllers)
          if (!mount.isUnified &&
              std::ranges::count(mount.options, controller) != 0)
            for (const std::string &folder : foldersOf(mount, group))
              readController(controller, folder);
      }
    }
  }

  /// Version 2.
  void readUnified(const std::string &folder) {
    // "150000 100000", or "max 100000".
    if (auto text = readLine(folder + "/cpu.max")) {
      const size_t blank = text->find(' ');
      addQuota(folder, "/cpu.max", toNumber(text->substr(0, blank)),
               blank == std::string::npos ? std::optional<int64_t>(100'000)
                                          : toNumber(text->substr(blank + 1)));
    }
    addCores(readLine(folder + "/cpuset.cpus.effective"));
    // Above memory.high a process crawls.
    addMemory(folder + "/memory.max");
    addMemory(folder + "/memory.high");
  }

  /// Version 1.
  void readController(const std::string &controller,
                      const std::string &folder) {
    auto number = [&](const char *name) {
      return toNumber(readLine(folder + name).value_or(""));
    };
    if (controller == "cpu")
      addQuota(folder, "/cpu.cfs_quota_us", number("/cpu.cfs_quota_us"),
               number("/cpu.cfs_period_us"));
    if (controller == "cpuset") {
      addCores(readLine(folder + "/cpuset.effective_cpus"));
      addCores(readLine(folder + "/cpuset.cpus"));
    }
    if (controller == "memory")
      addMemory(folder + "/memory.limit_in_bytes");
  }

  void addQuota(const std::string &folder, const char *name,
                std::optional<int64_t> quota, std::optional<int64_t> period) {
    if (!quota || !period || *quota <= 0 || *period <= 0)
      return;
    // Its folder's number is the same in every container that sees it.
    struct stat found {};
    const std::string group =
        stat(folder.c_str(), &found) == 0
            ? std::to_string(found.st_dev) + ":" + std::to_string(found.st_ino)
            : folder;
    limits.quotas.push_back(
        {double(*quota) / double(*period), group, folder + name});
  }

  void addCores(const std::optional<std::string> &text) {
    // An empty cpuset is its parent's.
    std::set<int> allowed = toCores(text.value_or("")), both;
    std::ranges::set_intersection(limits.cores, allowed,
                                  std::inserter(both, both.end()));
    if (!both.empty())
      limits.cores = std::move(both);
  }

  void addMemory(const std::string &file) {
    auto bytes = toNumber(readLine(file).value_or(""));
    if (!bytes || *bytes <= 0 || *bytes >= limits.memoryBytes)
      return;
    limits.memoryBytes = *bytes;
    limits.memoryFile = file;
  }

  const std::string &root;
  ResourceLimits limits;
};

} // namespace

int optimus_support::wholeCores(const CpuQuota &quota) {
  return int(std::clamp(std::round(quota.cores), 1., double(kMostCores)));
}

int ResourceLimits::usableCores() const {
  int count = std::max(1, int(cores.size()));
  for (const CpuQuota &quota : quotas)
    count = std::min(count, wholeCores(quota));
  return count;
}

std::string ResourceLimits::memoryOwner() const {
  return memoryFile.empty() ? "this machine" : "this container";
}

ResourceLimits optimus_support::readResourceLimits(const std::string &root) {
  return Reader(root).read();
}

std::string optimus_support::systemRoot() {
  const char *root = std::getenv("OPTIMUS_SYSTEM_ROOT");
  return root ? root : "";
}

const ResourceLimits &optimus_support::resourceLimits() {
  static const ResourceLimits limits = readResourceLimits(systemRoot());
  return limits;
}
