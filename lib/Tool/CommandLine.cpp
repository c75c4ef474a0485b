//===- CommandLine.cpp - Flags that LLVM parses -----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Tool/CommandLine.h"

#include "optimus/Tool/Tool.h"

#include "optimus-support/HelpText.h"
#include "optimus-support/NearestName.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace mlir::optimus;
using optimus_support::describeFlag;
namespace cl = llvm::cl;

//===----------------------------------------------------------------------===//
// Mistakes
//===----------------------------------------------------------------------===//

namespace {
/// Goes through the arguments as LLVM's parser will, and finds what it would
/// not take.
class ArgumentCheck {
public:
  ArgumentCheck(ArrayRef<const char *> arguments, const ToolUsage &usage)
      : usage(usage), known(cl::getRegisteredOptions()) {
    for (size_t next = 0; next < arguments.size(); ++next)
      check(arguments, next);
  }

  /// The first flag that nobody knows, else the first mistake; or empty.
  const std::string &getMistake() const {
    return unknown.empty() ? mistake : unknown;
  }

  bool asksForHelp = false, asksForVersion = false;

private:
  void note(const Twine &text) {
    if (mistake.empty())
      mistake = text.str();
  }

  void check(ArrayRef<const char *> arguments, size_t &next) {
    StringRef argument = arguments[next];
    if (argument == "--" && !onlyInputs) {
      onlyInputs = true;
      return;
    }
    // LLVM would read arguments from a file of any kind and size.
    if (argument.starts_with("@"))
      return note(
          "'" + argument +
          "': arguments are not read from files; a file of this name is "
          "given as ./" +
          argument);
    if (onlyInputs || argument == "-" || !argument.starts_with("-"))
      return checkInput(argument);
    auto [flag, value] = argument.split('=');
    StringRef name = flag.ltrim('-');
    auto found = known.find(name);
    if (found == known.end() || flag.starts_with("---"))
      return checkUnknown(flag, name);
    asksForHelp |= name == "help" || name == "h";
    asksForVersion |= name == "version";
    const cl::Option &option = *found->second;
    checkOccurrence(flag, option);
    bool hasValue = flag.size() < argument.size();
    if (!hasValue && option.getValueExpectedFlag() == cl::ValueRequired) {
      if (next + 1 == arguments.size())
        return note(flag + ": expected a value after it");
      value = arguments[++next];
      hasValue = true;
    }
    if (hasValue && usage.isOurs(option))
      checkValue(flag, option, value);
  }

  void checkInput(StringRef path) {
    if (usage.input.empty())
      return note("expected no file, found '" + path + "'");
    if (input)
      return note("two inputs, '" + *input + "' and '" + path + "'; give one");
    if (path.empty())
      note("the input has an empty name");
    input = path;
  }

  void checkUnknown(StringRef flag, StringRef name) {
    if (!unknown.empty())
      return;
    std::vector<std::string> ours{"help", "version"}, all;
    for (auto &[other, option] : known) {
      all.push_back(other.str());
      if (usage.isOurs(*option))
        ours.push_back(other.str());
    }
    std::string meant = optimus_support::nearestName(name, ours);
    if (meant.empty())
      meant = optimus_support::nearestName(name, all);
    unknown = llvm::formatv("unknown option '{0}'; ", flag);
    if (meant.empty())
      unknown += "--help lists what there is";
    else
      unknown += llvm::formatv("did you mean '{0}{1}'?",
                               meant.size() == 1 ? "-" : "--", meant);
  }

  void checkOccurrence(StringRef flag, const cl::Option &option) {
    bool isSingle = option.getNumOccurrencesFlag() == cl::Optional ||
                    option.getNumOccurrencesFlag() == cl::Required;
    if (isSingle && llvm::is_contained(seen, &option))
      note(flag + " is given twice; give it once");
    seen.push_back(&option);
  }

  void checkValue(StringRef flag, const cl::Option &option, StringRef value) {
    if (value.empty())
      return note(flag + ": expected a value, found nothing");
    // All flags of ours whose value may be missing are true or false.
    constexpr StringLiteral truths[] = {"true",  "TRUE",  "True",  "1",
                                        "false", "FALSE", "False", "0"};
    if (option.getValueExpectedFlag() == cl::ValueOptional &&
        !llvm::is_contained(truths, value))
      note(flag + ": expected true or false, found '" + value + "'");
  }

