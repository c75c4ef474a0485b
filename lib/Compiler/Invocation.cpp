//===- Invocation.cpp - A compilation as a function -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Compiler/Invocation.h"

#include "CandidateTable.h"
#include "Compilation.h"
#include "Options.h"
#include "Record.h"
#include "Report.h"
#include "Reporter.h"
#include "ScopedPrices.h"

#include "optimus/Analysis/MachineProfile.h"
#include "optimus/Analysis/MeasuredCosts.h"
#include "optimus/Dialect/Optimus/IR/Provenance.h"
#include "optimus/InitOptimus.h"
#include "optimus/Prices/OwnMachine.h"
#include "optimus/Tool/Files.h"
#include "optimus/Tool/Threading.h"

#include "optimus-support/PathUse.h"
#include "optimus-support/ResourceLimits.h"

#include "mlir/Parser/Parser.h"
#include "llvm/Support/BuryPointer.h"
#include "llvm/Support/FileSystem.h"

using namespace mlir;
using namespace mlir::optimus;
using optimus_support::invalidArgument;
using optimus_support::okStatus;
using optimus_support::PathUse;
using optimus_support::ScratchFolder;
using optimus_support::Status;
using optimus_support::StatusOr;

/// Tells before any work whether everything can be written, and whether any
/// input would be overwritten.
static Status checkPaths(const CompileOptions &options,
                         const std::string &reproducer) {
  std::vector<PathUse> inputs{{"the program", options.input},
                              {"--profile", options.phases.profile},
                              {"--serial", options.phases.serial}};
  if (options.cluster)
    inputs.push_back({"--cluster", options.cluster->name});
  if (!isKnownProfile(options.machineProfile))
    inputs.push_back({"--machine-profile", options.machineProfile});
  for (const auto &[name, machine] : options.alsoPriced)
    if (!isKnownProfile(name))
      inputs.push_back({"--also-price", name});
  std::vector<PathUse> outputs{{"-o", options.output}};
  OPTRT_RETURN_IF_ERROR(optimus_support::checkOutput(options.output));
  if (!reproducer.empty()) {
    OPTRT_RETURN_IF_ERROR(optimus_support::checkOutput(reproducer));
    outputs.push_back({"--mlir-pass-pipeline-crash-reproducer", reproducer});
  }
  if (!options.reportJson.empty()) {
    OPTRT_RETURN_IF_ERROR(optimus_support::checkOutput(options.reportJson));
    outputs.push_back({"--report-json", options.reportJson});
  }
  if (!options.dumpFolder.empty())
    for (StringRef phase : getPhaseNames())
      outputs.push_back({"--dump-phases-to", getDumpPath(options, phase)});
  return optimus_support::checkOutputsApart(inputs, outputs);
}

static Status makeDumpFolder(const CompileOptions &options) {
  if (options.dumpFolder.empty())
    return okStatus();
  if (std::error_code code =
          llvm::sys::fs::create_directories(options.dumpFolder))
    return invalidArgument("--dump-phases-to: cannot create '" +
                           options.dumpFolder + "': " + code.message());
  for (StringRef phase : getPhaseNames())
    if (Status status =
            optimus_support::checkOutput(getDumpPath(options, phase));
        !status.ok())
      return status.withContext("--dump-phases-to");
  return okStatus();
}

/// Whether a machine has the program's target, and links for its ranks.
static Status checkProfile(const std::string &flag,
                           const MachineProfile &machine,
                           const std::string &name,
                           const CompileOptions &options) {
  if (machine.gpu.has_value() != options.isForGpu())
    return invalidArgument(
        flag + ": '" + name + "' is of " +
        (machine.gpu ? "GPUs, expected --target cuda beside it"
                     : "processors, expected one of GPUs with --target cuda, "
                       "as " +
                           std::string(kDefaultGpuProfile)));
  if (!machine.tiers.empty() &&
      machine.tiers.back().ranks < options.getNumRanks())
    return invalidArgument(
        llvm::formatv("{0}: expected links for {1} ranks, found them for {2} "
                      "in '{3}'; take fewer ranks, or a profile with links for "
                      "more",
                      flag, options.getNumRanks(), machine.tiers.back().ranks,
                      name)
            .str());
  return okStatus();
}

/// Reads the profiles that nothing but the report asks for.
static Status readAlsoPriced(const std::vector<std::string> &names,
                             CompileOptions &options) {
  for (const std::string &name : names) {
    auto machine = MachineProfile::load(name);
    if (!machine)
      return invalidArgument("--also-price: " +
                             llvm::toString(machine.takeError()));
    OPTRT_RETURN_IF_ERROR(
        checkProfile("--also-price", *machine, name, options));
    options.alsoPriced.emplace_back(name, *std::move(machine));
  }
  return okStatus();
}

