//===- ProgramRows.h - Programs as rows of a profile ------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_PROFILE_PROGRAMROWS_H
#define OPTIMUS_RUNTIME_PROFILE_PROGRAMROWS_H

#include "Database.h"
#include "Profiled.h"

#include <map>
#include <utility>
#include <vector>

namespace optrt {

/// What a profile says of programs, before anything has run: functions, queues,
/// commands, blocks and accesses.
class ProgramRows {
public:
  /// Writes them for the ranks of the file.
  Status write(Database &database, const Profiled &profiled);

  /// The number of the function that a rank runs in a call.
  int64_t functionOf(int rank, std::size_t call) const {
    return functions.at({rank, call}).number;
  }
  /// The block of a buffer of that function.
  int64_t blockOf(int rank, std::size_t call, uint32_t buffer) const {
    return functions.at({rank, call}).firstBlock + buffer;
  }

private:
  struct Function {
    int64_t number, firstBlock;
  };
  /// By rank and call.
  std::map<std::pair<int, std::size_t>, Function> functions;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_PROFILE_PROGRAMROWS_H
