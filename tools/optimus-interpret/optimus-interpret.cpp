//===- optimus-interpret.cpp - Executes programs ----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Exit codes: 0 done, 1 the program or its arguments are wrong, or a check that
// was asked for fails.
//
//===----------------------------------------------------------------------===//

#include "Against.h"
#include "Arguments.h"
#include "Npy.h"

#include "CommandLine/Parser.h"

#include "optimus/Dialect/Optimus/IR/Entries.h"
#include "optimus/InitOptimus.h"
#include "optimus/Interpreter/DeviceInterpreter.h"
#include "optimus/Interpreter/GradientCheck.h"
#include "optimus/Interpreter/InterpretableOpInterface.h"
#include "optimus/Interpreter/Interpreter.h"

#include "optimus/Tool/Files.h"
#include "optimus/Tool/FlagValues.h"
#include "optimus/Tool/Threading.h"
#include "optimus/Tool/Tool.h"

#include "optimus-support/NearestName.h"
#include "optimus-support/PathUse.h"

#include "mlir/IR/TypeUtilities.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SourceMgr.h"

#include <cmath>

using namespace mlir;
using namespace mlir::optimus;
using optimus_support::invalidArgument;
using optimus_support::PathUse;
using optimus_support::Status;
using optimus_support::StatusOr;

namespace {
/// The command line, with numbers as text; empty where they are not given.
struct Flags {
  std::string input = "-", function, inputs, outputs, compareWith, against;
  std::string seed = "1", vocabulary, checkLimit = "1000";
  std::vector<std::string> settings;
  bool prints = false, checksGradients = false;

  std::string getResultPath(StringRef name) const {
    SmallString<128> path{StringRef(outputs)};
    llvm::sys::path::append(path, name + ".npy");
    return path.str().str();
  }
};
} // namespace

static void addFlags(CLI::App &app, Flags &flags) {
  auto add = [&](const char *name, const char *value, std::string &text,
                 const char *help) {
    app.add_option(name, text, help)->type_name(value);
  };
  app.add_option("PROGRAM.mlir", flags.input,
                 "The program (default: standard input)")
      ->type_name("");
  add("--function", "NAME", flags.function, "The function to execute");
  add("--inputs", "DIR", flags.inputs,
      "Arguments, as files NAME.npy: a parameter's name, or tokens, targets, "
      "lr, exp_avg:NAME, or arg0");
  add("--outputs", "DIR", flags.outputs,
      "Where to write results, as NAME.npy in f64");
  optimus_command_line::addList(app, "--set", flags.settings,
                                "A scalar argument")
      ->type_name("NAME=NUMBER");
  add("--seed", "NUMBER", flags.seed,
      "Of parameters that are not given (default: 1)");
  add("--draw", "VOCABULARY", flags.vocabulary,
      "Draw arguments that are neither given nor parameters: numbers from the "
      "normal distribution, tokens below the vocabulary");
  app.add_flag("--print", flags.prints, "Print results of any shape");
  add("--compare-with", "NAME", flags.compareWith,
      "Fail unless this function gives the same results for the same "
      "arguments, up to the order of sums in f64");
  add("--against", "PROGRAM.mlir", flags.against,
      "Fail unless the function of this name in another program gives the same "
      "results for the same arguments, up to what rounding to f32 does");
  app.add_flag("--gradcheck", flags.checksGradients,
               "Compare the gradients of @grad, or of a library's entry, with "
               "central differences of the loss");
  add("--gradcheck-limit", "NUMBER", flags.checkLimit,
      "How many elements of a parameter to check (default: 1000)");
}

static SmallVector<std::string> getResultNames(func::FuncOp function) {
  if (exec::isDeviceProgram(function))
    return exec::getResultNames(function);
  SmallVector<std::string> names;
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    names.push_back(getResultName(function, i));
  return names;
}

