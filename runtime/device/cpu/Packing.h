//===- Packing.h - Operands in the layout of products ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Where oneDNN has a blocked layout for this processor it multiplies faster
// from that one; elsewhere a packed operand is the matrix, row by row. The
// choice, and the blocks, follow from the operand's size and the processor.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_DEVICE_CPU_PACKING_H
#define OPTIMUS_RUNTIME_DEVICE_CPU_PACKING_H

#include "OneDnn.h"
#include "optimus-runtime/CommandDescriptors.h"

namespace optrt {

/// The layout of B of a product, [rows, cols], once it is packed.
struct PackedLayout {
  MemoryDesc desc;
  /// Otherwise it is row by row.
  bool isBlocked = false;
  /// Where the blocks make up panels of columns: the columns of a panel, whose
  /// rows follow each other, and the elements to the next one; else 0.
  int64_t panelCols = 0, panelStride = 0;
};

/// Packs for one device. What oneDNN cannot do it throws.
class Packing {
public:
  /// oneDNN must outlive it.
  explicit Packing(OneDnn &oneDnn) : oneDnn(oneDnn) {}

  const PackedLayout &layoutOf(int64_t rows, int64_t cols);
  /// The same, if it fits `elements`; else Unavailable.
  StatusOr<const PackedLayout *> layoutIn(int64_t elements, int64_t rows,
                                          int64_t cols);
  /// Whether pack() makes no more code for it.
  bool isReady(const optrt_pack_desc &desc) { return reorders.find(desc); }
  /// Makes it, and says what scratchpad it needs.
  StatusOr<MemoryDesc> prepare(const optrt_pack_desc &desc);
  /// The descriptor and the pointers have been checked.
  Status pack(const optrt_pack_desc &desc, const float *src, float *dst);

private:
  struct Shape {
    int64_t rows, cols;
  };
  struct Reorder {
    MemoryDesc given, packed, scratchpad;
    dnnl::reorder primitive;
  };

  StatusOr<Reorder *> getReorder(const optrt_pack_desc &desc);

  OneDnn &oneDnn;
  DescriptorMap<Shape, PackedLayout> layouts;
  DescriptorMap<optrt_pack_desc, Reorder> reorders;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_DEVICE_CPU_PACKING_H
