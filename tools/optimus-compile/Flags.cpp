//===- Flags.cpp - The command line of optimus-compile ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Flags.h"

#include "CommandLine/Parser.h"

#include "optimus/Simulation/Cluster.h"
#include "optimus/Tool/CommandLine.h"
#include "optimus/Tool/MlirFlags.h"
#include "optimus/Tool/Tool.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::optimus;
using optimus_support::StatusOr;
namespace cl = llvm::cl;

namespace {
/// Declares options with a value, each with a name for its value in --help.
class Declaration {
public:
  explicit Declaration(CLI::App &app) : app(app) {}

  void operator()(const std::string &name, const std::string &value,
                  std::string &text, const std::string &help) {
    app.add_option(name, text, help)->type_name(value);
  }
  void operator()(const std::string &name, bool &flag,
                  const std::string &help) {
    app.add_flag(name, flag, help);
  }
  /// Flags of the phases, by their names.
  void operator()(PhaseFlags &flags, ArrayRef<StringRef> names) {
    for (StringRef name : names) {
      const PhaseFlag &flag =
          *llvm::find_if(getPhaseFlags(), [&](const PhaseFlag &each) {
            return each.name == name;
          });
      const std::string dashed = ("--" + name).str(),
                        help = (flag.help + flag.choiceHelp).str();
      if (auto *text = std::get_if<std::string PhaseFlags::*>(&flag.member))
        (*this)(dashed, flag.value.str(), flags.*(*text), help);
      else
        (*this)(dashed, flags.*std::get<bool PhaseFlags::*>(flag.member), help);
    }
  }

private:
  CLI::App &app;
};
} // namespace

static void addFiles(Declaration add, CompileSettings &settings) {
  add("-o", "FILE", settings.output,
      "The model library; or with --compile-to the IR (default: standard "
      "output)");
  add("--plan", settings.plan,
      "Write what ranks execute without the kernels' code, for "
      "optimus-simulate and optimus-run inspect");
  add("--report", settings.report,
      "Print memory, communication and predicted times");
  add("--report-json", "FILE", settings.reportJson,
      "Write memory, limits and predicted times as JSON");
  add("--compile-to", "PHASE", settings.compileTo,
      "Stop after a phase and write its IR: input, differentiate, step, shard, "
      "partition, tune, fuse, exec, schedule, place or llvm");
  add("--compile-from", "PHASE", settings.compileFrom,
      "Continue a program written by --compile-to or --dump-phases-to after "
      "this phase; its flags are recorded in it");
  add(settings.phases, {"serial"});
  add("--dump-phases-to", "DIR", settings.dumpFolder,
      "Write the IR of every phase");
  add("--kernel-cache", "DIR", settings.kernelCache,
      "Keep kernels' code there, for other programs too");
}

static void addLayout(Declaration add, CompileSettings &settings) {
  add(settings.phases, {"mesh", "strategy"});
  add("--ranks", "N", settings.ranks,
      "With --strategy auto: choose among meshes of N ranks");
  add("--cluster", "FILE", settings.cluster,
      "Choose layout and placement on nodes: a file, or " +
          optimus_simulation::describeKnownClusters());
  add("--memory-budget", "SIZE", settings.memoryBudget,
      "Most bytes of a rank, as 16GiB or 512MiB, or auto: the GPU of "
      "--machine-profile, else a rank's part of this machine or container");
  add(settings.phases, {"no-pad", "move", "panels"});
}

static void addDevice(Declaration add, CompileSettings &settings) {
  add(settings.phases, {"target"});
  add("--gpu-arch", "NAMES", settings.gpuArchitectures,
      "With --target cuda: the architectures to make machine code for "
      "(default: sm_80,sm_90,sm_100); emulated: for this machine's processor, "
      "to try and test kernels on");
  add(settings.phases, {"attention", "deterministic"});
  add("--cubins-to", "DIR", settings.cubinFolder,
      "With --target cuda: write the kernels of each architecture, as "
      "sm_90.ptx and sm_90.cubin");
  add(settings.phases, {"mcpu", "machine-profile", "profile"});
}

static void addStep(Declaration add, CompileSettings &settings) {
  add(settings.phases,
      {"lora", "optimizer", "precision", "weights", "reduce-precision",
       "accumulate", "schedule", "extra-workspace", "sync", "lanes"});
}

static void addMemory(Declaration add, CompileSettings &settings) {
  add(settings.phases, {"recompute", "offload", "offload-to",
                        "offload-bandwidth", "offload-window"});
}

