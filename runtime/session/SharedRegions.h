//===- SharedRegions.h - Memory that processes share -----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_SESSION_SHAREDREGIONS_H
#define OPTIMUS_RUNTIME_SESSION_SHAREDREGIONS_H

#include "optimus-runtime/ControlPlane.h"

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace optrt {

/// A region of memory of each process, which the processes of its machine write
/// to as well: as MPI_Win_allocate_shared, whatever the control plane. It is
/// nameless: whenever a process ends, nothing stays.
class SharedRegions {
public:
  /// Every process brings the bytes of each's region, which are multiples of
  /// 8. The pages are there, and zeros. Collective.
  ///
  /// Errors: Unavailable without so much memory, the same in every process.
  static StatusOr<std::unique_ptr<SharedRegions>>
  create(ControlPlane &control, std::span<const std::size_t> bytes);
  ~SharedRegions();
  SharedRegions(const SharedRegions &) = delete;
  SharedRegions &operator=(const SharedRegions &) = delete;

  /// Whether two processes write to each other's regions; the same in every
  /// process.
  bool areShared(int one, int other) const;
  /// The region of this process, or of one that it shares regions with.
  std::span<std::byte> of(int process) const { return regions[process].memory; }
  /// Touches all pages at once; faults of one at a time cost more.
  void populate();
  /// As given to create().
  std::span<const std::size_t> sizes() const { return bytes; }
  /// Whether a process that shares its region has not ended.
  bool isAlive(int process) const;

private:
  struct Region {
    int handle = -1;
    std::span<std::byte> memory;
  };
  SharedRegions() = default;
  /// Opens and maps the region of another process, if that is how the system
  /// sees it: `number` is in its name.
  static Region open(int pid, int handle, const std::string &number,
                     std::size_t bytes);
  static void close(Region &region);

  std::vector<std::size_t> bytes;
  std::vector<Region> regions;           ///< empty: not shared
  std::vector<std::string> whoIsReached; ///< by a process: '1' where it is
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_SESSION_SHAREDREGIONS_H
