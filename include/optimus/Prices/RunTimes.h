//===- RunTimes.h - What commands took when they ran ------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Commands of a program and those of a run of it, or of the same model compiled
// otherwise, found by what they do and where in the model they come from.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_PRICES_RUNTIMES_H
#define OPTIMUS_PRICES_RUNTIMES_H

#include "optimus/Prices/RunProfile.h"

#include "optimus-support/Program.h"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace optimus_prices {

/// What is known of a command before it ran, by the names of profiles.
struct CommandKey {
  std::string function;
  /// Without its phase, and with it where that is not the forward.
  std::string path, pathWithPhase;
  std::string kind, kernel;
  /// As MeasuredCommand.
  int64_t bytes = 0, written = 0;
};

/// Of a command of a checked table.
CommandKey getKey(const optimus_support::program::TargetT &target,
                  const optimus_support::program::ProgramTableT &table,
                  const optimus_support::program::FunctionT &function,
                  const optimus_support::program::CommandT &command);

/// The collective of a name, "all_reduce", if it is one's.
std::optional<optimus_support::program::CollectiveKind>
findCollective(std::string_view kind);

class RunTimes {
public:
  explicit RunTimes(RunProfile profile);

  /// Reads FILE or, of several processes, FILE.0, FILE.1 and so on. The message
  /// names the file.
  static optimus_support::StatusOr<RunTimes> load(const std::string &path);

  /// The places of commands in the profile, waits excepted: those of the same
  /// function, path and work; else of the same path and work, as for what is
  /// recomputed now and was not then; else of the same work. Nothing where none
  /// was measured.
  std::span<const size_t> find(const CommandKey &key) const;
  /// The mean of these.
  std::optional<double> getSeconds(const CommandKey &key) const;

  const RunProfile &getProfile() const { return profile; }

private:
  std::span<const size_t> lookup(const std::string &key) const;

  RunProfile profile;
  std::unordered_map<std::string, std::vector<size_t>> byKey;
};

} // namespace optimus_prices

#endif // OPTIMUS_PRICES_RUNTIMES_H
