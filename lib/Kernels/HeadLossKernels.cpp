//===- HeadLossKernels.cpp - Softmax and loss of a chunk of logits --------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Kernels/HeadLossKernels.h"

#include "TableEntry.h"

#include <limits>

using namespace mlir;
using namespace mlir::optimus;
using namespace mlir::optimus::kernels;

static Num rowMaximum(KernelBuilder &k, Value base, Value real) {
  KernelBuffer logits = k["logits"];
  return k.maximum(real, [&](Value at, Type type) {
    return logits.load(k.addIndex(base, at), type);
  });
}

/// The body of ExpSum for one row of logits.
static void expRow(KernelBuilder &k, Value row, int64_t cols, Num max,
                   Value first, Value real) {
  KernelBuffer logits = k["logits"], sums = k["sums"];
  Value base = k.mulIndex(row, k.index(cols));
  Value out = k.mulIndex(row, k.index(2));
  Value outTarget = k.addIndex(out, k.index(1));
  k.once([&] {
    sums.store(k.constant(0, k.f32()), outTarget);
    whenInTable(k, k["targets"], row, first, cols, [&](Value column) {
      k.when(k.less(column, real), [&] {
        Num logit = logits.load(k.addIndex(base, column));
        sums.store(logit - max, outTarget);
      });
    });
  });
  // Only now is the row overwritten.
  k.separate();
  Num total = k.sums(real, 1, [&](Value at, Type type) {
    Value element = k.addIndex(base, at);
    Num e = k.exp(logits.load(element, type) - max);
    logits.store(e, element);
    return Terms{e};
  })[0];
  sums.storeOnce(total, out);
  k.each(real, k.index(cols), [&](Value at) {
    logits.store(k.constant(0, k.f32()), k.addIndex(base, at));
  });
}

static Value isNotNegative(KernelBuilder &k, Value integers) {
  ImplicitLocOpBuilder &b = k.getBuilder();
  Value zero = arith::ConstantOp::create(b, b.getI32IntegerAttr(0));
  return arith::CmpIOp::create(b, arith::CmpIPredicate::sge, integers,
                               k.splat(zero, integers.getType()));
}

/// Whether the target of a row is real.
static Value isReal(KernelBuilder &k, KernelBuffer targets, Value row) {
  return isNotNegative(k, targets.loadElement(row));
}

/// The body of LogitsGrad for one row of exponentials.
static void gradRow(KernelBuilder &k, Value row, int64_t cols, Value first) {
  KernelBuffer logits = k["logits"], targets = k["targets"];
  Value base = k.mulIndex(row, k.index(cols));
  k.when(
      isReal(k, targets, row),
      [&] {
        Num inverse = 1.0 / k["sums"].load(k.mulIndex(row, k.index(2)));
        k.lanes(cols, [&](Value at, Type type) {
          Value element = k.addIndex(base, at);
          logits.store(logits.load(element, type) * inverse, element);
        });
        k.separate();
        k.once([&] {
          whenInTable(k, targets, row, first, cols, [&](Value column) {
            Value element = k.addIndex(base, column);
            logits.store(logits.load(element) - 1.0, element);
          });
        });
      },
      [&] {
        k.lanes(cols, [&](Value at, Type type) {
          logits.store(k.constant(0, type), k.addIndex(base, at));
        });
      });
}

/// The rows of logits of a kernel, which stay as they are or are replaced.
static KernelDescription &describeLogits(KernelDescription &description,
                                         int64_t rows, int64_t cols,
                                         bool areReplaced) {
  description.size(rows, cols);
  description.overRows(rows, cols);
  return areReplaced ? description.update("logits", rows * cols)
                     : description.read("logits", rows * cols);
}

/// What sums of rows are made by, and where they go.
static void describeSums(KernelDescription &description, int64_t rows) {
  description.read("targets", rows, description.i32())
      .write("sums", rows * 2)
      .scalar("first")
      .scalar("real");
}

void RowMax::describe(KernelDescription &description) const {
  describeLogits(description, rows, cols, /*areReplaced=*/false)
      .write("max", rows)
      .scalar("real");
}

