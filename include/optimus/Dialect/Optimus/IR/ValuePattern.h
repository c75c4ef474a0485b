//===- ValuePattern.h - Values named by patterns of ids ---------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_OPTIMUS_IR_VALUEPATTERN_H
#define OPTIMUS_DIALECT_OPTIMUS_IR_VALUEPATTERN_H

#include "mlir/Support/LLVM.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/GlobPattern.h"

#include <string>

namespace mlir::optimus {

/// The id of a value (docs/provenance.md), in which * stands for any part of
/// it, as `h.*.mlp.gelu:0`.
class ValuePattern {
public:
  /// `text` must live as long as the pattern. An error says what was expected
  /// and found.
  static llvm::Expected<ValuePattern> create(StringRef text);

  StringRef getText() const { return text; }
  bool matches(StringRef id) const { return glob.match(id); }

private:
  ValuePattern(StringRef text, llvm::GlobPattern glob)
      : text(text), glob(std::move(glob)) {}

  StringRef text;
  llvm::GlobPattern glob;
};

/// The id of a value whose first number may be any, as the number of a layer.
std::string getPattern(StringRef id);

} // namespace mlir::optimus

#endif // OPTIMUS_DIALECT_OPTIMUS_IR_VALUEPATTERN_H
