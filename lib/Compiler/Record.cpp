//===- Record.cpp - What a program was compiled with ------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Record.h"

#include "optimus/Analysis/MachineProfile.h"
#include "optimus/Dialect/Optimus/IR/Optimus.h"

#include "optimus-support/NearestName.h"

#include "mlir/IR/Builders.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::optimus;
using optimus_support::invalidArgument;
using optimus_support::okStatus;
using optimus_support::Status;
using optimus_support::StatusOr;

static constexpr StringLiteral kRecord = OptimusDialect::kCompilation;
static constexpr StringLiteral kPhase = "phase";

namespace {
/// A flag that changes the program.
struct RecordedFlag {
  StringLiteral name;
  /// The last phase that asks for it.
  StringLiteral phase;
  /// What the user gives to say something of it.
  StringLiteral givenAs;
  /// Its value, as on the command line; empty where it need not be given.
  std::string (*get)(const CompileOptions &);
};
} // namespace

static std::string getTruth(bool value) { return value ? "true" : "false"; }

static std::string getAbsolute(StringRef given) {
  SmallString<128> path(given);
  if (!path.empty())
    llvm::sys::fs::make_absolute(path);
  return path.str().str();
}

static constexpr RecordedFlag kFlags[] = {
    {"accumulate", "step", "accumulate",
     [](auto &options) { return getTruth(options.phases.accumulate); }},
    {"lora", "differentiate", "lora",
     [](auto &options) { return options.phases.lora; }},
    {"train", "differentiate", "train",
     [](auto &options) { return options.phases.train; }},
    {"optimizer", "step", "optimizer",
     [](auto &options) { return options.phases.optimizer; }},
    {"precision", "step", "precision",
     [](auto &options) { return options.phases.precision; }},
    {"layout", "shard", "layout",
     [](auto &options) { return options.phases.layouts; }},
    {"mesh", "shard", "mesh",
     [](auto &options) { return options.phases.mesh.toString(); }},
    {"no-pad", "shard", "no-pad",
     [](auto &options) { return getTruth(!options.phases.pad); }},
    {"reduce-precision", "step", "reduce-precision",
     [](auto &options) { return options.phases.reducePrecision; }},
    {"strategy", "shard", "strategy",
     [](auto &options) { return options.phases.describeStrategies(); }},
    {"move", "tune", "move",
     [](auto &options) { return options.phases.getMove().str(); }},
    {"panels", "tune", "move",
     [](auto &options) {
       return options.phases.panels > 0 ? std::to_string(options.phases.panels)
                                        : std::string();
     }},
    {"tune-products", "tune", "move",
     [](auto &options) {
       return options.phases.getMove().empty() ? getTruth(false)
                                               : std::string();
     }},
    {"recompute", "fuse", "recompute",
     [](auto &options) { return options.phases.recompute; }},
    {"lanes", "exec", "lanes",
     [](auto &options) {
       return options.phases.lanes == 1 ? std::string()
                                        : std::to_string(options.phases.lanes);
     }},
    {"target", "exec", "target",
     [](auto &options) {
       return options.phases.target == "cpu" ? "" : options.phases.target;
     }},
    {"attention", "exec", "attention",
     [](auto &options) {
       return options.phases.attention == "auto" ? ""
                                                 : options.phases.attention;
     }},
    {"weights", "exec", "weights",
     [](auto &options) {
       return options.phases.weights == "activations" ? ""
                                                      : options.phases.weights;
     }},
    {"deterministic", "exec", "deterministic",
     [](auto &options) { return getTruth(options.phases.deterministic); }},
    {"offload", "schedule", "offload",
     [](auto &options) { return options.phases.offload; }},
    {"offload-to", "schedule", "offload-to",
     [](auto &options) {
       return options.phases.offload.empty() ? "" : options.phases.offloadTo;
     }},
    {"offload-bandwidth", "schedule", "offload-bandwidth",
     [](auto &options) { return options.phases.offloadBandwidth; }},
    {"offload-window", "schedule", "offload-window",
     [](auto &options) {
       return options.phases.offloadWindow > 0
                  ? std::to_string(options.phases.offloadWindow)
                  : std::string();
     }},
    {"extra-workspace", "schedule", "extra-workspace",
     [](auto &options) { return options.phases.extraWorkspace; }},
    {"machine-profile", "schedule", "machine-profile",
     [](auto &options) {
       return isKnownProfile(options.machineProfile)
                  ? options.machineProfile
                  : getAbsolute(options.machineProfile);
     }},
    {"profile", "schedule", "profile",
     [](auto &options) { return getAbsolute(options.phases.profile); }},
    {"sync", "place", "sync",
     [](auto &options) {
       return options.phases.sync == "sync" ? "" : options.phases.sync;
     }},
    {"schedule", "schedule", "schedule",
     [](auto &options) { return options.phases.schedule; }},
};

ScopedRecord::ScopedRecord(ModuleOp module, StringRef phase,
                           const CompileOptions &options)
    : module(module) {
  Builder builder(module.getContext());
  NamedAttrList record;
  record.append(kPhase, builder.getStringAttr(phase));
  for (const RecordedFlag &flag : kFlags)
    if (std::string value = flag.get(options); !value.empty())
      record.append(flag.name, builder.getStringAttr(value));
  module->setAttr(kRecord, record.getDictionary(module.getContext()));
}

