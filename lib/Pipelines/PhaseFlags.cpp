//===- PhaseFlags.cpp - The phases as a user asks for them ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Pipelines/PhaseFlags.h"

#include "optimus/Analysis/MachineProfile.h"
#include "optimus/Analysis/MeasuredCosts.h"
#include "optimus/Dialect/CCL/IR/CCL.h"
#include "optimus/Dialect/CCL/Transforms/RecomputePolicy.h"
#include "optimus/Dialect/Exec/Transforms/Bandwidth.h"
#include "optimus/Dialect/Exec/Transforms/ExtraWorkspace.h"
#include "optimus/Dialect/Exec/Transforms/OffloadChoice.h"
#include "optimus/Dialect/Optimus/IR/Optimizers.h"
#include "optimus/Dialect/Optimus/Transforms/AdapterOption.h"
#include "optimus/Dialect/Optimus/Transforms/Strategy.h"
#include "optimus/Target/Target.h"
#include "optimus/Tool/FlagValues.h"

#include "optimus-support/Sizes.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::optimus;
using optimus_support::invalidArgument;
using optimus_support::okStatus;
using optimus_support::Status;
using optimus_support::StatusOr;

static constexpr StringLiteral kAuto = "auto";

ArrayRef<PhaseFlag> mlir::optimus::getPhaseFlags() {
  static const PhaseFlag flags[] = {
      {"serial", "FILE", &PhaseFlags::serial,
       "With --compile-from partition or tune: the serial program, written by "
       "--compile-to step, to prove the partition against"},
      {"mesh", "AXES", &PhaseFlags::mesh,
       "The mesh, as row:2,col:2 or data:2,row:2,col:2 (default: row:1,col:1)"},
      {"strategy", "NAME", &PhaseFlags::strategy,
       "serial, summa, summa-paper, megatron, megatron-sp, data or "
       "summa,decode=stationary (default: summa, on one rank serial)",
       "; auto chooses by predicted time"},
      {"no-pad", "", &PhaseFlags::noPad,
       "Refuse dimensions that the mesh does not divide rather than pad them"},
      {"move", "HOW", &PhaseFlags::move,
       "How tensors move in distributed products: panels (the next one moves "
       "while one is multiplied), whole (gathered before or scattered after), "
       "or auto, as --tune-products"},
      {"panels", "N", &PhaseFlags::panels,
       "Move in so many panels, or the nearest fewer that a product can have"},
      {"target", "NAME", &PhaseFlags::target,
       "The device to compile for: cpu (default) or cuda"},
      {"attention", "WHOSE", &PhaseFlags::attention,
       "With --target cuda: attention by cuDNN where it can and our kernels "
       "elsewhere (auto, default), by our kernels (builtin) or by cuDNN "
       "(cudnn)"},
      {"deterministic", "", &PhaseFlags::deterministic,
       "With --target cuda: cuDNN's gradient of attention in one order, "
       "for more time and workspace"},
      {"mcpu", "NAME", &PhaseFlags::cpu,
       "With --target cpu: the processor to compile for, of another "
       "architecture as aarch64-linux-gnu:neoverse-n1 (default: this one)"},
      {"machine-profile", "FILE", &PhaseFlags::machineProfile,
       "Machine to predict times for: a file of optimus-run bench --gemm and "
       "--comm, a known one (a100, h100 or h200, or nodes of 2, 4 or 8 of "
       "them, as h100x8), or none for a built-in one (default: none, but "
       "--report is of this machine; h100x8 with --target cuda)"},
      {"profile", "FILE", &PhaseFlags::profile,
       "Plan by the measured times of a run of this program on this mesh: a "
       "file of optimus-run train --profile"},
      {"optimizer", "NAME", &PhaseFlags::optimizer, getOptimizerHelp()},
      {"lora", "ADAPTERS", &PhaseFlags::lora,
       "Train low-rank adapters of PEFT's form beside linears, with all else "
       "frozen, as rank=16,alpha=32,targets=q_proj,v_proj"},
      {"precision", "TYPE", &PhaseFlags::precision,
       "f32; or bf16: activations, their gradients and factors of products, "
       "while parameters, the optimizer's state, gradients of parameters, "
       "statistics and losses stay f32 (default: f32)"},
      {"weights", "TYPE", &PhaseFlags::weights,
       "How generation holds weights of products and the table of tokens: "
       "activations, as these are (default); or int8 or int4, blocks of 32 "
       "with a scale as GGUF's Q8_0 and Q4_0"},
      {"reduce-precision", "TYPE", &PhaseFlags::reducePrecision,
       "f32: ranks add up products in f32 and round once; bf16: gradients of "
       "weights are bf16, too (default: partial sums as --precision)"},
      {"accumulate", "", &PhaseFlags::accumulate,
       "Add the functions of train --microbatches: sums of gradients, and an "
       "update by them"},
      {"schedule", "GOAL", &PhaseFlags::schedule,
       "time: communicate while computing (default); memory: order commands so "
       "that few bytes are alive; balanced: the least product of both; none: "
       "wait for each collective where it starts"},
      {"extra-workspace", "SIZE", &PhaseFlags::extraWorkspace,
       "Extra peak memory allowed for overlap: a percentage, or bytes, as "
       "64MiB (default: 10%)"},
      {"sync", "WHEN", &PhaseFlags::sync,
       "When new parameters are gathered over the axis data: sync: before a "
       "step ends (default); sync(next): while the next one begins, which "
       "waits for each where it reads it"},
      {"lanes", "N", &PhaseFlags::lanes,
       "Most runs side by side by train --lanes, on one rank (default: 1)"},
      {"recompute", "POLICY", &PhaseFlags::recompute,
       "Values recomputed in the backward: none (default); attention: all but "
       "products; layer: all but the activations between blocks; or ids of "
       "values, as h.*.mlp.gelu:*,h.0.ln_1:0",
       "; auto: the fastest of these within --memory-budget, the default where "
       "nothing else fits; budget: values chosen one by one to fit it"},
      {"offload", "WHAT", &PhaseFlags::offload,
       "Values kept outside the device's memory between uses, copied behind "
       "computation: state, or a part of it, as state=512MiB; parameters, "
       "gradients, activations, or ids of values, as h.*.mlp.gelu:*, with "
       "commas between them"},
      {"offload-to", "SPACE", &PhaseFlags::offloadTo,
       "Memory of offloaded values: file: a scratch file (default); host: the "
       "host's memory (default with --target cuda)"},
      {"offload-bandwidth", "RATES", &PhaseFlags::offloadBandwidth,
       "Bytes a second read and written there, as 512MiB,1GiB (for files)",
       "; with --memory-budget and no --offload, values are chosen that rest "
       "there"},
      {"offload-window", "SIZE", &PhaseFlags::offloadWindow,
       "Most bytes fetched ahead of their use, as 64MiB (default: those of the "
       "largest command)"},
  };
  return flags;
}

