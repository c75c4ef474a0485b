//===- SharedObject.h - What loading a shared object does -------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_MODEL_SHAREDOBJECT_H
#define OPTIMUS_RUNTIME_MODEL_SHAREDOBJECT_H

#include "optimus-runtime/Status.h"

namespace optrt {

class ElfFile;

/// Checks that dlopen of a file runs nothing: it loads the libraries named in
/// the file, and calls its functions before it returns. So the file must be for
/// this kind of processor and self-contained:
///
/// * it needs no other library (DT_NEEDED and the other tags that make the
///   loader open one),
/// * it has no function called by loading or unloading (DT_INIT,
///   DT_INIT_ARRAY, DT_PREINIT_ARRAY, their DT_FINI counterparts, and
///   resolvers of IFUNC symbols),
/// * every symbol of its relocations is its own,
/// * relocations write to its own writable segments, and no segment or stack is
///   made executable for them.
///
/// InvalidArgument names the file, what it has, and the remedy.
Status checkSharedObject(const ElfFile &elf);

} // namespace optrt

#endif // OPTIMUS_RUNTIME_MODEL_SHAREDOBJECT_H
