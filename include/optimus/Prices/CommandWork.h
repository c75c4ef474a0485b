//===- CommandWork.h - What a command computes and touches ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_PRICES_COMMANDWORK_H
#define OPTIMUS_PRICES_COMMANDWORK_H

#include "optimus/Prices/Work.h"

#include "optimus-support/ElementType.h"

#include <limits>

namespace optimus_prices {

/// Operations of a kernel, over all of its iterations.
struct KernelWork {
  /// Elements of vectors that are computed, loaded or stored, two for each
  /// instruction, as for a multiplication and an addition in one.
  double vectorOps = 0;
  /// Elements of vectors: divisions and square roots.
  double divisions = 0;
  /// Floating-point operations on one element.
  double scalarOps = 0;

  KernelWork &operator+=(const KernelWork &other) {
    vectorOps += other.vectorOps;
    divisions += other.divisions;
    scalarOps += other.scalarOps;
    return *this;
  }
};

/// What follows a product in the same command.
enum class Epilogue {
  None,
  /// Which the product itself adds: C is not read again.
  Fused,
  /// A pass over C.
  Pass,
};

/// A command other than a collective or a wait.
struct CommandWork {
  Work work;
  /// Of products' and attention's factors.
  optimus_support::ElementType factors = optimus_support::ElementType::F32;
  Epilogue epilogue = Epilogue::None;
  /// A kernel of the program's own, what it computes beside attention, and into
  /// how many tasks its iterations can be divided.
  bool isKernel = false;
  KernelWork kernel;
  int64_t tasks = 1;
};

/// What a command touches by one of its operands.
struct Touch {
  /// Operands with the same number are one buffer, or the same part of one.
  uint64_t buffer = 0;
  bool reads = false, writes = false;
  /// Whether its elements are read along columns of a matrix: more than a
  /// vector apart, one after the other.
  bool byColumns = false;
  double bytes = 0;
  /// What was touched from the last use of the buffer to the end of this one: a
  /// cache that is as large still has it. Infinite where nobody is known to
  /// have used it before.
  double reuseBytes = std::numeric_limits<double>::infinity();
};

} // namespace optimus_prices

#endif // OPTIMUS_PRICES_COMMANDWORK_H
