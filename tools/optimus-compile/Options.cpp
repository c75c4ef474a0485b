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
#include "optimus/Tool/CommandLine.h"
#include "optimus/Tool/MlirFlags.h"

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
namespace cl = llvm::cl;

static cl::OptionCategory category("optimus-compile options");
static cl::opt<std::string> inputPath(cl::Positional, cl::desc("<program>"),
                                      cl::cat(category));
static cl::opt<std::string>
    outputPath("o", cl::value_desc("file"), cl::cat(category),
               cl::desc("The model library, or the IR with --compile-to "
                        "(default: standard output)"));
static cl::opt<std::string>
    meshText("mesh", cl::init("row:1,col:1"), cl::value_desc("axes"),
             cl::cat(category),
             cl::desc("The mesh, as row:2,col:2 or data:2,row:2,col:2"));
static cl::opt<std::string> strategy(
    "strategy", cl::value_desc("name"), cl::cat(category),
    cl::desc("serial, summa, summa-paper, megatron, megatron-sp or data "
             "(default: summa, on one rank serial); auto chooses by "
             "predicted step time"));
static cl::opt<std::string>
    ranks("ranks", cl::value_desc("n"), cl::cat(category),
          cl::desc("With --strategy auto: choose the mesh of so many ranks "
                   "too, instead of --mesh"));
static cl::opt<std::string> memoryBudget(
    "memory-budget", cl::value_desc("size"), cl::cat(category),
    cl::desc("Most bytes that a rank may hold, as 16GiB or 512MiB: what needs "
             "more is not chosen, or not compiled"));
static cl::opt<bool> noPad("no-pad", cl::cat(category),
                           cl::desc("Refuse dimensions that the mesh does not "
                                    "divide rather than pad them"));
static cl::opt<std::string>
    targetName("target", cl::init("cpu"), cl::value_desc("name"),
               cl::cat(category),
               cl::desc("The device to compile for: cpu (default) or cuda"));
static cl::opt<std::string> gpuArchitectures(
    "gpu-arch", cl::value_desc("names"), cl::cat(category),
    cl::desc("With --target cuda: the architectures to make machine code for "
             "(default: sm_80,sm_90,sm_100); emulated: for this machine's "
             "processor, to try and test kernels on"));
static cl::opt<std::string> attention(
    "attention", cl::init("ours"), cl::value_desc("whose"), cl::cat(category),
    cl::desc("With --target cuda: what computes attention, our kernels (ours, "
             "default) or cuDNN (cudnn: bf16 only)"));
static cl::opt<bool> deterministic(
    "deterministic", cl::cat(category),
    cl::desc("With --attention cudnn: its gradient adds in the same order "
             "always, which takes longer and more workspace"));
static cl::opt<std::string> cubinFolder(
    "cubins-to", cl::value_desc("dir"), cl::cat(category),
    cl::desc("With --target cuda: write the kernels of each architecture, as "
             "sm_90.ptx and sm_90.cubin"));
static cl::opt<std::string>
    cpu("mcpu", cl::init("native"), cl::value_desc("name"), cl::cat(category),
        cl::desc("With --target cpu: the processor to compile for, of another "
                 "architecture as aarch64-linux-gnu:neoverse-n1 (default: this "
                 "one)"));
static cl::opt<std::string>
    optimizer("optimizer", cl::init("adamw"), cl::value_desc("name"),
              cl::cat(category),
              cl::desc("The optimizer: adamw, lamb or sgd (with momentum)"));
static cl::opt<std::string> precision(
    "precision", cl::init("f32"), cl::value_desc("type"), cl::cat(category),
    cl::desc("f32; or bf16: activations, their gradients and factors of "
             "products, while parameters, the optimizer's state, gradients of "
             "parameters, statistics and losses stay f32 (default: f32)"));
static cl::opt<std::string> reducePrecision(
    "reduce-precision", cl::value_desc("type"), cl::cat(category),
    cl::desc("f32: ranks add up products in f32 and round once, which moves "
             "twice the bytes of partial sums (default: as --precision)"));
static cl::opt<bool>
    accumulate("accumulate", cl::cat(category),
               cl::desc("Make what train --microbatches needs too: gradients "
                        "that add up, and an update by their sum"));
static cl::opt<std::string> schedule(
    "schedule", cl::init("time"), cl::value_desc("goal"), cl::cat(category),
    cl::desc("time: communicate while computing (default); memory: order "
             "commands so that few bytes are alive; balanced: the least "
             "product of both; none: wait for each collective where it "
             "starts"));
static cl::opt<std::string> extraWorkspace(
    "extra-workspace", cl::init("10%"), cl::value_desc("size"),
    cl::cat(category),
    cl::desc("What overlap may add to the most bytes alive at once: a "
             "percentage of it, or bytes, as 64MiB (default: 10%)"));
