//===- Attention.cpp - Attention and position embedding ---------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LocalOps.h"

#include "optimus/Dialect/Optimus/IR/AttentionShape.h"
#include "optimus/Dialect/Optimus/IR/Optimus.h"
#include "optimus/Interpreter/DenseAttention.h"
#include "optimus/Interpreter/Interpreter.h"

#include "optimus-support/CachePages.h"

#include <algorithm>
#include <cmath>

using optimus_support::kPageTokens;
using namespace mlir;
using namespace mlir::optimus;

namespace {

/// Copies between a part of a tensor, a token's heads side by side, and a
/// tensor of that part alone.
struct PartRows {
  PartRows(const AttentionShape &shape, AttentionShape::Part part)
      : tokens(shape.batch *
               (part == AttentionShape::Q ? shape.sequence : shape.capacity)),
        stride(shape.getStride(part)), offset(shape.getOffset(part)),
        width((part == AttentionShape::Q ? shape.getNumHeads() : shape.groups) *
              shape.headDim) {}

  std::vector<double> gather(const Tensor &from) const {
    std::vector<double> part;
    for (int64_t token = 0; token < tokens; ++token) {
      auto row = from.elements.begin() + token * stride + offset;
      part.insert(part.end(), row, row + width);
    }
    return part;
  }
  void scatter(const std::vector<double> &part, Tensor &to) const {
    for (int64_t token = 0; token < tokens; ++token)
      std::copy_n(part.begin() + token * width, width,
                  to.elements.begin() + token * stride + offset);
  }

  int64_t tokens, stride, offset, width;
};

/// Integers, as tensors hold them.
std::vector<int64_t> toIntegers(const Tensor &tensor) {
  return {tensor.elements.begin(), tensor.elements.end()};
}

/// That positions, so many of each sequence, are below a cache's capacity.
LogicalResult checkPositions(const std::vector<int64_t> &positions,
                             int64_t queries, int64_t capacity, Frame &frame) {
  for (auto [token, position] : llvm::enumerate(positions))
    if (position >= capacity)
      return frame.emitError()
             << "expected positions below the capacity of " << capacity
             << ", found " << position << " of token " << token % queries
             << " of sequence " << token / queries;
  return success();
}

/// Where the positions of sequences are in a pool of pages, of which a rank may
/// hold a part.
class PageTable {
public:
  PageTable(Frame &frame, Value cache, Value pages)
      : table(toIntegers(frame.get(pages))), pages(frame.get(pages).shape[1]) {
    const Tensor &pool = frame.get(cache);
    ofEach = pool.shape[1] / kPageTokens;
    most = pool.shape[0] * ofEach;
  }
  int64_t getPositions() const { return pages * kPageTokens; }
  /// The row of a position of a sequence, counted from the first of the pool.
  FailureOr<int64_t> find(int64_t sequence, int64_t position,
                          Frame &frame) const {
    const int64_t entry = table[sequence * pages + position / kPageTokens];
    const int64_t page = sequence * ofEach + entry;
    if (page < 0 || page >= most)
      return frame.emitError()
             << "expected entries of pages from " << -sequence * ofEach
             << " to " << most - 1 - sequence * ofEach << ", found " << entry
             << " of sequence " << sequence;
    return page * kPageTokens + position % kPageTokens;
  }

private:
  std::vector<int64_t> table;
  int64_t pages, ofEach, most;
};

/// Keys or values of sequences in their order: those of positions below each
/// one's length, and zeros.
FailureOr<std::vector<double>>
gatherPages(const PageTable &table, const std::vector<double> &pool,
            int64_t width, const std::vector<int64_t> &lengths, Frame &frame) {
  const int64_t positions = table.getPositions();
  std::vector<double> rows(lengths.size() * positions * width);
  for (auto [sequence, length] : llvm::enumerate(lengths))
    for (int64_t position = 0; position < std::min(length, positions);
         ++position) {
      FailureOr<int64_t> row = table.find(sequence, position, frame);
      if (failed(row))
        return failure();
      std::copy_n(pool.begin() + *row * width, width,
                  rows.begin() +
                      (int64_t(sequence) * positions + position) * width);
    }
  return rows;
}

/// A gradient is of no cache.
bool isCached(Operation *op) {
  auto attention = dyn_cast<AttentionOp>(op);
  return attention && attention.getCached();
}

/// The operands of an attention, with the extents that frames hold: those of
/// whole tensors, whatever the operand's type.
template <typename Op>
struct Parts {
  Parts(Op op, Frame &frame) : shape(op.getInputs()) {
    auto get = [&](AttentionShape::Part part) -> const Tensor & {
      return frame.get(op.getInputs()[shape.getOperand(part)]);
    };
    const Tensor &q = get(AttentionShape::Q);
    shape.batch = q.shape[0];
    shape.sequence = q.shape[1];
    // Queries of one cache are a sequence.
    if (isCached(op) && get(AttentionShape::K).shape[0] != shape.batch)
      std::swap(shape.batch, shape.sequence);
    shape.isOfOneCache = false;
    shape.groups = q.shape[shape.isPacked ? 3 : 2];
    shape.capacity = get(AttentionShape::K).shape[1];
    if (shape.hasGroupDim)
      shape.queriesPerGroup = q.shape[3];
    auto gather = [&](AttentionShape::Part part) {
      return PartRows(shape, part).gather(get(part));
    };
    dense = {.batch = shape.batch,
             .seq = shape.sequence,
             .heads = shape.getNumHeads(),
             .kvHeads = shape.groups,
             .headDim = shape.headDim,
             .causal = op.getCausal(),
             .window = static_cast<int64_t>(op.getWindow().value_or(0)),
             .capacity = isCached(op) ? shape.capacity : 0,
             .q = gather(AttentionShape::Q),
             .k = gather(AttentionShape::K),
             .v = gather(AttentionShape::V),
             .lengths = {},
             .positions = {}};
    if (op.getLengths())
      dense.lengths = toIntegers(frame.get(op.getLengths()));
    if (op.getPositions())
      dense.positions = toIntegers(frame.get(op.getPositions()));
  }

