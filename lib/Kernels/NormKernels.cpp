//===- NormKernels.cpp - Normalisation --------------------------*- C++ -*-===//
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

/// Σx/n and Σ(x − Σx/n)² of a row, where `mean` divides a sum by n.
template <typename Extent>
static std::pair<Num, Num> getRowMoments(KernelBuilder &k, KernelBuffer x,
                                         Value base, Extent n,
                                         function_ref<Num(Num)> mean) {
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

/// Σ a·b·weight over a row from `base` on, of n elements; no weight if there is
/// none.
static Num rowDot(KernelBuilder &k, Value base, int64_t n, KernelBuffer a,
                  KernelBuffer b, KernelBuffer weight = {}) {
  return k.sums(n, 1, [&](Value at, Type type) {
    Value element = k.addIndex(base, at);
    Num term = a.load(element, type) * b.load(element, type);
    if (weight)
      term = term * weight.load(at, type);
    return Terms{term};
  })[0];
}

static Num getRstd(KernelBuilder &k, Num squares, int64_t size,
                   double epsilon) {
  return 1.0 / k.sqrt(squares * (1.0 / size) + epsilon);
}

namespace {
/// A row, normalised: x̂ = (x − mean)·rstd, or x·rstd where the kernel has no
/// mean. And dŷ = dy·gamma, where it has these.
struct NormRow {
  NormRow(KernelBuilder &k, Value row, int64_t n)
      : k(k), x(k["x"]), row(row), base(k.mulIndex(row, k.index(n))), n(n),
        isCentered(k.getOptional("mean")) {}

  void loadStatistics() {
    if (isCentered)
      mean = k["mean"].load(row);
    rstd = k["rstd"].load(row);
  }
  Num getX(Value at, Type type) {
    Num element = x.load(k.addIndex(base, at), type);
    return isCentered ? (element - mean) * rstd : element * rstd;
  }
  Num getDy(Value at, Type type) {
    return k["dy"].load(k.addIndex(base, at), type) * k["gamma"].load(at, type);
  }

  /// Stores x̂·gamma + beta of all elements.
  void normalize() {
    k.lanes(n, [&](Value at, Type type) {
      Num y = getX(at, type) * k["gamma"].load(at, type);
      if (KernelBuffer beta = k.getOptional("beta"))
        y = y + beta.load(at, type);
      k["y"].store(y, k.addIndex(base, at));
    });
  }

  /// Σdŷ and Σdŷ·x̂.
  Terms getSums() {
    return k.sums(n, 2, [&](Value at, Type type) {
      Num dy = getDy(at, type);
      return Terms{dy, dy * getX(at, type)};
    });
  }
  /// Stores rstd·(dŷ − a − x̂·b) + residual, or without a mean
  /// rstd·(dŷ − x·b) + residual.
  void applyGradient(Value at, Type type, Num a, Num b) {
    Value element = k.addIndex(base, at);
    Num dx = getDy(at, type);
    dx = isCentered ? dx - a - getX(at, type) * b
                    : dx - x.load(element, type) * b;
    dx = dx * rstd;
    if (KernelBuffer residual = k.getOptional("residual"))
      dx = dx + residual.load(element, type);
    k["dx"].store(dx, element);
  }

  KernelBuilder &k;
  KernelBuffer x;
  Value row, base;
  int64_t n;
  bool isCentered;
  Num mean, rstd;
};
} // namespace

/// The operands that a gradient of rows begins with.
static void readGradient(KernelDescription &description, int64_t rows,
                         int64_t n, bool centered = true) {
  for (StringRef name : {"dy", "x"})
    description.read(name, rows * n).ofRows();
  if (centered)
    description.read("mean", rows).ofRows();
  description.read("rstd", rows).ofRows();
}

template <bool centered>
void Norm<centered>::describe(KernelDescription &description) const {
  description.size(rows, n);
  description.number(epsilon);
  description.overRows(rows, n);
  description.read("x", rows * n).ofRows().read("gamma", n);
  if (centered)
    description.read("beta", n);
  description.write("y", rows * n).inPlaceOf({"x"}).ofRows();
  if (centered)
    description.write("mean", rows).ofRows();
  description.write("rstd", rows).ofRows();
}

template <bool centered>
void Norm<centered>::build(KernelBuilder &k) const {
  k.forRows([&](Value row) {
    NormRow norm(k, row, n);
    Num squares;
    if constexpr (centered)
      std::tie(norm.mean, squares) = getRowMoments(
          k, norm.x, norm.base, n, [&](Num sum) { return sum * (1.0 / n); });
    else
      squares = rowDot(k, norm.base, n, norm.x, norm.x);
    norm.rstd = getRstd(k, squares, n, epsilon);
    if (centered)
      k["mean"].storeOnce(norm.mean, row);
    k["rstd"].storeOnce(norm.rstd, row);
    norm.normalize();
  });
}

template <bool centered>
void ApplyNorm<centered>::describe(KernelDescription &description) const {
  description.size(rows, n);
  description.overRows(rows, n);
  description.read("x", rows * n);
  if (centered)
    description.read("mean", rows);
  description.read("rstd", rows).read("gamma", n);
  if (centered)
    description.read("beta", n);
  description.write("y", rows * n).inPlaceOf({"x"});
}

template <bool centered>
void ApplyNorm<centered>::build(KernelBuilder &k) const {
  k.forRows([&](Value row) {
    NormRow norm(k, row, n);
    norm.loadStatistics();
    norm.normalize();
  });
}

template <bool centered>
void ParamGrad<centered>::describe(KernelDescription &description) const {
  description.size(rows, n);
  description.overColumns(n, rows);
  readGradient(description, rows, n, centered);
  description.write("dgamma", n);
  if (centered)
    description.write("dbeta", n);
}

template <bool centered>
void ParamGrad<centered>::build(KernelBuilder &k) const {
  KernelBuffer dy = k["dy"], x = k["x"], rstd = k["rstd"];
  k.forColumns([&](Value column, Type type) {
    int64_t count = centered ? 2 : 1;
    Terms sums = k.columnSums(rows, count, type, [&](Value row, Type type) {
      Value at = k.addIndex(k.mulIndex(row, k.index(n)), column);
      Num slope = dy.load(at, type), normal = x.load(at, type);
      if (centered)
        normal = normal - k["mean"].load(row);
      normal = normal * rstd.load(row);
      return centered ? Terms{slope * normal, slope} : Terms{slope * normal};
    });
    k["dgamma"].storeOnce(sums[0], column);
    if (centered)
      k["dbeta"].storeOnce(sums[1], column);
  });
}

template struct kernels::Norm<true>;
template struct kernels::Norm<false>;
template struct kernels::ApplyNorm<true>;
template struct kernels::ApplyNorm<false>;
template struct kernels::ParamGrad<true>;
template struct kernels::ParamGrad<false>;

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
    norm.loadStatistics();
    Terms sums = norm.getSums();
    Num a = sums[0] * (1.0 / n), b = sums[1] * (1.0 / n);
    k.lanes(n,
            [&](Value at, Type type) { norm.applyGradient(at, type, a, b); });
  });
}

