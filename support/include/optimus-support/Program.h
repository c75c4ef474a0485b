//===- Program.h - Programs as tables of commands ---------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a library's ranks execute, as support/schema/program.fbs lays it out:
// written by the compiler, read by everything that runs, checks, prints or
// simulates programs. The structures are flatc's (CommandT, GemmT, ...); here is
// how they come from bytes and become bytes, and what makes them valid.
//
// A table that has passed check() can be resolved for any rank of its mesh
// without another look: indices are in range, operands lie in their arenas and
// arguments on every rank, shapes fit their operands, and commands that touch
// the same memory are ordered by queues and edges.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_SUPPORT_PROGRAM_H
#define OPTIMUS_SUPPORT_PROGRAM_H

#include "optimus-support/ElementType.h"
#include "optimus-support/Mesh.h"
#include "optimus-support/Status.h"
#include "optimus-support/program_generated.h"

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace optimus_support::program {

using optimus_support::ElementType;
using optimus_support::elementBytes;

/// An index that is absent.
inline constexpr uint32_t kNone = 0xffffffff;

/// Of program.fbs, as it was when this was built.
uint64_t schemaHash();

/// The bytes of `programs`; sets their schema's hash.
std::string pack(ProgramsT &programs);

enum class Checks {
  All,
  /// But not whether accesses to the same memory are in order, which costs most
  /// of a large program: of what nothing runs.
  ButOrder,
};

/// Reads and checks bytes that come from anywhere.
///
/// Errors: InvalidArgument with the command and its mistake, or for bytes
/// written by another version.
StatusOr<ProgramsT> unpack(std::span<const char> bytes,
                           Checks checks = Checks::All);

/// All that unpack() checks but the encoding. Costs about the number of
/// accesses.
Status check(const ProgramsT &programs, Checks checks = Checks::All);

/// From one lane's argument of so many bytes to the next one's.
int64_t laneStride(int64_t bytes);

/// The programs' mesh. Only of programs whose mesh was checked.
Mesh meshOf(const ProgramsT &programs);

/// The target called `name`, or null.
const TargetT *findTarget(const ProgramsT &programs, std::string_view name);
/// The table of a rank.
const ProgramTableT &tableOf(const TargetT &target, int64_t rank);
/// The function called `name`, or null.
const FunctionT *findFunction(const ProgramTableT &table,
                              std::string_view name);
/// The functions of all tables, each name once: of the first table that has it.
std::vector<const FunctionT *> functionsOf(const TargetT &target);

/// A text of a table as people may be shown it: in one line.
std::string printable(std::string text);
/// "gemm", "launch", ..., as in `inspect` and in errors.
std::string_view actionName(Action action);
/// "all_reduce", as machine profiles spell it, too.
std::string_view toString(CollectiveKind kind);
/// The number of the group of neighbours on a queue that start together, or 0.
uint32_t groupOf(const CommandT &command);
/// A kernel's name for a launch, a collective's kind, else actionName().
std::string describeAction(const TargetT &target, const CommandT &command);
/// What people know a command by: "h.3.mlp.c_fc (gemm, gpt2.py:151)"; without a path
/// "command 12 (gemm)".
std::string describe(const TargetT &target, const ProgramTableT &table,
                     const FunctionT &function, uint32_t command);

/// A collective that a function starts.
struct CollectiveStart {
  std::string
      name; ///< for people: "h.3.mlp.up (all_reduce, gpt2.py:151), command 12"
  /// The text that all members must have alike: "all_reduce of 1x4096 f32".
  std::string what;
};
/// By their mesh axes, in the order of their starts.
using CollectiveOrder =
    std::map<std::vector<uint32_t>, std::vector<CollectiveStart>>;
CollectiveOrder orderOfCollectives(const TargetT &target,
                                   const ProgramTableT &table,
                                   const FunctionT &function);

/// Two ranks of the same collectives, and the starts of each.
struct Starts {
  int64_t rank;
  std::span<const CollectiveStart> list;
};
/// An error message about the first collective with a difference between the
/// two; success where they are alike. `axes` are named.
Status compareStarts(const std::string &function, const std::string &axes,
                     const Starts &one, const Starts &other);
/// "row", "row+col".
std::string axesName(const Mesh &mesh, std::span<const uint32_t> axes);

/// Functions, and how often each is called in a row; 0 for as often as the
/// caller says.
using Calls = std::vector<std::pair<std::string, uint32_t>>;
/// Adds a sequence of calls.
SequenceT &addSequence(ProgramTableT &table, std::string name,
                       const Calls &calls);
/// The sequence called `name`, or null.
const SequenceT *findSequence(const ProgramTableT &table,
                              std::string_view name);

/// Arithmetic that a call of the command takes; 0 for commands that only move
/// data, and for kernels, with work unknown to the table.
double countFlops(const CommandT &command);
/// Bytes of the regions that a command reads and writes.
int64_t countBytes(const CommandT &command);

} // namespace optimus_support::program

#endif // OPTIMUS_SUPPORT_PROGRAM_H
