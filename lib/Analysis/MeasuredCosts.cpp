//===- MeasuredCosts.cpp - What commands took when they ran -----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Analysis/MeasuredCosts.h"

#include "optimus/Dialect/Optimus/IR/ElementBytes.h"
#include "optimus/Dialect/Optimus/IR/Optimus.h"
#include "optimus/Dialect/Optimus/IR/Provenance.h"

#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::optimus;
using optimus_support::concat;
using optimus_support::invalidArgument;
using optimus_support::StatusOr;

/// What a command does, whatever it does it to: the end of each key. Tables and
/// accesses differ in the root's writes of a collective, and in the number and
/// length of attention's rows.
static std::string getWorkKey(StringRef kind, StringRef kernel, int64_t bytes,
                              int64_t written) {
  if (exec::symbolizeCollectiveKind(kind))
    written = 0;
  if (kind.starts_with("attention"))
    bytes = written = 0;
  return llvm::formatv("\n{0} {1} {2} {3}", kind, kernel, bytes, written);
}

MeasuredCosts::MeasuredCosts(RunProfile measured, std::string name)
    : profile(std::move(measured)), name(std::move(name)) {
  for (const MeasuredCommand &command : profile.commands) {
    std::string work = getWorkKey(command.kind, command.kernel, command.bytes,
                                  command.written);
    for (const std::string &key :
         {command.function + "\n" + command.path + work, command.path + work,
          work}) {
      Seconds &seconds = byKey[key];
      seconds.sum += command.seconds;
      ++seconds.count;
    }
  }
}

/// The files of all processes of a run, FILE.0, FILE.1, …
static StatusOr<RunProfile> readProcesses(StringRef path) {
  auto nameOf = [&](int64_t process) {
    return (path + "." + Twine(process)).str();
  };
  constexpr int64_t kMostProcesses = 1 << 16;
  int64_t any = 0;
  while (any != kMostProcesses && !llvm::sys::fs::exists(nameOf(any)))
    ++any;
  // Where there is none, the file itself is what is missed.
  if (any == kMostProcesses)
    return RunProfile::read(path.str());
  OPTRT_ASSIGN_OR_RETURN(RunProfile profile, RunProfile::read(nameOf(any)));
  for (int64_t i = 0; i != profile.numProcesses; ++i) {
    const std::string name = nameOf(i);
    if (!llvm::sys::fs::exists(name))
      return invalidArgument(concat(
          "profile '", path.str(), "' is of ", profile.numProcesses,
          " processes: expected the files ", nameOf(0), " to ",
          nameOf(profile.numProcesses - 1), ", found no ", name,
          "; copy it from the host of that process, or give one file by its "
          "name"));
    if (i == any)
      continue;
    OPTRT_ASSIGN_OR_RETURN(RunProfile other, RunProfile::read(name));
    if (other.process != i)
      return invalidArgument(concat("profile '", name, "': expected process ",
                                    i, " of the run, found process ",
                                    other.process));
    OPTRT_RETURN_IF_ERROR(profile.add(other));
  }
  return profile;
}

llvm::Expected<std::shared_ptr<const MeasuredCosts>>
MeasuredCosts::load(StringRef path) {
  if (llvm::sys::fs::exists(path)) {
    auto profile = RunProfile::read(path.str());
    if (!profile.ok())
      return llvm::createStringError(profile.status().message());
    return std::make_shared<const MeasuredCosts>(*std::move(profile),
                                                 path.str());
  }
  auto profile = readProcesses(path);
  if (!profile.ok())
    return llvm::createStringError(profile.status().message());
  return std::make_shared<const MeasuredCosts>(*std::move(profile), path.str());
}

/// The same of a command of a program.
static std::string getWorkKey(exec::CommandOpInterface command) {
  int64_t bytes = 0, written = 0;
  for (const exec::Access &access : command.getAccesses()) {
    int64_t touched = access.getTouchedBytes();
    bytes += touched * (access.reads + access.writes);
    written += access.writes ? touched : 0;
  }
  StringRef kind = command->getName().stripDialect(), kernel;
  if (auto launch = dyn_cast<exec::LaunchOp>(*command))
    kernel = launch.getKernel();
  if (auto copy = dyn_cast<exec::CopyOp>(*command); copy && !copy.getSrc())
    kind = "fill";
  if (auto start = dyn_cast<exec::CollectiveStartOp>(*command))
    kind = exec::stringifyCollectiveKind(start.getKind());
  return getWorkKey(kind, kernel, bytes, written);
}

std::optional<double> MeasuredCosts::lookup(StringRef key) const {
  auto found = byKey.find(key);
  if (found == byKey.end())
    return std::nullopt;
  return found->second.sum / double(found->second.count);
}

std::optional<double>
MeasuredCosts::getSeconds(exec::CommandOpInterface command) const {
  std::string work = getWorkKey(command);
  std::string path = getPath(command->getLoc()).str();
  ProgramPhase phase = getPhase(command->getLoc());
  std::string whole = path;
  if (!path.empty() && phase != ProgramPhase::Forward)
    whole += (" " + stringifyProgramPhase(phase)).str();
  StringRef function = command->getParentOfType<func::FuncOp>().getSymName();
  if (auto seconds = lookup((function + "\n" + whole + work).str()))
    return seconds;
  if (auto seconds = lookup(whole + work))
    return seconds;
  // A recomputed command does the same work as the forward's.
  if (auto seconds = lookup(path + work))
    return seconds;
  return lookup(work);
}

bool MeasuredCosts::isOf(StringRef mesh, StringRef strategy,
                         StringRef device) const {
  return profile.mesh == mesh && profile.strategy == strategy &&
         profile.device == device;
}

bool MeasuredCosts::hasRun(StringRef function) const {
  return llvm::any_of(profile.commands, [&](const MeasuredCommand &command) {
    return command.function == function;
  });
}

LogicalResult MeasuredCosts::verify(func::FuncOp function) const {
  auto fail = [&] {
    return function.emitError("expected profile '")
           << name << "' to be of a run of this program, found ";
  };
  for (unsigned i = 0, e = function.getNumArguments(); i < e; ++i) {
    auto param =
        function.getArgAttrOfType<StringAttr>(i, OptimusDialect::kParam);
    auto binding =
        function.getArgAttrOfType<BufferAttr>(i, OptimusDialect::kBinding);
    if (!param && !binding)
      continue;
    StringRef held = param ? param.getValue() : binding.getRole();
    const auto &all = param ? profile.parameters : profile.inputs;
    auto found = all.find(held.str());
    if (found == all.end()) {
      if (param)
        return fail() << "one without parameter '" << held << "'";
      continue;
    }
    auto type = dyn_cast<MemRefType>(function.getArgumentTypes()[i]);
    if (int64_t bytes = type ? getBytes(type) : found->second;
        bytes != found->second)
      return fail() << "one whose '" << held << "' has " << found->second
                    << " bytes on a rank instead of " << bytes;
  }
  return success();
}

LogicalResult MeasuredCosts::verify(ModuleOp module) const {
  llvm::StringSet<> names;
  for (auto function : module.getOps<func::FuncOp>()) {
    if (failed(verify(function)))
      return failure();
    for (unsigned i = 0, e = function.getNumArguments(); i < e; ++i)
      if (auto param =
              function.getArgAttrOfType<StringAttr>(i, OptimusDialect::kParam))
        names.insert(param.getValue());
  }
  for (const auto &[parameter, bytes] : profile.parameters)
    if (!names.contains(parameter))
      return module.emitError("expected profile '")
             << name << "' to be of a run of this program, found one with "
             << "parameter '" << parameter << "'";
  return success();
}
