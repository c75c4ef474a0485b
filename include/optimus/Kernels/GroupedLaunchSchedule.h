//===- GroupedLaunchSchedule.h - Several pieces in one launch ---*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_KERNELS_GROUPEDLAUNCHSCHEDULE_H
#define OPTIMUS_KERNELS_GROUPEDLAUNCHSCHEDULE_H

#include "optimus/Kernels/KernelSchedule.h"

namespace mlir::optimus {

/// An iteration of a grouped launch: the number of its piece, and of the
/// iteration in that piece.
struct GroupedIteration {
  Value number, iteration;
};

/// How a target schedules a launch of several pieces (kernels::Grouped). The
/// piece of an iteration, and so its buffers, is known at run time.
class GroupedLaunchSchedule {
public:
  virtual ~GroupedLaunchSchedule() = default;

  /// Whether kernels over such a space may be pieces.
  virtual bool takes(const IterationSpace &space) const = 0;
  /// The most buffers that a launch takes.
  virtual int64_t getMostBuffers() const = 0;

  /// Writes the loop over the iterations of all pieces.
  virtual void
  forGrouped(KernelBuilder &k,
             function_ref<void(const GroupedIteration &)> body) const = 0;
  /// Covers the elements of an iteration.
  virtual void forElements(KernelBuilder &k, const GroupedIteration &piece,
                           ElementsFn body) const = 0;
  /// The argument with this number among `arguments` of the function; these lie
  /// equally far apart among all of its arguments, and have one element type.
  virtual Value choose(KernelBuilder &k, ArrayRef<Value> arguments,
                       Value number) const = 0;
};

} // namespace mlir::optimus

#endif // OPTIMUS_KERNELS_GROUPEDLAUNCHSCHEDULE_H
