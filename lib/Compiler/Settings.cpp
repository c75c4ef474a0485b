//===- Settings.cpp - What a compilation is asked for -----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Compiler/Settings.h"

#include "optimus-support/NearestName.h"
#include "optimus-support/OutputFile.h"

using namespace mlir;
using namespace mlir::optimus;
using optimus_support::invalidArgument;
using optimus_support::okStatus;
using optimus_support::Status;
using optimus_support::StatusOr;

namespace {
/// A flag with a value, which no phase asks for.
struct TextFlag {
  StringLiteral name;
  std::string CompileSettings::*member;
};
} // namespace

static constexpr TextFlag kTexts[] = {
    {"o", &CompileSettings::output},
    {"report-json", &CompileSettings::reportJson},
    {"compile-to", &CompileSettings::compileTo},
    {"compile-from", &CompileSettings::compileFrom},
    {"dump-phases-to", &CompileSettings::dumpFolder},
    {"ranks", &CompileSettings::ranks},
    {"cluster", &CompileSettings::cluster},
    {"memory-budget", &CompileSettings::memoryBudget},
    {"gpu-arch", &CompileSettings::gpuArchitectures},
    {"cubins-to", &CompileSettings::cubinFolder},
    {"kernel-cache", &CompileSettings::kernelCache},
};
static constexpr StringLiteral kReport = "report", kPlan = "plan",
                               kLayout = "layout", kTrain = "train",
                               kTuneProducts = "tune-products",
                               kAlsoPrice = "also-price";

static const PhaseFlag *findPhaseFlag(StringRef name) {
  const PhaseFlag *found =
      llvm::find_if(getPhaseFlags(),
                    [&](const PhaseFlag &flag) { return flag.name == name; });
  return found == getPhaseFlags().end() ? nullptr : found;
}

static const TextFlag *findText(StringRef name) {
  const TextFlag *found = llvm::find_if(
      kTexts, [&](const TextFlag &flag) { return flag.name == name; });
  return found == std::end(kTexts) ? nullptr : found;
}

/// Where the value of a flag is, if it is text.
static std::string *findValue(CompileSettings &settings, StringRef name) {
  if (name == kLayout)
    return &settings.phases.layouts;
  if (name == kTrain)
    return &settings.phases.trains;
  if (const TextFlag *flag = findText(name))
    return &(settings.*flag->member);
  const PhaseFlag *flag = findPhaseFlag(name);
  auto *member =
      flag ? std::get_if<std::string PhaseFlags::*>(&flag->member) : nullptr;
  return member ? &(settings.phases.**member) : nullptr;
}

static StatusOr<bool> readTruth(StringRef name, StringRef value) {
  if (value == "true" || value == "false")
    return value == "true";
  return invalidArgument(
      ("--" + name + ": expected true or false, found '" + value + "'").str());
}

Status CompileSettings::set(StringRef name, StringRef value) {
  if (value.empty())
    return invalidArgument(
        ("--" + name + ": expected a value, found nothing").str());
  if (std::string *text = findValue(*this, name)) {
    *text = value.str();
    return okStatus();
  }
  if (name == kAlsoPrice) {
    alsoPriced.push_back(value.str());
    return okStatus();
  }
  const PhaseFlag *flag = findPhaseFlag(name);
  if (!flag && name != kReport && name != kPlan && name != kTuneProducts) {
    std::vector<std::string> known{kLayout.str(),       kTrain.str(),
                                   kReport.str(),       kPlan.str(),
                                   kTuneProducts.str(), kAlsoPrice.str()};
    for (const PhaseFlag &each : getPhaseFlags())
      known.push_back(each.name.str());
    for (const TextFlag &each : kTexts)
      known.push_back(each.name.str());
    return invalidArgument("expected a flag of optimus-compile, found '" +
                           name.str() + "'" +
                           optimus_support::didYouMean(name.str(), known));
  }
  OPTRT_ASSIGN_OR_RETURN(const bool truth, readTruth(name, value));
  if (name == kTuneProducts)
    phases.tuneProducts = truth;
  else if (flag)
    phases.*std::get<bool PhaseFlags::*>(flag->member) = truth;
  else
    (name == kPlan ? plan : report) = truth;
  if (truth)
    denied.erase(name);
  else
    denied.insert(name);
  return okStatus();
}

bool CompileSettings::isGiven(StringRef name) const {
  // It only reads.
  if (std::string *text = findValue(const_cast<CompileSettings &>(*this), name))
    return !text->empty();
  if (denied.contains(name))
    return true;
  if (name == kAlsoPrice)
    return !alsoPriced.empty();
  if (name == kTuneProducts)
    return phases.tuneProducts.has_value();
  if (const PhaseFlag *flag = findPhaseFlag(name))
    return phases.*std::get<bool PhaseFlags::*>(flag->member);
  return name == kPlan ? plan : report;
}

bool CompileSettings::takesStandardOutput() const {
  using optimus_support::isStandardOutput;
  const bool writesIR =
      !compileTo.empty() && (output.empty() || isStandardOutput(output));
  return writesIR || (!reportJson.empty() && isStandardOutput(reportJson));
}