  const ToolUsage &usage;
  llvm::DenseMap<StringRef, cl::Option *> &known;
  SmallVector<const cl::Option *> seen;
  std::string unknown, mistake;
  std::optional<StringRef> input;
  bool onlyInputs = false;
};
} // namespace

//===----------------------------------------------------------------------===//
// Help
//===----------------------------------------------------------------------===//

/// "--name=<value>", one dash for one letter.
static std::string getHead(const cl::Option &option) {
  bool isLetter = option.ArgStr.size() == 1;
  std::string value;
  StringRef what = option.ValueStr;
  if (what.empty() && option.getValueExpectedFlag() == cl::ValueRequired)
    what = "value";
  if (!what.empty())
    value = llvm::formatv(isLetter ? " <{0}>" : "=<{0}>", what);
  return llvm::formatv("{0}{1}{2}", isLetter ? "-" : "--", option.ArgStr,
                       value);
}

/// Of MLIR's many flags, those that most people use.
static constexpr StringLiteral kMlirFlags[] = {
    "mlir-disable-threading",
    "mlir-elide-elementsattrs-if-larger",
    "mlir-pass-pipeline-crash-reproducer",
    "mlir-pass-pipeline-local-reproducer",
    "mlir-pass-statistics",
    "mlir-print-debuginfo",
    "mlir-print-ir-after",
    "mlir-print-ir-after-all",
    "mlir-print-ir-after-change",
    "mlir-print-ir-after-failure",
    "mlir-print-ir-before",
    "mlir-print-ir-before-all",
    "mlir-print-ir-module-scope",
    "mlir-print-ir-tree-dir",
    "mlir-print-local-scope",
    "mlir-print-op-generic",
    "mlir-timing",
    "mlir-timing-display",
};

std::string mlir::optimus::listMlirFlags() {
  constexpr size_t kMost = 80;
  std::string text = "Of MLIR, for those who look into passes; --help-hidden "
                     "says what each does:";
  size_t at = kMost;
  for (StringRef name : kMlirFlags) {
    const cl::Option *option = cl::getRegisteredOptions().lookup(name);
    if (!option)
      continue;
    std::string head = getHead(*option);
    if (at + 2 + head.size() > kMost) {
      text += "\n";
      at = 0;
    }
    text += "  " + head;
    at += 2 + head.size();
  }
  return text;
}

static void printHelp(const ToolUsage &usage) {
  llvm::outs() << describeVersion(usage.name) << ": " << usage.summary
               << "\n\nusage: " << usage.name << " [options]";
  if (!usage.input.empty())
    llvm::outs() << " [" << usage.input << "]";
  llvm::outs() << "\n\n";
  SmallVector<const cl::Option *> options;
  for (auto &[name, option] : cl::getRegisteredOptions())
    if (usage.isOurs(*option) && option->ArgStr == name)
      options.push_back(option);
  llvm::sort(options, [](const cl::Option *a, const cl::Option *b) {
    return a->ArgStr.compare_insensitive(b->ArgStr) < 0;
  });
  for (const cl::Option *option : options)
    llvm::outs() << describeFlag(getHead(*option), option->HelpStr);
  llvm::outs() << describeFlag("--help",
                               "Print this; --help-hidden lists LLVM's own "
                               "flags too")
               << describeFlag("--version",
                               "Print the versions of Optimus and of LLVM");
  llvm::outs() << usage.more;
}

std::optional<int> mlir::optimus::checkCommandLine(int argc,
                                                   const char *const *argv,
                                                   const ToolUsage &usage) {
  ArgumentCheck check(ArrayRef(argv, argc).drop_front(argc > 0), usage);
  if (!check.getMistake().empty())
    return fail(Twine(check.getMistake()));
  if (check.asksForHelp) {
    printHelp(usage);
    return kDone;
  }
  if (check.asksForVersion) {
    llvm::outs() << describeVersion(usage.name) << "\n";
    return kDone;
  }
  return std::nullopt;
}

std::optional<int> mlir::optimus::parseCommandLine(int argc,
                                                   const char *const *argv,
                                                   const ToolUsage &usage) {
  if (std::optional<int> code = checkCommandLine(argc, argv, usage))
    return code;
  // Of values of LLVM's own flags, LLVM complains by itself, to standard error.
  std::string text;
  llvm::raw_string_ostream stream(text);
  if (!cl::ParseCommandLineOptions(argc, argv, "", &stream))
    return text.empty() ? kBadInput : fail(Twine(StringRef(text).trim()));
  return std::nullopt;
}
