//===- KernelSchedule.h - How a target divides kernels ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The bodies of kernels are written once, over a KernelBuilder. What differs by
// target is here: the elements of an iteration, the vectors or threads of a
// row, and the order of sums. Each function writes code at the builder's place
// and calls `body` for what is computed there, with the offset of its first
// element and a type, f32 or a vector of it.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_KERNELS_KERNELSCHEDULE_H
#define OPTIMUS_KERNELS_KERNELSCHEDULE_H

#include "optimus/Kernels/Kernel.h"
#include "optimus/Kernels/Num.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <memory>

namespace mlir::optimus {

class GroupedLaunchSchedule;
class KernelBuffer;
class RowGroups;

namespace kernels {
struct AttentionExtents;
enum class AttentionPart;
} // namespace kernels

using Terms = SmallVector<Num, 2>;
using IndexFn = function_ref<void(Value)>;
using LanesFn = function_ref<void(Value, Type)>;
using TermsFn = function_ref<Terms(Value, Type)>;
/// Of an element, and of its column.
using ElementsFn = function_ref<void(Value, Value, Type)>;

/// How a kernel is divided into iterations.
struct KernelExtent {
  int64_t extent; ///< iterations [0, extent)
  int64_t grain;  ///< least number of iterations worth a task
};

/// A row of numbers that the lanes of an iteration go through several times.
/// Columns from some number on stand for nothing, and are −∞.
class HeldRow {
public:
  virtual ~HeldRow() = default;

  /// The lowest finite float if there is no number.
  virtual Num maximum() = 0;
  /// Of a term for each number; that of −∞ is 0.
  virtual Num sum(function_ref<Num(Num)> term) = 0;
  /// Calls `body(column, numbers)` for all columns, in any order.
  virtual void forEach(function_ref<void(Value, Num)> body) = 0;
};

class KernelSchedule {
public:
  virtual ~KernelSchedule() = default;

  virtual KernelExtent getExtent(const IterationSpace &space) const = 0;
  /// What bodies take tensors to begin at multiples of, in bytes.
  virtual int64_t getTensorAlignment() const { return 1; }

  // -- Iteration spaces: write the loop over [begin, end) ---------------------

  virtual void forElements(KernelBuilder &k, int64_t rows, int64_t cols,
                           ElementsFn body) const = 0;
  /// Rows and items.
  virtual void forRows(KernelBuilder &k, IndexFn body) const = 0;
  virtual void forColumns(KernelBuilder &k, int64_t cols,
                          LanesFn body) const = 0;

  // -- Within the iteration of a row ------------------------------------------

  /// Covers [0, n), in any order, n known now or at run time.
  virtual void lanes(KernelBuilder &k, int64_t n, LanesFn body) const = 0;
  virtual void lanes(KernelBuilder &k, Value n, LanesFn body) const = 0;
  /// Covers [from, to) one by one, in any order: for few elements.
  virtual void each(KernelBuilder &k, Value from, Value to,
                    IndexFn body) const = 0;
  /// Sums of `count` terms over [0, n), in f64 if `wide`.
  virtual Terms sums(KernelBuilder &k, int64_t n, int64_t count, TermsFn terms,
                     bool wide) const = 0;
  virtual Terms sums(KernelBuilder &k, Value n, int64_t count,
                     TermsFn terms) const = 0;
  /// The maximum over [0, n), the lowest finite float if there is none.
  virtual Num maximum(KernelBuilder &k, Value n,
                      function_ref<Num(Value, Type)> term) const = 0;
  /// A row of `cols` columns from an element of a buffer on, of which [0, n)
  /// are numbers. What is held is loaded once; else each pass loads the row.
  virtual std::unique_ptr<HeldRow> holdRow(KernelBuilder &k,
                                           KernelBuffer buffer, Value begin,
                                           int64_t cols, Value n) const;
  /// The bytes of a row that the lanes of such an iteration hold at most.
  virtual int64_t getMostHeld(const IterationSpace &space) const { return 0; }
  /// Calls `body` where one lane of an iteration is to do something for all.
  virtual void once(KernelBuilder &k, function_ref<void()> body) const {
    body();
  }
  /// What lanes of an iteration read and wrote before is done when any goes on.
  virtual void separate(KernelBuilder &k) const {}
  /// Room for so many f32 that the lanes of an iteration share.
  virtual Value allocateShared(KernelBuilder &k, int64_t extent) const;

  // -- Numbers ----------------------------------------------------------------

  /// e^(x - most) for x <= most, to 1e-6 of its value and the roundings of both
  /// to f32; 0 of −∞ and far below 1e-30. For what is rounded to narrow
  /// elements.
  virtual Num roughExp(KernelBuilder &k, Num x, Num most) const;
  /// e^x and a/c, c of at least 1, where all results of a kernel are narrow: as
  /// k.exp and operator/, or to 1e-6 and the rounding of x to f32. e^x stays
  /// finite.
  virtual Num narrowExp(KernelBuilder &k, Num x) const;
  virtual Num narrowQuotient(KernelBuilder &k, Num a, Num c) const;

  // -- Within the iteration of columns ----------------------------------------

  /// `count` sums over rows [0, rows) of `terms(row, type)`, where `type` is
  /// that of a piece of a row.
  virtual Terms columnSums(KernelBuilder &k, int64_t rows, int64_t count,
                           Type type, TermsFn terms) const = 0;

  // -- Whole bodies -----------------------------------------------------------

  /// Writes a kernel of attention, if the target has a form of its own for the
  /// groups of its rows; returns whether it does.
  virtual bool writeAttention(KernelBuilder &k,
                              const kernels::AttentionExtents &extents,
                              kernels::AttentionPart part) const {
    return false;
  }

  /// Whether kernels that pass rows on are worth a launch together: whether
  /// such a row is in a cache then.
  virtual bool takesChains(const IterationSpace &space) const { return false; }

  /// How rows are summed in columns as soon as a few are made; null where a
  /// target does not.
  virtual const RowGroups *getRowGroups() const { return nullptr; }

  /// How a launch does several pieces; null where a target launches each.
  virtual const GroupedLaunchSchedule *getGroupedLaunches() const {
    return nullptr;
  }
};

} // namespace mlir::optimus

#endif // OPTIMUS_KERNELS_KERNELSCHEDULE_H