namespace {
/// Reads the flags of a user into the options of the phases.
class Reader {
public:
  explicit Reader(const PhaseFlags &flags) : flags(flags) {}

  StatusOr<PhaseOptions> read();

private:
  std::string name(StringRef flag) const { return (flags.dashes + flag).str(); }
  Status fail(StringRef flag, llvm::Error error) const {
    return invalidArgument(name(flag) + ": " +
                           llvm::toString(std::move(error)));
  }
  /// Takes one of the names that are known, if one is given.
  Status take(StringRef flag, StringRef what, const std::string &given,
              ArrayRef<StringRef> known, std::string &option) const;
  Status readLayout();
  Status readTrained();
  Status readProducts();
  Status readReducePrecision();
  Status readSchedule();
  Status readRecompute();
  Status readOffload();
  Status readAttention();
  Status readSync();
  Status readWeights();
  Status readLanes();
  Status refuse(StringRef flag, StringRef value, const Twine &expected);

  const PhaseFlags &flags;
  PhaseOptions options;
};
} // namespace

Status Reader::take(StringRef flag, StringRef what, const std::string &given,
                    ArrayRef<StringRef> known, std::string &option) const {
  if (given.empty())
    return okStatus();
  if (!llvm::is_contained(known, StringRef(given)))
    return invalidArgument(unknownName(name(flag), what, given, known));
  option = given;
  return okStatus();
}