/// Takes the flags that LLVM has and we have not out of the arguments, with
/// their values. Returns them behind the program's name.
static std::vector<const char *> takeLLVMFlags(const CLI::App &app,
                                               ArrayRef<char *> arguments,
                                               std::vector<std::string> &ours) {
  auto &known = cl::getRegisteredOptions();
  std::vector<const char *> theirs{arguments.front()};
  arguments = arguments.drop_front();
  while (!arguments.empty()) {
    auto [flag, value] = StringRef(arguments.front()).split('=');
    const bool isOption = flag.starts_with("-") && !flag.starts_with("---");
    const CLI::Option *option =
        isOption ? app.get_option_no_throw(flag.str()) : nullptr;
    const cl::Option *other =
        isOption && !option ? known.lookup(flag.ltrim('-')) : nullptr;
    const bool takesNext =
        flag == arguments.front() &&
        (other ? other->getValueExpectedFlag() == cl::ValueRequired
               : option && option->get_items_expected_min() > 0);
    // Nothing behind -- is a flag.
    const size_t count = flag == "--" ? arguments.size() : 1 + takesNext;
    for (const char *one : arguments.take_front(count)) {
      if (other)
        theirs.push_back(one);
      else
        ours.push_back(one);
    }
    arguments = arguments.drop_front(std::min(count, arguments.size()));
  }
  return theirs;
}

namespace {
/// The command line as CLI11 knows it.
class Parser {
public:
  explicit Parser(CompileSettings &settings);

  CLI::App &getApp() { return app; }
  /// Returns the text of --help or --version where it is asked for.
  StatusOr<std::string> parse(std::vector<std::string> arguments);

private:
  CompileSettings &settings;
  CLI::App app{"Compiles a program, - for standard input, to a model "
               "library for optimus-run.",
               kTool.str()};
  std::vector<std::string> layouts, trains;
  bool tuneProducts = false;
};
} // namespace

Parser::Parser(CompileSettings &settings) : settings(settings) {
  optimus_command_line::prepare(app, describeVersion(kTool));
  app.footer(listMlirFlags());
  app.add_option("PROGRAM.mlir", settings.input,
                 "The program; - is standard input")
      ->type_name("")
      ->required();
  Declaration add(app);
  addFiles(add, settings);
  optimus_command_line::addList(
      app, "--also-price", settings.alsoPriced,
      "Add to --report-json the times by other profiles")
      ->type_name("FILE");
  addLayout(add, settings);
  optimus_command_line::addList(
      app, "--layout", layouts,
      "Override the sharding of values whose path matches a pattern, as "
      "h.*.mlp.c_proj.weight=row,col: this decides which tensor of a product "
      "stays in place. May be repeated; the last match holds")
      ->type_name("PATTERN=AXES");
  add("--tune-products", tuneProducts,
      "Choose panels or whole tensors for each product by predicted times "
      "(default: with --machine-profile)");
  addDevice(add, settings);
  addStep(add, settings);
  optimus_command_line::addList(
      app, "--train", trains,
      "Train only parameters whose names match a pattern, as h.*.attn.*; the "
      "others have no gradient, state or communication. May be repeated")
      ->type_name("PATTERN");
  addMemory(add, settings);
}

StatusOr<std::string> Parser::parse(std::vector<std::string> arguments) {
  optimus_command_line::Rules rules;
  for (const auto &entry : cl::getRegisteredOptions())
    rules.otherOptions.push_back(("--" + entry.first).str());
  OPTRT_ASSIGN_OR_RETURN(std::string asked,
                         optimus_command_line::parse(app, arguments, rules));
  if (!asked.empty())
    return asked;
  for (const CLI::Option *option : app.get_options())
    if (option->get_items_expected_min() == 0 && option->count() > 0 &&
        !option->as<bool>())
      settings.denied.insert(StringRef(option->get_name()).ltrim('-'));
  settings.phases.layouts = llvm::join(layouts, ";");
  settings.phases.trains = llvm::join(trains, ";");
  if (app.get_option("--tune-products")->count() > 0)
    settings.phases.tuneProducts = tuneProducts;
  return asked;
}

std::optional<int>
mlir::optimus::parseCompileCommandLine(int argc, char **argv,
                                       CompileSettings &settings) {
  declareMlirFlags();
  Parser parser(settings);
  std::vector<std::string> ours;
  std::vector<const char *> theirs =
      takeLLVMFlags(parser.getApp(), ArrayRef(argv, argc), ours);
  auto isOurs = [](const cl::Option &) { return false; };
  if (std::optional<int> code =
          parseCommandLine(theirs.size(), theirs.data(),
                           {.name = kTool, .summary = "", .isOurs = isOurs}))
    return code;
  StatusOr<std::string> asked = parser.parse(std::move(ours));
  if (!asked.ok())
    return fail(asked.status());
  llvm::outs() << *asked;
  return asked->empty() ? std::nullopt : std::optional<int>(kDone);
}
