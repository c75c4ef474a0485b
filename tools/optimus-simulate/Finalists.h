//===- Finalists.h - Which layout is the fastest ----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_SIMULATE_FINALISTS_H
#define OPTIMUS_TOOLS_OPTIMUS_SIMULATE_FINALISTS_H

#include "Output.h"

#include <ostream>
#include <string>
#include <vector>

namespace optimus_simulate {

/// A layout that the compiler has weighed, as flags.
struct Layout {
  std::string flags;
  /// By the compiler's closed forms.
  double predictedMs = 0;
};

/// The best layouts by the compiler's report, at most so many, as flags: those
/// given with mesh, strategy and recomputation in place of what was to be
/// chosen. InvalidArgument where the flags leave nothing to be chosen.
optimus_support::StatusOr<std::vector<Layout>>
listLayouts(const std::string &flags, const std::string &reportJson,
            int64_t most);

/// A layout on a cluster's nodes.
struct Finalist {
  Layout layout;
  /// "row:2,col:4", the part of the mesh on a node; empty for consecutive
  /// ranks.
  std::string placement;
  Answer answer;
};

/// The fastest first.
void sortFinalists(std::vector<Finalist> &finalists);
void printFinalists(const std::vector<Finalist> &finalists, std::ostream &out);
/// Times are milliseconds.
nlohmann::ordered_json
describeFinalists(const std::vector<Finalist> &finalists);

} // namespace optimus_simulate

#endif // OPTIMUS_TOOLS_OPTIMUS_SIMULATE_FINALISTS_H