static cl::opt<std::string> profile(
    "profile", cl::value_desc("file"), cl::cat(category),
    cl::desc("What optimus-run train --profile wrote of a run of this program "
             "on this mesh: plan by what its commands took"));
static cl::opt<std::string> machineProfile(
    "machine-profile", cl::value_desc("file"), cl::cat(category),
    cl::desc("What optimus-run bench --gemm and --comm measured, to predict "
             "times from; or a known machine: a100, h100 or h200, or nodes of "
             "2, 4 or 8 of them, as h100x8 (default: a built-in profile, "
             "h100x8 with --target cuda)"));
static cl::opt<bool> tuneProducts(
    "tune-products", cl::cat(category),
    cl::desc("Choose panels, or whole tensors, for each distributed product "
             "by predicted times (default: with --machine-profile)"));
static cl::opt<std::string> moveProducts(
    "move", cl::value_desc("how"), cl::cat(category),
    cl::desc("How tensors move in distributed products: panels (the next one "
             "moves while one is multiplied), whole (gathered before or "
             "scattered after), or auto, as --tune-products"));
static cl::opt<std::string>
    panels("panels", cl::value_desc("n"), cl::cat(category),
           cl::desc("Move in so many panels, or the nearest fewer that a "
                    "product can have"));
static cl::list<std::string> layouts(
    "layout", cl::value_desc("pattern=axes"), cl::cat(category),
    cl::desc("How what has a path lies, instead of what the strategy says, as "
             "h.*.mlp.c_proj.weight=row,col: this decides which tensor of a "
             "product stays in place. May be repeated; the last one that "
             "matches holds"));
static cl::opt<std::string> recompute(
    "recompute", cl::value_desc("policy"), cl::cat(category),
    cl::desc("What the backward recomputes instead of keeping it: none; "
             "attention: all but products; layer: all but the activations "
             "between blocks; auto: the fastest by prediction that fits "
             "--memory-budget (default: none, and auto where nothing else "
             "fits); budget: values that are chosen one by one to fit it; or "
             "ids of values, as h.*.mlp.gelu:*,h.0.ln_1:0"));
static cl::opt<std::string> offload(
    "offload", cl::value_desc("what"), cl::cat(category),
    cl::desc("What lies outside the device's memory between its uses and is "
             "copied behind computation: state, or so much of it, as "
             "state=512MiB; parameters, gradients, activations, or ids of "
             "values, as h.*.mlp.gelu:*, with commas between them"));
static cl::opt<std::string> offloadTo(
    "offload-to", cl::value_desc("space"), cl::cat(category),
    cl::desc("Where that is: file: a scratch file (default); host: the host's "
             "memory (default with --target cuda, whose GPU reaches no "
             "file)"));
static cl::opt<std::string> offloadBandwidth(
    "offload-bandwidth", cl::value_desc("rates"), cl::cat(category),
    cl::desc("Bytes a second from there and to it, as 512MiB,1GiB (the "
             "default)"));
static cl::opt<std::string> offloadWindow(
    "offload-window", cl::value_desc("size"), cl::cat(category),
    cl::desc("Most bytes that are fetched ahead of their use, as 64MiB "
             "(default: as many as the command that needs most)"));
static cl::opt<bool>
    report("report", cl::cat(category),
           cl::desc("Print memory, communication and predicted times"));
static cl::opt<std::string> reportJson(
    "report-json", cl::value_desc("file"), cl::cat(category),
    cl::desc("Write what a rank needs, its limits and predicted times as "
             "JSON"));
static cl::opt<std::string> compileTo(
    "compile-to", cl::value_desc("phase"), cl::cat(category),
    cl::desc("Stop after a phase and write its IR: input, "
             "differentiate, step, shard, partition, tune, fuse, exec, "
             "schedule, place or llvm"));
static cl::opt<std::string> compileFrom(
    "compile-from", cl::value_desc("phase"), cl::cat(category),
    cl::desc(
        "The program is what --compile-to or --dump-phases-to wrote after "
        "this phase: go on from there. Its flags need not be given again"));
static cl::opt<std::string>
    serial("serial", cl::value_desc("file"), cl::cat(category),
           cl::desc("With --compile-from partition or tune: what --compile-to "
                    "step wrote, so that values are compared with it"));
static cl::opt<std::string> dumpFolder("dump-phases-to", cl::value_desc("dir"),
                                       cl::cat(category),
                                       cl::desc("Write the IR of every phase"));

std::optional<int> mlir::optimus::parseCompileCommandLine(int argc,
                                                          char **argv) {
  declareMlirFlags();
  auto isOurs = [](const cl::Option &option) {
    return llvm::is_contained(option.Categories, &category);
  };
  return parseCommandLine(
      argc, argv,
      {.name = "optimus-compile",
       .summary = "compiles a program to a model library for optimus-run",
       .input = "PROGRAM.mlir",
       .isOurs = isOurs,
       .listsMlirFlags = true});
}

