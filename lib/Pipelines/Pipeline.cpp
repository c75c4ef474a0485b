//===- Pipeline.cpp - The whole compilation as a pass pipeline --*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Pipelines/Pipeline.h"

#include "optimus/Dialect/CCL/Transforms/Passes.h"
#include "optimus/Dialect/Optimus/IR/Optimizers.h"
#include "optimus/Pipelines/PhaseFlags.h"
#include "optimus/Tool/FlagValues.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassOptions.h"
#include "mlir/Pass/PassRegistry.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::optimus;
using optimus_support::invalidArgument;
using optimus_support::okStatus;
using optimus_support::Status;

namespace {
/// The flags of optimus-compile with influence on the phases.
struct PipelineOptions : PassPipelineOptions<PipelineOptions> {
  Option<std::string> mesh{*this, "mesh",
                           llvm::cl::desc("The mesh, as row:2,col:2 (default: "
                                          "row:1,col:1)")};
  Option<std::string> strategy{
      *this, "strategy",
      llvm::cl::desc("serial, summa, summa-paper, megatron, megatron-sp or "
                     "data (default: summa, on one rank serial)")};
  Option<std::string> layout{
      *this, "layout",
      llvm::cl::desc("pattern=axes instead of the strategy's, separated by "
                     "semicolons, as h.*.mlp.c_proj.weight=row,col")};
  Option<bool> noPad{*this, "no-pad",
                     llvm::cl::desc("Refuse dimensions that the mesh does not "
                                    "divide")};
  Option<std::string> optimizer{*this, "optimizer",
                                llvm::cl::desc(getOptimizerHelp())};
  Option<std::string> precision{
      *this, "precision",
      llvm::cl::desc("f32 (default), or bf16 for activations and for factors "
                     "of products")};
  Option<std::string> reducePrecision{
      *this, "reduce-precision",
      llvm::cl::desc("f32: partial sums of products move in f32 (default: as "
                     "narrow as their sums)")};
  Option<bool> accumulate{*this, "accumulate",
                          llvm::cl::desc("Add the functions for microbatches")};
  Option<std::string> move{*this, "move",
                           llvm::cl::desc("How tensors move in distributed "
                                          "products: panels, whole or auto")};
  Option<std::string> panels{*this, "panels",
                             llvm::cl::desc("Move in so many panels")};
  Option<std::string> recompute{
      *this, "recompute",
      llvm::cl::desc("What the backward recomputes: none (default), attention "
                     "or layer")};
  Option<std::string> offload{
      *this, "offload",
      llvm::cl::desc("What lies in a file between its uses, as state")};
  Option<std::string> offloadTo{*this, "offload-to",
                                llvm::cl::desc("file (default) or host")};
  Option<std::string> offloadBandwidth{
      *this, "offload-bandwidth",
      llvm::cl::desc("Bytes a second from there and to it, as 512MiB,1GiB")};
  Option<std::string> offloadWindow{
      *this, "offload-window",
      llvm::cl::desc("Bytes that may be fetched ahead, as 64MiB")};
  Option<std::string> schedule{*this, "schedule",
                               llvm::cl::desc("time (default), memory, "
                                              "balanced or none")};
  Option<std::string> extraWorkspace{
      *this, "extra-workspace",
      llvm::cl::desc("What overlap may add to the most bytes alive at once, "
                     "as 10% (default) or 64MiB")};
  Option<std::string> machineProfile{
      *this, "machine-profile",
      llvm::cl::desc("What optimus-run bench --gemm and --comm measured "
                     "(default: a built-in profile)")};
  Option<std::string> profile{
      *this, "profile",
      llvm::cl::desc("What optimus-run train --profile wrote on the same mesh: "
                     "its times are those of commands")};
  Option<std::string> target{
      *this, "target",
      llvm::cl::desc("The device to compile for: cpu (default), or cuda as "
                     "far as the phase place")};
  Option<std::string> attention{
      *this, "attention",
      llvm::cl::desc("What computes attention: ours (default) or cudnn")};
  Option<bool> deterministic{
      *this, "deterministic",
      llvm::cl::desc("cuDNN's attention adds in the same order always")};
  Option<std::string> cpu{*this, "mcpu",
                          llvm::cl::desc("The processor to compile for "
                                         "(default: this one)")};
  Option<std::string> serial{
      *this, "serial",
      llvm::cl::desc("The program after the phase 'step', to compare values "
                     "with where compilation starts later")};
  Option<std::string> from{
      *this, "from", llvm::cl::init("input"),
      llvm::cl::desc("The phase that made the program (default: input)")};
  Option<std::string> to{*this, "to", llvm::cl::init("llvm"),
                         llvm::cl::desc("The last phase (default: llvm)")};