/// Reads the machine profile and keeps its text where every phase can open it,
/// under a name that a pipeline can hold: it may come from a pipe.
static Status readProfile(CompileOptions &options,
                          std::unique_ptr<ScratchFolder> &scratch) {
  if (options.machineProfile.empty()) {
    // The default of the target.
    options.machine =
        llvm::cantFail(MachineProfile::load(options.phases.machineProfile));
    return okStatus();
  }
  auto text = MachineProfile::readText(options.machineProfile);
  if (!text)
    return invalidArgument("--machine-profile: " +
                           llvm::toString(text.takeError()));
  auto profile = MachineProfile::parse(*text, options.machineProfile);
  if (!profile)
    return invalidArgument("--machine-profile: " +
                           llvm::toString(profile.takeError()));
  options.machine = *std::move(profile);
  OPTRT_RETURN_IF_ERROR(checkProfile("--machine-profile", options.machine,
                                     options.machineProfile, options));
  if (isKnownProfile(options.machineProfile))
    return okStatus();
  OPTRT_ASSIGN_OR_RETURN(scratch, ScratchFolder::create("optimus-compile"));
  options.phases.machineProfile = scratch->file("profile.json");
  return optimus_support::OutputFile::write(options.phases.machineProfile,
                                            *text);
}

/// What a rank may hold where it runs: on the profile's GPU, or here.
static int64_t findMemoryBudget(const CompileOptions &options) {
  if (const std::optional<GpuProfile> &gpu = options.machine.gpu)
    return gpu->getUsableBytes();
  return optimus_support::resourceLimits().memoryBytes / options.getNumRanks();
}

namespace {
/// The steps of an invocation. Each says its failure.
class Driver {
public:
  explicit Driver(const Invocation &invocation)
      : invocation(invocation), settings(invocation.settings),
        reporter(invocation),
        timing(invocation.mlir.timing ? *invocation.mlir.timing : untimed) {}

  Status run();
  /// To free a million operations one by one takes longer than to end.
  void leaveMemory();

private:
  /// Whether another compilation has begun the work.
  bool goesOn() const { return !settings.compileFrom.empty(); }
  /// Once all flags are known: checks files, and finds what the machine has.
  Status complete();
  void makeContext();
  Status readSource();
  Status parse();
  Status check();
  Status choose();
  /// For the report alone: what is compiled does not know of it.
  void findOwnMachine();
  Status compile();

  const Invocation &invocation;
  const CompileSettings &settings;
  Reporter reporter;
  TimingScope untimed;
  TimingScope &timing;
  /// What flags lack may stand in the record of the program.
  StatusOr<CompileOptions> options{CompileOptions()};
  std::unique_ptr<ScratchFolder> scratch;
  std::optional<CpuTarget> target;
  std::optional<LibraryWriter> writer;
  std::unique_ptr<MLIRContext> context;
  llvm::SourceMgr sources;
  std::optional<SourceMgrDiagnosticHandler> diagnostics;
  OwningOpRef<ModuleOp> module;
};
} // namespace

Status Driver::complete() {
  OPTRT_RETURN_IF_ERROR(completePhaseOptions(options->phases, "--"));
  OPTRT_RETURN_IF_ERROR(readAlsoPriced(settings.alsoPriced, *options));
  OPTRT_RETURN_IF_ERROR(checkPaths(*options, invocation.mlir.reproducer));
  OPTRT_RETURN_IF_ERROR(readProfile(*options, scratch));
  if (options->budgetsMachine)
    options->memoryBudget = findMemoryBudget(*options);
  auto found = CpuTarget::get(options->phases.cpu);
  if (!found)
    return invalidArgument("--mcpu: " + llvm::toString(found.takeError()));
  target = *std::move(found);
  if (options->writesLibrary()) {
    OPTRT_ASSIGN_OR_RETURN(
        writer, LibraryWriter::create("optimus-compile", target->triple));
  }
  return okStatus();
}

void Driver::makeContext() {
  DialectRegistry registry;
  registerAllDialects(registry);
  if (invocation.extensions)
    invocation.extensions->appendTo(registry);
  context = std::make_unique<MLIRContext>(registry, chooseThreading());
  context->printOpOnDiagnostic(invocation.mlir.printsOperations);
  diagnostics.emplace(sources, &*context);
  prefixDiagnosticsWithPaths(*context);
}

Status Driver::readSource() {
  Status status = invocation.program
                      ? addProgram(*invocation.program, settings.input, sources)
                      : readProgram(settings.input, sources);
  reporter.listenTo(sources);
  return status;
}

