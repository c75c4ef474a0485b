//===- RaceCheck.h - What nothing orders on a fake GPU ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Two operations may touch a byte, one of them writing, only if one happens
// before the other: by the order of a stream, an event, an edge of a graph, or
// because the host waited for the first and then put the second on a stream.
// Vector clocks know this whatever turns the streams took, so a missing event
// is found in every run.
//
// Operations are numbered within lanes: a stream is one, and so is each chain
// of a graph's nodes. The cost is proportional to the bytes touched: a bit for
// each while an operation runs, then a segment for each stretch with one
// history. All is forgotten when the host has waited for everything.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_DEVICE_CUDA_FAKE_RACECHECK_H
#define OPTIMUS_RUNTIME_DEVICE_CUDA_FAKE_RACECHECK_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace optrt::cuda::fake {

/// How many operations of each lane have happened.
class Clock {
public:
  uint32_t get(size_t lane) const {
    return lane < counts.size() ? counts[lane] : 0;
  }
  void set(size_t lane, uint32_t count);
  void join(const Clock &other);
  /// Whether all that has happened in `other` has happened here.
  bool includes(const Clock &other) const;

private:
  std::vector<uint32_t> counts;
};

/// Work on a stream, or a node of a graph there.
struct Operation {
  std::string name; ///< "add on stream 1"
  size_t lane = 0;
  uint32_t number = 0;
  Clock clock; ///< what has happened when it is done, itself included
};
using OperationRef = std::shared_ptr<const Operation>;

/// The bytes that one operation touches.
class Accesses {
public:
  struct Range {
    uintptr_t begin, end;
    bool isWrite;
  };

  void add(const void *address, size_t bytes, bool isWrite);
  std::vector<Range> ranges() const;
  void clear() {
    large.clear();
    pages.clear();
    latest = nullptr;
  }

private:
  static constexpr size_t kPageBytes = 4096;
  using Bits = std::array<uint64_t, kPageBytes / 64>;
  struct Page {
    Bits written = {}, read = {};
  };

  std::vector<Range> large;        ///< of a page and more
  std::map<uintptr_t, Page> pages; ///< of less, by number
  Page *latest = nullptr;
  uintptr_t latestNumber = 0;
};

class RaceCheck {
public:
  size_t addLane() { return numLanes++; }
  /// The next operation of a lane, behind everything seen by `before` and
  /// everything the host waited for.
  Operation next(std::string name, size_t lane, const Clock &before);

  /// An operation ran: empty, or what it does at the same time as another one.
  std::string check(const OperationRef &operation, const Accesses &accesses);
  /// The host waited for all that this has seen.
  void wait(const Clock &seen) { host.join(seen); }
  /// Whether it has waited for all of that.
  bool hasWaitedFor(const Clock &seen) const { return host.includes(seen); }
  /// Memory is given back: empty, or who may still use it.
  std::string release(const void *begin, size_t bytes);
  /// All accesses so far are before all later ones.
  void forgetAccesses() { segments.clear(); }
  void reset() { *this = RaceCheck(); }

private:
  /// A stretch of bytes with one history, up to `end`.
  struct Segment {
    uintptr_t end;
    OperationRef writer; ///< the last one; null for none
    /// The readers since, except those before another one of these.
    std::vector<OperationRef> readers;
  };
  using Segments = std::map<uintptr_t, Segment>; ///< by begin

  /// The first segment at or behind a place, at which none goes on.
  Segments::iterator split(uintptr_t place);
  std::string check(const OperationRef &operation, Accesses::Range range);
  void read(const OperationRef &operation, Accesses::Range range);
  void write(const OperationRef &operation, Accesses::Range range);

  size_t numLanes = 0;
  std::vector<uint32_t> numbers; ///< of each lane's last operation
  Clock host;
  Segments segments;
};

} // namespace optrt::cuda::fake

#endif // OPTIMUS_RUNTIME_DEVICE_CUDA_FAKE_RACECHECK_H
