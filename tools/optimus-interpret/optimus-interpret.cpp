//===- optimus-interpret.cpp - Executes programs in f64 ---------*- C++ -*-===//
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

#include "Arguments.h"
#include "Npy.h"

#include "optimus/InitOptimus.h"
#include "optimus/Interpreter/GradientCheck.h"
#include "optimus/Interpreter/InterpretableOpInterface.h"
#include "optimus/Interpreter/Interpreter.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Support/FileUtilities.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/WithColor.h"

using namespace mlir;
using namespace mlir::optimus;
namespace cl = llvm::cl;

static cl::OptionCategory category("optimus-interpret options");
static cl::opt<std::string> inputPath(cl::Positional, cl::init("-"),
                                      cl::desc("<program.mlir>"),
                                      cl::cat(category));
static cl::opt<std::string> functionName("function", cl::value_desc("name"),
                                         cl::cat(category),
                                         cl::desc("The function to execute"));
static cl::opt<std::string>
    inputs("inputs", cl::value_desc("dir"), cl::cat(category),
           cl::desc("Arguments, as files NAME.npy: a parameter's name, or "
                    "tokens, targets, scalar:lr, exp_avg:NAME, or arg0"));
static cl::opt<std::string>
    outputs("outputs", cl::value_desc("dir"), cl::cat(category),
            cl::desc("Where to write results, as NAME.npy in f64"));
static cl::list<std::string> settings("set", cl::value_desc("name=number"),
                                      cl::cat(category),
                                      cl::desc("A scalar argument"));
static cl::opt<uint64_t>
    seed("seed", cl::init(1), cl::value_desc("number"), cl::cat(category),
         cl::desc("Of parameters that are not given (default: 1)"));
static cl::opt<int64_t> vocabulary(
    "draw", cl::init(0), cl::value_desc("vocabulary"), cl::cat(category),
    cl::desc("Draw arguments that are neither given nor parameters: numbers "
             "from the normal distribution, tokens below the vocabulary"));
static cl::opt<bool> printResults("print", cl::cat(category),
                                  cl::desc("Print results of any shape"));
static cl::opt<std::string> compareWith(
    "compare-with", cl::value_desc("name"), cl::cat(category),
    cl::desc("Fail unless this function gives the same results for the same "
             "arguments, up to the order of sums in f64"));
static cl::opt<bool>
    gradientCheck("gradcheck", cl::cat(category),
                  cl::desc("Compare the gradients of @grad (or @grad_step) "
                           "with central differences of @loss (or "
                           "@eval_step)"));
static cl::opt<int64_t>
    checkLimit("gradcheck-limit", cl::init(1000), cl::value_desc("number"),
               cl::cat(category),
               cl::desc("How many elements of a parameter to check"));

static int fail(const Twine &message) {
  llvm::WithColor::error(llvm::errs(), "optimus-interpret") << message << "\n";
  return 1;
}