  PhaseFlags getFlags() const {
    PhaseFlags flags;
    flags.mesh = mesh;
    flags.strategy = strategy;
    flags.layouts = layout;
    flags.noPad = noPad;
    flags.optimizer = optimizer;
    flags.precision = precision;
    flags.reducePrecision = reducePrecision;
    flags.accumulate = accumulate;
    flags.move = move;
    flags.panels = panels;
    flags.recompute = recompute;
    flags.offload = offload;
    flags.offloadTo = offloadTo;
    flags.offloadBandwidth = offloadBandwidth;
    flags.offloadWindow = offloadWindow;
    flags.schedule = schedule;
    flags.extraWorkspace = extraWorkspace;
    flags.machineProfile = machineProfile;
    flags.profile = profile;
    flags.target = target;
    flags.attention = attention;
    flags.deterministic = deterministic;
    flags.cpu = cpu;
    flags.serial = serial;
    return flags;
  }
};
} // namespace

static Status addPhases(OpPassManager &passes, const PipelineOptions &options) {
  OPTRT_ASSIGN_OR_RETURN(PhaseOptions phaseOptions,
                         readPhaseOptions(options.getFlags()));
  OPTRT_RETURN_IF_ERROR(completePhaseOptions(phaseOptions, /*dashes=*/""));
  phaseOptions.serialProgram = std::make_shared<ccl::SerialProgram>();
  SmallVector<StringRef> names = getPhaseNames();
  StringRef from = options.from, to = options.to;
  for (auto [flag, name] : {std::pair("from", from), std::pair("to", to)})
    if (!llvm::is_contained(names, name))
      return invalidArgument(unknownName(flag, "phase", name, names));
  phaseOptions.from = from;
  size_t first = llvm::find(names, from) - names.begin();
  size_t last = llvm::find(names, to) - names.begin();
  if (last < first)
    return invalidArgument(
        llvm::formatv("to: the phase '{0}' is before '{1}'", to, from).str());
  if (!phaseOptions.serial.empty() && !readsSerialProgram(from, to))
    return invalidArgument("serial: expected from=partition or from=tune, and "
                           "to=fuse or later, where values are compared");
  if (phaseOptions.target != "cpu" && to == "llvm")
    return invalidArgument("to: with target=" + phaseOptions.target +
                           " the last phase is 'place'");
  // No phase makes "input".
  for (const Phase &phase : getPhases().slice(first, last - first))
    phase.addPasses(passes, phaseOptions);
  return okStatus();
}

void mlir::optimus::registerPipelines() {
  // As PassPipelineRegistration does, whose builders cannot refuse.
  registerPassPipeline(
      "optimus-pipeline",
      "All that optimus-compile runs, with its flags as options",
      [](OpPassManager &passes, StringRef text,
         function_ref<LogicalResult(const Twine &)> fail) -> LogicalResult {
        PipelineOptions options;
        if (failed(options.parseFromString(text)))
          return failure();
        Status status = addPhases(passes, options);
        return status.ok() ? success()
                           : fail("--optimus-pipeline: " + status.message());
      },
      [](function_ref<void(const ::mlir::detail::PassOptions &)> handle) {
        handle(PipelineOptions());
      });
}
