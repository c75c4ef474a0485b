//===- RotaryKernels.cpp - Rotary position embedding ----------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelSupport.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"

#include <cmath>

using namespace mlir;
using namespace mlir::optimus;

std::string CpuKernels::getRotaryTable(int64_t seq, int64_t dim, double theta) {
  std::string name = nameOf("rotary_table", seq, dim) + "_" + bitsOf(theta);
  if (module.lookupSymbol(name))
    return name;
  // Computed in f64 and rounded once, however large the angle.
  std::vector<float> values(seq * dim);
  for (int64_t position = 0; position < seq; ++position)
    for (int64_t i = 0; i < dim / 2; ++i) {
      double angle = position * std::pow(theta, -2.0 * i / dim);
      float *row = values.data() + position * dim;
      row[i] = static_cast<float>(std::cos(angle));
      row[i + dim / 2] = static_cast<float>(std::sin(angle));
    }
  OpBuilder b = OpBuilder::atBlockEnd(module.getBody());
  auto tensor = RankedTensorType::get({seq * dim}, b.getF32Type());
  memref::GlobalOp::create(
      b, NameLoc::get(b.getStringAttr(name)), name, b.getStringAttr("private"),
      MemRefType::get({seq * dim}, b.getF32Type()),
      DenseElementsAttr::get(tensor, ArrayRef<float>(values)),
      /*constant=*/true, /*alignment=*/b.getI64IntegerAttr(64));
  return name;
}

KernelLaunch CpuKernels::rotary(int64_t batch, int64_t seq, int64_t heads,
                                int64_t dim, double theta, bool inverse) {
  int64_t tokens = batch * seq, half = dim / 2, n = tokens * heads * dim;
  OperandTypes types(module.getContext());
  types.f32({n, n});
  std::string table = getRotaryTable(seq, dim, theta);
  std::string kind =
      llvm::formatv("rotary{0}_{1}x{2}", inverse ? "_inverse" : "", batch, seq)
          .str();
  auto kernel = getOrBuild(
      nameOf(kind, heads, dim) + "_" + bitsOf(theta), types,
      [&](KernelBuilder &k) {
        ImplicitLocOpBuilder &b = k.getBuilder();
        Value angles = memref::GetGlobalOp::create(
            b, MemRefType::get({seq * dim}, b.getF32Type()), table);
        k.iterate([&](Value token) {
          Value position = arith::RemUIOp::create(b, token, k.index(seq));
          Value angle = k.mulIndex(position, k.index(dim));
          Value first = k.mulIndex(token, k.index(heads * dim));
          k.loop(k.index(0), k.index(heads), 1, [&](Value head) {
            Value base = k.addIndex(first, k.mulIndex(head, k.index(dim)));
            k.lanes(half, [&](Value at, Type type) {
              Value cosAt = k.addIndex(angle, at);
              Value sinAt = k.addIndex(cosAt, k.index(half));
              Num c = k.load(angles, cosAt, type);
              Num s = k.load(angles, sinAt, type);
              if (inverse)
                s = s * -1.0;
              Value lowAt = k.addIndex(base, at);
              Value highAt = k.addIndex(lowAt, k.index(half));
              Num low = k.load(0, lowAt, type), high = k.load(0, highAt, type);
              k.store(low * c - high * s, 1, lowAt);
              k.store(high * c + low * s, 1, highAt);
            });
          });
        });
      });
  return {kernel, tokens, rowGrain(heads * dim)};
}