/// Says before any work whether results can be written, each to a file of its
/// own that is no input.
static Status checkFiles(func::FuncOp function, const ArgumentSources &sources,
                         const Flags &flags) {
  const std::string &outputs = flags.outputs;
  std::vector<PathUse> from{{"the program", flags.input},
                            {"--against", flags.against}},
      to;
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    from.push_back({"--inputs", findArgumentFile(function, i, sources)});
  if (outputs.empty())
    return optimus_support::okStatus();
  if (llvm::sys::fs::exists(outputs) && !llvm::sys::fs::is_directory(outputs))
    return invalidArgument("--outputs: expected a folder, but '" + outputs +
                           "' is none");
  for (StringRef name : getResultNames(function)) {
    // A name may come from the program; files of others are none of its
    // business.
    if (name.find_first_of(StringRef("/\0", 2)) != StringRef::npos)
      return invalidArgument("--outputs: the result '" + name.str() +
                             "' has a name that no file can have");
    to.push_back({"--outputs", flags.getResultPath(name)});
    if (llvm::sys::fs::is_directory(outputs))
      OPTRT_RETURN_IF_ERROR(optimus_support::checkOutput(to.back().path));
  }
  return optimus_support::checkOutputsApart(from, to);
}

/// The first of some functions that the module has.
static func::FuncOp findFunction(ModuleOp module, ArrayRef<StringRef> names) {
  for (StringRef name : names)
    if (auto function = module.lookupSymbol<func::FuncOp>(name))
      if (!function.isExternal())
        return function;
  return {};
}

static std::string listFunctions(ModuleOp module) {
  SmallVector<std::string> names;
  for (auto function : module.getOps<func::FuncOp>())
    names.push_back(("@" + function.getName()).str());
  return names.empty() ? "none" : llvm::join(names, ", ");
}

static void print(StringRef name, const Tensor &tensor) {
  llvm::outs() << name << " = ";
  if (!tensor.shape.empty())
    llvm::outs() << '[';
  llvm::interleaveComma(tensor.elements, llvm::outs(), [](double x) {
    llvm::outs() << llvm::format("%.10g", x);
  });
  llvm::outs() << (tensor.shape.empty() ? "\n" : "]\n");
}

/// Prints and writes the results as the options ask.
static Status report(ArrayRef<NamedTensor> results, const Flags &flags) {
  const std::string &outputs = flags.outputs;
  if (!outputs.empty())
    if (std::error_code error = llvm::sys::fs::create_directories(outputs))
      return invalidArgument("--outputs: cannot make the folder '" + outputs +
                             "': " + error.message());
  for (const NamedTensor &result : results) {
    if (result.tensor.shape.empty() || flags.prints)
      print(result.name, result.tensor);
    if (!outputs.empty())
      OPTRT_RETURN_IF_ERROR(writeNpy(flags.getResultPath(result.name),
                                     result.tensor, result.isInteger));
  }
  return optimus_support::okStatus();
}

/// Compares results with those of another function.
static int compare(func::FuncOp function, func::FuncOp reference,
                   ArrayRef<Tensor> arguments, ArrayRef<NamedTensor> results) {
  FailureOr<SmallVector<Tensor>> expected = interpret(reference, arguments);
  if (failed(expected))
    return 1;
  if (expected->size() != results.size())
    return fail("@" + function.getName() + " has " + Twine(results.size()) +
                " results, @" + reference.getName() + " has " +
                Twine(expected->size()));
  for (auto [result, wanted] : llvm::zip_equal(results, *expected)) {
    const auto &[name, found, isInteger] = result;
    if (found.shape != wanted.shape)
      return fail("result " + name + " has another shape in @" +
                  reference.getName());
    // Sums of up to 10^4 terms in another order, cancelling to a thousandth.
    double distance = getDistance(found, wanted);
    double scale = getMagnitude(wanted);
    if (!std::isfinite(scale))
      return fail("result " + name + " of @" + reference.getName() +
                  " is not finite, so nothing can be compared; give other "
                  "arguments");
    llvm::outs() << name << ": "
                 << llvm::format("%.1e",
                                 scale > 0 ? distance / scale : distance)
                 << " from @" << reference.getName() << "\n";
    if (!(distance <= 1e-9 * scale + 1e-12))
      return fail("result " + name + " of @" + function.getName() +
                  " is not that of @" + reference.getName());
  }
  return 0;
}