void RowMax::build(KernelBuilder &k) const {
  Value real = k.getIndex("real");
  k.forRows([&](Value row) {
    Num max = rowMaximum(k, k.mulIndex(row, k.index(cols)), real);
    k["max"].storeOnce(max, row);
  });
}

void PadLogits::describe(KernelDescription &description) const {
  describeLogits(description, rows, cols, /*areReplaced=*/true).scalar("real");
}

void PadLogits::build(KernelBuilder &k) const {
  Value real = k.getIndex("real");
  KernelBuffer logits = k["logits"];
  k.forRows([&](Value row) {
    Value base = k.mulIndex(row, k.index(cols));
    k.each(real, k.index(cols), [&](Value at) {
      logits.store(
          k.constant(-std::numeric_limits<double>::infinity(), k.f32()),
          k.addIndex(base, at));
    });
  });
}

void ExpSum::describe(KernelDescription &description) const {
  describeLogits(description, rows, cols, /*areReplaced=*/true)
      .read("max", rows);
  describeSums(description, rows);
}

void ExpSum::build(KernelBuilder &k) const {
  Value first = k.getIndex("first"), real = k.getIndex("real");
  k.forRows([&](Value row) {
    expRow(k, row, cols, k["max"].load(row), first, real);
  });
}

void SoftmaxSums::describe(KernelDescription &description) const {
  description.option("grad", grad);
  describeLogits(description, rows, cols, /*areReplaced=*/true);
  describeSums(description, rows);
}

void SoftmaxSums::build(KernelBuilder &k) const {
  Value first = k.getIndex("first"), real = k.getIndex("real");
  k.forRows([&](Value row) {
    Num max = rowMaximum(k, k.mulIndex(row, k.index(cols)), real);
    expRow(k, row, cols, max, first, real);
    if (!grad)
      return;
    k.separate();
    gradRow(k, row, cols, first);
  });
}

//===----------------------------------------------------------------------===//
// Logits that stay
//===----------------------------------------------------------------------===//

namespace {
/// One row of logits, of which nothing but the gradient is stored.
class LogitRow {
public:
  LogitRow(KernelBuilder &k, Value row, int64_t cols)
      : k(k), row(row), base(k.mulIndex(row, k.index(cols))), cols(cols),
        first(k.getIndex("first")), real(k.getIndex("real")),
        held(k.holdRow(k["logits"], base, cols, real)) {}

  Num maximum() { return held->maximum(); }

  /// Returns the total, which it stores with the target's difference.
  Num storeSums(Num max) {
    KernelBuffer sums = k["sums"];
    Value out = k.mulIndex(row, k.index(2));
    Value outTarget = k.addIndex(out, k.index(1));
    k.once([&] {
      sums.store(k.constant(0, k.f32()), outTarget);
      whenTargetIsHere([&](Value element) {
        sums.store(k["logits"].load(element) - max, outTarget);
      });
    });
    Num total = held->sum([&](Num x) { return k.roughExp(x, max); });
    sums.storeOnce(total, out);
    return total;
  }

  /// `difference` is the target's in sums.
  void storeGrad(Num max, Num total, function_ref<Num()> difference) {
    KernelBuffer logits = k["logits"];
    // All have read the row, and the target's logit.
    k.separate();
    k.when(
        isReal(k, k["targets"], row),
        [&] {
          Num inverse = 1.0 / total;
          held->forEach([&](Value at, Num x) {
            logits.store(k.roughExp(x, max) * inverse, k.addIndex(base, at));
          });
          k.separate();
          k.once([&] {
            whenTargetIsHere([&](Value element) {
              Num zero = k.constant(0, k.f32());
              logits.store(k.roughExp(difference(), zero) * inverse - 1.0,
                           element);
            });
          });
        },
        [&] {
          held->forEach([&](Value at, Num x) {
            logits.store(k.constant(0, x.getType()), k.addIndex(base, at));
          });
        });
  }

private:
  void whenTargetIsHere(function_ref<void(Value)> body) {
    whenInTable(k, k["targets"], row, first, cols, [&](Value column) {
      k.when(k.less(column, real), [&] { body(k.addIndex(base, column)); });
    });
  }

