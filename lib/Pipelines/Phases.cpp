//===- Phases.cpp - The phases of a compilation -----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Pipelines/Phases.h"

#include "optimus/Analysis/MeasuredCosts.h"
#include "optimus/Conversion/ExecToLLVM/Passes.h"
#include "optimus/Conversion/OptimusToCCL/Passes.h"
#include "optimus/Conversion/ToExec/Passes.h"
#include "optimus/Dialect/CCL/Transforms/Passes.h"
#include "optimus/Dialect/CCL/Transforms/RecomputePolicy.h"
#include "optimus/Dialect/Exec/Transforms/Passes.h"
#include "optimus/Dialect/Optimus/Transforms/AdapterOption.h"
#include "optimus/Dialect/Optimus/Transforms/Passes.h"
#include "optimus/Manifest/Passes.h"
#include "optimus/Target/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/ADT/SmallVectorExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::optimus;
using func::FuncOp;

std::shared_ptr<const MeasuredCosts> PhaseOptions::getMeasured() const {
  bool isUsed = measured && measured->isOf(mesh.toString(), strategy, target);
  return isUsed ? measured : nullptr;
}

StringRef PhaseOptions::getMove() const {
  if (!move.empty())
    return move;
  bool tunes = tuneProducts.value_or(!machineProfile.empty() || getMeasured());
  return tunes ? "auto" : "";
}

static void addDifferentiate(OpPassManager &passes,
                             const PhaseOptions &options) {
  passes.addPass(createRecordFunctionPass());
  // Adapters are beside the model's function, which is recorded without them.
  if (!options.lora.empty())
    passes.addPass(createAddAdaptersPass({options.lora}));
  passes.addPass(
      createReplicateHeadsPass({options.mesh.toString(), options.strategy}));
  passes.addPass(createDifferentiatePass(
      {options.lora.empty() ? options.train : kAdapterPattern.str()}));
}

static void addStep(OpPassManager &passes, const PhaseOptions &options) {
  if (options.precision != "f32")
    passes.addPass(createMixedPrecisionPass(
        {options.precision, options.reducePrecision == options.precision}));
  BuildStepPassOptions step;
  step.optimizer = options.optimizer;
  step.accumulate = options.accumulate;
  passes.addPass(createBuildStepPass(step));
}

/// What is partitioned later is compared with the program as it is now.
static void keepSerial(OpPassManager &passes, const PhaseOptions &options) {
  if (options.serialProgram)
    passes.addPass(ccl::createKeepSerialPass(options.serialProgram));
}

static void addShard(OpPassManager &passes, const PhaseOptions &options) {
  keepSerial(passes, options);
  ShardPassOptions shard;
  shard.mesh = options.mesh.toString();
  shard.strategy = options.strategy;
  shard.entryStrategies = options.entryStrategies;
  shard.layouts = options.layouts;
  shard.noPad = !options.pad;
  passes.addPass(createShardPass(shard));
}

static void addPartition(OpPassManager &passes, const PhaseOptions &options) {
  keepSerial(passes, options);
  // Narrow sums have narrow partial sums without being told.
  passes.addPass(createPartitionPass(
      {options.reducePrecision == "f32" ? options.reducePrecision : ""}));
  passes.addPass(ccl::createVerifyPartitionPass());
}

static void addTune(OpPassManager &passes, const PhaseOptions &options) {
  if (options.getMove().empty())
    return;
  ccl::TuneProductsPassOptions tune;
  tune.move = options.getMove();
  tune.panels = options.panels;
  tune.machineProfile = options.machineProfile;
  OpPassManager &functions = passes.nest<FuncOp>();
  functions.addPass(ccl::createGroupProductsPass());
  functions.addPass(ccl::createTuneProductsPass(tune, options.getMeasured()));
  passes.addPass(ccl::createVerifyPartitionPass());
}

static void addFuse(OpPassManager &passes, const PhaseOptions &options) {
  ccl::RecomputePassOptions recompute;
  if (ccl::lookupRecomputePolicy(options.recompute))
    recompute.policy = options.recompute;
  else
    recompute.values =
        llvm::map_to_vector(llvm::split(options.recompute, ','),
                            [](StringRef value) { return value.str(); });
  OpPassManager &functions = passes.nest<FuncOp>();
  functions.addPass(createCanonicalizerPass());
  functions.addPass(createCSEPass());
  functions.addPass(createFusePass());
  // From here on no operation becomes another one, which may round otherwise.
  functions.addPass(ccl::createRecomputePass(recompute));
  functions.addPass(ccl::createGroupProductsPass());
  functions.addPass(ccl::createAdvanceReductionsPass());
  passes.addPass(
      ccl::createVerifyPartitionPass(options.serialProgram, {options.serial}));
}

static void addExec(OpPassManager &passes, const PhaseOptions &options) {
  passes.addPass(createRecordLayoutsPass());
  ToExecPassOptions exec;
  exec.cpu = options.cpu;
  exec.target = options.target;
  exec.attention = options.attention;
  exec.deterministic = options.deterministic;
  exec.weights = options.weights;
  passes.addPass(createToExecPass(exec));
  passes.addPass(createChainLaunchesPass({options.target}));
  passes.addPass(createSumInProductsPass({options.target}));
  passes.addPass(createGroupLaunchesPass({options.target}));
  passes.addPass(createBuildKernelsPass({options.target}));
  // Memory that is offloaded is short.
  if (!options.isForGpu() && options.offload.empty())
    passes.addPass(exec::createPrepareWeightsPass({options.prepareBudget}));
  if (options.lanes != 1)
    passes.addPass(exec::createLanesPass({options.lanes}));
}

