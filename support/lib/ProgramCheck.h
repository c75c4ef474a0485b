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

/// Whether a number that came from bytes is one of an enumeration's, which end
/// with `last`.
template <typename Enum> bool isKnown(Enum value, Enum last) {
  return uint8_t(value) <= uint8_t(last);
}

/// Where a command stands. Everything in it but commands has been checked.
struct CommandContext {
  const TargetT &target;
  const ProgramTableT &table;
  const FunctionT &function;
  const Mesh &mesh;
};

/// The number under which a later call waits for what a command starts, or 0.
uint32_t carriedOf(const CommandT &command);

/// That axes are of the mesh, each once.
Status checkAxes(const std::vector<uint32_t> &axes, const Mesh &mesh);

/// That what is said of a kernel makes sense.
Status checkKernel(const KernelT &kernel);

/// That a launch, whose fields are in range, fits its kernel.
Status checkLaunch(const CommandContext &context, const CommandT &command);
/// The same of a collective whose axes and operands were checked.
Status checkReduction(const CommandContext &context, const CommandT &command);

/// That a command's fields are in range, its operands are those of its action
/// and lie in their bases on every rank. Earlier commands have been checked.
Status checkCommand(const CommandContext &context, uint32_t number);

/// That every two commands which touch the same memory, one of them writing,
/// are ordered by queues, edges and waits, and that waits and groups are whole.
/// All commands have been checked.
Status checkOrder(const TargetT &target, const ProgramTableT &table,
                  const FunctionT &function, const Mesh &mesh);

/// That buffers which are alive at once are apart, and that what commands touch
/// of arenas lies in buffers that are alive then, where the function lists any.
/// All commands have been checked, and each buffer by itself.
Status checkLifetimes(const TargetT &target, const ProgramTableT &table,
                      const FunctionT &function, const Mesh &mesh);

/// That ranks which exchange tensors start the same collectives in the same
/// order, where they have different tables. All functions have been checked.
Status checkCollectives(const TargetT &target, const Mesh &mesh);

/// That what one rank sends in a function the other receives. Functions have
/// been checked.
Status checkMessages(const TargetT &target, const std::string &function,
                     const Mesh &mesh);

/// That what calls wait for some call starts.
Status checkCarried(const ProgramTableT &table);

/// That a sequence calls functions that there are, in which every rank waits
/// for what it has started, and for nothing else. All functions have been
/// checked.
Status checkSequence(const SequenceT &sequence, const TargetT &target);

} // namespace optimus_support::program

#endif // OPTIMUS_SUPPORT_LIB_PROGRAMCHECK_H
