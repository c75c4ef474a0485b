//===- Parser.cpp - Command lines of our tools ----------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CommandLine/Parser.h"

#include "optimus-support/HelpText.h"
#include "optimus-support/NearestName.h"

#include <algorithm>
#include <cctype>
#include <iterator>
#include <memory>
#include <string_view>

using namespace optimus_support;

namespace optimus_command_line {
namespace {

//===----------------------------------------------------------------------===//
// Help
//===----------------------------------------------------------------------===//

class HelpFormatter : public CLI::Formatter {
  std::string make_option(const CLI::Option *option,
                          bool isPositional) const override {
    return describeFlag(make_option_name(option, isPositional) +
                            make_option_opts(option),
                        make_option_desc(option));
  }
  std::string make_subcommand(const CLI::App *subcommand) const override {
    return describeFlag(subcommand->get_name(), subcommand->get_description());
  }
};

//===----------------------------------------------------------------------===//
// Mistakes
//===----------------------------------------------------------------------===//

bool isFlag(const CLI::Option &option) {
  return option.get_items_expected_min() == 0;
}

bool isTruth(std::string_view value) {
  constexpr std::string_view kTruths[] = {"true",  "TRUE",  "True",  "1",
                                          "false", "FALSE", "False", "0"};
  return std::find(std::begin(kTruths), std::end(kTruths), value) !=
         std::end(kTruths);
}

/// The app and those of its subcommands that were given.
std::vector<const CLI::App *> getGiven(const CLI::App &app) {
  std::vector<const CLI::App *> apps{&app};
  for (const CLI::App *subcommand : app.get_subcommands())
    apps.push_back(subcommand);
  return apps;
}

std::string unknownOption(const CLI::App &app, const std::string &argument,
                          const Rules &rules) {
  std::string name = argument.substr(0, argument.find('='));
  if (std::find(rules.elsewhere.begin(), rules.elsewhere.end(), name) !=
      rules.elsewhere.end())
    return concat("unknown option '", name, "'; ", rules.otherTool, " has it");
  std::vector<std::string> known;
  for (const CLI::Option *option : app.get_options())
    if (option->nonpositional())
      known.push_back(option->get_name());
  std::string meant = nearestName(name, known);
  if (meant.empty())
    meant = nearestName(name, rules.otherOptions);
  return concat("unknown option '", name, "'",
                meant.empty() ? "" : concat("; did you mean '", meant, "'?"));
}

/// Splits `-o=FILE`. Refuses `-oFILE`, mostly a misspelt long option, and
/// `--name=`, for which CLI11 would take the next argument.
StatusOr<std::vector<std::string>>
splitLetters(const CLI::App &app, const std::vector<std::string> &arguments,
             const Rules &rules) {
  std::vector<std::string> split;
  for (auto at = arguments.begin(); at != arguments.end(); ++at) {
    if (*at == "--") {
      split.insert(split.end(), at, arguments.end());
      break;
    }
    if (at->starts_with("--") && at->find('=') == at->size() - 1)
      return invalidArgument(concat(at->substr(0, at->size() - 1),
                                    ": expected a value, found nothing"));
    const CLI::Option *letter =
        at->size() > 2 && at->front() == '-' && (*at)[1] != '-'
            ? app.get_option_no_throw(at->substr(0, 2))
            : nullptr;
    if (!letter || isFlag(*letter)) {
      split.push_back(*at);
      continue;
    }
    if ((*at)[2] != '=')
      return invalidArgument(unknownOption(app, *at, rules));
    split.push_back(at->substr(0, 2));
    split.push_back(at->substr(3));
  }
  return split;
}

/// What was given and means nothing.
std::string findUnknown(const CLI::App &app, const Rules &rules) {
  for (const CLI::App *one : getGiven(app))
    for (const std::string &argument : one->remaining())
      if (argument.size() > 1 && argument.front() == '-')
        return unknownOption(*one, argument, rules);
  return "";
}

std::vector<std::string> namesOfSubcommands(const CLI::App &app) {
  std::vector<std::string> names;
  for (const CLI::App *one : app.get_subcommands([](auto *) { return true; }))
    names.push_back(one->get_name());
  return names;
}

std::string findUnknownSubcommand(const CLI::App &app) {
  const std::vector<std::string> rest = app.remaining();
  if (rest.empty() || rest[0].starts_with("-") ||
      !app.get_subcommands().empty())
    return "";
  const std::vector<std::string> names = namesOfSubcommands(app);
  std::string list;
  for (const std::string &name : names)
    list += concat(list.empty() ? "" : ", ", name);
  return names.empty()
             ? ""
             : concat("there is no subcommand '", rest[0], "'",
                      didYouMean(rest[0], names), "; there are ", list);
}

/// Of a tool without subcommands, inputs that it would not read.
std::string findBadInput(const CLI::App &app) {
  if (!app.get_subcommands([](auto *) { return true; }).empty())
    return "";
  std::vector<std::string> inputs;
  for (const CLI::Option *option : app.get_options())
    if (option->get_positional())
      inputs = option->results();
  for (const std::string &more : app.remaining())
    inputs.push_back(more);
  for (const std::string &input : inputs)
    if (input.starts_with("@"))
      return concat("'", input,
                    "': arguments are not read from files; a file of this name "
                    "is given as ./",
                    input);
  return inputs.size() < 2 ? ""
                           : concat("two inputs, '", inputs[0], "' and '",
                                    inputs[1], "'; give one");
}

std::string findRepeated(const CLI::App &app) {
  for (const CLI::Option *option : app.get_options())
    if (option->get_items_expected_max() <= 1 && option->count() > 1)
      return concat(option->get_name(), " is given twice; give it once");
  return "";
}

/// An option without a value, as by `--save "$FOLDER"` with the variable unset,
/// and a flag neither true nor false.
std::string findBadValue(const CLI::App &app) {
  for (const CLI::App *one : getGiven(app))
    for (const CLI::Option *option : one->get_options())
      for (const std::string &value : option->results())
        if (value.empty())
          return concat(option->get_name(),
                        ": expected a value, found nothing");
        else if (isFlag(*option) && !isTruth(value))
          return concat(option->get_name(), ": expected true or false, found '",
                        value, "'");
  return "";
}

/// "b is required: model library to compare with a", by the help of the
/// positional b.
std::string explainMissing(const CLI::App &app, std::string text) {
  for (const CLI::App *one : getGiven(app))
    for (const CLI::Option *option : one->get_options())
      if (option->get_positional() &&
          text == option->get_name() + " is required") {
        std::string help = option->get_description();
        help = help.substr(0, help.find_first_of(":;"));
        if (!help.empty())
          help[0] = char(std::tolower(static_cast<unsigned char>(help[0])));
        return concat(text, ": ", help);
      }
  return text;
}

/// What CLI11 says, or we instead.
std::string describe(const CLI::App &app, const CLI::ParseError &error) {
  std::string text = error.what();
  // Of options it names the one that is missing.
  if (error.get_name() == "RequiredError" && app.get_subcommands().empty())
    if (std::vector<std::string> names = namesOfSubcommands(app);
        !names.empty()) {
      std::string list = names[0];
      for (std::size_t i = 1; i != names.size(); ++i)
        list += concat(i + 1 == names.size() ? " or " : ", ", names[i]);
      return concat("expected ", list, ", found no command");
    }
  if (error.get_name() == "RequiredError")
    return explainMissing(app, text);
  // Its name is the command's.
  if (error.get_exit_code() == int(CLI::ExitCodes::ExtrasError))
    for (const CLI::App *one : getGiven(app))
      for (const std::string &argument : one->remaining())
        return concat("unexpected argument '", argument, "'");
  if (error.get_name() == "ArgumentMismatch")
    return text.substr(0, text.find(':')) + ": expected a value, found nothing";
  return text;
}

} // namespace

//===----------------------------------------------------------------------===//
// The parser
//===----------------------------------------------------------------------===//

void prepare(CLI::App &app, const std::string &version) {
  app.formatter(std::make_shared<HelpFormatter>());
  app.set_help_flag("-h,--help", "Print this");
  app.set_version_flag("--version", version, "Print the version");
  // Whether more than one is a mistake, is said after parsing.
  app.option_defaults()->take_last();
}

CLI::Option *addList(CLI::App &app, const std::string &name,
                     std::vector<std::string> &values,
                     const std::string &help) {
  return app.add_option(name, values, help)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

/// With where to look for what can be given.
static Status refuse(const CLI::App &app, const std::string &mistake) {
  std::string helped = app.get_name();
  for (const CLI::App *subcommand : app.get_subcommands())
    helped += " " + subcommand->get_name();
  return invalidArgument(
      concat(mistake, "\n`", helped, " --help` lists what can be given"));
}

StatusOr<std::string> parse(CLI::App &app, std::vector<std::string> arguments,
                            const Rules &rules) {
  StatusOr<std::vector<std::string>> split =
      splitLetters(app, arguments, rules);
  if (!split.ok())
    return refuse(app, split.status().message());
  std::string asked, said;
  try {
    // CLI11 takes them from the back.
    app.parse(std::vector<std::string>(split->rbegin(), split->rend()));
  } catch (const CLI::CallForHelp &) {
    asked = app.help();
  } catch (const CLI::CallForVersion &version) {
    asked = version.what() + std::string("\n");
  } catch (const CLI::ParseError &error) {
    said = describe(app, error);
  }
  for (const std::string &mistake :
       {findUnknownSubcommand(app), findUnknown(app, rules), findBadInput(app),
        rules.lastCounts ? std::string() : findRepeated(app), findBadValue(app),
        said})
    if (!mistake.empty())
      return refuse(app, mistake);
  return asked;
}

} // namespace optimus_command_line
