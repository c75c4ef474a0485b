//===- EmbeddingKernels.cpp - Look-up and its gradient --------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelSupport.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace mlir::optimus;

KernelLaunch KernelLibrary::embedding(int64_t count, int64_t rows,
                                      int64_t cols) {
  OperandTypes types(module.getContext());
  types.f32({rows * cols}).i32({count}).f32({count * cols}).scalars(1);
  auto kernel = getOrBuild(
      nameOf(("embedding_" + Twine(count)).str(), rows, cols), types,
      [&](KernelBuilder &k) {
        Value first = k.indexArg(3);
        k.iterate([&](Value token) {
          Value base = k.mulIndex(token, k.index(cols));
          whenInTable(
              k, 1, token, first, rows,
              [&](Value row) {
                Value from = k.mulIndex(row, k.index(cols));
                k.lanes(cols, [&](Value at, Type type) {
                  k.store(k.load(0, k.addIndex(from, at), type), 2,
                          k.addIndex(base, at));
                });
              },
              [&] {
                k.lanes(cols, [&](Value at, Type type) {
                  k.store(k.constant(0, type), 2, k.addIndex(base, at));
                });
              });
        });
      });
  return {kernel, count, rowGrain(cols)};
}

KernelLaunch KernelLibrary::embeddingGrad(int64_t count, int64_t rows,
                                          int64_t cols, bool zero) {
  OperandTypes types(module.getContext());
  types.f32({count * cols}).i32({count}).f32({rows * cols}).scalars(1);
  StringRef prefix = zero ? "embedding_grad_" : "embedding_grad_add_";
  std::string kind = (prefix + Twine(count)).str();
  auto kernel =
      getOrBuild(nameOf(kind, rows, cols), types, [&](KernelBuilder &k) {
        Value first = k.indexArg(3);
        k.iterate([&](Value i) {
          k.columns(i, cols, [&](Value column, Type type) {
            if (zero)
              k.loop(k.index(0), k.index(rows), 1, [&](Value row) {
                k.store(k.constant(0, type), 2,
                        k.addIndex(k.mulIndex(row, k.index(cols)), column));
              });
            k.loop(k.index(0), k.index(count), 1, [&](Value token) {
              whenInTable(k, 1, token, first, rows, [&](Value row) {
                Value from =
                    k.addIndex(k.mulIndex(token, k.index(cols)), column);
                Value to = k.addIndex(k.mulIndex(row, k.index(cols)), column);
                k.store(k.load(2, to, type) + k.load(0, from, type), 2, to);
              });
            });
          });
        });
      });
  return {kernel, KernelBuilder::getNumColumnBlocks(cols), 1};
}

KernelLaunch KernelLibrary::lengths(int64_t rows, int64_t cols, int64_t pad) {
  OperandTypes types(module.getContext());
  types.i32({rows * cols, rows}).scalars(1);
  std::string name = (Twine(nameOf("lengths", rows, cols)) + "_" + Twine(pad)).str();
  auto kernel = getOrBuild(name, types, [&](KernelBuilder &k) {
    ImplicitLocOpBuilder &b = k.getBuilder();
    // No token is a pad that i32 does not hold.
    Value padding = arith::ConstantOp::create(b, b.getI64IntegerAttr(pad));
    Value real = k.indexArg(2);
    k.iterate([&](Value row) {
      Value base = k.mulIndex(row, k.index(cols));
      SmallVector<Value> one{k.index(1)};
      Value length =
          k.loop(k.index(0), real, 1, one,
                 [&](Value at, ValueRange known) {
                   Value token = arith::ExtSIOp::create(
                       b, b.getI64Type(),
                       k.loadElement(0, k.addIndex(base, at)));
                   Value real = arith::CmpIOp::create(
                       b, arith::CmpIPredicate::ne, token, padding);
                   return SmallVector<Value>{arith::SelectOp::create(
                       b, real, k.addIndex(at, k.index(1)), known.front())};
                 })
              .front();
      memref::StoreOp::create(
          b, arith::IndexCastOp::create(b, b.getI32Type(), length), k.arg(1),
          row);
    });
  });
  return {kernel, rows, rowGrain(cols)};
}
