//===- Pipeline.cpp - The whole compilation as a pass pipeline --*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Pipelines/Pipeline.h"

#include "optimus/Dialect/CCL/Transforms/Passes.h"
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
  template <typename T>
  using Declared =
      std::vector<std::pair<T PhaseFlags::*, std::unique_ptr<Option<T>>>>;

  PipelineOptions() {
    for (const PhaseFlag &flag : getPhaseFlags())
      std::visit([&](auto member) { declare(member, flag); }, flag.member);
  }

  PhaseFlags getFlags() const {
    PhaseFlags flags;
    flags.layouts = layout;
    flags.trains = train;
    auto copy = [&](const auto &options) {
      for (const auto &[member, option] : options)
        flags.*member = option->getValue();
    };
    copy(texts);
    copy(truths);
    return flags;
  }

  Option<std::string> layout{
      *this, "layout",
      llvm::cl::desc("PATTERN=AXES, separated by semicolons: override the "
                     "sharding of values whose path matches a pattern, as "
                     "h.*.mlp.c_proj.weight=row,col")};
  Option<std::string> train{
      *this, "train",
      llvm::cl::desc("Names of the parameters to train, with * for any part, "
                     "separated by semicolons; the rest is frozen")};
  Option<std::string> from{
      *this, "from", llvm::cl::init("input"),
      llvm::cl::desc("The phase that made the program (default: input)")};
  Option<std::string> to{*this, "to", llvm::cl::init("llvm"),
                         llvm::cl::desc("The last phase (default: llvm)")};

private:
  void declare(std::string PhaseFlags::*member, const PhaseFlag &flag) {
    texts.emplace_back(member,
                       std::make_unique<Option<std::string>>(
                           *this, flag.name, llvm::cl::desc(flag.help)));
  }
  void declare(bool PhaseFlags::*member, const PhaseFlag &flag) {
    truths.emplace_back(
        member, std::make_unique<Option<bool>>(*this, flag.name,
                                               llvm::cl::desc(flag.help)));
  }

  Declared<std::string> texts;
  Declared<bool> truths;
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
  const size_t first = getPhaseNumber(from), last = getPhaseNumber(to);
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