  /// Head dimensions must be whole, and positions where padded ones would be
  /// seen.
  LogicalResult check(Op op, Frame &frame) const {
    for (Value input : op.getInputs()) {
      const Tensor &tensor = frame.get(input);
      int64_t last = tensor.shape.size() - 1;
      for (int64_t dim = 1; dim <= last; ++dim) {
        bool isWhole =
            (dim == 1 && !op.getCausal() && !op.getLengths()) ||
            (dim == 1 && isCached(op) && input != op.getInputs()[0]) ||
            dim == last || (shape.isPacked && dim == 2);
        if (isWhole && frame.getExtent(input, dim).real != tensor.shape[dim])
          return frame.emitError() << "expected dimension " << dim
                                   << " of an operand without padding";
      }
    }
    const int64_t least = isCached(op) ? 0 : 1, most = shape.capacity;
    for (auto [sequence, length] : llvm::enumerate(dense.lengths))
      if (length < least || length > most)
        return frame.emitError()
               << "expected lengths from " << least << " to " << most
               << ", found " << length << " of sequence " << sequence;
    if (isCached(op))
      return checkPositions(dense.positions, shape.sequence, most, frame);
    return success();
  }

  AttentionShape shape;
  DenseAttention dense;
};

LogicalResult executeLocally(AttentionOp op, Frame &frame) {
  Parts parts(op, frame);
  if (op.getPages()) {
    PageTable table(frame, op.getInputs()[1], op.getPages());
    const int64_t width = parts.shape.groups * parts.shape.headDim;
    for (std::vector<double> *rows : {&parts.dense.k, &parts.dense.v}) {
      FailureOr<std::vector<double>> found =
          gatherPages(table, *rows, width, parts.dense.lengths, frame);
      if (failed(found))
        return failure();
      *rows = std::move(*found);
    }
    parts.shape.capacity = parts.dense.capacity = table.getPositions();
  }
  if (failed(parts.check(op, frame)))
    return failure();
  DenseAttention::Result result = parts.dense.attend();
  frame.result(op.getResult()).elements = std::move(result.out);
  frame.result(op.getLse()).elements = std::move(result.lse);
  return success();
}

LogicalResult executeLocally(AttentionGradOp op, Frame &frame) {
  Parts parts(op, frame);
  if (failed(parts.check(op, frame)))
    return failure();
  DenseAttention::Gradients gradients = parts.dense.differentiate(
      frame.get(op.getDout()).elements,
      {frame.get(op.getOut()).elements, frame.get(op.getLse()).elements});
  auto scatter = [&](AttentionShape::Part part, std::vector<double> &values) {
    Value result = op.getDinputs()[parts.shape.getOperand(part)];
    PartRows(parts.shape, part).scatter(values, frame.result(result));
  };
  scatter(AttentionShape::Q, gradients.dq);
  scatter(AttentionShape::K, gradients.dk);
  scatter(AttentionShape::V, gradients.dv);
  return success();
}

/// The local entry of a first dimension that an index chooses; -1 where another
/// rank has it, and where it is negative. Fails beyond the whole.
FailureOr<int64_t> findEntry(Frame &frame, Value tensor, Value index) {
  const auto chosen = static_cast<int64_t>(frame.get(index)[0]);
  const int64_t total = getWholeShape(tensor.getType())[0];
  if (chosen >= total)
    return frame.emitError()
           << "expected an index below " << total << ", found " << chosen;
  const Extent entries = frame.getExtent(tensor, 0);
  const int64_t entry = chosen - entries.offset;
  return chosen >= 0 && entry >= 0 && entry < entries.real ? entry : -1;
}

LogicalResult executeLocally(CacheAppendOp op, Frame &frame) {
  const Tensor &rows = frame.get(op.getRows());
  const Tensor &positions = frame.get(op.getPositions());
  Tensor &result = frame.result(op.getResult());
  result = frame.get(op.getCache());
  std::optional<int64_t> slot;
  if (op.getSlot()) {
    FailureOr<int64_t> found = findEntry(frame, op.getCache(), op.getSlot());
    if (failed(found))
      return failure();
    slot = *found;
  }
  const int64_t queries = rows.shape[1];
  const int64_t width = rows.getNumElements() / (rows.shape[0] * queries);
  std::optional<PageTable> table;
  if (op.getPages())
    table.emplace(frame, op.getCache(), op.getPages());
  const int64_t capacity = table ? table->getPositions() : result.shape[1];
  if (failed(checkPositions(toIntegers(positions), queries, capacity, frame)))
    return failure();
  for (int64_t row = 0; row < positions.getNumElements(); ++row)
    if (const auto position = static_cast<int64_t>(positions[row]),
        sequence = slot.value_or(row / queries);
        position >= 0 && sequence >= 0) {
      FailureOr<int64_t> place = sequence * capacity + position;
      if (table)
        place = table->find(sequence, position, frame);
      if (failed(place))
        return failure();
      std::copy_n(rows.elements.begin() + row * width, width,
                  result.elements.begin() + *place * width);
    }
  return success();
}

LogicalResult executeLocally(TakeOp op, Frame &frame) {
  const Tensor &x = frame.get(op.getX());
  Tensor &result = frame.result(op.getResult());
  FailureOr<int64_t> entry = findEntry(frame, op.getX(), op.getIndex());
  if (failed(entry))
    return failure();
  int64_t count = result.getNumElements();
  const int64_t width = count / result.shape[1];
  if (op.getLength()) {
    const auto length = static_cast<int64_t>(frame.get(op.getLength())[0]);
    if (length < 0 || length > result.shape[1])
      return frame.emitError() << "expected a length from 0 to "
                               << result.shape[1] << ", found " << length;
    count = width * length;
  }
  if (*entry >= 0 && op.getPages()) {
    PageTable table(frame, op.getX(), op.getPages());
    for (int64_t position = 0; position != count / width; ++position) {
      FailureOr<int64_t> row = table.find(*entry, position, frame);
      if (failed(row))
        return failure();
      std::copy_n(x.elements.begin() + *row * width, width,
                  result.elements.begin() + position * width);
    }
    return success();
  }
  if (*entry >= 0)
    std::copy_n(x.elements.begin() + *entry * result.getNumElements(), count,
                result.elements.begin());
  return success();
}

LogicalResult executeLocally(PartOp op, Frame &frame) {
  const Tensor &packed = frame.get(op.getPacked());
  Tensor &result = frame.result(op.getResult());
  const int64_t tokens = packed.shape[0] * packed.shape[1];
  const int64_t parts = packed.shape[2];
  const int64_t width = result.getNumElements() / tokens;
  const auto index = static_cast<int64_t>(op.getIndex());
  for (int64_t token = 0; token != tokens; ++token)
    std::copy_n(packed.elements.begin() + (token * parts + index) * width,
                width, result.elements.begin() + token * width);
  return success();
}

LogicalResult executeLocally(RotaryOp op, Frame &frame) {
  const Tensor &x = frame.get(op.getX());
  Tensor &result = frame.result(op.getResult());
  int64_t sequence = x.shape[1], dim = x.shape.back();
  // Positions beyond the sequence do no harm; pairs would be others.
  if (frame.getLastExtent(op.getX()).real != dim)
    return frame.emitError()
           << "expected the last dimension of x without padding";
  int64_t rowsAtPosition = x.getNumRows() / (x.shape[0] * sequence);
  int64_t channels = op.getChannels().value_or(dim), heads = rowsAtPosition;
  if (std::optional<int64_t> parts = op.getParts())
    heads = heads / x.shape[2] * *parts;
  double theta = op.getTheta().convertToDouble();
  std::optional<ArrayRef<double>> frequencies = op.getFrequencies();
  const Tensor *positions =
      op.getPositions() ? &frame.get(op.getPositions()) : nullptr;
  if (IntegerAttr capacity = op.getCapacityAttr())
    if (failed(checkPositions(toIntegers(*positions), sequence,
                              capacity.getInt(), frame)))
      return failure();
  for (int64_t element = 0; element < x.getNumElements(); ++element)
    result[element] = x[element];
  for (int64_t row = 0; row < x.getNumRows(); ++row)
    for (int64_t i = 0; i < channels / 2 && row % rowsAtPosition < heads; ++i) {
      int64_t token = row / rowsAtPosition;
      double position =
          positions ? (*positions)[token] : double(token % sequence);
      double angle =
          position * (frequencies ? (*frequencies)[i]
                                  : std::pow(theta, -2.0 * i / channels));
      if (op.getInverse())
        angle = -angle;
      int64_t low = row * dim + i, high = low + channels / 2;
      result[low] = std::cos(angle) * x[low] - std::sin(angle) * x[high];
      result[high] = std::cos(angle) * x[high] + std::sin(angle) * x[low];
    }
  return success();
}

} // namespace

void mlir::optimus::attachAttention(MLIRContext &context) {
  LocalModel<AttentionOp, executeLocally>::attach(context);
  LocalModel<AttentionGradOp, executeLocally>::attach(context);
  LocalModel<CacheAppendOp, executeLocally>::attach(context);
  LocalModel<PartOp, executeLocally>::attach(context);
  LocalModel<TakeOp, executeLocally>::attach(context);
  LocalModel<RotaryOp, executeLocally>::attach(context);
}
