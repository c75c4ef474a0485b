//===- OptimusAttentionOps.cpp - Attention and positions --------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/Optimus/IR/AttentionShape.h"
#include "optimus/Dialect/Optimus/IR/ModelFacts.h"
#include "optimus/Dialect/Optimus/IR/Optimus.h"
#include "optimus/Dialect/Optimus/IR/WholeShape.h"

#include "Einsums.h"
#include "Gradients.h"
#include "ShapeChecks.h"

#include "optimus-support/CachePages.h"

#include <cmath>

using namespace mlir;
using namespace mlir::optimus;

//===----------------------------------------------------------------------===//
// AttentionShape
//===----------------------------------------------------------------------===//

bool AttentionShape::isValid(ValueRange inputs, bool isCached) {
  if (inputs.size() == 1) {
    ArrayRef<int64_t> qkv = shapeOf(inputs[0]);
    return !isCached && qkv.size() == 5 && qkv[2] == 3;
  }
  if (inputs.size() != 3)
    return false;
  ArrayRef<int64_t> q = shapeOf(inputs[Q]), k = shapeOf(inputs[K]);
  if (k.size() != 4 || shapeOf(inputs[V]) != k)
    return false;
  SmallVector<int64_t> expected(k);
  if (q.size() == 5)
    expected.insert(expected.begin() + 3, q[3]);
  if (isCached && q.size() > 1) {
    expected[1] = q[1];
    if (k[0] == 1 && q[1] == 1)
      expected[0] = q[0];
  }
  return q == ArrayRef<int64_t>(expected);
}

AttentionShape::AttentionShape(ValueRange inputs)
    : isPacked(inputs.size() == 1) {
  assert((isValid(inputs, false) || isValid(inputs, true)) &&
         "C1 of optimus.attention holds");
  ArrayRef<int64_t> q = shapeOf(inputs[Q]);
  batch = q[0];
  sequence = q[1];
  capacity = isPacked ? sequence : shapeOf(inputs[K])[1];
  hasGroupDim = !isPacked && q.size() == 5;
  groups = isPacked ? q[3] : q[2];
  queriesPerGroup = hasGroupDim ? q[3] : 1;
  headDim = q.back();
  // A rank may have one token of a chunk, or one slot.
  isOfOneCache = !isPacked && sequence == 1 &&
                 getWholeShape(inputs[K])[0] == 1 &&
                 getWholeShape(inputs[Q])[0] != 1;
}

int64_t AttentionShape::getStride(Part part) const {
  if (isPacked)
    return 3 * getNumHeads() * headDim;
  return (part == Q ? getNumHeads() : groups) * headDim;
}

SmallVector<int64_t> AttentionShape::getResultShape() const {
  if (hasGroupDim)
    return {batch, sequence, groups, queriesPerGroup, headDim};
  return {batch, sequence, groups, headDim};
}

SmallVector<int64_t> AttentionShape::getLseShape() const {
  const int64_t batch = getNumSequences(), sequence = getNumQueries();
  if (hasGroupDim)
    return {batch, groups, queriesPerGroup, sequence};
  return {batch, groups, sequence};
}

std::string AttentionShape::getInputTerms(bool isCached) const {
  if (isOfOneCache)
    return getResultTerm() + ",ucgd,ucgd";
  return isPacked ? "bstgd"
                  : getResultTerm() + (isCached ? ",bcgd,bcgd" : ",bsgd,bsgd");
}

std::string AttentionShape::getResultTerm() const {
  return hasGroupDim ? "bsgrd" : "bsgd";
}

std::string AttentionShape::getLseTerm() const {
  if (isOfOneCache)
    return hasGroupDim ? "ugrb" : "ugb";
  return hasGroupDim ? "bgrs" : "bgs";
}

//===----------------------------------------------------------------------===//
// Attention and its gradient
//===----------------------------------------------------------------------===//

