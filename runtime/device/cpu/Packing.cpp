//===- Packing.cpp - Operands in the layout of products -------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Packing.h"

using namespace optrt;
using Tag = dnnl::memory::format_tag;

static bool isBlocked(const MemoryDesc &desc) {
  return desc.data.format_kind != dnnl_blocked ||
         desc.data.format_desc.blocking.inner_nblks > 0;
}

/// Finds panels in [cols / c, rows / r, r, c], as oneDNN lays out B.
static void findPanels(PackedLayout &layout) {
  const auto &blocking = layout.desc.data.format_desc.blocking;
  if (!layout.isBlocked || layout.desc.data.format_kind != dnnl_blocked ||
      blocking.inner_nblks != 2 || blocking.inner_idxs[0] != 0 ||
      blocking.inner_idxs[1] != 1)
    return;
  const int64_t rows = blocking.inner_blks[0], cols = blocking.inner_blks[1];
  if (blocking.strides[0] != rows * cols)
    return;
  layout.panelCols = cols;
  layout.panelStride = blocking.strides[1];
}

const PackedLayout &Packing::layoutOf(int64_t rows, int64_t cols) {
  const Shape shape{rows, cols};
  if (const PackedLayout *known = layouts.find(shape))
    return *known;
  // With few rows of A oneDNN makes smaller blocks; a layout is for any number.
  constexpr int64_t manyRows = 512;
  dnnl::matmul::desc product(MemoryDesc({manyRows, rows}, kF32, Tag::ab),
                             MemoryDesc({rows, cols}, kF32, Tag::any),
                             MemoryDesc({manyRows, cols}, kF32, Tag::ab));
  dnnl::matmul::primitive_desc chosen(product, oneDnn.engine);
  PackedLayout layout{chosen.weights_desc(), isBlocked(chosen.weights_desc())};
  if (!layout.isBlocked)
    layout.desc = MemoryDesc({rows, cols}, kF32, Tag::ab);
  findPanels(layout);
  return layouts.add(shape, layout);
}

StatusOr<const PackedLayout *>
Packing::layoutIn(int64_t elements, int64_t rows, int64_t cols) {
  const PackedLayout *layout = layouts.find({rows, cols});
  if (!layout) {
    OPTRT_RETURN_IF_ERROR(checkRoomForCode());
    layout = &layoutOf(rows, cols);
  }
  const auto needed =
      static_cast<int64_t>(layout->desc.get_size() / sizeof(float));
  if (needed <= elements)
    return layout;
  return unavailable(concat("oneDNN's layout of a packed ", rows, " x ", cols,
                            " matrix takes ", needed,
                            " elements on this processor, and the program has "
                            "planned ",
                            elements,
                            ": use the oneDNN that the model library was "
                            "compiled for"));
}

StatusOr<Packing::Reorder *> Packing::getReorder(const optrt_pack_desc &desc) {
  if (Reorder *known = reorders.find(desc))
    return known;
  OPTRT_ASSIGN_OR_RETURN(const PackedLayout *layout,
                         layoutIn(desc.elements, desc.rows, desc.cols));
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  Reorder made;
  made.given = matrixOf(desc.rows, desc.cols, desc.ld, desc.trans != 0);
  made.packed = layout->desc;
  dnnl::reorder::primitive_desc chosen(oneDnn.engine, made.given, oneDnn.engine,
                                       made.packed, attributes);
  made.scratchpad = chosen.scratchpad_desc();
  made.primitive = dnnl::reorder(chosen);
  return &reorders.add(desc, std::move(made));
}

StatusOr<MemoryDesc> Packing::prepare(const optrt_pack_desc &desc) {
  OPTRT_ASSIGN_OR_RETURN(Reorder *reorder, getReorder(desc));
  return reorder->scratchpad;
}

Status Packing::pack(const optrt_pack_desc &desc, const float *src,
                     float *dst) {
  OPTRT_ASSIGN_OR_RETURN(Reorder *reorder, getReorder(desc));
  OPTRT_RETURN_IF_ERROR(
      oneDnn.scratchpad.reserve(int64_t(reorder->scratchpad.get_size())));
  reorder->primitive.execute(
      oneDnn.stream,
      {{DNNL_ARG_FROM, oneDnn.view(reorder->given, src)},
       {DNNL_ARG_TO, oneDnn.view(reorder->packed, dst)},
       {DNNL_ARG_SCRATCHPAD,
        oneDnn.view(reorder->scratchpad, oneDnn.scratchpad.as<float>())}});
  oneDnn.stream.wait();
  return okStatus();
}
