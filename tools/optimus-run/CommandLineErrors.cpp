//===- CommandLineErrors.cpp - What is wrong with what was asked for ------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CommandLineErrors.h"

#include "optimus-runtime/Status.h"
#include "optimus-support/NearestName.h"

using optimus_support::didYouMean;
using optrt::concat;

/// What was given that means nothing, and what may have been meant; empty if
/// all means something. CLI11 finds out too, but first asks for what is
/// missing.
static std::string unknownArgument(const CLI::App *app) {
  std::vector<const CLI::App *> apps{app};
  for (const CLI::App *sub : app->get_subcommands())
    apps.push_back(sub);
  for (const CLI::App *one : apps)
    for (const std::string &argument : one->remaining()) {
      if (argument.front() != '-')
        continue;
      std::string option = argument.substr(0, argument.find('='));
      std::vector<std::string> known;
      for (const CLI::Option *other : one->get_options())
        for (const std::string &name : other->get_lnames())
          known.push_back("--" + name);
      return concat("there is no option `", option, "`",
                    didYouMean(option, known, '`'));
    }
  std::vector<std::string> rest = app->remaining();
  if (!app->get_subcommands().empty() || rest.empty())
    return "";
  std::vector<std::string> names;
  std::string list;
  for (const CLI::App *sub :
       app->get_subcommands([](auto *) { return true; })) {
    names.push_back(sub->get_name());
    list += concat(list.empty() ? "" : ", ", sub->get_name());
  }
  return concat("there is no subcommand `", rest[0], "`",
                didYouMean(rest[0], names, '`'), "; there are ", list);
}

static CLI::ValidationError nothingGiven(const std::string &option) {
  return CLI::ValidationError(option, "expected a value, found nothing");
}

void optimus_run::refuseEmptyValues(const CLI::App &subcommand) {
  for (const CLI::Option *option : subcommand.get_options())
    for (const std::string &value : option->results())
      if (value.empty())
        throw nothingGiven(option->get_name());
}

void optimus_run::refuseNothingAfterEquals(
    const std::vector<std::string> &arguments) {
  for (const std::string &argument : arguments) {
    if (argument == "--")
      return;
    if (argument.starts_with("--") && argument.find('=') == argument.size() - 1)
      throw nothingGiven(argument.substr(0, argument.size() - 1));
  }
}

std::string optimus_run::failureMessage(const CLI::App *app,
                                        const CLI::Error &error) {
  std::string what = unknownArgument(app);
  if (what.empty())
    what = error.what();
  std::string helped = "optimus-run";
  for (const CLI::App *sub : app->get_subcommands())
    helped += " " + sub->get_name();
  return concat("optimus-run: error: ", what, "\n`", helped,
                " --help` lists what can be given\n");
}