static int checkGradientsOf(ModuleOp module, const ArgumentSources &sources,
                            const Flags &flags) {
  func::FuncOp loss = findFunction(module, {"loss"});
  func::FuncOp grad = findFunction(module, {"grad"});
  if (!loss)
    loss = findEntry(module, EntryKind::Eval);
  if (!grad)
    grad = findEntry(module, EntryKind::Grad);
  if (!loss || !grad)
    return fail("--gradcheck: expected @loss and @grad, or functions of the "
                "kinds eval and grad; found " +
                listFunctions(module));
  auto limit = readCount("--gradcheck-limit", flags.checkLimit, 1);
  if (!limit.ok())
    return fail(limit.status());
  if (failed(checkMemory(loss)) || failed(checkMemory(grad)))
    return kBadInput;
  auto arguments = collectArguments(loss, sources);
  if (!arguments.ok())
    return fail(arguments.status());
  FailureOr<SmallVector<GradientCheck>> checks =
      checkGradients(loss, grad, *arguments, *limit);
  if (failed(checks))
    return 1;
  bool passed = true;
  for (const GradientCheck &check : *checks) {
    llvm::outs() << check.parameter << ": " << check.numChecked
                 << " elements, max relative error "
                 << llvm::format("%.1e", check.maxRelativeError)
                 << (check.passed() ? "" : ", WRONG") << "\n";
    if (check.passed())
      continue;
    passed = false;
    llvm::outs().flush();
    fail("the gradient of '" + check.parameter + "' is wrong at element " +
         Twine(check.worst) + ": " + llvm::formatv("{0:e}", check.gradient) +
         ", by central differences " +
         llvm::formatv("{0:e}, within {1:e}", check.difference, check.tolerance)
             .str());
  }
  return passed ? 0 : 1;
}

/// Where arguments come from.
static StatusOr<ArgumentSources> readSources(const Flags &flags) {
  ArgumentSources sources;
  sources.folder = flags.inputs;
  OPTRT_ASSIGN_OR_RETURN(sources.seed,
                         readCount("--seed", flags.seed, 0, UINT64_MAX));
  // Token ids are i32.
  if (!flags.vocabulary.empty()) {
    OPTRT_ASSIGN_OR_RETURN(sources.vocabulary,
                           readCount("--draw", flags.vocabulary, 1, INT32_MAX));
  }
  if (!flags.inputs.empty() && !llvm::sys::fs::is_directory(flags.inputs))
    return invalidArgument("--inputs: there is no folder '" + flags.inputs +
                           "'");
  for (StringRef setting : flags.settings) {
    auto [name, text] = setting.rsplit('=');
    double value = 0;
    if (name.empty() || text.getAsDouble(value))
      return invalidArgument("--set: expected NAME=NUMBER, found '" +
                             setting.str() + "'");
    if (!sources.scalars.try_emplace(name, value).second)
      return invalidArgument("--set: '" + name.str() + "' is given twice");
  }
  return sources;
}

/// A function that a flag names.
static StatusOr<func::FuncOp> getFunction(ModuleOp module, StringRef flag,
                                          StringRef name) {
  if (func::FuncOp function = findFunction(module, name))
    return function;
  std::vector<std::string> names;
  for (auto function : module.getOps<func::FuncOp>())
    names.push_back(function.getName().str());
  return invalidArgument(
      llvm::formatv("{0}: expected a function of the program, found '{1}'; it "
                    "has {2}{3}",
                    flag, name, listFunctions(module),
                    optimus_support::didYouMean(name.str(), names))
          .str());
}