static LogicalResult expectInputs(Operation *op, ValueRange inputs,
                                  bool isCached = false) {
  if (AttentionShape::isValid(inputs, isCached))
    return success();
  if (isCached && inputs.size() == 1)
    return op->emitOpError("C8: expected q, k and v of cached attention, found "
                           "one tensor of shape ")
           << toString(shapeOf(inputs.front()));
  InFlightDiagnostic error = op->emitOpError(
      "C1: expected qkv of shape [batch, sequence, 3, heads, "
      "head dimension], or q of shape [batch, sequence, groups, "
      "(queries,) head dimension] with k and v of shape [batch, ");
  error << (isCached ? "capacity" : "sequence")
        << ", groups, head dimension], found ";
  llvm::interleaveComma(
      inputs, error, [&](Value value) { error << toString(shapeOf(value)); });
  return error;
}

/// Checks that values have the element type of attention's operands.
static LogicalResult
expectInputElements(Operation *op, ValueRange inputs,
                    ArrayRef<std::pair<StringRef, ValueRange>> groups) {
  for (auto [name, values] : groups)
    for (Value value : values)
      if (failed(expectElements(op, "C5", name, value,
                                elementTypeOf(inputs.front()))))
        return failure();
  return success();
}

static LogicalResult expectLengths(Operation *op, Value lengths,
                                   int64_t batch) {
  if (!lengths)
    return success();
  return expectShape(op, "C4", "lengths", lengths, batch);
}

/// Checks the positions of an attention.
static LogicalResult expectPositions(Operation *op, Value positions,
                                     const AttentionShape &shape, bool causal) {
  if (!positions)
    return success();
  if (!causal)
    return op->emitOpError(
        "C6: expected attention with positions to be causal");
  return expectShape(op, "C6", "positions", positions,
                     {shape.batch, shape.sequence});
}

/// Checks the window of an attention or of its gradient.
template <typename Op>
static LogicalResult expectWindow(Op op) {
  IntegerAttr window = op.getWindowAttr();
  if (!window)
    return success();
  if (window.getInt() < 1)
    return op.emitOpError("C7: expected a window of at least 1, found ")
           << window.getInt();
  if (!op.getCausal())
    return op.emitOpError("C7: expected attention with a window to be causal");
  return success();
}

/// Checks the table of a cache's pages, [b, p].
static LogicalResult expectPages(Operation *op, StringRef constraint,
                                 Value pages, Value cache) {
  if (!pages)
    return success();
  ArrayRef<int64_t> pool = shapeOf(cache), table = shapeOf(pages);
  if (table.size() != 2 || table[0] != pool[0] || table[1] < 1)
    return op->emitOpError()
           << constraint << ": expected pages of shape [" << pool[0]
           << ", pages of a sequence], found " << toString(table);
  if (pool[1] % optimus_support::kPageTokens != 0)
    return op->emitOpError()
           << constraint << ": expected whole pages of "
           << optimus_support::kPageTokens << " positions, found " << pool[1]
           << " positions a sequence";
  return success();
}

LogicalResult AttentionOp::verify() {
  if (failed(expectInputs(*this, getInputs(), getCached())))
    return failure();
  if (getCached() && (!getCausal() || !getLengths() || !getPositions()))
    return emitOpError("C8: expected cached attention to be causal, with "
                       "lengths and positions");
  AttentionShape shape(getInputs());
  if (getPages() && (!getCached() || shape.sequence != 1 || shape.isOfOneCache))
    return emitOpError("C9: expected attention with pages to be cached, with "
                       "one query a sequence");
  if (getPages() &&
      failed(expectPages(*this, "C9", getPages(), getInputs()[1])))
    return failure();
  if (failed(expectShape(*this, "C2", "a result", getResult(),
                         shape.getResultShape())) ||
      failed(expectLengths(*this, getLengths(), shape.getNumSequences())) ||
      failed(expectPositions(*this, getPositions(), shape, getCausal())) ||
      failed(expectWindow(*this)) ||
      failed(expectInputElements(*this, getInputs(),
                                 {{"an operand", getInputs()},
                                  {"a result", ValueRange(getResult())}})))
    return failure();
  return expectShape(*this, "C3", "lse", getLse(), shape.getLseShape());
}

