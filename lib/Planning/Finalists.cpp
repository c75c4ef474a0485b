//===- Finalists.cpp - Layouts, simulated on a cluster ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Finalists.h"

#include "optimus/Conversion/ExecToProgram/ExecToProgram.h"
#include "optimus/Simulation/Simulator.h"

#include "optimus-support/ProgramSequence.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mlir::optimus;
using namespace optimus_simulation;
namespace program = optimus_support::program;

/// A step of training, or the function that stands for it.
static CallList listCalls(ModuleOp module, const program::TargetT &target) {
  CallList calls;
  if (const auto *train =
          program::findSequence(*target.tables.front(), "train"))
    for (const auto &call : program::callsOf(*train, 1))
      calls.push_back(call.call->function);
  else
    calls.push_back(findPredicted(module).getSymName().str());
  return calls;
}

LogicalResult mlir::optimus::addFinalists(ModuleOp compiled,
                                          const Candidate &layout,
                                          const LayoutQuestion &question,
                                          std::vector<Finalist> &finalists) {
  FailureOr<program::ProgramsT> programs =
      buildPrograms(compiled, question.phases.target);
  if (failed(programs) ||
      failed(verifyPrograms(
          compiled, program::check(*programs, program::Checks::ButOrder))))
    return failure();
  const program::TargetT &target = *programs->targets.front();
  const TimedProgram timed(*programs, target, question.machine, {});
  const CallList calls = listCalls(compiled, target);
  Cluster cluster = *question.cluster;
  for (Tile &tile : listPlacements(cluster, timed.getMesh())) {
    cluster.tile = tile;
    const auto simulation = simulate(timed, calls, {}, {.cluster = &cluster});
    Finalist &one = finalists.emplace_back(Finalist{layout, std::move(tile)});
    if (simulation.ok())
      one.stepMs = double(simulation->getStep()) * 1e-9;
    else
      one.problem = simulation.status().message();
  }
  return success();
}

void mlir::optimus::sortFinalists(std::vector<Finalist> &finalists) {
  auto getKey = [](const Finalist &one) {
    return std::tuple(!one.problem.empty(), one.stepMs, one.layout.stepMs);
  };
  llvm::stable_sort(finalists, [&](const Finalist &a, const Finalist &b) {
    return getKey(a) < getKey(b);
  });
}
