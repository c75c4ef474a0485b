//===- CompilerMain.cpp - From a program to a model library -----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Candidates.h"
#include "Compilation.h"
#include "LayoutChoice.h"
#include "Options.h"
#include "Record.h"
#include "Report.h"

#include "optimus/Analysis/MachineProfile.h"
#include "optimus/Analysis/MeasuredCosts.h"
#include "optimus/Dialect/Optimus/IR/Provenance.h"
#include "optimus/InitOptimus.h"
#include "optimus/Tool/CompilerMain.h"
#include "optimus/Tool/Files.h"
#include "optimus/Tool/MlirFlags.h"
#include "optimus/Tool/Tool.h"

#include "optimus-support/PathUse.h"

#include "mlir/Parser/Parser.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/SourceMgr.h"

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
static Status checkPaths(const CompileOptions &options) {
  std::vector<PathUse> inputs{{"the program", options.input},
                              {"--profile", options.phases.profile},
                              {"--serial", options.phases.serial}};
  if (!isKnownProfile(options.machineProfile))
    inputs.push_back({"--machine-profile", options.machineProfile});
  std::vector<PathUse> outputs{{"-o", options.output}};
  OPTRT_RETURN_IF_ERROR(optimus_support::checkOutput(options.output));
  if (std::string path = getReproducerPath(); !path.empty()) {
    OPTRT_RETURN_IF_ERROR(optimus_support::checkOutput(path));
    outputs.push_back({"--mlir-pass-pipeline-crash-reproducer", path});
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

/// Reads the machine profile and keeps its text where every phase can open it,
/// under a name that a pipeline can hold: it may come from a pipe.
static Status readProfile(CompileOptions &options,
                          std::unique_ptr<ScratchFolder> &scratch) {
  if (options.machineProfile.empty())
    return okStatus();
  auto text = MachineProfile::readText(options.machineProfile);
  if (!text)
    return invalidArgument("--machine-profile: " +
                           llvm::toString(text.takeError()));
  auto profile = MachineProfile::parse(*text, options.machineProfile);
  if (!profile)
    return invalidArgument("--machine-profile: " +
                           llvm::toString(profile.takeError()));
  if (profile->gpu.has_value() != options.isForGpu())
    return invalidArgument(
        "--machine-profile: '" + options.machineProfile + "' is of " +
        (profile->gpu ? "GPUs, expected --target cuda beside it"
                      : "processors, expected one of GPUs with --target cuda, "
                        "as " +
                            kDefaultGpuProfile.str()));
  const int64_t numRanks =
      options.ranks > 0 ? options.ranks : options.phases.mesh.getNumRanks();
  if (!profile->tiers.empty() && profile->tiers.back().ranks < numRanks)
    return invalidArgument(
        llvm::formatv("--machine-profile: expected links for {0} ranks, found "
                      "them for {1} in '{2}'; take fewer ranks, or a profile "
                      "with links for more",
                      numRanks, profile->tiers.back().ranks,
                      options.machineProfile)
            .str());
  if (isKnownProfile(options.machineProfile))
    return okStatus();
  OPTRT_ASSIGN_OR_RETURN(scratch, ScratchFolder::create("optimus-compile"));
  options.phases.machineProfile = scratch->file("profile.json");
  return optimus_support::OutputFile::write(options.phases.machineProfile,
                                            *text);
}

static int compile(const CompileFlags &flags,
                   const DialectRegistry &extensions) {
  StatusOr<CompileOptions> options = readCompileOptions(flags);
  // What flags lack may stand in the record of the program.
  const bool goesOn = !flags.compileFrom.empty();
  if (!goesOn && !options.ok())
    return fail(options.status());
  std::unique_ptr<ScratchFolder> scratch;
  std::optional<CpuTarget> target;
  std::optional<LibraryWriter> writer;
  auto complete = [&]() -> Status {
    OPTRT_RETURN_IF_ERROR(completePhaseOptions(options->phases, "--"));
    OPTRT_RETURN_IF_ERROR(checkPaths(*options));
    OPTRT_RETURN_IF_ERROR(readProfile(*options, scratch));
    auto found = CpuTarget::get(options->phases.cpu);
    if (!found)
      return invalidArgument("--mcpu: " + llvm::toString(found.takeError()));
    target = *std::move(found);
    if (options->writesLibrary()) {
      OPTRT_ASSIGN_OR_RETURN(
          writer, LibraryWriter::create("optimus-compile", target->triple));
    }
    return okStatus();
  };
  if (!goesOn)
    if (Status status = complete(); !status.ok())
      return fail(status);

  DefaultTimingManager timingManager;
  applyDefaultTimingManagerCLOptions(timingManager);
  TimingScope timing = timingManager.getRootScope();
  DialectRegistry registry;
  registerAllDialects(registry);
  extensions.appendTo(registry);
  setContextFlags();
  MLIRContext context(registry);
  llvm::SourceMgr sources;
  if (Status status = readProgram(flags.input, sources); !status.ok())
    return fail(options.ok() ? status : options.status());
  SourceMgrDiagnosticHandler diagnostics(sources, &context);
  prefixDiagnosticsWithPaths(context);
  // A mistake of the flags is said before one of the program.
  std::optional<ScopedDiagnosticHandler> silence;
  if (!options.ok())
    silence.emplace(&context, [](Diagnostic &) { return success(); });
  TimingScope parsing = timing.nest("Parser");
  OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(sources, &context);
  parsing.stop();
  silence.reset();
  if (!module)
    return options.ok() ? kBadInput : fail(options.status());

  options = takeRecord(*module, flags, std::move(options));
  if (!options.ok())
    return fail(options.status());
  if (goesOn)
    if (Status status = complete(); !status.ok())
      return fail(status);
  if (failed(checkProgram(*module, *options)))
    return kBadInput;
  if (const auto &measured = options->phases.measured)
    if (failed(measured->verify(*module)))
      return kBadInput;
  if (Status status = makeDumpFolder(*options); !status.ok())
    return fail(status);
  if (options->chooses()) {
    TimingScope choosing = timing.nest("Choice of a layout");
    if (int code = chooseLayout(*module, *options))
      return code;
  }
  // The report says it, too.
  if (std::string unused = explainUnusedProfile(options->phases);
      !unused.empty() && !options->report)
    module->emitWarning(unused);
  if (options->report && !goesOn && options->phases.recompute != "none" &&
      !options->withoutRecompute) {
    Candidate kept{options->phases.mesh, options->phases.strategy};
    if (predict(*module, options->phases, kept))
      options->withoutRecompute = kept.getNeeds();
  }
  return Compilation(*module, *options, *target, writer ? &*writer : nullptr,
                     timing)
      .run();
}

int mlir::optimus::compilerMain(int argc, char **argv,
                                const DialectRegistry &extensions) {
  return runTool("optimus-compile", argc, argv, [&] {
    registerAllPasses();
    CompileFlags flags;
    std::optional<int> code = parseCompileCommandLine(argc, argv, flags);
    return code ? *code : compile(flags, extensions);
  });
}