static bool isGiven(const cl::Option &option) {
  return option.getNumOccurrences() > 0;
}

//===----------------------------------------------------------------------===//
// Each flag by itself
//===----------------------------------------------------------------------===//

/// What decides what the phases do.
static PhaseFlags getPhaseFlags() {
  PhaseFlags flags;
  flags.dashes = "--";
  flags.mayChoose = true;
  flags.mesh = meshText;
  flags.strategy = strategy;
  flags.layouts = llvm::join(layouts, ";");
  flags.noPad = noPad;
  flags.optimizer = optimizer;
  flags.precision = precision;
  flags.reducePrecision = reducePrecision;
  flags.accumulate = accumulate;
  flags.move = moveProducts;
  flags.panels = panels;
  if (isGiven(tuneProducts))
    flags.tuneProducts = bool(tuneProducts);
  flags.recompute = recompute;
  flags.offload = offload;
  flags.offloadTo = offloadTo;
  flags.offloadBandwidth = offloadBandwidth;
  flags.offloadWindow = offloadWindow;
  flags.schedule = schedule;
  flags.extraWorkspace = extraWorkspace;
  flags.machineProfile = machineProfile;
  flags.profile = profile;
  flags.target = targetName;
  flags.attention = attention;
  flags.deterministic = deterministic;
  flags.cpu = cpu;
  flags.serial = serial;
  return flags;
}

/// Where to start and where to stop.
static Status readPhases(CompileOptions &options) {
  SmallVector<StringRef> names = getPhaseNames();
  options.compileTo = compileTo;
  options.compileFrom = options.phases.from = compileFrom;
  if (isGiven(compileFrom)) {
    ArrayRef<StringRef> starts = ArrayRef(names).drop_back();
    const StringRef *start = llvm::find(starts, StringRef(compileFrom));
    if (start == starts.end())
      return invalidArgument(
          unknownName("--compile-from", "phase", compileFrom, starts));
    if (options.chooses())
      return invalidArgument(
          "--compile-from: name a strategy and a policy of recomputation, and "
          "no --memory-budget; nothing can be chosen after the start");
    if (llvm::is_contained(ArrayRef(starts.begin(), start + 1),
                           StringRef(compileTo)))
      return invalidArgument(
          llvm::formatv("--compile-to: the phase '{0}' is not after '{1}', "
                        "where compilation starts",
                        compileTo, compileFrom)
              .str());
  }
  if (isGiven(compileTo) && !llvm::is_contained(names, StringRef(compileTo)))
    return invalidArgument(
        unknownName("--compile-to", "phase", compileTo, names));
  if (isGiven(serial) &&
      !readsSerialProgram(compileFrom, isGiven(compileTo) ? StringRef(compileTo)
                                                          : names.back()))
    return invalidArgument(
        "--serial: expected --compile-from partition or tune, and no "
        "--compile-to before fuse, where values are compared");
  for (const cl::Option *option :
       {static_cast<const cl::Option *>(&report),
        static_cast<const cl::Option *>(&reportJson)})
    if (isGiven(*option) && isGiven(compileTo) &&
        llvm::find(names, compileTo) < llvm::find(names, "place"))
      return invalidArgument("--" + option->ArgStr.str() +
                             ": expected --compile-to place or llvm, since "
                             "memory is placed there; found " +
                             compileTo);
  return okStatus();
}

/// Whether an architecture is one for which cuDNN's gradient has one order.
static Status checkDeterministic(const CompileOptions &options) {
  constexpr unsigned kLatest = 90;
  if (!options.phases.deterministic || options.emulatesGpu ||
      llvm::any_of(options.gpuArchitectures, [](StringRef name) {
        return getArchitectureNumber(name) <= kLatest;
      }))
    return okStatus();
  return invalidArgument("--deterministic: expected an architecture up to "
                         "sm_90 in --gpu-arch, for which cuDNN adds in one "
                         "order; found " +
                         llvm::join(options.gpuArchitectures, ","));
}