  KernelBuilder &k;
  Value row, base;
  int64_t cols;
  Value first, real;
  std::unique_ptr<HeldRow> held;
};
} // namespace

void LogitSums::describe(KernelDescription &description) const {
  description.option("grad", grad);
  describeLogits(description, rows, cols, /*areReplaced=*/grad);
  describeSums(description, rows);
}

void LogitSums::build(KernelBuilder &k) const {
  k.forRows([&](Value row) {
    LogitRow logits(k, row, cols);
    Num max = logits.maximum();
    Num total = logits.storeSums(max);
    if (!grad)
      return;
    // Whoever stored it loads it.
    Value target = k.addIndex(k.mulIndex(row, k.index(2)), k.index(1));
    logits.storeGrad(max, total, [&] { return k["sums"].load(target); });
  });
}

void PartialLogitSums::describe(KernelDescription &description) const {
  describeLogits(description, rows, cols, /*areReplaced=*/false)
      .read("max", rows);
  describeSums(description, rows);
}

void PartialLogitSums::build(KernelBuilder &k) const {
  k.forRows(
      [&](Value row) { LogitRow(k, row, cols).storeSums(k["max"].load(row)); });
}

void PartialLogitsGrad::describe(KernelDescription &description) const {
  describeLogits(description, rows, cols, /*areReplaced=*/true)
      .read("max", rows)
      .read("sums", rows * 2)
      .read("targets", rows, description.i32())
      .scalar("first")
      .scalar("real");
}

void PartialLogitsGrad::build(KernelBuilder &k) const {
  k.forRows([&](Value row) {
    KernelBuffer sums = k["sums"];
    Value at = k.mulIndex(row, k.index(2));
    LogitRow(k, row, cols).storeGrad(k["max"].load(row), sums.load(at), [&] {
      return sums.load(k.addIndex(at, k.index(1)));
    });
  });
}

void TokenLoss::describe(KernelDescription &description) const {
  description.size(rows);
  description.overItems(rows, /*work=*/32);
  description.read("sums", rows * 2)
      .read("targets", rows, description.i32())
      .write("losses", rows);
}

void TokenLoss::build(KernelBuilder &k) const {
  KernelBuffer sums = k["sums"];
  k.forItems([&](Value row) {
    Value at = k.mulIndex(row, k.index(2));
    Num total = k.widen(sums.load(at));
    Num target = k.widen(sums.load(k.addIndex(at, k.index(1))));
    Num loss = k.narrow(k.log(total) - target);
    k["losses"].store(
        k.select(isReal(k, k["targets"], row), loss, k.constant(0, k.f32())),
        row);
  });
}

void Best::describe(KernelDescription &description) const {
  describeLogits(description, rows, cols, /*areReplaced=*/false)
      .write("result", rows * 2 * count);
  description.size(count);
}

void Best::build(KernelBuilder &k) const {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  ImplicitLocOpBuilder &b = k.getBuilder();
  KernelBuffer logits = k["logits"], result = k["result"];
  auto is = [&](arith::CmpFPredicate how, Num x, Num y) -> Value {
    return arith::CmpFOp::create(b, how, x.value, y.value);
  };
  k.forRows([&](Value row) {
    Value base = k.mulIndex(row, k.index(cols));
    Value out = k.mulIndex(row, k.index(2 * count));
    auto load = [&](Value at, Type type) {
      Num x = logits.load(k.addIndex(base, at), type);
      return k.select(is(arith::CmpFPredicate::UNO, x, x),
                      k.constant(kInfinity, type), x);
    };
    auto placeOf = [&](Value at, Type type) {
      return k.num(arith::SIToFPOp::create(b, type, k.countLanes(at, type)));
    };
    SmallVector<Value> before{k.constant(kInfinity, k.f32()).value,
                              k.constant(-1, k.f32()).value};
    k.loop(
        k.index(0), k.index(count), 1, before,
        [&](Value number, ValueRange last) -> SmallVector<Value> {
          // Behind the one before: lower, or as high and further on.
          auto isLeft = [&](Num x, Value at, Type type) -> Value {
            Num most = k.splat(k.num(last[0]), type);
            Num place = k.splat(k.num(last[1]), type);
            Value isEqual = k.both(is(arith::CmpFPredicate::OEQ, x, most),
                                   k.greater(placeOf(at, type), place));
            return arith::OrIOp::create(b, k.greater(most, x), isEqual);
          };
          // Lower than any number, and so none.
          auto none = [&](Type type) { return k.constant(-kInfinity, type); };
          Num most = k.maximum(k.index(cols), [&](Value at, Type type) {
            Num x = load(at, type);
            return k.select(isLeft(x, at, type), x, none(type));
          });
          Num first = k.maximum(k.index(cols), [&](Value at, Type type) {
            Num x = load(at, type);
            Value isIt =
                k.both(isLeft(x, at, type),
                       is(arith::CmpFPredicate::OEQ, x, k.splat(most, type)));
            return k.select(isIt, placeOf(at, type) * -1.0, none(type));
          });
          Num place = first * -1.0;
          Value isThere =
              k.greater(k.constant(static_cast<double>(cols), k.f32()), place);
          Value at = k.addIndex(out, number);
          result.storeOnce(k.select(isThere, most, none(k.f32())), at);
          result.storeOnce(k.select(isThere, place, k.constant(-1, k.f32())),
                           k.addIndex(at, k.index(count)));
          return {most.value, place.value};
        });
  });
}