ScopedRecord::~ScopedRecord() { module->removeAttr(kRecord); }

/// Whether a phase has run when `start` is where compilation goes on from.
static bool hasRun(StringRef phase, StringRef start) {
  return getPhaseNumber(phase) <= getPhaseNumber(start);
}

/// What a record has for a flag, or "".
static StringRef getText(DictionaryAttr record, StringRef name) {
  auto text = record.getAs<StringAttr>(name);
  return text ? text.getValue() : StringRef();
}

/// A flag's value in a message: what is not recorded is the default.
static std::string quote(StringRef value) {
  return value.empty() ? "the default" : ("'" + value + "'").str();
}

/// Refuses what is no flag: as a typing mistake it would be lost.
static Status checkNames(DictionaryAttr record, const std::string &input) {
  std::vector<std::string> known{kPhase.str()};
  for (const RecordedFlag &flag : kFlags)
    known.push_back(flag.name.str());
  for (NamedAttribute entry : record)
    if (std::string name = entry.getName().str();
        !llvm::is_contained(known, name))
      return invalidArgument("'" + input + "': " + kRecord.str() +
                             " has the unknown member '" + name + "'" +
                             optimus_support::didYouMean(name, known));
  return okStatus();
}

/// Whether the record fits where compilation is to start.
static Status checkStart(StringRef phase, const CompileSettings &settings) {
  StringRef start = settings.compileFrom;
  if (start.empty() && phase != "input")
    return invalidArgument(
        llvm::formatv("'{0}' is what the phase '{1}' made; go on from it with "
                      "--compile-from={1}",
                      settings.input, phase)
            .str());
  if (!start.empty() && phase != start)
    return invalidArgument(
        llvm::formatv("--compile-from: '{0}' is what the phase '{1}' made, "
                      "found '{2}'; where passes ran on it since, its "
                      "attribute {3} must say so",
                      settings.input, phase, start, kRecord)
            .str());
  return okStatus();
}

/// Whether the user said something of a flag: all three that say how products
/// move are one.
static bool isGiven(const CompileSettings &settings, const RecordedFlag &flag) {
  if (flag.givenAs != "move")
    return settings.isGiven(flag.givenAs);
  return llvm::any_of(ArrayRef<StringRef>{"move", "panels", "tune-products"},
                      [&](StringRef name) { return settings.isGiven(name); });
}

/// Refuses flags of phases that are done, where the record says otherwise.
static Status checkGiven(DictionaryAttr record, const CompileOptions &options,
                         const CompileSettings &settings) {
  StringRef start = options.compileFrom;
  for (const RecordedFlag &flag : kFlags) {
    StringRef recorded = getText(record, flag.name);
    if (isGiven(settings, flag) && hasRun(flag.phase, start) &&
        flag.get(options) != recorded)
      return invalidArgument(
          llvm::formatv("--{0}: '{1}' was compiled with {2} as far as "
                        "'{3}', found {4}; leave the flag out, or start "
                        "before '{5}'",
                        flag.name, options.input, quote(recorded), start,
                        quote(flag.get(options)), flag.phase)
              .str());
  }
  return okStatus();
}

/// The settings, and those of the record that they lack.
static StatusOr<CompileSettings> fillIn(DictionaryAttr record,
                                        const CompileSettings &settings) {
  CompileSettings all = settings;
  for (const RecordedFlag &flag : kFlags) {
    StringRef recorded = getText(record, flag.name);
    // Nothing asks for a profile any more, and it may be gone.
    bool isOfNoUse = hasRun(flag.phase, settings.compileFrom) &&
                     (flag.name == "machine-profile" || flag.name == "profile");
    if (isGiven(settings, flag) || recorded.empty() || isOfNoUse)
      continue;
    if (Status status = all.set(flag.name, recorded); !status.ok())
      return status.withContext("'" + settings.input + "': " + kRecord.str());
  }
  return all;
}

StatusOr<CompileOptions>
mlir::optimus::takeRecord(ModuleOp module, const CompileSettings &settings,
                          StatusOr<CompileOptions> read) {
  Attribute found = module->removeAttr(kRecord);
  if (!found)
    return read;
  auto record = dyn_cast<DictionaryAttr>(found);
  if (!record || getText(record, kPhase).empty())
    return invalidArgument(
        "'" + settings.input + "': expected " + kRecord.str() +
        " to be a dictionary of strings with a phase; remove the attribute");
  OPTRT_RETURN_IF_ERROR(checkNames(record, settings.input));
  OPTRT_RETURN_IF_ERROR(checkStart(getText(record, kPhase), settings));
  if (settings.compileFrom.empty())
    return read;
  if (read.ok())
    OPTRT_RETURN_IF_ERROR(checkGiven(record, *read, settings));
  OPTRT_ASSIGN_OR_RETURN(CompileSettings all, fillIn(record, settings));
  OPTRT_ASSIGN_OR_RETURN(CompileOptions options, readCompileOptions(all));
  if (!read.ok())
    OPTRT_RETURN_IF_ERROR(checkGiven(record, options, settings));
  return options;
}
