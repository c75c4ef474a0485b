//===- optimus-compile.cpp - From a program to a model library --*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Candidates.h"
#include "Report.h"

#include "optimus/Analysis/MachineProfile.h"
#include "optimus/Conversion/ExecToLLVM/Passes.h"
#include "optimus/Dialect/CCL/Transforms/RecomputePolicy.h"
#include "optimus/Dialect/Exec/Transforms/ExtraWorkspace.h"
#include "optimus/Dialect/Optimus/IR/Optimizers.h"
#include "optimus/Dialect/Optimus/Transforms/Strategy.h"
#include "optimus/InitOptimus.h"
#include "optimus/Pipelines/Phases.h"
#include "optimus/Target/CPU/CodeGen.h"
#include "optimus/Target/CPU/Manifest.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Support/FileUtilities.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/ToolOutputFile.h"
#include "llvm/Support/WithColor.h"

using namespace mlir;
using namespace mlir::optimus;
namespace cl = llvm::cl;
namespace fs = llvm::sys::fs;

/// Exit codes.
enum { kDone = 0, kBadInput = 1, kOurFault = 2 };

static cl::OptionCategory category("optimus-compile options");
static cl::opt<std::string> inputPath(cl::Positional, cl::Required,
                                      cl::desc("<program.mlir>"),
                                      cl::cat(category));
static cl::opt<std::string>
    outputPath("o", cl::value_desc("file"), cl::cat(category),
               cl::desc("The model library, or the IR with --compile-to "
                        "(default: standard output)"));
static cl::opt<std::string>
    meshText("mesh", cl::init("row:1,col:1"), cl::value_desc("axes"),
             cl::cat(category), cl::desc("The mesh, as row:2,col:2 or "
                                       "data:2,row:2,col:2"));
static cl::opt<std::string>
    strategy("strategy", cl::value_desc("name"), cl::cat(category),
             cl::desc("serial, summa, summa-paper, megatron, megatron-sp or data "
                      "(default: summa, on one rank serial); auto chooses by "
                      "predicted step time"));
static cl::opt<int64_t>
    ranks("ranks", cl::init(0), cl::value_desc("n"), cl::cat(category),
          cl::desc("With --strategy auto: choose the mesh of so many ranks too, "
                   "instead of --mesh"));
static cl::opt<std::string> memoryBudget(
    "memory-budget", cl::value_desc("size"), cl::cat(category),
    cl::desc("With --strategy auto or --recompute auto: most bytes that a rank "
             "may hold, as 16GiB or 512MiB"));
static cl::opt<bool> noPad("no-pad", cl::cat(category),
                           cl::desc("Refuse dimensions that the mesh does not "
                                    "divide rather than pad them"));
static cl::opt<std::string>
    cpu("mcpu", cl::init("native"), cl::value_desc("name"), cl::cat(category),
        cl::desc("The processor to compile for (default: this one)"));
static cl::opt<std::string> optimizer("optimizer", cl::init("adamw"),
                                      cl::value_desc("name"), cl::cat(category),
                                      cl::desc("The optimizer: adamw, lamb or "
                                               "sgd (with momentum)"));
static cl::opt<bool>
    accumulate("accumulate", cl::cat(category),
               cl::desc("Make what train --microbatches needs too: gradients "
                        "that add up, and an update by their sum"));
static cl::opt<std::string> schedule(
    "schedule", cl::init("overlap"), cl::value_desc("name"), cl::cat(category),
    cl::desc("overlap: communicate while computing (default); none: wait for "
             "each collective where it starts"));
static cl::opt<std::string> extraWorkspace(
    "extra-workspace", cl::init("10%"), cl::value_desc("size"),
    cl::cat(category),
    cl::desc("What overlap may add to the most bytes alive at once: a "
             "percentage of it, or bytes, as 64MiB (default: 10%)"));
