//===- ProgramAgreement.h - Tables against the manifest ---------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_MODEL_PROGRAMAGREEMENT_H
#define OPTIMUS_RUNTIME_MODEL_PROGRAMAGREEMENT_H

#include "optimus-runtime/Manifest.h"
#include "optimus-support/ProgramSequence.h"

namespace optrt {

using optimus_support::program::MemorySpace;

/// Where each buffer of a manifest lies by a table that agrees with it; in the
/// device's memory where no function is passed it.
std::vector<MemorySpace>
spacesOf(const Manifest &manifest,
         const optimus_support::program::ProgramTableT &table);

/// The buffers that a call of a function is passed, one an argument. Those that
/// it binds are the manifest's.
std::vector<int64_t>
buffersOf(const Manifest &manifest,
          const optimus_support::program::SequencedCall &call,
          const Function &function);

/// Puts the arguments of a manifest's functions in the order of the tables', by
/// the names of buffers. InvalidArgument where one names a buffer that the
/// other does not. Functions that tables lack are left as they are.
Status joinArguments(Manifest &manifest,
                     const optimus_support::program::TargetT &target);

/// Checks that tables, valid by themselves, go with a manifest: the same mesh
/// and functions, and of each the same arguments, of the same sizes, and the
/// same arena and number of commands; that all have a buffer in the same memory
/// space; and that sequences bind existing buffers. Then the runtime's
/// allocations, by the manifest, hold the commands' accesses, by the tables.
Status checkAgreement(const Manifest &manifest,
                      const optimus_support::program::ProgramsT &programs,
                      const optimus_support::program::TargetT &target);

} // namespace optrt

#endif // OPTIMUS_RUNTIME_MODEL_PROGRAMAGREEMENT_H
