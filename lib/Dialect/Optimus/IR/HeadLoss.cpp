//===- HeadLoss.cpp - The output head and its loss --------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/Optimus/IR/ModelFacts.h"
#include "optimus/Dialect/Optimus/IR/Optimus.h"
#include "optimus/Dialect/Optimus/IR/SymbolicValues.h"

#include "Einsums.h"
#include "Gradients.h"
#include "ShapeChecks.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::optimus;
using optimus_support::CheckedSize;

//===----------------------------------------------------------------------===//
// Verification
//===----------------------------------------------------------------------===//

/// C2 and C3 of all heads.
static LogicalResult verifyTable(Operation *op, Value table, Value bias) {
  ArrayRef<int64_t> shape = shapeOf(table);
  if (shape.size() != 2)
    return op->emitOpError("C2: expected a table of rank 2, found ")
           << toString(shape);
  return bias ? expectShape(op, "C3", "bias", bias, shape[0]) : success();
}

LogicalResult HeadOp::verify() {
  if (failed(verifyTable(*this, getTable(), getBias())))
    return failure();
  ArrayRef<int64_t> h = shapeOf(getH()), table = shapeOf(getTable());
  if (h.empty() || h.back() != table[1])
    return emitOpError("C1: expected h whose last dimension is ")
           << table[1] << ", as the table's, found " << toString(h);
  if (failed(expectShape(*this, "C4", "logits", getLogits(),
                         append(h.drop_back(), table[0]))))
    return failure();
  return expectElements(*this, "C5", "a table", getTable(),
                        elementTypeOf(getH()));
}

LogicalResult BestOp::verify() {
  constexpr int64_t kMostTokens = int64_t(1) << 24;
  ArrayRef<int64_t> logits = shapeOf(getLogits());
  const auto count = static_cast<int64_t>(getCount());
  if (logits.empty() || logits.back() > kMostTokens || count > logits.back())
    return emitOpError("C2: expected logits of at most ")
           << kMostTokens << " tokens, and at least the " << count
           << " best, found " << toString(logits);
  return expectShape(*this, "C1", "a result", getResult(),
                     append(logits.drop_back(), 2 * count));
}

LogicalResult LogProbabilitiesOp::verify() {
  ArrayRef<int64_t> logits = shapeOf(getLogits());
  if (logits.empty() || logits.drop_back() != shapeOf(getTargets()))
    return emitOpError("C1: expected logits with the dimensions of targets, ")
           << toString(shapeOf(getTargets())) << ", and one more, found "
           << toString(logits);
  return expectShape(*this, "C2", "a result", getResult(),
                     shapeOf(getTargets()));
}

static LogicalResult verifyHead(Operation *op, Value h, Value table,
                                Value targets, Value bias) {
  if (failed(verifyTable(op, table, bias)))
    return failure();
  ArrayRef<int64_t> shape = shapeOf(table);
  if (failed(expectElements(op, "C6", "a table", table, elementTypeOf(h))))
    return failure();
  return expectShape(op, "C1", "h", h, append(shapeOf(targets), shape[1]));
}

LogicalResult mlir::optimus::verifyChunks(Operation *op, StringRef label,
                                          Value targets, Value table,
                                          int64_t chunk) {
  int64_t tokens = cast<RankedTensorType>(targets.getType()).getNumElements();
  int64_t chunks = (tokens - 1) / chunk + 1;
  if (chunks > kMostChunks)
    return op->emitOpError()
           << label << ": expected at most " << kMostChunks << " chunks, found "
           << chunks << " of " << chunk << " of " << tokens
           << " tokens; give larger chunks";
  CheckedSize logits =
      CheckedSize(std::min(chunk, tokens)) * shapeOf(table).front();
  if (logits.isAtMost(optimus_support::kMaxElements))
    return success();
  return op->emitOpError() << label << ": expected at most "
                           << optimus_support::kMaxElements
                           << " logits in a chunk, found " << logits.toString()
                           << "; give smaller chunks";
}

LogicalResult HeadLossOp::verify() {
  if (failed(verifyHead(*this, getH(), getTable(), getTargets(), getBias())))
    return failure();
  return verifyChunks(*this, "C5", getTargets(), getTable(), getChunk());
}

