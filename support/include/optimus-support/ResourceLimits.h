//===- ResourceLimits.h - What this process may use -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A container or a batch system may allow a process less than its machine has:
// by the affinity of its threads, by cpusets, and by quotas of time and limits
// of memory of its cgroup and of every parent of that.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_SUPPORT_RESOURCELIMITS_H
#define OPTIMUS_SUPPORT_RESOURCELIMITS_H

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace optimus_support {

/// Time on cores that the processes of a cgroup share.
struct CpuQuota {
  /// In seconds a second.
  double cores = 0;
  /// Tells groups of one machine apart.
  std::string group;
  /// The file that says so.
  std::string file;
};

struct ResourceLimits {
  /// Tells machines apart since they were started; empty where it is unknown.
  std::string machine;
  /// The numbers of the cores that threads of this process may run on.
  std::set<int> cores;
  /// Of this process's cgroup and its parents, where they have any.
  std::vector<CpuQuota> quotas;
  int64_t memoryBytes = 0;
  /// The file of a cgroup that allows so little; empty for the whole machine.
  std::string memoryFile;

  /// The cores that a process alone keeps busy: one at least.
  int usableCores() const;
  /// "this machine", or "this container".
  std::string memoryOwner() const;
};

/// The whole cores that a quota is worth, one at least. A half counts as one:
/// threads that pause for a quarter of each period do more than one thread
/// fewer.
int wholeCores(const CpuQuota &quota);

/// Reads /proc and the cgroups mounted there, below a folder in place of /.
/// What is missing or says nonsense limits nothing.
ResourceLimits readResourceLimits(const std::string &root);

/// The folder in place of / for what a process asks of itself: for tests
/// $OPTIMUS_SYSTEM_ROOT, else "".
std::string systemRoot();

/// Of this process, as it was when this was called first: libraries may bind
/// threads later. Below systemRoot().
const ResourceLimits &resourceLimits();

} // namespace optimus_support

#endif // OPTIMUS_SUPPORT_RESOURCELIMITS_H