LogicalResult AttentionGradOp::verify() {
  if (failed(expectInputs(*this, getInputs())))
    return failure();
  if (getDinputs().size() != getInputs().size())
    return emitOpError("C1: expected a gradient for each of ")
           << getInputs().size() << " operands of attention, found "
           << getDinputs().size();
  for (auto [input, gradient] : llvm::zip(getInputs(), getDinputs()))
    if (failed(
            expectShape(*this, "C1", "a gradient", gradient, shapeOf(input))))
      return failure();
  AttentionShape shape(getInputs());
  SmallVector<int64_t> out = shape.getResultShape();
  if (failed(expectShape(*this, "C2", "dout", getDout(), out)) ||
      failed(expectShape(*this, "C2", "out", getOut(), out)) ||
      failed(expectLengths(*this, getLengths(), shape.batch)) ||
      failed(expectPositions(*this, getPositions(), shape, getCausal())) ||
      failed(expectWindow(*this)) ||
      failed(expectInputElements(*this, getInputs(),
                                 {{"dout", ValueRange(getDout())},
                                  {"out", ValueRange(getOut())},
                                  {"an operand", getInputs()},
                                  {"a gradient", getDinputs()}})))
    return failure();
  return expectShape(*this, "C3", "lse", getLse(), shape.getLseShape());
}

// Heads of queries sharded within their group give partial sums of the
// gradients of their shared keys and values.
static constexpr std::pair<char, FactorKind> kinds[] = {
    {'s', FactorKind::Whole}, {'c', FactorKind::Whole},
    {'t', FactorKind::Whole}, {'u', FactorKind::Whole},
    {'p', FactorKind::Whole}, {'d', FactorKind::Whole}};
static constexpr std::pair<char, DimensionClass> attentionDimensions[] = {
    {'b', DimensionClass::Batch},
    {'s', DimensionClass::Sequence},
    {'g', DimensionClass::Heads},
    {'d', DimensionClass::Channels}};

/// No position sees later ones where attention is causal, nor what lengths
/// leave out, so padding at the end of the sequence is seen by padding alone.
static ShardingRule getRule(Operation *op, const std::string &spec,
                            bool allowsPadding) {
  ShardingRule rule =
      ShardingRule::fromEinsum(op, spec, kinds, attentionDimensions);
  constexpr int sequence = 1;
  rule.factors[rule.operands[0][sequence]].allowsPadding = allowsPadding;
  return rule;
}

/// Terms of lengths and positions.
template <typename Op>
static std::string getMaskTerms(Op op, const AttentionShape &shape) {
  return std::string(op.getLengths() ? (shape.isOfOneCache ? ",u" : ",b")
                                     : "") +
         (op.getPositions() ? ",bs" : "");
}

ShardingRule AttentionOp::getShardingRule() {
  AttentionShape shape(getInputs());
  return getRule(*this,
                 shape.getInputTerms(getCached()) + getMaskTerms(*this, shape) +
                     (getPages() ? ",bp" : "") + "->" + shape.getResultTerm() +
                     "," + shape.getLseTerm(),
                 getCausal() || getLengths());
}

ShardingRule AttentionGradOp::getShardingRule() {
  AttentionShape shape(getInputs());
  std::string out = shape.getResultTerm(), inputs = shape.getInputTerms();
  return getRule(*this,
                 out + "," + out + "," + shape.getLseTerm() + "," + inputs +
                     getMaskTerms(*this, shape) + "->" + inputs,
                 getCausal() || getLengths());
}

