//===- MeshOption.h - A mesh given on a command line -*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_OPTIMUS_TRANSFORMS_MESHOPTION_H
#define OPTIMUS_DIALECT_OPTIMUS_TRANSFORMS_MESHOPTION_H

#include "mlir/Support/LLVM.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace mlir::optimus {

/// The mesh a program is compiled for.
struct MeshOption {
  /// Names and sizes, slowest first.
  std::vector<std::pair<std::string, int64_t>> axes;

  /// Reads "row:2,col:2". Names are letters, digits and underscores and
  /// distinct, sizes positive, ranks no more than 65,536; an error quotes the
  /// part it stumbled over.
  static llvm::Expected<MeshOption> parse(StringRef text);
  std::string toString() const;
  int64_t getNumRanks() const;
};

} // namespace mlir::optimus

#endif // OPTIMUS_DIALECT_OPTIMUS_TRANSFORMS_MESHOPTION_H
