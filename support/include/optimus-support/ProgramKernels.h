//===- ProgramKernels.h - What kernels take ---------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A table names kernels, which are code, and says what each takes. A launch must
// fit what the table says, and that must be what the code was written for: the
// library has a hash of it beside the code. So nothing in a table lets a kernel
// touch what its launch does not say.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_SUPPORT_PROGRAMKERNELS_H
#define OPTIMUS_SUPPORT_PROGRAMKERNELS_H

#include "optimus-support/Program.h"

namespace optimus_support::program {

/// Says of each kernel of which nothing is said what it takes: what its launches
/// have in common. To be asked of tables whose writer knows that each launch is
/// right, before anybody changes them.
void describeKernels(TargetT &target, const Mesh &mesh);

/// What a library says of the code that was written for such launches.
uint64_t signatureHash(const KernelT &kernel);

/// "embed(6 i32 read, 24 f32 update; f32, i64 0 to 5) of 6 iterations".
std::string describe(const KernelT &kernel);

} // namespace optimus_support::program

#endif // OPTIMUS_SUPPORT_PROGRAMKERNELS_H