static int fail(llvm::Error error) {
  return fail(llvm::toString(std::move(error)));
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
static int report(func::FuncOp function, ArrayRef<Tensor> results) {
  if (!outputs.empty())
    if (std::error_code error = llvm::sys::fs::create_directories(outputs))
      return fail("cannot make the folder '" + outputs +
                  "': " + error.message());
  for (auto [index, result] : llvm::enumerate(results)) {
    std::string name = getResultName(function, index);
    if (result.shape.empty() || printResults)
      print(name, result);
    if (outputs.empty())
      continue;
    SmallString<128> path(outputs);
    llvm::sys::path::append(path, name + ".npy");
    bool integers =
        getElementTypeOrSelf(function.getResultTypes()[index]).isInteger();
    if (llvm::Error error = writeNpy(path, result, integers))
      return fail(std::move(error));
  }
  return 0;
}

/// Compares results with those of another function.
static int compare(func::FuncOp function, func::FuncOp reference,
                   ArrayRef<Tensor> arguments, ArrayRef<Tensor> results) {
  FailureOr<SmallVector<Tensor>> expected = interpret(reference, arguments);
  if (failed(expected))
    return 1;
  if (expected->size() != results.size())
    return fail("@" + function.getName() + " has " + Twine(results.size()) +
                " results, @" + reference.getName() + " has " +
                Twine(expected->size()));
  for (auto [index, pair] :
       llvm::enumerate(llvm::zip_equal(results, *expected))) {
    auto &[found, wanted] = pair;
    std::string name = getResultName(function, index);
    if (found.shape != wanted.shape)
      return fail("result " + name + " has another shape in @" +
                  reference.getName());
    // Sums of up to 10^4 terms in another order, cancelling to a thousandth.
    double distance = getDistance(found, wanted);
    double scale = getMagnitude(wanted);
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

static int checkGradientsOf(ModuleOp module, const ArgumentSources &sources) {
  func::FuncOp loss = findFunction(module, {"loss", "eval_step"});
  func::FuncOp grad = findFunction(module, {"grad", "grad_step"});
  if (!loss || !grad)
    return fail("--gradcheck: expected @loss and @grad, or @eval_step and "
                "@grad_step; found " +
                listFunctions(module));
  llvm::Expected<SmallVector<Tensor>> arguments =
      collectArguments(loss, sources);
  if (!arguments)
    return fail(arguments.takeError());
  FailureOr<SmallVector<GradientCheck>> checks =
      checkGradients(loss, grad, *arguments, checkLimit);
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

static int run(ModuleOp module) {
  ArgumentSources sources;
  sources.folder = inputs;
  sources.seed = seed;
  sources.vocabulary = vocabulary;
  if (!inputs.empty() && !llvm::sys::fs::is_directory(inputs))
    return fail("--inputs: there is no folder '" + inputs + "'");
  for (StringRef setting : settings) {
    auto [name, text] = setting.rsplit('=');
    double value = 0;
    if (name.empty() || text.getAsDouble(value))
      return fail("--set: expected NAME=NUMBER, found '" + setting + "'");
    sources.scalars[name] = value;
  }
  if (gradientCheck)
    return checkGradientsOf(module, sources);

  func::FuncOp function = findFunction(module, StringRef(functionName));
  if (!function)
    return fail("--function: expected a function of the program, found '" +
                functionName + "'; it has " + listFunctions(module));
  llvm::Expected<SmallVector<Tensor>> arguments =
      collectArguments(function, sources);
  if (!arguments)
    return fail(arguments.takeError());
  FailureOr<SmallVector<Tensor>> results = interpret(function, *arguments);
  if (failed(results))
    return 1;
  if (int code = report(function, *results))
    return code;
  if (compareWith.empty())
    return 0;
  func::FuncOp reference = findFunction(module, StringRef(compareWith));
  if (!reference)
    return fail("--compare-with: expected a function of the program, found '" +
                compareWith + "'; it has " + listFunctions(module));
  return compare(function, reference, *arguments, *results);
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  cl::HideUnrelatedOptions(category);
  cl::ParseCommandLineOptions(argc, argv,
                              "Executes optimus and ccl programs in f64\n");
  DialectRegistry registry;
  registerAllDialects(registry);
  registerInterpreterModels(registry);
  MLIRContext context(registry);
  context.printOpOnDiagnostic(false);

  std::string message;
  std::unique_ptr<llvm::MemoryBuffer> file = openInputFile(inputPath, &message);
  if (!file)
    return fail(message);
  llvm::SourceMgr sourceManager;
  sourceManager.AddNewSourceBuffer(std::move(file), llvm::SMLoc());
  SourceMgrDiagnosticHandler handler(sourceManager, &context);
  OwningOpRef<ModuleOp> module =
      parseSourceFile<ModuleOp>(sourceManager, &context);
  return module ? run(*module) : 1;
}
