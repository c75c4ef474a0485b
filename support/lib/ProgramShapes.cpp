//===- ProgramShapes.cpp - What an action touches of its operands ---------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/ProgramShapes.h"

#include "optimus-support/CachePages.h"
#include "optimus-support/Sizes.h"

#include <algorithm>

namespace optimus_support::program {

namespace {

/// Sizes that are computed from others; one that does not fit spoils all.
class Sizes {
public:
  int64_t operator()(CheckedSize size) {
    fit &= size.isAtMost(kMaxElements);
    return size.get().value_or(0);
  }
  void positive(std::initializer_list<int64_t> sizes) {
    for (int64_t size : sizes)
      fit &= size >= 1 && size <= kMaxElements;
  }
  bool fit = true;
};

using Shapes = std::vector<OperandShape>;

OperandShape matrix(const char *name, Access access, int64_t rows, int64_t cols,
                    int64_t ld) {
  return {name, access, OperandShape::Required, OperandShape::Floats, rows,
          cols, ld};
}
/// One that is moved as it is.
OperandShape moved(OperandShape shape) {
  shape.elements = OperandShape::Any;
  return shape;
}
/// One in words, where there are blocks.
OperandShape weight(WeightBlocks blocks, OperandShape shape) {
  if (blocks != WeightBlocks::None)
    shape.elements = OperandShape::Indices;
  return shape;
}
OperandShape onlyIf(bool there, OperandShape shape) {
  shape.need = there ? OperandShape::Required : OperandShape::Absent;
  return shape;
}
OperandShape optional(OperandShape shape) {
  shape.need = OperandShape::Optional;
  return shape;
}
/// An operand of so many integers that a command may do without.
OperandShape integers(const char *name, int64_t count) {
  OperandShape shape = optional(matrix(name, Access::Read, 1, count, 0));
  shape.elements = OperandShape::Indices;
  return shape;
}
OperandShape workspace() {
  return {"workspace", Access::Update, OperandShape::Optional};
}

Shapes shapes(const GemmT &gemm, Sizes &size) {
  size.positive({gemm.m, gemm.n, gemm.k});
  const Access written = gemm.accumulate ? Access::Update : Access::Write;
  const bool isGradient = gemm.epilogue == Epilogue::BiasGrad;
  if (gemm.packed_b)
    size.positive({gemm.ldb});
  return {matrix("a", Access::Read, gemm.trans_a ? gemm.k : gemm.m,
                 gemm.trans_a ? gemm.m : gemm.k, gemm.lda),
          gemm.packed_b
              ? weight(gemm.blocks, matrix("b", Access::Read, 1, gemm.ldb, 0))
              : matrix("b", Access::Read, gemm.trans_b ? gemm.n : gemm.k,
                       gemm.trans_b ? gemm.k : gemm.n, gemm.ldb),
          matrix("c", written, gemm.m, gemm.n, gemm.ldc),
          isGradient ? matrix("bias", Access::Write, 1, gemm.n, 0)
                     : optional(matrix("bias", Access::Read, 1, gemm.n, 0)),
          onlyIf(gemm.epilogue != Epilogue::None && !isGradient,
                 matrix("extra", Access::Read, gemm.m, gemm.n, gemm.ld_extra)),
          integers("live", gemm.m)};
}

Shapes shapes(const PackMatrixT &pack, Sizes &size) {
  size.positive({pack.rows, pack.cols, pack.elements});
  return {
      matrix("src", Access::Read, pack.trans ? pack.cols : pack.rows,
             pack.trans ? pack.rows : pack.cols, pack.ld),
      weight(pack.blocks, matrix("dst", Access::Write, 1, pack.elements, 0))};
}

/// [batch·seq, heads·head_dim] of q, k and v; of a cache [batch·capacity, …],
/// or the rows of a pool.
struct AttentionSizes {
  AttentionSizes(const AttentionShapeT &shape, Sizes &size) {
    size.positive(
        {shape.batch, shape.seq, shape.heads, shape.kv_heads, shape.head_dim});
    if (shape.capacity != 0)
      size.positive({shape.capacity});
    if (!size.fit || shape.heads % shape.kv_heads != 0) {
      size.fit = false;
      return;
    }
    tokens = size(CheckedSize(shape.batch) * shape.seq);
    keys =
        size(attentionKeys(shape.batch, shape.seq, shape.capacity, shape.pool));
    pages = size(attentionPages(shape.batch, shape.capacity));
    queryWidth = size(CheckedSize(shape.heads) * shape.head_dim);
    keyWidth = size(CheckedSize(shape.kv_heads) * shape.head_dim);
    results = size(CheckedSize(tokens) * queryWidth);
    sums = size(CheckedSize(tokens) * shape.heads);
  }
  int64_t tokens = 1, keys = 1, queryWidth = 1, keyWidth = 1, results = 1,
          sums = 1, pages = 0;
};

Shapes shapes(const AttentionT &attention, Sizes &size) {
  const AttentionShapeT &d = *attention.shape;
  const AttentionSizes s(d, size);
  return {matrix("q", Access::Read, s.tokens, s.queryWidth, d.q_ld),
          matrix("k", Access::Read, s.keys, s.keyWidth, d.kv_ld),
          matrix("v", Access::Read, s.keys, s.keyWidth, d.kv_ld),
          integers("lengths", d.batch),
          integers("positions", s.tokens),
          matrix("out", Access::Write, 1, s.results, 0),
          matrix("lse", Access::Write, 1, s.sums, 0),
          workspace(),
          onlyIf(d.pool != 0, integers("pages", s.pages))};
}

Shapes shapes(const AttentionGradT &attention, Sizes &size) {
  const AttentionShapeT &d = *attention.shape;
  const AttentionSizes s(d, size);
  return {matrix("dout", Access::Read, 1, s.results, 0),
          matrix("q", Access::Read, s.tokens, s.queryWidth, d.q_ld),
          matrix("k", Access::Read, s.keys, s.keyWidth, d.kv_ld),
          matrix("v", Access::Read, s.keys, s.keyWidth, d.kv_ld),
          integers("lengths", d.batch),
          integers("positions", s.tokens),
          matrix("out", Access::Read, 1, s.results, 0),
          matrix("lse", Access::Read, 1, s.sums, 0),
          matrix("dq", Access::Write, s.tokens, s.queryWidth, d.q_ld),
          matrix("dk", Access::Write, s.tokens, s.keyWidth, d.kv_ld),
          matrix("dv", Access::Write, s.tokens, s.keyWidth, d.kv_ld),
          workspace()};
}

Shapes shapes(const CollectiveT &collective, Sizes &size, const Mesh &mesh) {
  size.positive({collective.outer, collective.inner});
  CheckedSize members = 1;
  for (uint32_t axis : collective.axes)
    members = members * mesh.axisSize(static_cast<int>(axis));
  const int64_t whole = size(members * collective.inner);
  const CollectiveKind kind = collective.kind;
  const bool gathers =
      kind == CollectiveKind::AllGather || kind == CollectiveKind::AllToAll;
  const bool scatters =
      kind == CollectiveKind::ReduceScatter || kind == CollectiveKind::AllToAll;
  return {moved(matrix("src", Access::Read, collective.outer,
                       scatters ? whole : collective.inner, collective.src_ld)),
          moved(matrix("dst", Access::Write, collective.outer,
                       gathers ? whole : collective.inner, collective.dst_ld))};
}

} // namespace

std::optional<std::vector<OperandShape>> shapesOf(const ActionUnion &action,
                                                  const Mesh &mesh) {
  Sizes size;
  Shapes result;
  switch (action.type) {
  case Action::Gemm:
    result = shapes(*action.AsGemm(), size);
    break;
  case Action::PackMatrix:
    result = shapes(*action.AsPackMatrix(), size);
    break;
  case Action::Copy: {
    const CopyT &copy = *action.AsCopy();
    size.positive({copy.rows, copy.cols});
    result = {matrix("src", Access::Read, copy.rows, copy.cols, copy.src_ld),
              matrix("dst", Access::Write, copy.rows, copy.cols, copy.dst_ld)};
    break;
  }
  case Action::Fill: {
    const FillT &fill = *action.AsFill();
    size.positive({fill.rows, fill.cols});
    result = {matrix("dst", Access::Write, fill.rows, fill.cols, fill.ld)};
    break;
  }
  case Action::Attention:
    result = shapes(*action.AsAttention(), size);
    break;
  case Action::AttentionGrad:
    result = shapes(*action.AsAttentionGrad(), size);
    break;
  case Action::Collective:
    result = shapes(*action.AsCollective(), size, mesh);
    break;
  case Action::Send: {
    const SendT &send = *action.AsSend();
    size.positive({send.rows, send.cols});
    result = {
        moved(matrix("src", Access::Read, send.rows, send.cols, send.ld))};
    break;
  }
  case Action::Receive: {
    const ReceiveT &receive = *action.AsReceive();
    size.positive({receive.rows, receive.cols});
    result = {moved(
        matrix("dst", Access::Write, receive.rows, receive.cols, receive.ld))};
    break;
  }
  case Action::Wait:
  case Action::Launch:
  case Action::NONE:
    break;
  }
  for (const OperandShape &shape : result)
    if (shape.need != OperandShape::Absent && shape.cols != 0 &&
        (shape.rows > 1 && (shape.ld < shape.cols || shape.ld > kMaxElements)))
      size.fit = false;
    else if (shape.cols != 0)
      size(matrixExtent(shape.rows, shape.cols, shape.rows > 1 ? shape.ld : 0));
  if (!size.fit)
    return std::nullopt;
  return result;
}

OperandT makeOperand(const OperandShape &shape, ElementType type,
                     uint32_t address) {
  OperandT operand;
  operand.address = address;
  operand.type = type;
  operand.access = shape.access;
  operand.rows = shape.rows;
  operand.row_bytes = shape.cols * elementBytes(type);
  operand.pitch = shape.rows > 1 ? shape.ld * elementBytes(type) : 0;
  // Rows without gaps are one.
  if (operand.rows > 1 && operand.pitch == operand.row_bytes) {
    operand.row_bytes *= operand.rows;
    operand.rows = 1;
    operand.pitch = 0;
  }
  return operand;
}

} // namespace optimus_support::program