static cl::opt<std::string> machineProfile(
    "machine-profile", cl::value_desc("file"), cl::cat(category),
    cl::desc("What optimus-run bench --gemm and --comm measured, to predict "
             "times from (default: a built-in profile)"));
static cl::opt<bool> tuneProducts(
    "tune-products", cl::cat(category),
    cl::desc("Choose panels, or whole tensors, for each distributed product by "
             "predicted times (default: with --machine-profile)"));
static cl::opt<std::string> moveProducts(
    "move", cl::value_desc("how"), cl::cat(category),
    cl::desc("How tensors move in distributed products: panels (the next one "
             "moves while one is multiplied), whole (gathered before or "
             "scattered after), or auto, as --tune-products"));
static cl::opt<int64_t> panels(
    "panels", cl::init(0), cl::value_desc("n"), cl::cat(category),
    cl::desc("Move in so many panels, or the nearest fewer that a product can "
             "have"));
static cl::list<std::string> layouts(
    "layout", cl::value_desc("role=axes"), cl::cat(category),
    cl::desc("Where a role lies, instead of what the strategy says, as "
             "mlp_down.weight=row,col: this decides which tensor of a product "
             "stays in place. May be repeated"));
static cl::opt<std::string> recompute(
    "recompute", cl::value_desc("policy"), cl::cat(category),
    cl::desc("What the backward makes again instead of keeping it: none; "
             "attention: all but products; layer: all but the activations "
             "between blocks; auto: the fastest by prediction that fits "
             "--memory-budget (default: none, and auto where nothing else "
             "fits)"));
static cl::opt<bool> report("report", cl::cat(category),
                            cl::desc("Print memory and communication"));
static cl::opt<std::string> compileTo(
    "compile-to", cl::value_desc("phase"), cl::cat(category),
    cl::desc("Stop after a phase and write its IR: input, "
             "differentiate, step, shard, partition, tune, fuse, exec, "
             "schedule, place or llvm"));
static cl::opt<std::string> compileFrom(
    "compile-from", cl::value_desc("phase"), cl::cat(category),
    cl::desc("The program is what --compile-to wrote after this phase: go on "
             "from there. Give the same options again"));
static cl::opt<std::string> dumpFolder("dump-phases-to", cl::value_desc("dir"),
                                       cl::cat(category),
                                       cl::desc("Write the IR of every phase"));

static int fail(const llvm::Twine &message, int code = kBadInput) {
  llvm::WithColor::error(llvm::errs(), "optimus-compile") << message << "\n";
  return code;
}

static std::string listed(ArrayRef<StringRef> names) {
  return llvm::join(names, ", ");
}

/// Tells before any work whether the output can be written; empty if so.
static std::string checkOutput(StringRef path) {
  if (fs::is_directory(path))
    return llvm::formatv("cannot write '{0}': it is a folder", path).str();
  StringRef folder = llvm::sys::path::parent_path(path);
  if (folder.empty())
    folder = ".";
  if (!fs::is_directory(folder))
    return llvm::formatv("cannot write '{0}': there is no folder '{1}'", path,
                         folder)
        .str();
  if (fs::access(folder, fs::AccessMode::Write))
    return llvm::formatv("cannot write '{0}': no permission to write to '{1}'",
                         path, folder)
        .str();
  return "";
}

static LogicalResult writeText(ModuleOp module, StringRef path) {
  std::string message;
  std::unique_ptr<llvm::ToolOutputFile> file = openOutputFile(path, &message);
  if (!file) {
    fail(message);
    return failure();
  }
  module.print(file->os());
  file->keep();
  return success();
}

namespace {
/// Runs the phases on one module.
class Compilation {
public:
  Compilation(ModuleOp module, const PhaseOptions &options,
              const CpuTarget &target)
      : module(module), options(options), target(target) {}

  /// Returns an exit code.
  int run();

private:
  int runPhase(const Phase &phase);
  LogicalResult dump(StringRef phase);

  ModuleOp module;
  const PhaseOptions &options;
  const CpuTarget &target;
  int numDumps = 0;
};
} // namespace