Status Driver::parse() {
  // A mistake of the flags is said before one of the program.
  std::optional<ScopedDiagnosticHandler> silence;
  if (!options.ok())
    silence.emplace(&*context, [](Diagnostic &) { return success(); });
  TimingScope parsing = timing.nest("Parser");
  module = parseSourceFile<ModuleOp>(sources, &*context);
  parsing.stop();
  silence.reset();
  if (!module)
    return options.ok() ? reporter.diagnosed()
                        : reporter.fail(options.status());
  options = takeRecord(*module, settings, std::move(options));
  return options.ok() ? okStatus() : reporter.fail(options.status());
}

Status Driver::check() {
  if (failed(checkProgram(*module, *options)))
    return reporter.diagnosed();
  if (const auto &measured = options->phases.measured)
    if (failed(measured->verify(*module)))
      return reporter.diagnosed();
  Status status = makeDumpFolder(*options);
  return status.ok() ? status : reporter.fail(status);
}

/// Lets the library say how its ranks are meant to lie on nodes.
static void keepPlacement(const optimus_simulation::Tile &placement,
                          CompileOptions &options) {
  PhaseOptions &phases = options.phases;
  if (placement.empty()) {
    phases.nodeRanks = options.cluster->devicesPerNode;
    return;
  }
  for (const auto &[axis, size] : phases.mesh.axes) {
    auto found = llvm::find_if(
        placement, [&](const auto &part) { return part.first == axis; });
    phases.tile.push_back(found == placement.end() ? 1 : found->second);
  }
}

Status Driver::choose() {
  TimingScope choosing = timing.nest("Choice of a layout");
  LayoutAnswer answer = chooseLayout(
      *module, *options, [&](StringRef line) { reporter.sayProgress(line); });
  printCandidates(answer.candidates, answer.chosen, answer.memoryBudget,
                  reporter.getReport());
  printEntries(answer.entries, reporter.getReport());
  printFinalists(answer.finalists, reporter.getReport());
  if (!answer.failure.ok())
    return reporter.fail(answer.failure);
  options->memoryBudget = answer.memoryBudget;
  options->phases = answer.chosen->getPhases(options->phases);
  if (!answer.finalists.empty())
    keepPlacement(answer.finalists.front().placement, *options);
  options->phases.prepareBudget = options->memoryBudget.value_or(0);
  // The report compares with it.
  options->withoutRecompute = answer.withoutRecompute;
  options->layouts = std::move(answer.candidates);
  options->finalists = std::move(answer.finalists);
  return okStatus();
}

void Driver::findOwnMachine() {
  // A name may stand in the record of the program, too.
  const bool isNamed = !settings.phases.machineProfile.empty() ||
                       !options->machineProfile.empty();
  if (!invocation.reportsOwnMachine || !options->report || isNamed ||
      options->isForGpu())
    return;
  // Before threads compile, which would be in its way.
  if (auto own = optimus_prices::findOwnMachine(
          [&](const std::string &line) { reporter.sayProgress(line); })) {
    options->ownMachine = MachineProfile{std::move(own->profile)};
    options->ownProfile = std::move(own->path);
  }
}

Status Driver::compile() {
  // The report says it, too.
  if (std::string unused = explainUnusedProfile(options->phases);
      !unused.empty() && !options->report)
    module->emitWarning(unused);
  findOwnMachine();
  if (options->report && !goesOn() && options->phases.recompute != "none" &&
      (!options->withoutRecompute || options->ownMachine)) {
    Candidate kept{options->phases.mesh, options->phases.describeStrategies()};
    if (OwningOpRef<ModuleOp> placed =
            predict(*module, options->phases, kept)) {
      if (const auto &own = options->ownMachine) {
        ScopedPrices prices(*placed, *own, options->phases.getMeasured());
        readPrediction(*placed, options->phases, kept);
      }
      options->withoutRecompute = kept.getNeeds();
    }
  }
  return Compilation(*module, *options, *target, writer ? &*writer : nullptr,
                     invocation.mlir, reporter, timing)
      .run();
}

Status Driver::run() {
  registerAllTargets();
  options = readCompileOptions(settings);
  if (!goesOn()) {
    if (!options.ok())
      return reporter.fail(options.status());
    if (Status status = complete(); !status.ok())
      return reporter.fail(status);
  }
  if (Status status = readSource(); !status.ok())
    return reporter.fail(options.ok() ? status : options.status());
  makeContext();
  OPTRT_RETURN_IF_ERROR(parse());
  if (goesOn())
    if (Status status = complete(); !status.ok())
      return reporter.fail(status);
  OPTRT_RETURN_IF_ERROR(check());
  if (options->isOpen())
    OPTRT_RETURN_IF_ERROR(choose());
  return compile();
}

void Driver::leaveMemory() {
  llvm::BuryPointer(module.release().getAsOpaquePointer());
  llvm::BuryPointer(std::move(context));
}

Status mlir::optimus::compile(const Invocation &invocation) {
  Driver driver(invocation);
  Status status = driver.run();
  if (invocation.endsProcess)
    driver.leaveMemory();
  return status;
}
