//===- RunTimes.cpp - What commands took when they ran ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Prices/RunTimes.h"

#include <algorithm>
#include <filesystem>

using namespace optimus_support::program;
using optimus_support::concat;
using optimus_support::invalidArgument;
using optimus_support::StatusOr;

namespace optimus_prices {

std::optional<CollectiveKind> findCollective(std::string_view kind) {
  for (CollectiveKind one : EnumValuesCollectiveKind())
    if (toString(one) == kind)
      return one;
  return std::nullopt;
}

/// What a command does, whatever it does it to: the end of each key. Tables and
/// accesses differ in the root's writes of a collective, and in the number and
/// length of attention's rows.
static std::string getWorkKey(std::string_view kind, std::string_view kernel,
                              int64_t bytes, int64_t written) {
  if (findCollective(kind))
    written = 0;
  if (kind.starts_with("attention"))
    bytes = written = 0;
  return concat("\n", kind, " ", kernel, " ", bytes, " ", written);
}

CommandKey getKey(const TargetT &target, const ProgramTableT &table,
                  const FunctionT &function, const CommandT &command) {
  CommandKey key;
  key.function = function.name;
  key.bytes = countBytes(command);
  if (command.path != kNone)
    key.pathWithPhase = table.texts[command.path];
  key.path = key.pathWithPhase.substr(0, key.pathWithPhase.find(' '));
  const std::string described = describeAction(target, command);
  const bool isLaunch = command.action.type == Action::Launch;
  (isLaunch ? key.kernel : key.kind) = described;
  if (isLaunch)
    key.kind = "launch";
  for (const auto &operand : command.operands)
    if (operand->address != kNone && operand->access != Access::Read)
      key.written += operand->rows * operand->row_bytes;
  return key;
}

RunTimes::RunTimes(RunProfile measured) : profile(std::move(measured)) {
  for (size_t place = 0; place != profile.commands.size(); ++place) {
    const MeasuredCommand &command = profile.commands[place];
    const std::string work = getWorkKey(command.kind, command.kernel,
                                        command.bytes, command.written);
    for (const std::string &key :
         {command.function + "\n" + command.path + work, command.path + work,
          work}) {
      std::vector<size_t> &places = byKey[key];
      // Without a path, two of the keys are one.
      if (places.empty() || places.back() != place)
        places.push_back(place);
    }
  }
}

/// The files of all processes of a run, FILE.0, FILE.1, …
static StatusOr<RunProfile> readProcesses(const std::string &path) {
  auto nameOf = [&](int64_t process) { return concat(path, ".", process); };
  auto exists = [](const std::string &name) {
    std::error_code none;
    return std::filesystem::exists(name, none);
  };
  constexpr int64_t kMostProcesses = 1 << 16;
  int64_t any = 0;
  while (any != kMostProcesses && !exists(nameOf(any)))
    ++any;
  // Where there is none, the file itself is what is missed.
  if (any == kMostProcesses)
    return RunProfile::read(path);
  OPTRT_ASSIGN_OR_RETURN(RunProfile profile, RunProfile::read(nameOf(any)));
  for (int64_t i = 0; i != profile.numProcesses; ++i) {
    const std::string name = nameOf(i);
    if (!exists(name))
      return invalidArgument(concat(
          "profile '", path, "' is of ", profile.numProcesses,
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

StatusOr<RunTimes> RunTimes::load(const std::string &path) {
  std::error_code none;
  OPTRT_ASSIGN_OR_RETURN(RunProfile profile, std::filesystem::exists(path, none)
                                                 ? RunProfile::read(path)
                                                 : readProcesses(path));
  return RunTimes(std::move(profile));
}

std::span<const size_t> RunTimes::lookup(const std::string &key) const {
  const auto found = byKey.find(key);
  return found == byKey.end() ? std::span<const size_t>() : found->second;
}

std::span<const size_t> RunTimes::find(const CommandKey &key) const {
  const std::string work =
      getWorkKey(key.kind, key.kernel, key.bytes, key.written);
  // A recomputed command does the same work as the forward's.
  for (const std::string &wanted :
       {key.function + "\n" + key.pathWithPhase + work,
        key.pathWithPhase + work, key.path + work, work})
    if (const auto places = lookup(wanted); !places.empty())
      return places;
  return {};
}

std::optional<double> RunTimes::getSeconds(const CommandKey &key) const {
  const std::span<const size_t> places = find(key);
  if (places.empty())
    return std::nullopt;
  double sum = 0;
  for (const size_t place : places)
    sum += profile.commands[place].seconds;
  return sum / double(places.size());
}

} // namespace optimus_prices
