//===- Flags.cpp - The flags of optimus-interpret ---------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Flags.h"

#include "CommandLine/Parser.h"

#include "optimus/Tool/FlagValues.h"
#include "optimus/Tool/Tool.h"

#include "llvm/Support/FileSystem.h"

using namespace mlir;
using namespace mlir::optimus;
using optimus_support::invalidArgument;
using optimus_support::StatusOr;

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

StatusOr<std::string>
mlir::optimus::parseFlags(std::vector<std::string> arguments, Flags &flags) {
  constexpr const char *kName = "optimus-interpret";
  CLI::App app("Executes optimus and ccl programs in f64, and device programs, "
               "by default that of standard input.",
               kName);
  optimus_command_line::prepare(app, describeVersion(kName));
  addFlags(app, flags);
  return optimus_command_line::parse(app, std::move(arguments));
}

StatusOr<ArgumentSources> mlir::optimus::readSources(const Flags &flags) {
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
