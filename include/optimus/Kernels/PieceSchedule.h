//===- PieceSchedule.h - Several pieces in one launch -----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_KERNELS_PIECESCHEDULE_H
#define OPTIMUS_KERNELS_PIECESCHEDULE_H

#include "optimus/Kernels/KernelSchedule.h"

namespace mlir::optimus {

/// What an iteration of a launch is of: the number of a piece, and of the
/// iteration in it.
struct Piece {
  Value number, iteration;
};

/// How a target does several pieces in one launch. Which piece an iteration is
/// of, and so which buffers, is known at run time.
class PieceSchedule {
public:
  virtual ~PieceSchedule() = default;

  /// Whether kernels over such a space may be pieces.
  virtual bool takes(const IterationSpace &space) const = 0;
  /// The most buffers that a launch takes.
  virtual int64_t getMostBuffers() const = 0;

  /// Writes the loop over the iterations of all pieces.
  virtual void forPieces(KernelBuilder &k,
                         function_ref<void(const Piece &)> body) const = 0;
  /// Covers the elements of an iteration.
  virtual void forElements(KernelBuilder &k, const Piece &piece,
                           ElementsFn body) const = 0;
  /// That of these arguments of the function which has this number; they lie
  /// equally far apart among all, and have one element type.
  virtual Value choose(KernelBuilder &k, ArrayRef<Value> arguments,
                       Value number) const = 0;
};

} // namespace mlir::optimus

#endif // OPTIMUS_KERNELS_PIECESCHEDULE_H