/// Where tensors lie.
Status Reader::readLayout() {
  auto mesh = MeshOption::parse(flags.mesh.empty() ? "row:1,col:1"
                                                   : StringRef(flags.mesh));
  if (!mesh)
    return fail("mesh", mesh.takeError());
  options.mesh = *mesh;
  SmallVector<StringRef> strategies;
  if (flags.mayChoose)
    strategies.push_back(kAuto);
  llvm::append_range(strategies, getKnownStrategies());
  // Those of single entries follow the program's, if it is given.
  StringRef program = flags.strategy, ofEntries;
  if (program.contains('=')) {
    const size_t end =
        program.find('=') < program.find(',') ? 0 : program.find(',');
    ofEntries = program.drop_front(end);
    program = program.take_front(end);
  }
  options.entryStrategies = ofEntries.ltrim(',').str();
  OPTRT_RETURN_IF_ERROR(take("strategy", "strategy", program.str(), strategies,
                             options.strategy));
  options.pad = !flags.noPad;
  options.layouts = flags.layouts;
  if (auto parsed = parseChosenLayouts(options.layouts); !parsed)
    return fail("layout", parsed.takeError());
  return okStatus();
}

/// Which parameters are trained.
Status Reader::readTrained() {
  options.train = flags.trains;
  options.lora = flags.lora;
  if (flags.lora.empty())
    return okStatus();
  if (auto parsed = AdapterOption::parse(flags.lora); !parsed)
    return fail("lora", parsed.takeError());
  if (!flags.trains.empty())
    return invalidArgument(name("lora") + " and " + name("train") +
                           " both say what is trained; give one");
  return okStatus();
}

/// What the user says of distributed products.
Status Reader::readProducts() {
  options.tuneProducts = flags.tuneProducts;
  OPTRT_RETURN_IF_ERROR(take("move", "way", flags.move,
                             {"auto", "panels", "whole"}, options.move));
  if (!flags.move.empty() && flags.tuneProducts)
    return invalidArgument(name("move") + " and " + name("tune-products") +
                           " both say how products move; give one");
  if (flags.panels.empty())
    return okStatus();
  OPTRT_ASSIGN_OR_RETURN(options.panels, readCount(name("panels"), flags.panels,
                                                   1, ccl::kMostPanels));
  if (flags.move == "whole")
    return invalidArgument(name("panels") + ": with " + name("move") +
                           " whole nothing moves in panels");
  // A number of panels that is given is not weighed against moving whole.
  if (flags.move.empty())
    options.move = "panels";
  return okStatus();
}

Status Reader::readSchedule() {
  OPTRT_RETURN_IF_ERROR(take("schedule", "schedule", flags.schedule,
                             {"none", "time", "memory", "balanced"},
                             options.schedule));
  if (!flags.extraWorkspace.empty())
    options.extraWorkspace = flags.extraWorkspace;
  if (auto extra = exec::ExtraWorkspace::parse(options.extraWorkspace); !extra)
    return fail("extra-workspace", extra.takeError());
  return okStatus();
}

Status Reader::readRecompute() {
  // The id of a value ends with its number among the results.
  if (StringRef(flags.recompute).contains(':')) {
    options.recompute = flags.recompute;
    return okStatus();
  }
  SmallVector<StringRef> policies(ccl::getRecomputePolicies());
  if (flags.mayChoose)
    policies.append({kAuto, "budget"});
  std::string policy;
  if (Status status =
          take("recompute", "policy", flags.recompute, policies, policy);
      !status.ok())
    return status.withAdvice("ids of values have a colon, as h.*.mlp.gelu:*");
  if (ccl::lookupRecomputePolicy(policy))
    options.recompute = policy;
  return okStatus();
}

Status Reader::readReducePrecision() {
  std::string precision = options.precision;
  OPTRT_RETURN_IF_ERROR(take("reduce-precision", "precision",
                             flags.reducePrecision, {"f32", "bf16"},
                             precision));
  if (flags.reducePrecision.empty() ||
      (precision == "f32" && options.precision == "f32"))
    return okStatus();
  if (options.precision == "f32")
    return invalidArgument(name("reduce-precision") + ": " + precision +
                           " needs " + name("precision") + " " + precision);
  options.reducePrecision = precision;
  return okStatus();
}