static void addSchedule(OpPassManager &passes, const PhaseOptions &options) {
  exec::SchedulePassOptions schedule;
  schedule.mode = options.schedule;
  schedule.extraWorkspace = options.extraWorkspace;
  schedule.machineProfile = options.machineProfile;
  std::vector<std::string> offloaded;
  if (!options.offload.empty())
    for (StringRef value : llvm::split(options.offload, ','))
      offloaded.push_back(value.str());
  llvm::append_range(schedule.offload, offloaded);
  schedule.offloadSpace = options.offloadTo;
  schedule.offloadBandwidth = options.offloadBandwidth;
  schedule.offloadWindow = options.offloadWindow;
  passes.addNestedPass<FuncOp>(
      exec::createSchedulePass(schedule, options.getMeasured()));
  if (options.offload.empty())
    return;
  exec::OffloadPassOptions offload;
  llvm::append_range(offload.values, offloaded);
  offload.space = options.offloadTo;
  offload.bandwidth = options.offloadBandwidth;
  offload.window = options.offloadWindow;
  offload.machineProfile = options.machineProfile;
  passes.addNestedPass<FuncOp>(
      exec::createOffloadPass(offload, options.getMeasured()));
}

static void addPlace(OpPassManager &passes, const PhaseOptions &options) {
  if (options.sync == kNextSync)
    passes.addPass(exec::createCarryGathersPass(
        {.machineProfile = options.machineProfile}, options.getMeasured()));
  OpPassManager &functions = passes.nest<FuncOp>();
  functions.addPass(exec::createPlaceBuffersPass());
  functions.addPass(exec::createOrderCommandsPass());
  if (!options.tableCheck || !options.tableCheck->verifiesCommands)
    functions.addPass(exec::createVerifyExecPass());
}

static void addLLVM(OpPassManager &passes, const PhaseOptions &options) {
  BuildManifestPassOptions manifest;
  manifest.strategy = options.describeStrategies();
  manifest.optimizer = options.optimizer;
  manifest.precision = options.precision;
  manifest.target = options.target;
  manifest.cpu = options.cpu;
  manifest.isPlan = options.isPlan;
  manifest.tile = options.tile;
  manifest.nodeRanks = options.nodeRanks;
  passes.addPass(createBuildManifestPass(manifest));
  // Commands that this compilation placed are verified already.
  if (options.from == "place")
    passes.addNestedPass<FuncOp>(exec::createVerifyExecPass());
  passes.addPass(createExecToLLVMPass(
      {options.target, options.kernelsApart, options.isPlan}, options.images,
      options.tableCheck));
}

bool mlir::optimus::checksInput(const Phase &phase, StringRef recompute,
                                const PhaseOptions &options) {
  return phase.checksInput ||
         (phase.name == "schedule" &&
          !(options.profile.empty() && options.offload.empty())) ||
         (phase.name == "exec" &&
          (options.attention == "cudnn" || options.weights != "activations")) ||
         (phase.name == "fuse" && recompute.contains(':'));
}

LogicalResult mlir::optimus::runPasses(PassManager &passes, ModuleOp module,
                                       Verification verification) {
#ifndef NDEBUG
  verification = Verification::EachPass;
#endif
  passes.enableVerifier(verification == Verification::EachPass);
  if (failed(passes.run(module)))
    return failure();
  return verification == Verification::AtEnd ? verify(module) : success();
}

ArrayRef<Phase> mlir::optimus::getPhases() {
  static constexpr Phase phases[] = {
      {"differentiate", addDifferentiate, /*checksInput=*/true},
      {"step", addStep, /*checksInput=*/true},
      {"shard", addShard, /*checksInput=*/true},
      {"partition", addPartition, /*checksInput=*/true},
      {"tune", addTune, /*checksInput=*/true},
      {"fuse", addFuse, /*checksInput=*/false},
      {"exec", addExec, /*checksInput=*/false, /*isVerifiedLater=*/true},
      {"schedule", addSchedule, /*checksInput=*/false,
       /*isVerifiedLater=*/true},
      {"place", addPlace, /*checksInput=*/false, /*isVerifiedLater=*/true},
      {"llvm", addLLVM, /*checksInput=*/false},
  };
  return phases;
}

SmallVector<StringRef> mlir::optimus::getPhaseNames() {
  SmallVector<StringRef> names{"input"};
  for (const Phase &phase : getPhases())
    names.push_back(phase.name);
  return names;
}

size_t mlir::optimus::getPhaseNumber(StringRef phase) {
  SmallVector<StringRef> names = getPhaseNames();
  return llvm::find(names, phase) - names.begin();
}

bool mlir::optimus::readsSerialProgram(StringRef from, StringRef to) {
  const size_t compared = getPhaseNumber("fuse"), start = getPhaseNumber(from);
  return start >= getPhaseNumber("partition") && start < compared &&
         compared <= getPhaseNumber(to);
}