LogicalResult AttentionOp::buildGradient(OpBuilder &builder,
                                         ArrayRef<Value> resultGradients,
                                         GradientAccumulator &gradients) {
  if (failed(rejectGradients(*this, resultGradients, {"lse"}, 1)))
    return failure();
  if (getCached())
    return emitOpError("is of a cache, through which there is no gradient");
  Value dy = resultGradients[0];
  auto grad = AttentionGradOp::create(
      builder, getLoc(), dy, getResult(), getLse(), getInputs(), getLengths(),
      getPositions(), getCausal(), getWindowAttr());
  for (auto [input, gradient] : llvm::zip(getInputs(), grad.getDinputs()))
    gradients.add(input, gradient);
  return success();
}

//===----------------------------------------------------------------------===//
// Caches
//===----------------------------------------------------------------------===//

LogicalResult CacheAppendOp::verify() {
  ArrayRef<int64_t> cache = shapeOf(getCache()), rows = shapeOf(getRows());
  if (cache.size() < 3)
    return emitOpError("C1: expected a cache of rank 3 at least, found ")
           << toString(cache);
  if (rows.size() != cache.size() || (!getSlot() && rows[0] != cache[0]) ||
      rows.drop_front(2) != cache.drop_front(2))
    return emitOpError("C2: expected rows of the shape of the cache but for "
                       "their number, ")
           << toString(cache) << ", found " << toString(rows);
  SmallVector<int64_t> places(rows.take_front(2));
  // What mesh and layout add to a chunk has no position.
  if (getSlot() && !shapeOf(getPositions()).empty())
    places[0] = std::min(places[0], shapeOf(getPositions())[0]);
  if (failed(expectShape(*this, "C3", "positions", getPositions(), places)) ||
      failed(expectElements(*this, "C4", "rows", getRows(),
                            elementTypeOf(getCache()))))
    return failure();
  if (getResult().getType() != getCache().getType())
    return emitOpError(
               "C5: expected the result to have the type of the cache, ")
           << getCache().getType() << ", found " << getResult().getType();
  if (getSlot() && failed(expectShape(*this, "C6", "slot", getSlot(), 1)))
    return failure();
  return expectPages(*this, "C7", getPages(), getCache());
}

/// Letters of the dimensions behind the second: of attention's keys and values,
/// or of whatever has slots.
static std::string getTermsOfSlots(Value cache) {
  const int64_t rank = shapeOf(cache).size();
  return rank == 4 ? "gd" : letters(rank - 2, 'C');
}

ShardingRule CacheAppendOp::getShardingRule() {
  const std::string rest = getTermsOfSlots(getCache());
  const std::string pages = getPages() ? ",bp" : "";
  if (getSlot()) {
    // Rows are gathered, positions never sharded.
    ShardingRule rule = ShardingRule::fromEinsum(
        *this, "bc" + rest + ",ns" + rest + ",ms,u" + pages + "->bc" + rest,
        {{'c', FactorKind::Whole},
         {'p', FactorKind::Whole},
         {'n', FactorKind::Whole},
         {'m', FactorKind::Whole},
         {'s', FactorKind::Whole},
         {'u', FactorKind::Whole}},
        attentionDimensions);
    // Padding has no position.
    rule.factors[rule.operands[1][0]].allowsPadding = true;
    return rule;
  }
  return ShardingRule::fromEinsum(
      *this, "bc" + rest + ",bs" + rest + ",bs" + pages + "->bc" + rest,
      {{'c', FactorKind::Whole},
       {'p', FactorKind::Whole},
       {'s', FactorKind::Whole}},
      attentionDimensions);
}