Status Reader::readOffload() {
  options.offload = flags.offload;
  if (!flags.offload.empty())
    if (auto parsed = exec::OffloadChoice::parse(
            llvm::to_vector(llvm::split(flags.offload, ',')));
        !parsed)
      return fail("offload", parsed.takeError());
  options.offloadTo = options.isForGpu() ? "host" : "file";
  OPTRT_RETURN_IF_ERROR(take("offload-to", "memory space", flags.offloadTo,
                             {"file", "host"}, options.offloadTo));
  if (options.isForGpu() && options.offloadTo == "file")
    return invalidArgument(name("offload-to") + ": expected host beside " +
                           name("target") +
                           " cuda, whose GPU reaches no file; found file");
  options.offloadBandwidth = flags.offloadBandwidth;
  if (!exec::Bandwidth::parse(flags.offloadBandwidth))
    return invalidArgument(name("offload-bandwidth") +
                           ": expected bytes a second, as 512MiB, or two of "
                           "them, in and out; found '" +
                           flags.offloadBandwidth + "'");
  if (flags.offloadWindow.empty())
    return okStatus();
  std::optional<int64_t> window = exec::parseBytes(flags.offloadWindow);
  if (!window || *window == 0)
    return invalidArgument(name("offload-window") +
                           ": expected a size, as 64MiB; found '" +
                           flags.offloadWindow + "'");
  options.offloadWindow = *window;
  return okStatus();
}

Status Reader::readAttention() {
  OPTRT_RETURN_IF_ERROR(take("attention", "attention", flags.attention,
                             {"auto", "builtin", "cudnn"}, options.attention));
  options.deterministic = flags.deterministic;
  if (options.isForGpu())
    return okStatus();
  if (options.attention == "cudnn")
    return invalidArgument(name("attention") + " cudnn: expected " +
                           name("target") + " cuda beside it");
  if (options.deterministic)
    return invalidArgument(name("deterministic") + ": expected " +
                           name("target") +
                           " cuda beside it; processors add in the same order "
                           "always");
  return okStatus();
}

/// A value of a flag that lacks another flag, or has one too many.
Status Reader::refuse(StringRef flag, StringRef value, const Twine &expected) {
  return invalidArgument(
      (Twine(name(flag)) + " " + value + ": expected " + expected).str());
}

Status Reader::readSync() {
  OPTRT_RETURN_IF_ERROR(
      take("sync", "time", flags.sync, {"sync", kNextSync}, options.sync));
  if (options.sync != kNextSync)
    return okStatus();
  const bool hasReplicas =
      llvm::any_of(options.mesh.axes, [](const auto &axis) {
        return axis.first == "data" && axis.second > 1;
      });
  if (!flags.mesh.empty() && !hasReplicas)
    return refuse("sync", kNextSync,
                  "a mesh with an axis data, over which parameters are "
                  "gathered; found '" +
                      flags.mesh + "'");
  if (options.isForGpu())
    return refuse("sync", kNextSync,
                  name("target") + " cpu beside it; found cuda");
  if (!options.offload.empty())
    return refuse("sync", kNextSync,
                  "no " + name("offload") +
                      " beside it, whose copies would have to wait for "
                      "parameters");
  return okStatus();
}

Status Reader::readWeights() {
  OPTRT_RETURN_IF_ERROR(take("weights", "weights", flags.weights,
                             {"activations", "int8", "int4"}, options.weights));
  if (options.weights == "activations")
    return okStatus();
  if (options.isForGpu())
    return refuse("weights", options.weights,
                  name("target") +
                      " cpu beside it; GPUs hold weights as activations");
  if (!options.offload.empty())
    return refuse("weights", options.weights,
                  "no " + name("offload") +
                      " beside it; blocks are made once, of what lies in "
                      "memory");
  return okStatus();
}

