//===- KernelTraffic.cpp - What kernels move --------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Kernels/KernelTraffic.h"

#include "optimus/Dialect/Exec/IR/Exec.h"
#include "optimus/Dialect/Optimus/IR/ElementBytes.h"
#include "optimus/Kernels/Grouped.h"
#include "optimus/Kernels/KernelBuilder.h"
#include "optimus/Kernels/KernelFunctions.h"
#include "optimus/Kernels/RowGroups.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/OwningOpRef.h"

using namespace mlir;
using namespace mlir::optimus;

KernelTraffic &KernelTraffic::operator+=(const KernelTraffic &other) {
  least += other.least;
  if (touched && other.touched)
    *touched += *other.touched;
  else
    touched.reset();
  return *this;
}

KernelTraffic &KernelTraffic::operator*=(int64_t launches) {
  least *= launches;
  if (touched)
    *touched *= launches;
  return *this;
}

static void times(KernelBuilder &k, int64_t count, IndexFn body) {
  k.loop(k.index(0), k.index(count), 1, body);
}

namespace {
/// A held row: it is loaded once.
class CountedRow final : public HeldRow {
public:
  CountedRow(KernelBuilder &k, KernelBuffer buffer, int64_t cols)
      : k(k), cols(cols) {
    times(k, cols, [&](Value at) { buffer.load(at); });
  }

  Num maximum() override { return getNumber(); }
  Num sum(function_ref<Num(Num)> term) override { return term(getNumber()); }
  void forEach(function_ref<void(Value, Num)> body) override {
    times(k, cols, [&](Value at) { body(at, getNumber()); });
  }

private:
  Num getNumber() { return k.constant(0, k.f32()); }

  KernelBuilder &k;
  int64_t cols;
};

/// Writes a body whose loops count the repetitions of everything in them. It is
/// counted, and never run.
class CountingSchedule final : public KernelSchedule, RowGroups {
public:
  explicit CountingSchedule(const KernelSchedule &counted) : counted(counted) {}

  const RowGroups *getRowGroups() const override { return this; }
  KernelExtent getExtent(const IterationSpace &) const override {
    return {1, 1};
  }

  void forElements(KernelBuilder &k, int64_t rows, int64_t cols,
                   ElementsFn body) const override {
    times(k, rows * cols, [&](Value at) { body(at, at, k.f32()); });
  }
  void forRows(KernelBuilder &k, IndexFn body) const override {
    times(k, k.getSpace().rows, body);
  }
  void forColumns(KernelBuilder &k, int64_t cols, LanesFn body) const override {
    times(k, cols, [&](Value at) { body(at, k.f32()); });
  }
  void lanes(KernelBuilder &k, int64_t n, LanesFn body) const override {
    times(k, n, [&](Value at) { body(at, k.f32()); });
  }
  void lanes(KernelBuilder &k, Value, LanesFn body) const override {
    lanes(k, getLength(k), body);
  }
  void each(KernelBuilder &k, Value, Value, IndexFn body) const override {
    times(k, 1, body);
  }
  Terms sums(KernelBuilder &k, int64_t n, int64_t count, TermsFn terms,
             bool wide) const override {
    times(k, n, [&](Value at) { terms(at, k.f32()); });
    return Terms(count, k.constant(0, wide ? k.f64() : k.f32()));
  }
  Terms sums(KernelBuilder &k, Value, int64_t count,
             TermsFn terms) const override {
    return sums(k, getLength(k), count, terms, /*wide=*/false);
  }
  Num maximum(KernelBuilder &k, Value,
              function_ref<Num(Value, Type)> term) const override {
    times(k, getLength(k), [&](Value at) { term(at, k.f32()); });
    return k.constant(0, k.f32());
  }
  std::unique_ptr<HeldRow> holdRow(KernelBuilder &k, KernelBuffer buffer,
                                   Value begin, int64_t cols,
                                   Value n) const override {
    auto memory = cast<MemRefType>(buffer.getMemory().getType());
    if (cols * getElementBytes(memory) > counted.getMostHeld(k.getSpace()))
      return KernelSchedule::holdRow(k, buffer, begin, cols, n);
    return std::make_unique<CountedRow>(k, buffer, cols);
  }
  Terms columnSums(KernelBuilder &k, int64_t rows, int64_t count, Type type,
                   TermsFn terms) const override {
    times(k, rows, [&](Value at) { terms(at, type); });
    return Terms(count, k.constant(0, type));
  }

private:
  int64_t getTogether(int64_t) const override { return 1; }
  void forGroups(KernelBuilder &k, int64_t rows, int64_t together,
                 function_ref<void(const RowGroup &)> body) const override {
    times(k, llvm::divideCeil(rows, together), [&](Value number) {
      body({number, k.index(0), k.index(std::min(rows, together)), {}});
    });
  }
  /// A sum that goes on in the next turn is in a cache, or in registers.
  void forTurns(KernelBuilder &, const RowGroup &group, int64_t,
                function_ref<void(const RowGroup &)> body) const override {
    body(group);
  }
  void forRows(KernelBuilder &k, const RowGroup &group,
               IndexFn body) const override {
    k.loop(group.begin, group.end, 1, body);
  }
  void separate(KernelBuilder &) const override {}

