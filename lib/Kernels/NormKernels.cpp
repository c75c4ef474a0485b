//===- NormKernels.cpp - Layer normalisation --------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Kernels/NormKernels.h"

#include "optimus/Kernels/KernelBuilder.h"

using namespace mlir;
using namespace mlir::optimus;
using namespace mlir::optimus::kernels;

namespace {
/// Σx/n and Σ(x − Σx/n)² of a row, where `mean` divides a sum by n.
template <typename Extent>
std::pair<Num, Num> getRowMoments(KernelBuilder &k, KernelBuffer x, Value base,
                                  Extent n, function_ref<Num(Num)> mean) {
  auto load = [&](Value at, Type type) {
    return x.load(k.addIndex(base, at), type);
  };
  Num average = mean(k.sums(
      n, 1, [&](Value at, Type type) { return Terms{load(at, type)}; })[0]);
  Num squares = k.sums(n, 1, [&](Value at, Type type) {
    Num d = load(at, type) - average;
    return Terms{d * d};
  })[0];
  return {average, squares};
}

/// dŷ = dy·gamma and x̂ = (x − mean)·rstd of a row.
struct NormRow {
  NormRow(KernelBuilder &k, Value row, int64_t n)
      : k(k), dy(k["dy"]), x(k["x"]), gamma(k["gamma"]),
        residual(k.getOptional("residual")), base(k.mulIndex(row, k.index(n))),
        mean(k["mean"].load(row)), rstd(k["rstd"].load(row)) {}

  Num getDy(Value at, Type type) {
    return dy.load(k.addIndex(base, at), type) * gamma.load(at, type);
  }
  Num getX(Value at, Type type) {
    return (x.load(k.addIndex(base, at), type) - mean) * rstd;
  }
  Terms getSums(int64_t n) {
    return k.sums(n, 2, [&](Value at, Type type) {
      Num dy = getDy(at, type);
      return Terms{dy, dy * getX(at, type)};
    });
  }
  /// Stores rstd·(dŷ − a − x̂·b) + residual.
  void apply(Value at, Type type, Num a, Num b, KernelBuffer result) {
    Num dx = (getDy(at, type) - a - getX(at, type) * b) * rstd;
    Value element = k.addIndex(base, at);
    if (residual)
      dx = dx + residual.load(element, type);
    result.store(dx, element);
  }

  KernelBuilder &k;
  KernelBuffer dy, x, gamma, residual;
  Value base;
  Num mean, rstd;
};
} // namespace

/// The operands that a gradient of rows begins with.
static void readGradient(KernelDescription &description, int64_t rows,
                         int64_t n) {
  for (StringRef name : {"dy", "x"})
    description.read(name, rows * n).ofRows();
  for (StringRef name : {"mean", "rstd"})
    description.read(name, rows).ofRows();
}

void LayerNorm::describe(KernelDescription &description) const {
  description.size(rows, n);
  description.number(epsilon);
  description.overRows(rows, n);
  description.read("x", rows * n).ofRows().read("gamma", n).read("beta", n);
  description.write("y", rows * n).inPlaceOf({"x"}).ofRows();
  for (StringRef name : {"mean", "rstd"})
    description.write(name, rows).ofRows();
}

void LayerNorm::build(KernelBuilder &k) const {
  KernelBuffer x = k["x"], gamma = k["gamma"], beta = k["beta"], y = k["y"];
  k.forRows([&](Value row) {
    Value base = k.mulIndex(row, k.index(n));
    auto load = [&](Value at, Type type) {
      return x.load(k.addIndex(base, at), type);
    };
    auto [mean, squares] =
        getRowMoments(k, x, base, n, [&](Num sum) { return sum * (1.0 / n); });
    Num rstd = 1.0 / k.sqrt(squares * (1.0 / n) + epsilon);
    k["mean"].storeOnce(mean, row);
    k["rstd"].storeOnce(rstd, row);
    k.lanes(n, [&, mean = mean](Value at, Type type) {
      Num normal = (load(at, type) - mean) * rstd;
      y.store(normal * gamma.load(at, type) + beta.load(at, type),
              k.addIndex(base, at));
    });
  });
}

void LayerNormGrad::describe(KernelDescription &description) const {
  description.option("residual", residual);
  description.size(rows, n);
  description.overRows(rows, n);
  readGradient(description, rows, n);
  description.read("gamma", n);
  if (residual)
    description.read("residual", rows * n).ofRows();
  description.write("dx", rows * n).inPlaceOf({"dy", "x", "residual"}).ofRows();
}

void LayerNormGrad::build(KernelBuilder &k) const {
  k.forRows([&](Value row) {
    NormRow norm(k, row, n);
    Terms sums = norm.getSums(n);
    Num a = sums[0] * (1.0 / n), b = sums[1] * (1.0 / n);
    k.lanes(n,
            [&](Value at, Type type) { norm.apply(at, type, a, b, k["dx"]); });
  });
}

void NormParamGrad::describe(KernelDescription &description) const {
  description.size(rows, n);
  description.overColumns(n, rows);
  readGradient(description, rows, n);
  description.write("dgamma", n).write("dbeta", n);
}

void NormParamGrad::build(KernelBuilder &k) const {
  KernelBuffer dy = k["dy"], x = k["x"], mean = k["mean"], rstd = k["rstd"];
  k.forColumns([&](Value column, Type type) {
    Terms sums = k.columnSums(rows, 2, type, [&](Value row, Type type) {
      Value at = k.addIndex(k.mulIndex(row, k.index(n)), column);
      Num slope = dy.load(at, type);
      Num normal = (x.load(at, type) - mean.load(row)) * rstd.load(row);
      return Terms{slope * normal, slope};
    });
    k["dgamma"].storeOnce(sums[0], column);
    k["dbeta"].storeOnce(sums[1], column);
  });
}

