//===- Options.cpp - What the user asked for --------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Options.h"

#include "optimus/Dialect/Exec/Transforms/ExtraWorkspace.h"
#include "optimus/Target/CUDA/CodeGen.h"
#include "optimus/Tool/FlagValues.h"

#include "optimus-support/GpuScratch.h"
#include "optimus-support/OutputFile.h"

#include "llvm/ADT/SmallVectorExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace mlir::optimus;
using optimus_support::invalidArgument;
using optimus_support::okStatus;
using optimus_support::Status;
using optimus_support::StatusOr;

/// Where to start and where to stop.
static Status readPhases(const CompileSettings &settings,
                         CompileOptions &options) {
  SmallVector<StringRef> names = getPhaseNames();
  const std::string &from = settings.compileFrom, &to = settings.compileTo;
  options.compileTo = to;
  options.compileFrom = options.phases.from = from;
  if (!from.empty()) {
    ArrayRef<StringRef> starts = ArrayRef(names).drop_back();
    if (!llvm::is_contained(starts, StringRef(from)))
      return invalidArgument(
          unknownName("--compile-from", "phase", from, starts));
    if (options.isOpen() || options.budgetsMachine)
      return invalidArgument(
          "--compile-from: name a strategy and a policy of recomputation, and "
          "no --memory-budget and no --cluster; nothing can be chosen after "
          "the start");
    if (!to.empty() && getPhaseNumber(to) <= getPhaseNumber(from))
      return invalidArgument(
          llvm::formatv("--compile-to: the phase '{0}' is not after '{1}', "
                        "where compilation starts",
                        to, from)
              .str());
  }
  if (!to.empty() && !llvm::is_contained(names, StringRef(to)))
    return invalidArgument(unknownName("--compile-to", "phase", to, names));
  if (!options.phases.serial.empty() &&
      !readsSerialProgram(from, to.empty() ? names.back() : StringRef(to)))
    return invalidArgument(
        "--serial: expected --compile-from partition or tune, and no "
        "--compile-to before fuse, where values are compared");
  for (StringRef flag : {"report", "report-json"})
    if (settings.isGiven(flag) && !to.empty() &&
        getPhaseNumber(to) < getPhaseNumber("place"))
      return invalidArgument("--" + flag.str() +
                             ": expected --compile-to place or llvm, since "
                             "memory is placed there; found " +
                             to);
  return okStatus();
}

/// cuDNN's gradient has one order for some architectures: attention by choice
/// is not cuDNN's where one of the others is asked for, and attention by cuDNN
/// needs one of them.
static Status readDeterministic(CompileOptions &options) {
  constexpr unsigned latest = optimus_support::kLatestDeterministicGpu;
  auto hasOneOrder = [](StringRef name) {
    return getArchitectureNumber(name) / 10 <= latest;
  };
  if (!options.phases.deterministic)
    return okStatus();
  if (options.phases.attention == "auto" &&
      !llvm::all_of(options.gpuArchitectures, hasOneOrder))
    options.phases.attention = "builtin";
  if (options.phases.attention != "cudnn" || options.emulatesGpu ||
      llvm::any_of(options.gpuArchitectures, hasOneOrder))
    return okStatus();
  return invalidArgument("--deterministic: expected an architecture up to sm_" +
                         std::to_string(latest) +
                         "0 in --gpu-arch, for which cuDNN adds in one order; "
                         "found " +
                         llvm::join(options.gpuArchitectures, ","));
}

/// What is asked for of a GPU.
static Status readGpu(const CompileSettings &settings,
                      CompileOptions &options) {
  const bool writesCubins = !settings.cubinFolder.empty();
  if (!options.isForGpu()) {
    for (StringRef flag : {"gpu-arch", "cubins-to"})
      if (settings.isGiven(flag))
        return invalidArgument("--" + flag.str() +
                               ": expected --target cuda beside it");
    return okStatus();
  }
  auto architectures = readCudaArchitectures(settings.gpuArchitectures.empty()
                                                 ? kCudaArchitectures.str()
                                                 : settings.gpuArchitectures);
  if (!architectures.ok())
    return architectures.status().withContext("--gpu-arch");
  options.gpuArchitectures = *std::move(architectures);
  options.emulatesGpu =
      std::erase(options.gpuArchitectures, kEmulated.str()) > 0;
  options.cubinFolder = settings.cubinFolder;
  OPTRT_RETURN_IF_ERROR(readDeterministic(options));
  if (settings.isGiven("mcpu"))
    return invalidArgument("--mcpu: expected no --target cuda beside it, whose "
                           "processors --gpu-arch names");
  // The host's code is nothing but a table.
  options.phases.cpu = "generic";
  if (!options.compileTo.empty()) {
    if (options.compileTo == "llvm")
      return invalidArgument(
          "--compile-to: with --target cuda the last phase is 'place'");
    if (writesCubins)
      return invalidArgument("--cubins-to: expected no --compile-to beside it");
    return okStatus();
  }
  bool hasMachineCode = !options.gpuArchitectures.empty();
  if (writesCubins && !hasMachineCode)
    return invalidArgument("--cubins-to: expected an architecture beside "
                           "'emulated', which has no machine code of a GPU");
  if (!options.writesLibrary() && (!options.output.empty() || !hasMachineCode ||
                                   !(options.report || writesCubins)))
    return invalidArgument(
        "--target cuda: give the model library a name with -o FILE; without "
        "one, expected --report, --cubins-to DIR or --compile-to");
  return okStatus();
}