  /// Of rows whose number of elements is known at run time only.
  static int64_t getLength(KernelBuilder &k) {
    return k.getDescription().getSpace().cols;
  }

  /// Of the target whose kernels are counted.
  const KernelSchedule &counted;
};
} // namespace

/// How often an operation is done. A loop without known bounds counts once; of
/// two branches the first does, and what only some do not at all.
static int64_t getTimes(Operation *op) {
  int64_t times = 1;
  for (auto branch = op->getParentOfType<scf::IfOp>(); branch;
       branch = branch->getParentOfType<scf::IfOp>())
    if (!branch.elseBlock() ||
        branch.getElseRegion().isAncestor(op->getParentRegion()))
      return 0;
  for (auto loop = op->getParentOfType<scf::ForOp>(); loop;
       loop = loop->getParentOfType<scf::ForOp>()) {
    std::optional<int64_t> from = getConstantIntValue(loop.getLowerBound()),
                           to = getConstantIntValue(loop.getUpperBound()),
                           step = getConstantIntValue(loop.getStep());
    if (from && to && step)
      times *= std::max<int64_t>(llvm::divideCeil(*to - *from, *step), 0);
  }
  return times;
}

static int64_t countTouched(func::FuncOp kernel) {
  int64_t bytes = 0;
  auto count = [&](Operation *op, Value memory) {
    while (auto part = memory.getDefiningOp<memref::ReinterpretCastOp>())
      memory = part.getSource();
    // Not what the threads share, and no tables.
    if (isa<BlockArgument>(memory))
      bytes +=
          getTimes(op) * getElementBytes(cast<MemRefType>(memory.getType()));
  };
  kernel.walk([&](Operation *op) {
    if (auto load = dyn_cast<memref::LoadOp>(op))
      count(op, load.getMemref());
    else if (auto store = dyn_cast<memref::StoreOp>(op))
      count(op, store.getMemref());
  });
  return bytes;
}

static int64_t countLeast(const KernelDescription &description) {
  int64_t bytes = 0;
  for (const KernelOperand &operand : description.getOperands()) {
    int64_t once =
        operand.extent * operand.elementType.getIntOrFloatBitWidth() / CHAR_BIT;
    bytes += operand.access == KernelAccess::Update ? 2 * once : once;
  }
  return bytes;
}

/// Of a kernel whose buffers have these element types.
static FailureOr<KernelTraffic> countTraffic(const Kernel &kernel,
                                             ArrayRef<Type> types,
                                             Location location,
                                             const KernelSchedule &schedule) {
  MLIRContext *context = location.getContext();
  KernelDescription description = kernel.describe(context);
  if (!types.empty() && failed(description.setElementTypes(types)))
    return failure();
  KernelTraffic traffic{countLeast(description), std::nullopt};
  if (description.getSpace().group > 0)
    return traffic;
  OwningOpRef<ModuleOp> scratch = ModuleOp::create(location);
  func::FuncOp function =
      KernelDeclarations(*scratch).declare(kernel, description);
  if (failed(buildKernel(function, CountingSchedule(schedule))))
    return failure();
  traffic.touched = countTouched(function);
  return traffic;
}

FailureOr<KernelTraffic>
mlir::optimus::countTraffic(func::FuncOp kernel,
                            const KernelSchedule &schedule) {
  auto parameters =
      kernel->getAttrOfType<DictionaryAttr>(exec::ExecDialect::kComputes);
  FailureOr<Kernel> read =
      Kernel::read(parameters, [&] { return kernel.emitOpError(); });
  if (failed(read))
    return failure();
  if (auto pieces = parameters.getAs<ArrayAttr>(kernels::Grouped::kPieces)) {
    KernelTraffic all;
    for (auto parameters : pieces.getAsRange<DictionaryAttr>()) {
      FailureOr<Kernel> piece =
          Kernel::read(parameters, [&] { return kernel.emitOpError(); });
      FailureOr<KernelTraffic> traffic = failure();
      if (succeeded(piece))
        traffic = ::countTraffic(*piece, {}, kernel.getLoc(), schedule);
      if (failed(traffic))
        return failure();
      all += *traffic;
    }
    // What all read is read once.
    all.least = countLeast(read->describe(kernel.getContext()));
    return all;
  }
  SmallVector<Type> types;
  for (Type type : kernel.getArgumentTypes())
    if (auto buffer = dyn_cast<MemRefType>(type))
      types.push_back(buffer.getElementType());
  return ::countTraffic(*read, types, kernel.getLoc(), schedule);
}