LogicalResult TakeOp::verify() {
  ArrayRef<int64_t> x = shapeOf(getX());
  if (x.size() < (getLength() ? 3 : 2))
    return emitOpError("C1: expected x of rank ")
           << (getLength() ? 3 : 2) << " at least, found " << toString(x);
  if (getPages() && !getLength())
    return emitOpError("C6: expected a length beside pages");
  if (failed(expectPages(*this, "C6", getPages(), getX())))
    return failure();
  SmallVector<int64_t> expected(x);
  expected.front() = 1;
  if (getPages())
    expected[1] = shapeOf(getPages())[1] * optimus_support::kPageTokens;
  if (failed(expectShape(*this, "C2", "a result", getResult(), expected)) ||
      failed(expectShape(*this, "C3", "index", getIndex(), 1)) ||
      (getLength() &&
       failed(expectShape(*this, "C4", "length", getLength(), 1))))
    return failure();
  return expectElements(*this, "C5", "a result", getResult(),
                        elementTypeOf(getX()));
}

ShardingRule TakeOp::getShardingRule() {
  std::string rest = letters(shapeOf(getX()).size() - 1, 'A');
  std::string taken = rest;
  // The keys and values of a slot, of as many positions as its pages hold.
  if (getLength()) {
    const std::string heads = getTermsOfSlots(getX());
    rest = "A" + heads;
    taken = (getPages() ? "B" : "A") + heads;
  }
  return ShardingRule::fromEinsum(*this,
                                  "b" + rest + ",u" +
                                      (getLength() ? ",u" : "") +
                                      (getPages() ? ",bp" : "") + "->u" + taken,
                                  {{'b', FactorKind::Contracted},
                                   {'u', FactorKind::Whole},
                                   {'p', FactorKind::Whole},
                                   {getLength() ? 'A' : 'u', FactorKind::Whole},
                                   {getPages() ? 'B' : 'u', FactorKind::Whole}},
                                  attentionDimensions);
}

// Elements are copied, and parts are zeros but for one.
double TakeOp::countRoundings(unsigned result) { return 0; }

LogicalResult PartOp::verify() {
  ArrayRef<int64_t> packed = shapeOf(getPacked());
  if (packed.size() < 4)
    return emitOpError(
               "C1: expected a packed tensor of rank 4 at least, found ")
           << toString(packed);
  SmallVector<int64_t> expected(packed);
  expected.erase(expected.begin() + 2);
  if (failed(expectShape(*this, "C1", "a result", getResult(), expected)))
    return failure();
  const auto index = static_cast<int64_t>(getIndex());
  if (index < 0 || index >= packed[2])
    return emitOpError("C2: expected an index from 0 to ")
           << packed[2] - 1 << ", found " << index;
  return expectElements(*this, "C3", "a result", getResult(),
                        elementTypeOf(getPacked()));
}

ShardingRule PartOp::getShardingRule() {
  // Of attention's qkv, or whatever has parts.
  std::string rest = "gd";
  if (shapeOf(getPacked()).size() != 5) {
    rest.clear();
    for (size_t dim = 3; dim < shapeOf(getPacked()).size(); ++dim)
      rest.push_back('A' + dim);
  }
  return ShardingRule::fromEinsum(*this, "bst" + rest + "->bs" + rest,
                                  {{'t', FactorKind::Whole}},
                                  attentionDimensions);
}

// Elements are copied.
double PartOp::countRoundings(unsigned result) { return 0; }

//===----------------------------------------------------------------------===//
// Rotary position embedding
//===----------------------------------------------------------------------===//

void AttentionOp::stateFacts(ModelFacts &facts) {
  AttentionShape shape(getInputs());
  facts.decide("heads", shape.getNumHeads());
  if (shape.hasGroupDim)
    facts.decide("kv_heads", shape.groups);
  facts.decide("head_dim", shape.headDim);
  facts.decide("qkv", shape.isPacked ? "packed" : "separate");
  facts.decide("mask", getCausal() ? "causal" : "bidirectional");
  if (getWindowAttr())
    facts.decide("window", getWindowAttr().getInt());
  facts.decide("padding", getLengths() ? "masked" : "none");
}

std::optional<Value> AttentionOp::getPlaces() { return getPositions(); }
std::optional<Value> RotaryOp::getPlaces() { return getPositions(); }