Status Reader::readLanes() {
  if (flags.lanes.empty())
    return okStatus();
  OPTRT_ASSIGN_OR_RETURN(options.lanes, readCount(name("lanes"), flags.lanes, 1,
                                                  optimus_support::kMaxLanes));
  if (options.lanes == 1)
    return okStatus();
  if (options.mesh.getNumRanks() != 1)
    return refuse("lanes", flags.lanes,
                  "one rank, as " + name("mesh") +
                      " row:1,col:1; lanes of a mesh would have to communicate "
                      "each for itself. Found '" +
                      flags.mesh + "'");
  if (!options.offload.empty())
    return refuse("lanes", flags.lanes,
                  "no " + name("offload") +
                      " beside it; all lanes lie in the device's memory");
  return okStatus();
}

StatusOr<PhaseOptions> Reader::read() {
  OPTRT_RETURN_IF_ERROR(readLayout());
  OPTRT_RETURN_IF_ERROR(readTrained());
  OPTRT_RETURN_IF_ERROR(take("optimizer", "optimizer", flags.optimizer,
                             getKnownOptimizers(), options.optimizer));
  OPTRT_RETURN_IF_ERROR(take("precision", "precision", flags.precision,
                             {"f32", "bf16"}, options.precision));
  OPTRT_RETURN_IF_ERROR(readReducePrecision());
  options.accumulate = flags.accumulate;
  OPTRT_RETURN_IF_ERROR(readSchedule());
  if (flags.machineProfile != optimus_prices::kNoProfile)
    options.machineProfile = flags.machineProfile;
  options.profile = flags.profile;
  OPTRT_RETURN_IF_ERROR(readProducts());
  OPTRT_RETURN_IF_ERROR(readRecompute());
  options.serial = flags.serial;
  OPTRT_RETURN_IF_ERROR(
      take("target", "target", flags.target, getTargetNames(), options.target));
  OPTRT_RETURN_IF_ERROR(readOffload());
  OPTRT_RETURN_IF_ERROR(readAttention());
  OPTRT_RETURN_IF_ERROR(readSync());
  OPTRT_RETURN_IF_ERROR(readWeights());
  OPTRT_RETURN_IF_ERROR(readLanes());
  if (!flags.cpu.empty())
    options.cpu = flags.cpu;
  return options;
}

StatusOr<PhaseOptions>
mlir::optimus::readPhaseOptions(const PhaseFlags &flags) {
  return Reader(flags).read();
}

Status mlir::optimus::completePhaseOptions(PhaseOptions &options,
                                           StringRef dashes) {
  int64_t numRanks = options.mesh.getNumRanks();
  if (options.strategy.empty())
    options.strategy = numRanks == 1 ? "serial" : "summa";
  if (options.strategy == "serial" && numRanks > 1)
    return invalidArgument(
        llvm::formatv("{0}strategy: 'serial' is for one rank, but the mesh {1} "
                      "has {2}; choose another strategy or {0}mesh row:1,col:1",
                      dashes, options.mesh.toString(), numRanks)
            .str());
  if (auto parsed =
          parseEntryStrategies(options.entryStrategies, options.strategy);
      !parsed)
    return invalidArgument(
        (dashes + "strategy: " + llvm::toString(parsed.takeError())).str());
  // Later there may be a mesh in the program.
  const Strategy *strategy = lookupStrategy(options.strategy);
  const bool isSharded =
      !options.from.empty() &&
      getPhaseNumber(options.from) >= getPhaseNumber("shard");
  if (strategy && !isSharded) {
    SmallVector<std::pair<StringRef, int64_t>> axes(options.mesh.axes.begin(),
                                                    options.mesh.axes.end());
    if (std::string misfit = strategy->explainMisfit(axes); !misfit.empty())
      return invalidArgument(llvm::formatv("{0}mesh: '{1}' {2}", dashes,
                                           options.mesh.toString(), misfit)
                                 .str());
  }
  if (options.isForGpu() && options.machineProfile.empty())
    options.machineProfile = std::string(kDefaultGpuProfile);
  if (options.profile.empty())
    return okStatus();
  auto measured = MeasuredCosts::load(options.profile);
  if (!measured)
    return invalidArgument((dashes + "profile: ").str() +
                           llvm::toString(measured.takeError()));
  options.measured = std::move(*measured);
  return okStatus();
}
