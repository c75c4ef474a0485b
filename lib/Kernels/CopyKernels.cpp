//===- CopyKernels.cpp - Rows that lie apart, copied ------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Kernels/CopyKernels.h"

#include "optimus/Kernels/KernelBuilder.h"

#include "optimus-support/Sizes.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::optimus;
using namespace mlir::optimus::kernels;

void CopyRows::visit(KernelParameters &parameters) {
  parameters.extent("rows", rows);
  parameters.extent("cols", cols);
  // With the rows they are no extents of one space.
  parameters.integer("src_ld", srcLd);
  parameters.integer("dst_ld", dstLd);
  parameters.integer("unit", unit);
  for (int64_t ld : {srcLd, dstLd})
    parameters.require(cols <= ld && ld <= optimus_support::kMaxElements / rows,
                       "has rows that overlap, or lie too far apart");
  parameters.require(unit > 0 && llvm::isPowerOf2_64(uint64_t(unit)) &&
                         cols % unit == 0 && srcLd % unit == 0 &&
                         dstLd % unit == 0,
                     "has rows that are no multiples of a power of two");
}

// The number of rows is no part of the name: one kernel serves all.
void CopyRows::describe(KernelDescription &description) const {
  description.setPositional();
  description.size(cols);
  description.size(srcLd);
  description.size(dstLd);
  description.size(unit);
  description.overElements(rows * (cols / unit), unit);
  description.read("src", (rows - 1) * srcLd + cols).inUnitsOf(unit);
  description.write("dst", (rows - 1) * dstLd + cols).inUnitsOf(unit);
}

void CopyRows::build(KernelBuilder &k) const {
  KernelBuffer src = k["src"], dst = k["dst"];
  ImplicitLocOpBuilder &b = k.getBuilder();
  Type element = cast<MemRefType>(src.getMemory().getType()).getElementType();
  k.forElements([&](Value at, Value, Type type) {
    Value row = arith::DivUIOp::create(b, at, k.index(cols));
    Value column = arith::RemUIOp::create(b, at, k.index(cols));
    auto getPlace = [&](int64_t ld) {
      return k.addIndex(k.mulIndex(row, k.index(ld)), column);
    };
    // As they are: a conversion to f32 and back would make NaNs others.
    if (isa<VectorType>(type))
      dst.storeElements(
          src.loadElements(getPlace(srcLd), k.withElement(type, element)),
          getPlace(dstLd));
    else
      dst.storeElement(src.loadElement(getPlace(srcLd)), getPlace(dstLd));
  });
}
