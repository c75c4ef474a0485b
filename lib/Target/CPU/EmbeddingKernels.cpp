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

KernelLaunch CpuKernels::embedding(int64_t count, int64_t rows, int64_t cols) {
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

KernelLaunch CpuKernels::embeddingGrad(int64_t count, int64_t rows,
                                       int64_t cols, bool zero,
                                       std::optional<int64_t> pad) {
  OperandTypes types(module.getContext());
  types.f32({count * cols}).i32({count}).f32({rows * cols}).scalars(1);
  StringRef prefix = zero ? "embedding_grad_" : "embedding_grad_add_";
  std::string kind = (prefix + Twine(count)).str();
  if (pad)
    kind += ("_pad_" + Twine(*pad)).str();
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
                auto add = [&] {
                  Value from =
                      k.addIndex(k.mulIndex(token, k.index(cols)), column);
                  Value to = k.addIndex(k.mulIndex(row, k.index(cols)), column);
                  k.store(k.load(2, to, type) + k.load(0, from, type), 2, to);
                };
                if (!pad)
                  return add();
                Value padRow = k.subIndex(k.index(*pad), first);
                k.when(arith::CmpIOp::create(k.getBuilder(),
                                             arith::CmpIPredicate::ne, row,
                                             padRow),
                       add);
              });
            });
          });
        });
      });
  return {kernel, KernelBuilder::getNumColumnBlocks(cols), 1};
}

KernelLaunch CpuKernels::lengths(int64_t rows, int64_t cols, int64_t pad,
                                 bool masked) {
  OperandTypes types(module.getContext());
  types.i32({rows * cols});
  if (masked)
    types.i32({rows * cols});
  types.i32({rows}).scalars(1);
  int result = masked ? 2 : 1;
  StringRef kind = masked ? "lengths_masked" : "lengths";
  std::string name = (Twine(nameOf(kind, rows, cols)) + "_" + Twine(pad)).str();
  auto kernel = getOrBuild(name, types, [&](KernelBuilder &k) {
    ImplicitLocOpBuilder &b = k.getBuilder();
    // No token is a pad that i32 does not hold.
    Value padding = arith::ConstantOp::create(b, b.getI64IntegerAttr(pad));
    Value real = k.indexArg(result + 1);
    k.iterate([&](Value row) {
      Value base = k.mulIndex(row, k.index(cols));
      SmallVector<Value> one{k.index(1)};
      Value length =
          k.loop(k.index(0), real, 1, one, [&](Value at, ValueRange known) {
             Value position = k.addIndex(base, at);
             auto load = [&](int64_t buffer) -> Value {
               return arith::ExtSIOp::create(b, b.getI64Type(),
                                             k.loadElement(buffer, position));
             };
             Value real = arith::CmpIOp::create(b, arith::CmpIPredicate::ne,
                                                load(0), padding);
             if (masked)
               real = arith::OrIOp::create(
                   b, real,
                   arith::CmpIOp::create(
                       b, arith::CmpIPredicate::sge, load(1),
                       arith::ConstantOp::create(b, b.getI64IntegerAttr(0))));
             return SmallVector<Value>{arith::SelectOp::create(
                 b, real, k.addIndex(at, k.index(1)), known.front())};
           }).front();
      memref::StoreOp::create(
          b, arith::IndexCastOp::create(b, b.getI32Type(), length),
          k.arg(result), row);
    });
  });
  return {kernel, rows, rowGrain(cols)};
}
