//===- ObjectCache.h - Machine code that is kept ----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Programs of a search share many of their kernels. A folder keeps the object
// file of each under a hash of all that it follows from: its source, the
// processor, and the compiler.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TARGET_CPU_OBJECTCACHE_H
#define OPTIMUS_TARGET_CPU_OBJECTCACHE_H

#include "optimus/Target/CPU/CodeGen.h"

namespace mlir::optimus {

class ObjectCache {
public:
  /// Of objects for `target`, in a folder, which is made; several processes may
  /// use one. InvalidArgument where it cannot be made.
  static optimus_support::StatusOr<ObjectCache> open(const std::string &folder,
                                                     const CpuTarget &target);

  /// The path of the object file of a source. Where none is kept `make` returns
  /// the path of one, of which a copy is kept; its errors are returned, and
  /// Unavailable where there is no room.
  optimus_support::StatusOr<std::string>
  get(StringRef source,
      llvm::function_ref<optimus_support::StatusOr<std::string>()> make) const;

private:
  std::string folder;
  std::string about; ///< the processor and the compiler
};

} // namespace mlir::optimus

#endif // OPTIMUS_TARGET_CPU_OBJECTCACHE_H
