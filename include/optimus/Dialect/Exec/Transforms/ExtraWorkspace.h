//===- ExtraWorkspace.h - What a schedule may add to the peak ---*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_EXEC_TRANSFORMS_EXTRAWORKSPACE_H
#define OPTIMUS_DIALECT_EXEC_TRANSFORMS_EXTRAWORKSPACE_H

#include "mlir/Support/LLVM.h"
#include "llvm/Support/Error.h"

#include <algorithm>
#include <cstdint>
#include <optional>

namespace mlir::exec {

/// Reads a number of bytes, as `1048576`, `1024KiB`, `1MiB` or `2GiB`, up to
/// 2^50; nothing if the text is none.
std::optional<int64_t> parseBytes(StringRef text);

/// How many bytes a schedule may have alive beyond the most that are alive
/// without it.
class ExtraWorkspace {
public:
  /// Reads `10%`, of the peak, or bytes, as `1048576`, `1024KiB`, `1MiB`.
  static llvm::Expected<ExtraWorkspace> parse(StringRef text);

  /// With `peak` bytes alive at most.
  int64_t getBytes(int64_t peak) const {
    return bytes + static_cast<int64_t>(std::min(
                       percent / 100 * static_cast<double>(peak), kMost));
  }

private:
  /// More than any program has: as a number, 2^60.
  static constexpr double kMost = 0x1p60;

  int64_t bytes = 0;
  double percent = 0;
};

} // namespace mlir::exec

#endif // OPTIMUS_DIALECT_EXEC_TRANSFORMS_EXTRAWORKSPACE_H