/// Whether a function can be executed on this machine.
static LogicalResult checkMemoryOf(func::FuncOp function) {
  return exec::isDeviceProgram(function) ? exec::checkDeviceMemory(function)
                                         : checkMemory(function);
}

static FailureOr<std::vector<NamedTensor>>
interpretAny(func::FuncOp function, ArrayRef<Tensor> arguments) {
  if (exec::isDeviceProgram(function))
    return exec::interpretDeviceProgram(function, arguments);
  FailureOr<SmallVector<Tensor>> tensors = interpret(function, arguments);
  if (failed(tensors))
    return failure();
  std::vector<NamedTensor> results;
  for (auto [index, tensor] : llvm::enumerate(*tensors))
    results.push_back(
        {getResultName(function, index), std::move(tensor),
         getElementTypeOrSelf(function.getResultTypes()[index]).isInteger()});
  return results;
}

static int run(ModuleOp module, const ArgumentSources &sources,
               const Flags &flags) {
  if (flags.checksGradients)
    return checkGradientsOf(module, sources, flags);

  auto function = getFunction(module, "--function", flags.function);
  if (!function.ok())
    return fail(function.status());
  func::FuncOp reference;
  if (!flags.compareWith.empty()) {
    auto found = getFunction(module, "--compare-with", flags.compareWith);
    if (!found.ok())
      return fail(found.status());
    reference = *found;
    if (exec::isDeviceProgram(reference) || exec::isDeviceProgram(*function))
      return fail("--compare-with: expected functions on tensors, found "
                  "commands; compare these --against a program");
  }
  if (Status status = checkFiles(*function, sources, flags); !status.ok())
    return fail(status);
  if (failed(checkMemoryOf(*function)) ||
      (reference && failed(checkMemory(reference))))
    return kBadInput;
  auto arguments = collectArguments(*function, sources);
  if (!arguments.ok())
    return fail(arguments.status());
  if (!flags.against.empty())
    roundToTypes(*function, *arguments);
  FailureOr<std::vector<NamedTensor>> results =
      interpretAny(*function, *arguments);
  if (failed(results))
    return kBadInput;
  if (Status status = report(*results, flags); !status.ok())
    return fail(status);
  if (!flags.against.empty())
    return compareAgainst(flags.against, *function, *arguments, *results);
  return reference ? compare(*function, reference, *arguments, *results)
                   : kDone;
}

/// Everything but the flags.
static int interpretProgram(const Flags &flags) {
  auto sources = readSources(flags);
  if (!sources.ok())
    return fail(sources.status());
  DialectRegistry registry;
  registerAllDialects(registry);
  registerInterpreterModels(registry);
  exec::registerDeviceInterpreterModels(registry);
  MLIRContext context(registry, chooseThreading());
  context.printOpOnDiagnostic(false);

  llvm::SourceMgr sourceManager;
  if (Status status = readProgram(flags.input, sourceManager); !status.ok())
    return fail(status);
  SourceMgrDiagnosticHandler handler(sourceManager, &context);
  OwningOpRef<ModuleOp> module =
      parseSourceFile<ModuleOp>(sourceManager, &context);
  return module ? run(*module, *sources, flags) : kBadInput;
}

/// Reads the flags, and does what they say.
static int runWith(std::vector<std::string> arguments) {
  Flags flags;
  constexpr const char *kName = "optimus-interpret";
  CLI::App app("Executes optimus and ccl programs in f64, and device programs, "
               "by default that of standard input.",
               kName);
  optimus_command_line::prepare(app, describeVersion(kName));
  addFlags(app, flags);
  auto asked = optimus_command_line::parse(app, std::move(arguments));
  if (!asked.ok())
    return fail(asked.status());
  llvm::outs() << *asked;
  return asked->empty() ? interpretProgram(flags) : kDone;
}

int main(int argc, char **argv) {
  return runTool("optimus-interpret", argc, argv, [&] {
    return runWith({argv + 1, argv + argc});
  });
}
