//===- SimulatorFixture.h - Commands that take milliseconds -----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_UNITTESTS_SIMULATION_SIMULATORFIXTURE_H
#define OPTIMUS_UNITTESTS_SIMULATION_SIMULATORFIXTURE_H

#include "optimus/Simulation/Simulator.h"

#include "optimus-testing/ProgramWriter.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace optimus_simulation {

using namespace optimus_support::program;
using optimus_prices::MachineProfile;
using optimus_support::StatusOr;

inline constexpr Picoseconds kMs = 1'000'000'000;

/// Each copy takes a millisecond, and a broadcast or an all-gather between two
/// ranks one for every start-up of a link.
inline MachineProfile plainMachine() {
  MachineProfile machine;
  auto &compute = machine.computes.emplace_back();
  compute.kernelAlpha = 1e-3;
  compute.bytesPerSecond = 1e30;
  machine.linkAlpha = 1e-3;
  machine.linkBeta = 0;
  return machine;
}

/// Writes functions of a mesh row:2,col:2 whose commands take milliseconds.
class SimulatorTest : public testing::Test {
protected:
  enum Axis : uint32_t { Row, Col };

  void begin(FunctionWriter writer) { f.emplace(std::move(writer)); }
  View place(int number) { return f->at(memory, 16 * number, 16); }
  void beginFunction(const std::string &name) {
    begin(programs.function(name));
    memory = f->arena(ElementType::F32, 256);
  }
  /// Computes for so many milliseconds.
  void compute(int ms, const std::string &path = "",
               const std::string &line = "") {
    f->from(path, line);
    for (int i = 0; i != ms; ++i)
      f->copy(place(0), place(1));
    f->from("");
  }
  /// Takes a millisecond on its link.
  uint32_t start(Axis axis, const std::string &path = "") {
    f->from(path);
    const uint32_t number =
        f->collective(CollectiveKind::Broadcast, {axis}, place(2), place(3));
    f->from("");
    return number;
  }
  void wait(uint32_t command) { f->wait(command); }
  /// Of four ranks, collectives of two axes that they start in different
  /// orders.
  void writeCrossed() {
    for (const auto &[first, second] :
         {std::pair(Col, Row), std::pair(Row, Col), std::pair(Row, Col),
          std::pair(Col, Row)}) {
      programs.beginTable(1);
      beginFunction("f");
      for (Axis axis : {first, second})
        wait(start(axis, axis == Row ? "h.0.up" : "h.0.down"));
    }
  }
  /// As start(), for a later call.
  void carry(Axis axis, uint32_t number, const std::string &path = "") {
    f->from(path);
    CollectiveT one;
    one.kind = CollectiveKind::Broadcast;
    one.axes = {axis};
    one.outer = 1;
    one.inner = one.src_ld = one.dst_ld = 16;
    one.carried = number;
    f->collective(std::move(one), place(2), place(3));
    f->from("");
  }
  void waitCarried(uint32_t number) { f->waitCarried(number); }
  /// Of two cores, which a collective between two ranks takes for a
  /// millisecond.
  void collectOnTwoCores() {
    machine.computes.front().cores = 2;
    machine.collectives = {{.backend = "local",
                            .collective = "broadcast",
                            .ranks = 2,
                            .alpha = 1e-3,
                            .beta = 0,
                            .processors = {{0, 2e-3}, {1e9, 2e-3}}}};
  }

  StatusOr<Simulation> run(const CallList &calls, const WhatIf &whatIf = {}) {
    if (!finished)
      finished = programs.finish();
    timed = std::make_unique<TimedProgram>(
        *finished, *finished->targets.front(), machine, whatIf);
    return simulate(*timed, calls, whatIf);
  }
  Simulation simulated(const CallList &calls, const WhatIf &whatIf = {}) {
    StatusOr<Simulation> result = run(calls, whatIf);
    EXPECT_TRUE(result.ok()) << result.status().message();
    Simulation none;
    none.ranks.emplace_back();
    return result.ok() ? *result : none;
  }
  /// Of the slowest rank, all axes and kinds together.
  static Exposure sum(const Simulation &simulation) {
    Exposure all;
    for (const Exposure &one : simulation.exposures) {
      all.count += one.count;
      all.all += one.all;
      all.late += one.late;
      all.queued += one.queued;
      all.idle += one.idle;
    }
    return all;
  }

  std::vector<int64_t> countMatches() const {
    std::vector<int64_t> counts;
    for (const Match &match : timed->getMatches())
      counts.push_back(match.count);
    return counts;
  }

  ProgramWriter programs{optimus_support::Mesh({{"row", 2}, {"col", 2}})};
  std::optional<FunctionWriter> f;
  View memory;
  std::optional<ProgramsT> finished;
  MachineProfile machine = plainMachine();
  std::unique_ptr<TimedProgram> timed;
};

} // namespace optimus_simulation

#endif // OPTIMUS_UNITTESTS_SIMULATION_SIMULATORFIXTURE_H
