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
  /// Where a result is that is not finite: whether it outlives the call.
  std::optional<bool> look(const BoundProgram &program, Site site,
                           uint32_t command) const;
  bool isFinite(const void *address, Queue queue,
                const optimus_support::program::OperandT &operand) const;

  Device &device;
  const std::vector<int64_t> coordinates;
  Mode mode = Mode::Rest;
  int64_t calls = 0;
  std::size_t callable = 0;
  std::set<std::pair<std::size_t, uint32_t>> usual;
  std::optional<Found> found;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_TOOLING_NONFINITEFINDER_H
