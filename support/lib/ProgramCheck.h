//===- ProgramCheck.h - The parts of check() --------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_SUPPORT_LIB_PROGRAMCHECK_H
#define OPTIMUS_SUPPORT_LIB_PROGRAMCHECK_H

#include "optimus-support/ProgramRegions.h"

namespace optimus_support::program {

/// A mistake in a table.
inline Status wrong(const std::string &what) { return invalidArgument(what); }

/// Whether a number from bytes is one of an enumeration's, which end with
/// `last`.
template <typename Enum>
bool isKnown(Enum value, Enum last) {
  return uint8_t(value) <= uint8_t(last);
}

/// Where a command stands. Everything in it but commands has been checked.
struct CommandContext {
  const TargetT &target;
  const ProgramTableT &table;
  const FunctionT &function;
  const Mesh &mesh;
};

/// The number under which a later call waits for the command, or 0.
uint32_t carriedOf(const CommandT &command);

/// That axes are of the mesh, each once.
Status checkAxes(const std::vector<uint32_t> &axes, const Mesh &mesh);

/// Checks the signature of a kernel.
Status checkKernel(const KernelT &kernel);

/// A number of operations, of at most 1e30, as an integer.
std::string countText(double count);

/// Checks the numbers of operations of a launch.
Status checkWork(const LaunchT &launch);

/// Checks that a launch with fields in range fits its kernel.
Status checkLaunch(const CommandContext &context, const CommandT &command);
/// The same of a collective whose axes and operands were checked.
Status checkReduction(const CommandContext &context, const CommandT &command);
/// The same of a copy whose shapes were checked.
Status checkCopy(const CommandContext &context, const CommandT &command);
/// The same of a product.
Status checkBiasGrad(const CommandContext &context, const CommandT &command);

/// Whether a terminal shows a character as it is.
inline bool isPrintable(unsigned char c) { return c >= ' ' && c != 127; }

/// That a command's fields are in range, its operands are those of its action
/// and lie in their bases on every rank. Earlier commands have been checked.
Status checkCommand(const CommandContext &context, uint32_t number);

/// Checks that buffers alive at once are apart and, if the function lists any,
/// contain all accesses to arenas during their lives. All commands have been
/// checked, and each buffer by itself.
Status checkLifetimes(const TargetT &target, const ProgramTableT &table,
                      const FunctionT &function, const Mesh &mesh);

/// Checks that all ranks come to the end of every sequence, and meet in the
/// same collectives and messages; the same of each function of all tables,
/// called alone. All sequences have been checked.
Status checkMeetings(const TargetT &target, const Mesh &mesh);

/// Checks that each prepared buffer is filled by one function, from others, and
/// only read elsewhere. All functions have been checked.
Status checkPrepared(const ProgramTableT &table, const Mesh &mesh);

/// Checks that every wait for an earlier call has a call with its start.
Status checkCarried(const ProgramTableT &table);

/// Checks the loops of a sequence, and that it calls existing functions and
/// chooses existing buffers on every turn.
Status checkSteps(const SequenceT &sequence, const ProgramTableT &table);

/// The same, and that every rank waits for all its starts and nothing else: in
/// the sequence, or when it is run again. What is carried keeps its memory
/// until its wait. All functions have been checked.
Status checkSequence(const SequenceT &sequence, const TargetT &target,
                     const ProgramTableT &table, const Mesh &mesh);

/// "h.3.mlp.up (all_reduce, gpt2.py:151), command 12".
std::string nameWithNumber(const TargetT &target, const ProgramTableT &table,
                           const FunctionT &function, uint32_t command);

/// "all_reduce of 1x4096 f32": what all members must have alike.
std::string describeCollective(const TargetT &target, const CommandT &command);

} // namespace optimus_support::program

#endif // OPTIMUS_SUPPORT_LIB_PROGRAMCHECK_H