void LogProbabilities::describe(KernelDescription &description) const {
  describeLogits(description, rows, cols, /*areReplaced=*/false)
      .read("targets", rows, description.i32())
      .write("result", rows);
}

void LogProbabilities::build(KernelBuilder &k) const {
  KernelBuffer logits = k["logits"], targets = k["targets"];
  k.forRows([&](Value row) {
    Value base = k.mulIndex(row, k.index(cols));
    Num max = rowMaximum(k, base, k.index(cols));
    Num total = k.sums(k.index(cols), 1, [&](Value at, Type type) {
      return Terms{k.exp(logits.load(k.addIndex(base, at), type) - max)};
    })[0];
    k.once([&] {
      k["result"].store(k.constant(0, k.f32()), row);
      whenInTable(k, targets, row, k.index(0), cols, [&](Value column) {
        Num logit = logits.load(k.addIndex(base, column));
        Num difference = k.widen(logit) - k.widen(max);
        k["result"].store(k.narrow(difference - k.log(k.widen(total))), row);
      });
    });
  });
}

void LogitsGrad::describe(KernelDescription &description) const {
  describeLogits(description, rows, cols, /*areReplaced=*/true)
      .read("sums", rows * 2)
      .read("targets", rows, description.i32())
      .scalar("first");
}

void LogitsGrad::build(KernelBuilder &k) const {
  Value first = k.getIndex("first");
  k.forRows([&](Value row) { gradRow(k, row, cols, first); });
}

void SumTokens::describe(KernelDescription &description) const {
  description.size(n);
  description.overRows(1, n);
  description.read("losses", n).write("sum", 1);
}

void SumTokens::build(KernelBuilder &k) const {
  KernelBuffer losses = k["losses"];
  k.forRows([&](Value) {
    Num sum = k.sums(
        n, 1,
        [&](Value at, Type type) {
          return Terms{k.widen(losses.load(at, type))};
        },
        /*wide=*/true)[0];
    k["sum"].storeOnce(k.narrow(sum), k.index(0));
  });
}

void CountReal::describe(KernelDescription &description) const {
  description.size(n);
  description.overRows(1, n);
  description.read("targets", n, description.i32()).write("count", 1);
}

void CountReal::build(KernelBuilder &k) const {
  KernelBuffer targets = k["targets"];
  k.forRows([&](Value) {
    // Ones add exactly in f64, in any order.
    Num count = k.sums(
        n, 1,
        [&](Value at, Type type) {
          Type wide = k.withElement(type, k.f64());
          Value isReal = isNotNegative(
              k, targets.load(at, k.withElement(type, k.i32())).value);
          return Terms{
              k.select(isReal, k.constant(1, wide), k.constant(0, wide))};
        },
        /*wide=*/true)[0];
    k["count"].storeOnce(k.narrow(count), k.index(0));
  });
}