LogicalResult Compilation::dump(StringRef phase) {
  if (dumpFolder.empty())
    return success();
  SmallString<128> path(dumpFolder);
  llvm::sys::path::append(
      path, llvm::formatv("{0:02}-{1}.mlir", numDumps++, phase).str());
  return writeText(module, path);
}

int Compilation::runPhase(const Phase &phase) {
  // What somebody wrote who is not us may not be what a phase makes.
  int code = phase.checksInput || !compileFrom.empty() ? kBadInput : kOurFault;
  PassManager passes(module.getContext());
  std::string message;
  llvm::raw_string_ostream stream(message);
  if (failed(parsePassPipeline(phase.passes, passes, stream)))
    return fail(llvm::Twine("phase '") + phase.name + "': " + message, kOurFault);
  if (failed(passes.run(module)))
    return fail(llvm::Twine("phase '") + phase.name + "' failed", code);
  return kDone;
}

int Compilation::run() {
  if (failed(dump("input")))
    return kBadInput;
  if (compileTo == "input")
    return kDone;
  bool isDone = !compileFrom.empty() && compileFrom != "input";
  for (const Phase &phase : getPhases(options)) {
    if (isDone) {
      isDone = phase.name != compileFrom;
      continue;
    }
    if (phase.name == "exec")
      recordLayouts(module);
    if (phase.name == "llvm") {
      if (report)
        printReport(module, outputPath == "-" ? llvm::errs() : llvm::outs());
      auto manifest = buildManifest(
          module, target, ManifestOptions{options.strategy, options.optimizer});
      if (failed(manifest))
        return fail("the manifest cannot be written",
                    compileFrom.empty() ? kOurFault : kBadInput);
      module->setAttr(kManifestAttr,
                      StringAttr::get(module.getContext(), *manifest));
    }
    if (int code = runPhase(phase))
      return code;
    if (failed(dump(phase.name)))
      return kBadInput;
    if (compileTo == phase.name)
      return kDone;
  }
  if (llvm::Error error = emitSharedLibrary(module, target, outputPath))
    return fail(llvm::toString(std::move(error)), kOurFault);
  return kDone;
}

/// Reads the program, reporting mistakes by file, line and column.
static OwningOpRef<ModuleOp> readProgram(MLIRContext &context,
                                         llvm::SourceMgr &sources) {
  std::string message;
  std::unique_ptr<llvm::MemoryBuffer> file =
      openInputFile(inputPath, &message);
  if (!file) {
    fail(message);
    return nullptr;
  }
  sources.AddNewSourceBuffer(std::move(file), llvm::SMLoc());
  return parseSourceFile<ModuleOp>(sources, &context);
}

/// Chooses mesh and strategy by what is predicted of all that come into
/// question, and prints the table. Returns an exit code.
static int chooseLayout(ModuleOp module, PhaseOptions &options) {
  std::optional<int64_t> budget;
  if (!memoryBudget.empty() && !(budget = exec::parseBytes(memoryBudget)))
    return fail(llvm::Twine("--memory-budget: expected a size as 16GiB, 512MiB "
                            "or bytes, found '") +
                memoryBudget + "'");
  std::vector<Candidate> inQuestion{{options.mesh, options.strategy}};
  if (options.strategy == "auto")
    inQuestion =
        ranks > 0 ? listCandidates(ranks) : listCandidates(options.mesh);
  ArrayRef<StringRef> policies = ccl::getRecomputePolicies();
  // It is slower, so where nobody asks for it, it is a way out.
  bool isWayOut = recompute.empty() && budget;
  StringRef given = recompute;
  std::vector<Candidate> candidates =
      withPolicies(inQuestion, given == "auto" ? policies
                               : given.empty() ? policies.take_front()
                                               : ArrayRef(given));
  auto predictFrom = [&](size_t first) {
    for (Candidate &candidate : llvm::drop_begin(candidates, first))
      predict(module, options, candidate);
    return choose(candidates, budget);
  };
  std::optional<Candidate> chosen = predictFrom(0);
  if (!chosen && isWayOut) {
    size_t known = candidates.size();
    llvm::append_range(candidates,
                       withPolicies(inQuestion, policies.drop_front()));
    chosen = predictFrom(known);
  }
  printCandidates(candidates, chosen, budget,
                  outputPath == "-" ? llvm::errs() : llvm::outs());
  if (!chosen)
    return fail(budget ? "no layout fits the memory budget; give more ranks, a "
                         "larger budget or a smaller batch"
                       : "no layout is possible");
  options.mesh = chosen->mesh;
  options.strategy = chosen->strategy;
  options.recompute = chosen->recompute;
  return kDone;
}