LogicalResult HeadLossGradOp::verify() {
  if (failed(verifyHead(*this, getH(), getTable(), getTargets(), getBias())) ||
      failed(expectShape(*this, "C4", "dh", getDh(), shapeOf(getH()))) ||
      failed(
          expectElements(*this, "C4", "dh", getDh(), elementTypeOf(getH()))) ||
      failed(expectShape(*this, "C4", "dtable", getDtable(),
                         shapeOf(getTable()))) ||
      failed(verifyChunks(*this, "C5", getTargets(), getTable(), getChunk())))
    return failure();
  if (bool(getBias()) != bool(getDbias()))
    return emitOpError("C4: expected dbias exactly where there is a bias");
  if (!getBias())
    return success();
  return expectShape(*this, "C4", "dbias", getDbias(), shapeOf(getBias()));
}

//===----------------------------------------------------------------------===//
// Sharding rules
//===----------------------------------------------------------------------===//

/// The tokens of a head are summed over, its hidden and vocabulary dimensions
/// reduced in the middle.
static ShardingRule headLossRule(Operation *op, Value targets, Value bias,
                                 bool hasGradients) {
  std::string rows = letters(rankOf(targets), 'A');
  std::string spec = rows + "h,vh," + rows + (bias ? ",v" : "") + "->,";
  if (hasGradients)
    spec += "," + rows + "h,vh" + (bias ? ",v" : "");
  SmallVector<std::pair<char, FactorKind>> kinds = {{'h', FactorKind::Reduced},
                                                    {'v', FactorKind::Reduced}};
  for (char letter : rows)
    kinds.push_back({letter, FactorKind::Contracted});
  return ShardingRule::fromEinsum(op, spec, kinds, kTableDimensions);
}

ShardingRule HeadOp::getShardingRule() {
  std::string rows = letters(rankOf(getH()) - 1, 'A');
  return ShardingRule::fromEinsum(
      *this, rows + "h,vh" + (getBias() ? ",v" : "") + "->" + rows + "v",
      {{'h', FactorKind::Reduced}}, kTableDimensions);
}

ShardingRule BestOp::getShardingRule() {
  std::string rows = letters(rankOf(getLogits()) - 1, 'A');
  ShardingRule rule = ShardingRule::fromEinsum(
      *this, rows + "v->" + rows + "k",
      {{'v', FactorKind::Whole}, {'k', FactorKind::Whole}}, kTableDimensions);
  // Logits of padding are −∞.
  rule.factors[rule.operands[0].back()].allowsPadding = true;
  return rule;
}

ShardingRule LogProbabilitiesOp::getShardingRule() {
  std::string rows = letters(rankOf(getTargets()), 'A');
  ShardingRule rule =
      ShardingRule::fromEinsum(*this, rows + "v," + rows + "->" + rows,
                               {{'v', FactorKind::Whole}}, kTableDimensions);
  // Logits of padding are −∞.
  rule.factors[rule.operands[0].back()].allowsPadding = true;
  return rule;
}

/// What a head decides of its model's function.
static void stateHead(Operation *head, Value table, Value bias,
                      ModelFacts &facts) {
  facts.decide("tied", llvm::any_of(table.getUsers(), [&](Operation *user) {
                 return user != head && isa<TokenTableOpInterface>(user);
               }));
  facts.decide("head_bias", bool(bias));
}

void HeadOp::stateFacts(ModelFacts &facts) {
  stateHead(*this, getTable(), getBias(), facts);
}

void HeadLossOp::stateFacts(ModelFacts &facts) {
  stateHead(*this, getTable(), getBias(), facts);
  facts.mention("chunk", getChunkAttr());
}

SmallVector<StringRef> HeadLossOp::getIncidentalAttributes() {
  return {getChunkAttrName()};
}

ShardingRule HeadLossOp::getShardingRule() {
  return headLossRule(*this, getTargets(), getBias(), /*hasGradients=*/false);
}
ShardingRule HeadLossGradOp::getShardingRule() {
  return headLossRule(*this, getTargets(), getBias(), /*hasGradients=*/true);
}

//===----------------------------------------------------------------------===//
// Gradient
//===----------------------------------------------------------------------===//

