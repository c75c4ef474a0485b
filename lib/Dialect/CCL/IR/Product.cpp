//===- Product.cpp - The form of a distributed product ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/CCL/IR/CCL.h"

#include <numeric>

using namespace mlir;
using namespace mlir::ccl;
using optimus::MeshOp;

FailureOr<ProductAxes> ccl::getProductAxes(Type a, Type b, Type c,
                                           int64_t contracting, bool transposeA,
                                           bool transposeB) {
  auto rank = [](Type type) { return cast<RankedTensorType>(type).getRank(); };
  int64_t k = contracting, m = rank(a) - k, n = rank(b) - k;
  // First dimension and size of each group in each tensor.
  struct Group {
    int64_t begin, size;
  };
  Group groups[3][3] = {
      {{transposeA ? k : 0, m}, {transposeA ? 0 : m, k}, {0, 0}},
      {{0, 0}, {transposeB ? n : 0, k}, {transposeB ? 0 : k, n}},
      {{0, m}, {0, 0}, {m, n}}};
  Type types[3] = {a, b, c};
  ProductAxes result;
  for (int t = 0; t < 3; ++t)
    for (int g = 0; g < 3; ++g) {
      result.dims[t][g] = -1;
      for (int64_t i = 0; i < groups[t][g].size; ++i) {
        int64_t dim = groups[t][g].begin + i;
        SmallVector<StringRef> axes = getDimAxes(types[t], dim);
        if (axes.empty())
          continue;
        if (axes.size() > 1 || result.dims[t][g] >= 0)
          return failure();
        result.axes[t][g] = axes.front();
        result.dims[t][g] = dim;
      }
    }
  return result;
}

FailureOr<ProductForm> ccl::getProductForm(MatmulOp op) {
  FailureOr<ProductAxes> axes = getProductAxes(
      op.getA().getType(), op.getB().getType(), op.getResult().getType(),
      op.getContracting(), op.getTransposeA(), op.getTransposeB());
  if (failed(axes))
    return failure();
  ProductForm form;
  StringRef name = op.getStationary();
  if (name != "a" && name != "b" && name != "c")
    return failure();
  form.stationary = name == "a"   ? ProductForm::A
                    : name == "b" ? ProductForm::B
                                  : ProductForm::C;
  // The index that the stationary tensor lacks: A[M,K] lacks N, and so on.
  constexpr int streamedOf[3] = {2, 0, 1};
  int streamed = streamedOf[form.stationary];
  for (int t = 0; t < 3; ++t)
    form.moves[t] =
        t == form.stationary ? StringRef() : axes->axes[t][streamed];
  form.panels = op.getPanels();
  return form;
}