/// What the user says of distributed products. Returns what is wrong, or "".
static std::string readProductOptions(PhaseOptions &options) {
  bool tunes = tuneProducts.getNumOccurrences() > 0 ? bool(tuneProducts)
                                                    : !machineProfile.empty();
  if (tunes)
    options.move = "auto";
  constexpr StringRef known[] = {"auto", "panels", "whole"};
  if (moveProducts.getNumOccurrences() > 0) {
    if (!llvm::is_contained(known, StringRef(moveProducts)))
      return "--move: unknown way '" + moveProducts + "'; known are " +
             listed(known);
    if (tuneProducts.getNumOccurrences() > 0)
      return "--move and --tune-products both say how products move; give one";
    options.move = moveProducts;
  }
  if (panels.getNumOccurrences() > 0) {
    if (panels < 1)
      return "--panels: expected a number of at least 1, found " +
             std::to_string(panels);
    if (moveProducts == "whole")
      return "--panels: with --move whole nothing moves in panels";
    // A number of panels that is given is not weighed against moving whole.
    if (moveProducts.getNumOccurrences() == 0)
      options.move = "panels";
    options.panels = panels;
  }
  options.layouts = llvm::join(layouts, ";");
  if (auto parsed = parseChosenLayouts(options.layouts); !parsed)
    return "--layout: " + llvm::toString(parsed.takeError());
  return "";
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  cl::HideUnrelatedOptions(category);
  cl::ParseCommandLineOptions(
      argc, argv, "Compiles a program to a model library for optimus-run\n");

  PhaseOptions options;
  auto mesh = MeshOption::parse(meshText);
  if (!mesh)
    return fail(llvm::Twine("--mesh: ") + llvm::toString(mesh.takeError()));
  options.mesh = *mesh;
  options.strategy = strategy;
  if (options.strategy.empty())
    options.strategy = mesh->getNumRanks() == 1 ? "serial" : "summa";
  bool isAuto = options.strategy == "auto";
  if (!isAuto && !llvm::is_contained(getKnownStrategies(), options.strategy))
    return fail(llvm::Twine("--strategy: unknown strategy '") + options.strategy +
                "'; known are auto, " + listed(getKnownStrategies()));
  if (!isAuto && ranks != 0)
    return fail("--ranks is for --strategy auto");
  bool chooses = isAuto || recompute == "auto";
  if (!chooses && !memoryBudget.empty())
    return fail("--memory-budget is for --strategy auto or --recompute auto");
  if (ranks < 0 || ranks > 4096 || (ranks > 0 && meshText.getNumOccurrences()))
    return fail("--ranks: expected a number from 1 to 4096, and no --mesh "
                "beside it");
  if (options.strategy == "serial" && mesh->getNumRanks() > 1)
    return fail(llvm::Twine("--strategy: 'serial' is for one rank, but the mesh ") +
                mesh->toString() + " has " +
                llvm::Twine(mesh->getNumRanks()) +
                "; choose another strategy or --mesh row:1,col:1");
  options.optimizer = optimizer;
  if (!llvm::is_contained(getKnownOptimizers(), options.optimizer))
    return fail(llvm::Twine("--optimizer: unknown optimizer '") + options.optimizer +
                "'; known are " + listed(getKnownOptimizers()));
  options.accumulate = accumulate;
  options.pad = !noPad;
  options.schedule = schedule;
  if (schedule != "none" && schedule != "overlap")
    return fail(llvm::Twine("--schedule: unknown schedule '") + schedule +
                "'; known are none, overlap");
  options.extraWorkspace = extraWorkspace;
  if (auto extra = exec::ExtraWorkspace::parse(extraWorkspace); !extra)
    return fail(llvm::Twine("--extra-workspace: ") +
                llvm::toString(extra.takeError()));
  options.machineProfile = machineProfile;
  if (std::string problem = readProductOptions(options); !problem.empty())
    return fail(problem);
  if (auto profile = MachineProfile::load(machineProfile); !profile)
    return fail(llvm::Twine("--machine-profile: ") +
                llvm::toString(profile.takeError()));
  if (!recompute.empty() && recompute != "auto") {
    if (!ccl::lookupRecomputePolicy(recompute))
      return fail(llvm::Twine("--recompute: unknown policy '") +
                  llvm::Twine(recompute) + "'; known are " +
                  listed(ccl::getRecomputePolicies()) + ", auto");
    options.recompute = recompute;
  }

  bool writesLibrary = compileTo.empty();
  SmallVector<StringRef> names{"input"};
  for (const Phase &phase : getPhases(options))
    names.push_back(phase.name);
  if (!compileFrom.empty()) {
    ArrayRef<StringRef> starts = ArrayRef(names).drop_back();
    const StringRef *start = llvm::find(starts, StringRef(compileFrom));
    if (start == starts.end())
      return fail(llvm::Twine("--compile-from: unknown phase '") +
                  llvm::Twine(compileFrom) + "'; known are " + listed(starts));
    if (chooses)
      return fail("--compile-from: name a strategy and a policy of "
                  "recomputation; nothing can be chosen after the start");
    if (llvm::is_contained(ArrayRef(starts.begin(), start + 1),
                           StringRef(compileTo)))
      return fail(llvm::Twine("--compile-to: the phase '") +
                  llvm::Twine(compileTo) + "' is not after '" +
                  llvm::Twine(compileFrom) + "', where compilation starts");
  }
  if (!writesLibrary) {
    if (!llvm::is_contained(names, StringRef(compileTo)))
      return fail(llvm::Twine("--compile-to: unknown phase '") + llvm::Twine(compileTo) +
                  "'; known are " + listed(names));
    if (outputPath.empty())
      outputPath.assign(1, '-');
  } else if (outputPath.empty() || outputPath == "-") {
    return fail("give the model library a name with -o FILE");
  }
  if (outputPath != "-")
    if (std::string problem = checkOutput(outputPath); !problem.empty())
      return fail(problem);
  if (!dumpFolder.empty())
    if (std::error_code code = fs::create_directories(dumpFolder))
      return fail(llvm::Twine("--dump-phases-to: cannot create '") +
                  llvm::Twine(dumpFolder) + "': " + code.message());
  auto target = CpuTarget::get(cpu);
  if (!target)
    return fail(llvm::Twine("--mcpu: ") + llvm::toString(target.takeError()));

  registerAllPasses();
  DialectRegistry registry;
  registerAllDialects(registry);
  MLIRContext context(registry);
  // A user asks what is wrong with a line, not for the whole program.
  context.printOpOnDiagnostic(false);
  llvm::SourceMgr sources;
  SourceMgrDiagnosticHandler diagnostics(sources, &context);
  OwningOpRef<ModuleOp> module = readProgram(context, sources);
  if (!module)
    return kBadInput;

  if (chooses)
    if (int code = chooseLayout(*module, options))
      return code;
  if (int code = Compilation(*module, options, *target).run())
    return code;
  if (!writesLibrary && failed(writeText(*module, outputPath)))
    return kBadInput;
  return kDone;
}
