//===- ProgramKernels.h - What kernels take ---------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A table names kernels, which are code, and has the signature of each. A
// launch must fit the signature in the table, and the signature must be the one
// the code was written for: the library has a hash of it beside the code. So
// nothing in a table lets a kernel touch what its launch does not say.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_SUPPORT_PROGRAMKERNELS_H
#define OPTIMUS_SUPPORT_PROGRAMKERNELS_H

#include "optimus-support/Program.h"

namespace optimus_support::program {

/// Derives the signature of each kernel without one: what its launches have in
/// common. For tables whose writer knows each launch to be right, before any
/// change to them.
void describeKernels(TargetT &target, const Mesh &mesh);

/// The hash in a library for code written for such launches.
uint64_t signatureHash(const KernelT &kernel);

/// "embed(6 i32 read, 24 f32 update; f32, i64 0 to 5) of 6 iterations".
std::string describe(const KernelT &kernel);

} // namespace optimus_support::program

#endif // OPTIMUS_SUPPORT_PROGRAMKERNELS_H