void RowMoments::describe(KernelDescription &description) const {
  description.size(rows, n);
  description.overRows(rows, n);
  description.read("x", rows * n).write("moments", rows * 2).scalar("real");
}

void RowMoments::build(KernelBuilder &k) const {
  KernelBuffer x = k["x"], moments = k["moments"];
  Value real = k.getIndex("real");
  // With no real element both sums are 0, whatever they are divided by.
  Value divisor = k.maxIndex(real, k.index(1));
  ImplicitLocOpBuilder &b = k.getBuilder();
  Num count = k.num(arith::SIToFPOp::create(
      b, k.f32(), arith::IndexCastOp::create(b, b.getI64Type(), divisor)));
  k.forRows([&](Value row) {
    Value base = k.mulIndex(row, k.index(n));
    auto [mean, squares] =
        getRowMoments(k, x, base, real, [&](Num sum) { return sum / count; });
    Value at = k.mulIndex(row, k.index(2));
    moments.storeOnce(mean, at);
    moments.storeOnce(squares, k.addIndex(at, k.index(1)));
  });
}

void MergeMoments::describe(KernelDescription &description) const {
  description.size(rows);
  for (int64_t count : counts)
    description.size(count);
  description.number(epsilon);
  description.overItems(rows, /*work=*/16);
  description.read("moments", rows * 2 * counts.size())
      .write("mean", rows)
      .write("rstd", rows);
}

void MergeMoments::build(KernelBuilder &k) const {
  KernelBuffer moments = k["moments"];
  k.forItems([&](Value row) {
    Value base = k.mulIndex(row, k.index(2 * counts.size()));
    auto moment = [&](int64_t element) {
      return moments.load(k.addIndex(base, k.index(element)));
    };
    // Chan's formula, in rank order; parts without elements add nothing.
    Num mean = k.constant(0, k.f32()), squares = mean;
    int64_t total = 0;
    for (auto [part, count] : llvm::enumerate(counts)) {
      if (count == 0)
        continue;
      Num partMean = moment(2 * part), partSquares = moment(2 * part + 1);
      if (total == 0) {
        mean = partMean;
        squares = partSquares;
        total = count;
        continue;
      }
      double a = total, b = count, both = a + b;
      Num delta = partMean - mean;
      mean = mean + delta * (b / both);
      squares = squares + partSquares + delta * delta * (a * b / both);
      total += count;
    }
    Num variance = squares * (1.0 / std::max<int64_t>(total, 1));
    k["mean"].store(mean, row);
    k["rstd"].store(1.0 / k.sqrt(variance + epsilon), row);
  });
}

void Normalize::describe(KernelDescription &description) const {
  description.size(rows, n);
  description.overRows(rows, n);
  description.read("x", rows * n)
      .read("mean", rows)
      .read("rstd", rows)
      .read("gamma", n)
      .read("beta", n);
  description.write("y", rows * n).inPlaceOf({"x"});
}

void Normalize::build(KernelBuilder &k) const {
  KernelBuffer x = k["x"], gamma = k["gamma"], beta = k["beta"], y = k["y"];
  k.forRows([&](Value row) {
    Value base = k.mulIndex(row, k.index(n));
    Num mean = k["mean"].load(row), rstd = k["rstd"].load(row);
    k.lanes(n, [&](Value at, Type type) {
      Value element = k.addIndex(base, at);
      Num normal = (x.load(element, type) - mean) * rstd;
      y.store(normal * gamma.load(at, type) + beta.load(at, type), element);
    });
  });
}

void NormGradSums::describe(KernelDescription &description) const {
  description.size(rows, n);
  description.overRows(rows, n);
  readGradient(description, rows, n);
  description.read("gamma", n).write("sums", rows * 2);
}

void NormGradSums::build(KernelBuilder &k) const {
  KernelBuffer result = k["sums"];
  k.forRows([&](Value row) {
    Terms sums = NormRow(k, row, n).getSums(n);
    Value at = k.mulIndex(row, k.index(2));
    result.storeOnce(sums[0], at);
    result.storeOnce(sums[1], k.addIndex(at, k.index(1)));
  });
}

void NormGradApply::describe(KernelDescription &description) const {
  description.option("residual", residual);
  description.size(rows, n);
  description.size(size);
  description.overRows(rows, n);
  readGradient(description, rows, n);
  description.read("gamma", n).read("sums", rows * 2);
  if (residual)
    description.read("residual", rows * n);
  description.write("dx", rows * n)
      .inPlaceOf({"dy", "x", "residual"})
      .scalar("real");
}

void NormGradApply::build(KernelBuilder &k) const {
  KernelBuffer sums = k["sums"], dx = k["dx"];
  Value real = k.getIndex("real");
  k.forRows([&](Value row) {
    NormRow norm(k, row, n);
    Value at = k.mulIndex(row, k.index(2));
    Num a = sums.load(at) * (1.0 / size);
    Num b = sums.load(k.addIndex(at, k.index(1))) * (1.0 / size);
    k.lanes(real, [&](Value at, Type type) { norm.apply(at, type, a, b, dx); });
    Num zero = k.constant(0, k.f32());
    k.each(real, k.index(n),
           [&](Value at) { dx.store(zero, k.addIndex(norm.base, at)); });
  });
}