void RotaryOp::stateFacts(ModelFacts &facts) {
  facts.decide("rope_theta", getThetaAttr());
  facts.decide("rotary_dim", getNumRotated());
  if (getFrequencies())
    facts.decide("rope_frequencies", "given");
}

LogicalResult RotaryOp::verify() {
  ArrayRef<int64_t> x = shapeOf(getX());
  if (x.size() < 3 || (!getChannels() && x.back() % 2 != 0))
    return emitOpError("C1: expected x of shape [batch, sequence, ..., an even "
                       "number], found ")
           << toString(x);
  double theta = getTheta().convertToDouble();
  if (!(theta > 0) || !std::isfinite(theta))
    return emitOpError("C2: expected a positive theta, found ") << theta;
  int64_t channels = getNumRotated();
  if (channels < 2 || channels > x.back() || channels % 2 != 0)
    return emitOpError("C3: expected channels to be an even number from 2 to "
                       "the ")
           << x.back() << " of x, found " << channels;
  if (std::optional<int64_t> parts = getParts())
    if (x.size() < 4 || *parts < 1 || *parts > x[2])
      return emitOpError("C4: expected parts to be from 1 to the third "
                         "dimension of x, which has at least four; found ")
             << *parts << " of " << toString(x);
  if (getPositions() && failed(expectShape(*this, "C5", "positions",
                                           getPositions(), x.take_front(2))))
    return failure();
  if (getResult().getType() != getX().getType())
    return emitOpError("C6: expected the result to have the type of x, ")
           << getX().getType() << ", found " << getResult().getType();
  if (IntegerAttr capacity = getCapacityAttr())
    if (capacity.getInt() < 1 || !getPositions())
      return emitOpError("C7: expected a positive capacity with positions, "
                         "found ")
             << capacity.getInt()
             << (getPositions() ? "" : " and no positions");
  if (std::optional<ArrayRef<double>> frequencies = getFrequencies()) {
    if (int64_t(frequencies->size()) != channels / 2)
      return emitOpError("C8: expected ")
             << channels / 2 << " frequencies, one for each pair, found "
             << frequencies->size();
    for (double frequency : *frequencies)
      if (!(frequency > 0) || !std::isfinite(frequency))
        return emitOpError("C8: expected positive frequencies, found ")
               << frequency;
  }
  return success();
}

int64_t RotaryOp::getNumRotatedHeads() {
  ArrayRef<int64_t> heads = shapeOf(getX()).drop_front(2).drop_back();
  int64_t each = 1;
  for (int64_t extent : heads.drop_front(getParts() ? 1 : 0))
    each *= extent;
  return getParts().value_or(1) * each;
}

ShardingRule RotaryOp::getShardingRule() {
  std::string term;
  for (size_t dim = 0; dim < shapeOf(getX()).size(); ++dim)
    term.push_back('a' + dim);
  std::string positions = getPositions() ? "," + term.substr(0, 2) : "";
  ShardingRule rule = ShardingRule::fromEinsum(
      *this, term + positions + "->" + term,
      {{term[1], FactorKind::Whole},
       {term.back(), FactorKind::Whole},
       // Nothing, where all parts are rotated alike.
       {getParts() ? term[2] : term[1], FactorKind::Whole}});
  // Positions beyond the sequence only turn padding.
  rule.factors[rule.operands[0][1]].allowsPadding = true;
  return rule;
}

// The transpose of a rotation is its inverse.
LogicalResult RotaryOp::buildGradient(OpBuilder &builder,
                                      ArrayRef<Value> resultGradients,
                                      GradientAccumulator &gradients) {
  Value dy = resultGradients[0];
  gradients.add(
      getX(),
      RotaryOp::create(builder, getLoc(), dy, getPositions(), getThetaAttr(),
                       getInverse() ? UnitAttr() : builder.getUnitAttr(),
                       getChannelsAttr(), getPartsAttr(), getCapacityAttr(),
                       getFrequenciesAttr()));
  return success();
}