/// Whether the report can say what calls take on other machines: one call by
/// itself, of commands in their order.
static Status checkAlsoPriced(const CompileSettings &settings,
                              const PhaseOptions &phases) {
  if (!settings.isGiven("also-price"))
    return okStatus();
  auto fail = [](const std::string &what) {
    return invalidArgument("--also-price: expected " + what + " beside it");
  };
  if (settings.reportJson.empty())
    return fail("--report-json");
  if (phases.sync == kNextSync)
    return fail("no --sync '" + kNextSync.str() + "'");
  if (!phases.offload.empty())
    return fail("no --offload");
  return okStatus();
}

/// A plan is a library without code.
static Status readPlan(const CompileSettings &settings,
                       CompileOptions &options) {
  options.phases.isPlan = settings.plan;
  for (StringRef flag : {"compile-to", "cubins-to"})
    if (settings.plan && settings.isGiven(flag))
      return invalidArgument("--plan: expected no --" + flag.str() +
                             " beside it; a plan is a model library without "
                             "code");
  return okStatus();
}

/// Kernels are kept where they become code, and nobody looks at them before.
static Status readKernelCache(const CompileSettings &settings,
                              CompileOptions &options) {
  options.kernelCache = settings.kernelCache;
  if (options.kernelCache.empty())
    return okStatus();
  for (StringRef flag :
       {"plan", "compile-to", "compile-from", "dump-phases-to"})
    if (settings.isGiven(flag))
      return invalidArgument("--kernel-cache: expected no --" + flag.str() +
                             " beside it");
  if (options.isForGpu())
    return invalidArgument("--kernel-cache: expected --target cpu beside it");
  return okStatus();
}

/// What is chosen by prediction.
static Status readChoice(const CompileSettings &settings,
                         CompileOptions &options) {
  if (!settings.ranks.empty()) {
    constexpr int64_t kMostRanks = 16384;
    if (!options.isAuto())
      return invalidArgument(
          "--ranks: expected --strategy auto beside it; other "
          "strategies have the ranks of --mesh");
    OPTRT_ASSIGN_OR_RETURN(options.ranks,
                           readCount("--ranks", settings.ranks, 1, kMostRanks));
    if (settings.isGiven("mesh"))
      return invalidArgument("--ranks: expected no --mesh beside it");
    if (options.phases.lanes != 1 && options.ranks != 1)
      return invalidArgument(
          "--ranks: expected 1 beside --lanes, whose program "
          "has one rank; found " +
          settings.ranks);
  }
  if (!settings.cluster.empty()) {
    auto cluster = optimus_simulation::loadCluster(settings.cluster);
    if (!cluster.ok())
      return cluster.status().withContext("--cluster");
    if (!cluster->devices.empty())
      return invalidArgument("--cluster: expected placement.tile or none; "
                             "placement.devices is of one mesh, and "
                             "optimus-simulate takes it");
    options.cluster = *std::move(cluster);
  }
  if (!settings.memoryBudget.empty()) {
    options.budgetsMachine = settings.memoryBudget == "auto";
    options.memoryBudget = exec::parseBytes(settings.memoryBudget);
    if (!options.memoryBudget && !options.budgetsMachine)
      return invalidArgument("--memory-budget: expected a size as 16GiB, "
                             "512MiB or bytes, or auto, found '" +
                             settings.memoryBudget + "'");
  }
  options.recompute = settings.phases.recompute;
  if (options.recompute == "budget" && settings.memoryBudget.empty())
    return invalidArgument("--recompute budget: expected --memory-budget SIZE "
                           "beside it, which it is to fit");
  return okStatus();
}

/// Without a machine profile the devices of a cluster count, if they are of the
/// target's kind.
static Status takeDevices(const CompileSettings &settings,
                          CompileOptions &options) {
  if (!options.cluster || !settings.phases.machineProfile.empty())
    return okStatus();
  auto found = optimus_simulation::findDevices(*options.cluster,
                                               options.phases.isForGpu());
  if (!found.ok())
    return found.status().withContext("--cluster");
  options.phases.machineProfile = *std::move(found);
  return okStatus();
}

StatusOr<CompileOptions>
mlir::optimus::readCompileOptions(const CompileSettings &settings) {
  CompileOptions options;
  OPTRT_ASSIGN_OR_RETURN(options.phases, readPhaseOptions(settings.phases));
  OPTRT_RETURN_IF_ERROR(readChoice(settings, options));
  OPTRT_RETURN_IF_ERROR(takeDevices(settings, options));
  options.machineProfile = options.phases.machineProfile;
  options.input = settings.input;
  options.output = settings.output;
  options.report = settings.report;
  options.reportJson = settings.reportJson;
  options.dumpFolder = settings.dumpFolder;
  OPTRT_RETURN_IF_ERROR(checkAlsoPriced(settings, options.phases));
  OPTRT_RETURN_IF_ERROR(readPlan(settings, options));
  OPTRT_RETURN_IF_ERROR(readKernelCache(settings, options));
  OPTRT_RETURN_IF_ERROR(readPhases(settings, options));
  OPTRT_RETURN_IF_ERROR(readGpu(settings, options));
  if (!options.writesLibrary() && options.output.empty())
    options.output = "-";
  if (options.writesLibrary() &&
      (options.output.empty() || options.output == "-"))
    return invalidArgument("give the model library a name with -o FILE");
  return options;
}

std::string mlir::optimus::getDumpPath(const CompileOptions &options,
                                       StringRef phase) {
  SmallString<128> path(options.dumpFolder);
  llvm::sys::path::append(
      path,
      llvm::formatv("{0:02}-{1}.mlir", getPhaseNumber(phase), phase).str());
  return path.str().str();
}
