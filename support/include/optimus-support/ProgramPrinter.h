//===- ProgramPrinter.h - Tables of commands as text ------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_SUPPORT_PROGRAMPRINTER_H
#define OPTIMUS_SUPPORT_PROGRAMPRINTER_H

#include "optimus-support/Program.h"

#include <optional>
#include <string>

namespace optimus_support::program {

struct PrintOptions {
  /// With it, addresses and numbers are those of this rank.
  std::optional<int64_t> rank;
};

/// A function's commands, one a line: number, queue, what it comes after, the action
/// with its shape, operands, flops and bytes, path and source. Programs have
/// been checked.
std::string print(const ProgramsT &programs, const TargetT &target,
                  const ProgramTableT &table, const FunctionT &function,
                  const PrintOptions &options = {});

/// "sequence train_microbatches: accumulate x N, update", a line; N is said by
/// who runs it. "(forward arg3=[slot0, slot1][i0], backward) x 2": a loop over
/// several calls, with an argument chosen by the loop's counter.
std::string print(const SequenceT &sequence);

} // namespace optimus_support::program

#endif // OPTIMUS_SUPPORT_PROGRAMPRINTER_H