LogicalResult HeadLossOp::buildGradient(OpBuilder &builder,
                                        ArrayRef<Value> resultGradients,
                                        GradientAccumulator &gradients) {
  // real_count counts targets: it depends on no parameter, so a gradient of it
  // goes nowhere.
  Value seed = resultGradients[0];
  if (!seed)
    return success();
  if (!matchPattern(seed, m_OneFloat()))
    return emitOpError("has a gradient only where its loss_sum is the "
                       "function's loss itself; here another operation uses "
                       "it on the way to the loss");
  OpBuilder forward(getOperation());
  auto grad = HeadLossGradOp::create(forward, getLoc(), getH(), getTable(),
                                     getTargets(), getBias(), getChunkAttr());
  getLossSum().replaceAllUsesWith(grad.getLossSum());
  getRealCount().replaceAllUsesWith(grad.getRealCount());
  gradients.add(getH(), grad.getDh());
  gradients.add(getTable(), castLike(builder, getTable(), grad.getDtable()));
  if (getBias())
    gradients.add(getBias(), grad.getDbias());
  return success();
}

//===----------------------------------------------------------------------===//
// What passes ask
//===----------------------------------------------------------------------===//

Type optimus::detail::getLogitsType(Value h, Value table) {
  // What has no dimensions is for the verifier to refuse.
  ArrayRef<int64_t> rows = shapeOf(h), vocabulary = shapeOf(table);
  return RankedTensorType::get(
      append(rows.drop_back(rows.empty() ? 0 : 1),
             vocabulary.empty() ? 1 : vocabulary.front()),
      Float32Type::get(h.getContext()));
}

Work HeadOp::getWork() {
  ArrayRef<int64_t> h = shapeOf(getH());
  return {.kind = Work::Product,
          .m = ShapedType::getNumElements(h.drop_back()),
          .n = shapeOf(getTable())[0],
          .k = h.back(),
          .transA = false,
          .transB = true};
}

/// The axis among which a head shards the vocabulary: one that does not shard
/// the tokens. One axis at most: where it shards the table's rows already, or
/// where h would be held once for each of its ranks otherwise.
template <typename Op>
static SmallVector<OperandShards> shardVocabulary(Op head) {
  ShardingAttr hidden = getSharding(head.getH()),
               rows = getSharding(head.getTable()),
               tokens = getSharding(head.getTargets());
  if (!hidden || !rows || !tokens)
    return {};
  auto isFree = [&](StringRef axis) {
    for (int64_t dim = 0; dim < tokens.getRank(); ++dim)
      if (llvm::is_contained(tokens.getDimAxes(dim), axis))
        return false;
    return true;
  };
  SmallVector<StringRef> candidates = rows.getDimAxes(0);
  llvm::append_range(candidates, hidden.getDimAxes(hidden.getRank() - 1));
  for (StringRef axis : candidates)
    if (isFree(axis))
      return {{head.getTableMutable().getOperandNumber(), /*dim=*/0, {axis}}};
  return {};
}

SmallVector<OperandShards> HeadLossOp::getOperandShards() {
  return shardVocabulary(*this);
}
SmallVector<OperandShards> HeadLossGradOp::getOperandShards() {
  return shardVocabulary(*this);
}

//===----------------------------------------------------------------------===//
// On whole tensors
//===----------------------------------------------------------------------===//

void optimus::detail::setHeadSymbolicValues(SymbolicValues &symbolic, Value h,
                                            Value table, Value targets,
                                            Value bias, ValueRange results) {
  const Term *operands[] = {symbolic.get(h), symbolic.get(table),
                            symbolic.get(targets), symbolic.get(bias)};
  symbolic.use(Lemma::Chunks);
  if (results.size() > 2)
    symbolic.use(Lemma::LossBesideGradient);
  StringRef loss = HeadLossOp::getOperationName();
  symbolic.set(results[0],
               symbolic.make(loss, operands, symbolic.getType(results[0])));
  symbolic.set(results[1], symbolic.make(loss, symbolic.get(targets),
                                         symbolic.getType(results[1]), {},
                                         /*result=*/1));
  for (auto [number, gradient] : llvm::enumerate(results.drop_front(2)))
    symbolic.set(gradient, symbolic.makeNarrowed(
                               HeadLossGradOp::getOperationName(), operands,
                               symbolic.getType(gradient), {}, number + 2));
}

void HeadLossOp::setSymbolicValues(SymbolicValues &symbolic) {
  detail::setHeadSymbolicValues(symbolic, getH(), getTable(), getTargets(),
                                getBias(), getResults());
}
void HeadLossGradOp::setSymbolicValues(SymbolicValues &symbolic) {
  detail::setHeadSymbolicValues(symbolic, getH(), getTable(), getTargets(),
                                getBias(), getResults());
}
