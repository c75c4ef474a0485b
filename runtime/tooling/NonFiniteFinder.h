//===- NonFiniteFinder.h - The first result not finite ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_TOOLING_NONFINITEFINDER_H
#define OPTIMUS_RUNTIME_TOOLING_NONFINITEFINDER_H

#include "optimus-runtime/Rank.h"
#include "optimus-support/Program.h"

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace optrt {

/// Finds the first command of one rank with a result that is not finite. Some
/// commands have such results in every step, as the logarithm of an empty sum.
/// They are learnt from the step before; what outlives a step, such as a
/// parameter, is looked for there, too.
class NonFiniteFinder final : public CommandObserver {
public:
  enum class Mode { Rest, Learn, Find };

  struct Found {
    int64_t call = 0;     ///< of those that were looked at, from 0
    uint32_t command = 0; ///< of the function
    Mode mode = Mode::Find;
    std::string what; ///< its name, path and place in the source
  };

  explicit NonFiniteFinder(const Rank &rank)
      : device(*rank.device), coordinates(rank.mesh.coordinates(rank.rank)) {}

  /// Between calls.
  void setMode(Mode chosen) { mode = chosen; }
  const std::optional<Found> &first() const { return found; }

  bool beginCall(std::size_t callable) override;
  void begin(const BoundProgram &, Site) override {}
  void end(const BoundProgram &program, Site site) override;

private:
  /// Whether it comes before what was found so far.
  bool isBeforeFound(uint32_t command) const;
  /// That a result is not finite; it may outlive the call.
  void note(const BoundProgram &program, uint32_t command, bool outlives);
  /// Calls `noteIt` in the queue's order where a result is not finite; a device
  /// whose memory the host cannot address copies it first.
  void look(const void *address, Queue queue,
            const optimus_support::program::OperandT &operand,
            std::function<void()> noteIt);

  Device &device;
  const std::vector<int64_t> coordinates;
  Mode mode = Mode::Rest;
  int64_t calls = 0;
  std::size_t callable = 0;
  std::set<std::pair<std::size_t, uint32_t>> usual;
  std::optional<Found> found;
  /// Where queues may still write, after a failure.
  std::vector<std::shared_ptr<std::vector<char>>> unfinished;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_TOOLING_NONFINITEFINDER_H