/// What is asked for of a GPU.
static Status readGpu(CompileOptions &options) {
  bool isForGpu = options.isForGpu();
  for (const cl::Option *option :
       {static_cast<const cl::Option *>(&gpuArchitectures),
        static_cast<const cl::Option *>(&cubinFolder)})
    if (isGiven(*option) && !isForGpu)
      return invalidArgument("--" + option->ArgStr.str() +
                             ": expected --target cuda beside it");
  if (!isForGpu)
    return okStatus();
  auto architectures = readCudaArchitectures(isGiven(gpuArchitectures)
                                                 ? gpuArchitectures.getValue()
                                                 : kCudaArchitectures.str());
  if (!architectures.ok())
    return architectures.status().withContext("--gpu-arch");
  options.gpuArchitectures = *std::move(architectures);
  options.emulatesGpu =
      std::erase(options.gpuArchitectures, kEmulated.str()) > 0;
  options.cubinFolder = cubinFolder;
  OPTRT_RETURN_IF_ERROR(checkDeterministic(options));
  if (isGiven(cpu))
    return invalidArgument("--mcpu: expected no --target cuda beside it, whose "
                           "processors --gpu-arch names");
  // The host's code is nothing but a table.
  options.phases.cpu = "generic";
  if (isGiven(compileTo)) {
    if (compileTo == "llvm")
      return invalidArgument(
          "--compile-to: with --target cuda the last phase is 'place'");
    if (isGiven(cubinFolder))
      return invalidArgument("--cubins-to: expected no --compile-to beside it");
    return okStatus();
  }
  bool hasMachineCode = !options.gpuArchitectures.empty();
  if (isGiven(cubinFolder) && !hasMachineCode)
    return invalidArgument("--cubins-to: expected an architecture beside "
                           "'emulated', which has no machine code of a GPU");
  if (!options.writesLibrary() && (isGiven(outputPath) || !hasMachineCode ||
                                   !(report || isGiven(cubinFolder))))
    return invalidArgument(
        "--target cuda: give the model library a name with -o FILE; without "
        "one, expected --report, --cubins-to DIR or --compile-to");
  return okStatus();
}

StatusOr<CompileOptions> mlir::optimus::readCompileOptions() {
  CompileOptions options;
  OPTRT_ASSIGN_OR_RETURN(options.phases, readPhaseOptions(getPhaseFlags()));
  if (isGiven(ranks)) {
    constexpr int64_t kMostRanks = 4096;
    if (!options.isAuto())
      return invalidArgument("--ranks is for --strategy auto");
    OPTRT_ASSIGN_OR_RETURN(options.ranks,
                           readCount("--ranks", ranks, 1, kMostRanks));
    if (isGiven(meshText))
      return invalidArgument("--ranks: expected no --mesh beside it");
  }
  if (isGiven(memoryBudget)) {
    options.memoryBudget = exec::parseBytes(memoryBudget);
    if (!options.memoryBudget)
      return invalidArgument("--memory-budget: expected a size as 16GiB, "
                             "512MiB or bytes, found '" +
                             memoryBudget + "'");
  }
  if (recompute == "budget" && !options.memoryBudget)
    return invalidArgument("--recompute budget: expected --memory-budget SIZE "
                           "beside it, which it is to fit");
  options.machineProfile = machineProfile;
  options.recompute = recompute;
  options.output = outputPath;
  OPTRT_RETURN_IF_ERROR(readPhases(options));
  OPTRT_RETURN_IF_ERROR(readGpu(options));
  const cl::Option *changing[] = {
      &meshText,       &strategy,         &noPad,
      &optimizer,      &accumulate,       &schedule,
      &extraWorkspace, &machineProfile,   std::addressof(layouts),
      &recompute,      &profile,          &targetName,
      &attention,      &deterministic,    &offload,
      &offloadTo,      &offloadBandwidth, &offloadWindow};
  for (const cl::Option *option : changing)
    if (isGiven(*option))
      options.given.insert(option->ArgStr);
  if (isGiven(moveProducts) || isGiven(tuneProducts) || isGiven(panels))
    options.given.insert(moveProducts.ArgStr);

  options.input = inputPath;
  options.report = report;
  options.reportJson = reportJson;
  options.dumpFolder = dumpFolder;
  if (!options.writesLibrary() && options.output.empty())
    options.output = "-";
  if (options.writesLibrary() &&
      (options.output.empty() || options.output == "-"))
    return invalidArgument("give the model library a name with -o FILE");
  return options;
}

std::optional<GpuProfile> CompileOptions::getGpu() const {
  return llvm::cantFail(MachineProfile::load(phases.machineProfile)).gpu;
}

llvm::raw_ostream &CompileOptions::getReportStream() const {
  bool isTaken =
      (!compileTo.empty() && optimus_support::isStandardOutput(output)) ||
      (!reportJson.empty() && optimus_support::isStandardOutput(reportJson));
  return isTaken ? llvm::errs() : llvm::outs();
}

std::string mlir::optimus::getDumpPath(const CompileOptions &options,
                                       StringRef phase) {
  SmallVector<StringRef> names = getPhaseNames();
  SmallString<128> path(options.dumpFolder);
  llvm::sys::path::append(
      path, llvm::formatv("{0:02}-{1}.mlir",
                          llvm::find(names, phase) - names.begin(), phase)
                .str());
  return path.str().str();
}