void RmsNormGrad::describe(KernelDescription &description) const {
  description.option("sums", sums);
  description.option("residual", residual);
  description.size(size);
  description.size(rows, n);
  description.overRows(rows, n);
  readGradient(description, rows, n, /*centered=*/false);
  description.read("gamma", n);
  if (sums)
    description.read("sums", rows).ofRows();
  if (residual)
    description.read("residual", rows * n).ofRows();
  description.write("dx", rows * n).inPlaceOf({"dy", "x", "residual"}).ofRows();
}

void RmsNormGrad::build(KernelBuilder &k) const {
  KernelBuffer sums = k.getOptional("sums");
  k.forRows([&](Value row) {
    NormRow norm(k, row, n);
    norm.loadStatistics();
    Num sum = sums ? sums.load(row)
                   : rowDot(k, norm.base, n, k["dy"], norm.x, k["gamma"]);
    Num slope = sum * (1.0 / size) * (norm.rstd * norm.rstd);
    k.lanes(n, [&](Value at, Type type) {
      norm.applyGradient(at, type, {}, slope);
    });
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

void RowDot::describe(KernelDescription &description) const {
  description.option("weight", weight);
  description.size(rows, n);
  description.overRows(rows, n);
  description.read("a", rows * n).read("b", rows * n);
  if (weight)
    description.read("weight", n);
  description.write("sums", rows);
}

void RowDot::build(KernelBuilder &k) const {
  k.forRows([&](Value row) {
    Value base = k.mulIndex(row, k.index(n));
    Num sum = rowDot(k, base, n, k["a"], k["b"], k.getOptional("weight"));
    k["sums"].storeOnce(sum, row);
  });
}

void RmsRstd::describe(KernelDescription &description) const {
  description.size(rows, size);
  description.number(epsilon);
  description.overElements(1, rows);
  description.read("squares", rows).write("rstd", rows).inPlaceOf({"squares"});
}

void RmsRstd::build(KernelBuilder &k) const {
  KernelBuffer squares = k["squares"], rstd = k["rstd"];
  k.forElements([&](Value at, Value, Type type) {
    rstd.store(getRstd(k, squares.load(at, type), size, epsilon), at);
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
    NormRow norm(k, row, n);
    norm.loadStatistics();
    Terms sums = norm.getSums();
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
    norm.loadStatistics();
    Value at = k.mulIndex(row, k.index(2));
    Num a = sums.load(at) * (1.0 / size);
    Num b = sums.load(k.addIndex(at, k.index(1))) * (1.0 / size);
    k.lanes(real,
            [&](Value at, Type type) { norm.applyGradient(at, type, a, b); });
    Num zero = k.constant(0, k.f32());
    k.each(real, k.index(n),
           [&](Value at) { dx.store(zero, k.addIndex(norm.base, at)); });
  });
}
