//===- RmsNormKernels.cpp - Normalisation by the root mean square ---------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Kernels/RmsNormKernels.h"

#include "optimus/Kernels/KernelBuilder.h"

using namespace mlir;
using namespace mlir::optimus;
using namespace mlir::optimus::kernels;

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

/// y = x·rstd·gamma over a row.
static void scaleRow(KernelBuilder &k, Value base, int64_t n, Num rstd) {
  KernelBuffer x = k["x"], gamma = k["gamma"], y = k["y"];
  k.lanes(n, [&](Value at, Type type) {
    Value element = k.addIndex(base, at);
    y.store(x.load(element, type) * rstd * gamma.load(at, type), element);
  });
}

void RmsNorm::describe(KernelDescription &description) const {
  description.size(rows, n);
  description.number(epsilon);
  description.overRows(rows, n);
  description.read("x", rows * n).ofRows().read("gamma", n);
  description.write("y", rows * n).inPlaceOf({"x"}).ofRows();
  description.write("rstd", rows).ofRows();
}

void RmsNorm::build(KernelBuilder &k) const {
  KernelBuffer x = k["x"];
  k.forRows([&](Value row) {
    Value base = k.mulIndex(row, k.index(n));
    Num rstd = getRstd(k, rowDot(k, base, n, x, x), n, epsilon);
    k["rstd"].storeOnce(rstd, row);
    scaleRow(k, base, n, rstd);
  });
}

void RmsNormGrad::describe(KernelDescription &description) const {
  description.option("sums", sums);
  description.option("residual", residual);
  description.size(size);
  description.size(rows, n);
  description.overRows(rows, n);
  for (StringRef name : {"dy", "x"})
    description.read(name, rows * n).ofRows();
  description.read("rstd", rows).ofRows().read("gamma", n);
  if (sums)
    description.read("sums", rows).ofRows();
  if (residual)
    description.read("residual", rows * n).ofRows();
  description.write("dx", rows * n).inPlaceOf({"dy", "x", "residual"}).ofRows();
}

void RmsNormGrad::build(KernelBuilder &k) const {
  KernelBuffer dy = k["dy"], x = k["x"], gamma = k["gamma"];
  KernelBuffer sums = k.getOptional("sums"),
               residual = k.getOptional("residual");
  k.forRows([&](Value row) {
    Value base = k.mulIndex(row, k.index(n));
    Num rstd = k["rstd"].load(row);
    Num sum = sums ? sums.load(row) : rowDot(k, base, n, dy, x, gamma);
    Num slope = sum * (1.0 / size) * (rstd * rstd);
    k.lanes(n, [&](Value at, Type type) {
      Value element = k.addIndex(base, at);
      Num dx = (dy.load(element, type) * gamma.load(at, type) -
                x.load(element, type) * slope) *
               rstd;
      if (residual)
        dx = dx + residual.load(element, type);
      k["dx"].store(dx, element);
    });
  });
}

void RmsParamGrad::describe(KernelDescription &description) const {
  description.size(rows, n);
  description.overColumns(n, rows);
  for (StringRef name : {"dy", "x"})
    description.read(name, rows * n).ofRows();
  description.read("rstd", rows).ofRows().write("dgamma", n);
}

void RmsParamGrad::build(KernelBuilder &k) const {
  KernelBuffer dy = k["dy"], x = k["x"], rstd = k["rstd"];
  k.forColumns([&](Value column, Type type) {
    Terms sums = k.columnSums(rows, 1, type, [&](Value row, Type type) {
      Value at = k.addIndex(k.mulIndex(row, k.index(n)), column);
      Num normal = x.load(at, type) * rstd.load(row);
      return Terms{dy.load(at, type) * normal};
    });
    k["dgamma"].storeOnce(sums[0], column);
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

void RmsScale::describe(KernelDescription &description) const {
  description.size(rows, n);
  description.overRows(rows, n);
  description.read("x", rows * n).read("rstd", rows).read("gamma", n);
  description.write("y", rows * n).inPlaceOf({"x"});
}

void RmsScale::build(KernelBuilder &k) const {
  k.forRows([&](Value row) {
    Value base = k.mulIndex(row, k.index(n));
    scaleRow(k, base, n, k["rstd"].load(row));
  });
}
