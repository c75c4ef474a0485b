//===- NcclLibrary.h - NCCL, opened on demand -------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CCL_NCCL_NCCLLIBRARY_H
#define OPTIMUS_RUNTIME_CCL_NCCL_NCCLLIBRARY_H

#include "NcclApi.h"

#include "optimus-runtime/Status.h"

namespace optrt::nccl {

/// NCCL: libnccl.so.2, or the file in $OPTIMUS_NCCL_LIBRARY.
class NcclLibrary {
public:
  /// Opened once for a process. Unavailable, with what to do, where it is not
  /// there or too old.
  static StatusOr<const NcclLibrary *> open();

  const NcclApi &api() const { return functions; }

  /// Fine for success; else NCCL's message about a failed call for a
  /// communicator, which may be null: Internal where we called it wrongly, and
  /// Unavailable else.
  Status check(Result result, const char *call, Comm comm) const;

private:
  Status load();

  NcclApi functions = {};
};

} // namespace optrt::nccl

#endif // OPTIMUS_RUNTIME_CCL_NCCL_NCCLLIBRARY_H
