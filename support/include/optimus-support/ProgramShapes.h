//===- ProgramShapes.h - What an action touches of its operands -*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_SUPPORT_PROGRAMSHAPES_H
#define OPTIMUS_SUPPORT_PROGRAMSHAPES_H

#include "optimus-support/Program.h"

#include <optional>
#include <vector>

namespace optimus_support::program {

/// How an action touches one of its operands. This is the one place that says
/// so: the compiler writes operands by it, check() holds them against it, and
/// a device may touch nothing else.
struct OperandShape {
  const char *name = "";
  Access access = Access::Read;
  enum Need : uint8_t { Required, Optional, Absent } need = Required;
  /// What is only moved may be anything; indices are i32.
  enum Elements : uint8_t { Floats, Indices, Any } elements = Floats;
  /// In elements. Of workspace, 0: any size.
  int64_t rows = 1, cols = 0, ld = 0;
};

/// The shapes of the operands of every action but launches, whose kernels take
/// any; nothing of an action whose sizes do not fit 64 bits, or are not
/// positive.
std::optional<std::vector<OperandShape>> shapesOf(const ActionUnion &action,
                                                  const Mesh &mesh);

/// An operand of this shape.
OperandT makeOperand(const OperandShape &shape, ElementType type,
                     uint32_t address);

} // namespace optimus_support::program

#endif // OPTIMUS_SUPPORT_PROGRAMSHAPES_H
