//===- CostModel.cpp - What a device program costs --------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Analysis/CostModel.h"

#include "optimus/Dialect/Optimus/IR/ElementBytes.h"

using namespace mlir;
using namespace mlir::optimus;
using exec::CollectiveKind;

RankGroup mlir::optimus::getRankGroup(MeshOp mesh, StringRef axis) {
  RankGroup group;
  if (!mesh)
    return group;
  // The last axis is the one along which ranks are numbered.
  bool isFound = false;
  for (MeshAxisAttr one : mesh.getAxisList())
    if (one.getName() == axis) {
      group.ranks = one.getSize();
      isFound = true;
    } else if (isFound) {
      group.stride *= one.getSize();
    }
  return group;
}

/// Both count them alike.
static optimus_prices::CollectiveKind toPriced(CollectiveKind kind) {
  static_assert(int(CollectiveKind::ReduceScatter) ==
                int(optimus_prices::CollectiveKind::ReduceScatter));
  return static_cast<optimus_prices::CollectiveKind>(kind);
}

CostModel::CostModel(MachineProfile profile, int64_t numRanks,
                     std::shared_ptr<const MeasuredCosts> known)
    : measured(std::move(known)),
      prices(profile, numRanks,
             measured ? measured->getProfile().getFlopsPerSecond() : 0) {
  if (!measured)
    return;
  const RunProfile &run = measured->getProfile();
  std::vector<optimus_prices::MeasuredCollective> collectives;
  for (const MeasuredCommand &command : run.commands)
    if (auto kind = exec::symbolizeCollectiveKind(command.kind))
      collectives.push_back({toPriced(*kind),
                             {command.ranks, command.stride},
                             double(command.largest),
                             command.seconds});
  prices.learn(collectives, run.hasHostForEachRank());
}

//===----------------------------------------------------------------------===//
// Computation
//===----------------------------------------------------------------------===//

double CostModel::getGemmSeconds(int64_t m, int64_t n, int64_t k, bool transA,
                                 bool transB, Type factors,
                                 double bytes) const {
  return prices.getGemmSeconds({.kind = Work::Product,
                                .m = m,
                                .n = n,
                                .k = k,
                                .transA = transA,
                                .transB = transB},
                               getFactorType(factors), bytes);
}

double CostModel::getComputeSeconds(exec::CommandOpInterface command) const {
  if (std::optional<double> seconds = getMeasured(command))
    return *seconds;
  return prices.getSeconds(getCommandWork(command, kernels),
                           getTouches(command, prices.knowsColumns()));
}

double CostModel::getCollectiveSeconds(CollectiveKind kind, RankGroup group,
                                       double bytes) const {
  return prices.getSeconds(toPriced(kind), group, bytes);
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

double CostModel::getSeconds(exec::CollectiveStartOp start) const {
  if (std::optional<double> seconds = getMeasured(start))
    return *seconds;
  RankGroup group = getRankGroup(getMesh(start), start.getAxis());
  double bytes = 1.0 * getElementBytes(start.getSrc().getType()) *
                 start.getOuter() * start.getInner();
  // The ABI's inner extent is one rank's block of these.
  if (start.getKind() == CollectiveKind::AllGather ||
      start.getKind() == CollectiveKind::ReduceScatter)
    bytes *= group.ranks;
  return getCollectiveSeconds(start.getKind(), group, bytes);
}

static StepPrediction predictCall(const CostModel &costs, func::FuncOp function,
                                  StepPredictor &predictor) {
  function.walk([&](exec::CommandOpInterface command) {
    if (Operation *start = command.getAwaitedCommand())
      predictor.wait(start);
    else
      predictor.advance(StepPredictor::describe(costs, command));
  });
  return predictor.endCall();
}

StepPrediction CostModel::predictStep(func::FuncOp function) const {
  StepPredictor predictor(*this);
  return predictCall(*this, function, predictor);
}

SmallVector<StepPrediction>
CostModel::predictCalls(ArrayRef<func::FuncOp> calls) const {
  StepPredictor predictor(*this);
  SmallVector<StepPrediction> predictions;
  // The second time stands for all later ones.
  for (int time = 0; time != 2; ++time) {
    predictions.clear();
    for (func::FuncOp call : calls)
      predictions.push_back(predictCall(*this, call, predictor));
  }
  return predictions;
}

StepPredictor::Command
StepPredictor::describe(const CostModel &costs,
                        exec::CommandOpInterface command) {
  // It keeps others from its buffers, and touches none.
  if (isa<exec::WaitCarriedOp>(*command))
    return {command, {}, {}, {}};
  Command result{command, costs.getMeasured(command), {}, {}};
  result.touched = getTouchedBases(command, costs.prices.knowsColumns());
  if (auto start = dyn_cast<exec::CollectiveStartOp>(*command))
    result.seconds = costs.getSeconds(start);
  else if (!result.seconds)
    result.work = getCommandWork(command, costs.kernels);
  return result;
}

static uint64_t getId(Operation *start) {
  return reinterpret_cast<uintptr_t>(start);
}

void StepPredictor::advance(const Command &described) {
  exec::CommandOpInterface command = described.command;
  if (auto wait = dyn_cast<exec::WaitCarriedOp>(*command)) {
    distances.wait();
    return timeline.waitCarried(wait.getCarried());
  }
  touches.assign(described.touched.touches.begin(),
                 described.touched.touches.end());
  distances.advance({touches.data(), touches.size()}, [&](size_t touch) {
    return described.touched.getBases(touch);
  });
  if (auto start = dyn_cast<exec::CollectiveStartOp>(*command)) {
    const StringRef axis = start.getAxis(), link = costs.getLink(axis);
    const auto kind = toPriced(start.getKind());
    if (std::optional<uint32_t> number = start.getCarried())
      timeline.carry(*number, axis, kind, *described.seconds, link);
    else
      timeline.start(getId(start), axis, kind, *described.seconds, link);
  } else {
    timeline.compute(described.seconds
                         ? *described.seconds
                         : costs.prices.getSeconds(described.work, touches),
                     command->getName().stripDialect());
  }
}

StepPrediction StepPredictor::endCall() {
  distances = optimus_prices::ReuseDistances(costs.prices.getRanksOfCore());
  return timeline.endCall();
}

void StepPredictor::wait(Operation *start) {
  distances.wait();
  timeline.wait(getId(start));
}
