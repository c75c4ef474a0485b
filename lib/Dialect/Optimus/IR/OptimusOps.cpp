//===- OptimusOps.cpp - Operations of the optimus dialect -------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/Optimus/IR/Optimus.h"

#include "ShapeChecks.h"

#include "mlir/IR/OpImplementation.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mlir::optimus;
using optimus_support::CheckedSize;

//===----------------------------------------------------------------------===//
// Mesh
//===----------------------------------------------------------------------===//

static ParseResult parseMeshAxes(OpAsmParser &parser, ArrayAttr &axes) {
  SmallVector<Attribute> list;
  auto parseAxis = [&]() -> ParseResult {
    SMLoc location = parser.getCurrentLocation();
    std::string name;
    int64_t size = 0;
    if (parser.parseString(&name) || parser.parseEqual() ||
        parser.parseInteger(size))
      return failure();
    MLIRContext *context = parser.getContext();
    list.push_back(parser.getChecked<MeshAxisAttr>(
        location, context, StringAttr::get(context, name), size));
    return success(list.back() != nullptr);
  };
  if (parser.parseLess() ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseAxis) ||
      parser.parseGreater())
    return failure();
  axes = ArrayAttr::get(parser.getContext(), list);
  return success();
}

static void printMeshAxes(OpAsmPrinter &printer, MeshOp, ArrayAttr axes) {
  printer << "<[";
  llvm::interleaveComma(axes, printer, [&](Attribute attribute) {
    auto axis = cast<MeshAxisAttr>(attribute);
    printer << axis.getName() << " = " << axis.getSize();
  });
  printer << "]>";
}

LogicalResult MeshOp::verify() {
  llvm::StringSet<> names;
  int64_t ranks = 1;
  for (MeshAxisAttr axis : getAxisList()) {
    if (!names.insert(axis.getName().getValue()).second)
      return emitOpError("C2: expected distinct axes, found ")
             << axis.getName() << " twice";
    // Without overflow: both factors are at most the limit.
    if ((ranks *= axis.getSize()) > kMaxRanks)
      return emitOpError("C4: expected at most ")
             << kMaxRanks << " ranks, found more up to axis " << axis.getName();
  }
  for (MeshOp other : cast<ModuleOp>((*this)->getParentOp()).getOps<MeshOp>())
    if (other != *this && other->isBeforeInBlock(*this))
      return emitOpError("C3: expected one mesh in a module, found @")
             << other.getSymName() << " and @" << getSymName();
  return success();
}

SmallVector<MeshAxisAttr> MeshOp::getAxisList() {
  // An operation may be verified before the mesh of its module is.
  SmallVector<MeshAxisAttr> list;
  for (Attribute attribute : getAxes())
    if (auto axis = dyn_cast<MeshAxisAttr>(attribute))
      list.push_back(axis);
  return list;
}

std::optional<int64_t> MeshOp::getAxisIndex(StringRef axis) {
  for (auto [index, candidate] : llvm::enumerate(getAxisList()))
    if (candidate.getName().getValue() == axis)
      return index;
  return std::nullopt;
}

std::optional<int64_t> MeshOp::getAxisSize(StringRef axis) {
  if (std::optional<int64_t> index = getAxisIndex(axis))
    return getAxisList()[*index].getSize();
  return std::nullopt;
}

/// A product of two sizes, which stops above the most ranks of a mesh.
static int64_t multiply(int64_t a, int64_t b) {
  CheckedSize product = CheckedSize(a) * b;
  return product.isAtMost(MeshOp::kMaxRanks) ? *product.get()
                                             : MeshOp::kMaxRanks + 1;
}

int64_t MeshOp::getNumRanks() {
  int64_t ranks = 1;
  for (MeshAxisAttr axis : getAxisList())
    ranks = multiply(ranks, axis.getSize());
  return ranks;
}

int64_t MeshOp::getProduct(ArrayRef<StringRef> axes) {
  int64_t product = 1;
  for (StringRef axis : axes) {
    std::optional<int64_t> size = getAxisSize(axis);
    assert(size && "the mesh has the axis");
    product = multiply(product, *size);
  }
  return product;
}

//===----------------------------------------------------------------------===//
// Products and elementwise operations
//===----------------------------------------------------------------------===//

void MatmulOp::build(OpBuilder &builder, OperationState &state, Type result,
                     Value a, Value b, int64_t contracting, bool transposeA,
                     bool transposeB) {
  build(builder, state, result, a, b, /*bias=*/Value(), /*residual=*/Value(),
        /*scale=*/Value(), builder.getI64IntegerAttr(contracting),
        transposeA ? builder.getUnitAttr() : UnitAttr(),
        transposeB ? builder.getUnitAttr() : UnitAttr());
}

Type optimus::detail::getProductType(Value a, Value b, int64_t contracting,
                                     bool transposeA, bool transposeB) {
  auto withoutK = [&](ArrayRef<int64_t> shape, bool startsWithK) {
    // One that has no K is for the verifier to refuse.
    int64_t k = std::clamp<int64_t>(contracting, 0, shape.size());
    return startsWithK ? shape.drop_front(k) : shape.drop_back(k);
  };
  auto type = cast<RankedTensorType>(a.getType());
  SmallVector<int64_t> shape(withoutK(type.getShape(), transposeA));
  llvm::append_range(shape, withoutK(shapeOf(b), !transposeB));
  return RankedTensorType::get(shape, type.getElementType());
}

static SmallVector<int64_t> range(int64_t begin, int64_t end) {
  return llvm::to_vector(llvm::seq(begin, end));
}

int64_t MatmulOp::getNumM() { return shapeOf(getA()).size() - getNumK(); }
int64_t MatmulOp::getNumN() { return shapeOf(getB()).size() - getNumK(); }

SmallVector<int64_t> MatmulOp::getMDimsOfA() {
  return getTransposeA() ? range(getNumK(), getNumK() + getNumM())
                         : range(0, getNumM());
}
SmallVector<int64_t> MatmulOp::getKDimsOfA() {
  return getTransposeA() ? range(0, getNumK())
                         : range(getNumM(), getNumM() + getNumK());
}
SmallVector<int64_t> MatmulOp::getKDimsOfB() {
  return getTransposeB() ? range(getNumN(), getNumN() + getNumK())
                         : range(0, getNumK());
}
SmallVector<int64_t> MatmulOp::getNDimsOfB() {
  return getTransposeB() ? range(0, getNumN())
                         : range(getNumK(), getNumK() + getNumN());
}

LogicalResult MatmulOp::verify() {
  ArrayRef<int64_t> a = shapeOf(getA()), b = shapeOf(getB());
  int64_t k = getContracting();
  int64_t rankA = a.size(), rankB = b.size();
  if (k < 1 || rankA < k || rankB < k)
    return emitOpError("C1: expected operands of at least `contracting` "
                       "dimensions, and one contracted at least; found ")
           << k << " contracted of " << toString(a) << " and " << toString(b);
  auto pick = [](ArrayRef<int64_t> shape, ArrayRef<int64_t> dims) {
    return llvm::map_to_vector(dims, [&](int64_t dim) { return shape[dim]; });
  };
  SmallVector<int64_t> ka = pick(a, getKDimsOfA()), kb = pick(b, getKDimsOfB());
  if (ka != kb)
    return emitOpError("C2: expected equal contracted dimensions, found ")
           << toString(ka) << " of a and " << toString(kb) << " of b";
  SmallVector<int64_t> expected = pick(a, getMDimsOfA());
  SmallVector<int64_t> n = pick(b, getNDimsOfB());
  expected.append(n);
  if (failed(expectShape(*this, "C3", "a result", getResult(), expected)))
    return failure();
  if (getBias() && failed(expectShape(*this, "C4", "bias", getBias(), n)))
    return failure();
  if (getResidual() &&
      failed(expectShape(*this, "C4", "residual", getResidual(), expected)))
    return failure();
  if (getScale() &&
      failed(expectShape(*this, "C4", "scale", getScale(), expected)))
    return failure();
  return success();
}

static LogicalResult verifyBroadcasting(Operation *op) {
  Value lhs = op->getOperand(0), rhs = op->getOperand(1);
  if (failed(expectShape(op, "C1", "a result", op->getResult(0), shapeOf(lhs))))
    return failure();
  ArrayRef<int64_t> shape = shapeOf(lhs), suffix = shapeOf(rhs);
  if (suffix.size() > shape.size() || shape.take_back(suffix.size()) != suffix)
    return op->emitOpError("C2: expected rhs to have the last dimensions of ")
           << toString(shape) << ", found " << toString(suffix);
  return success();
}

LogicalResult AddOp::verify() { return verifyBroadcasting(*this); }
LogicalResult MulOp::verify() { return verifyBroadcasting(*this); }

LogicalResult SumLeadingOp::verify() {
  ArrayRef<int64_t> shape = shapeOf(getInput()), suffix = shapeOf(getResult());
  if (suffix.size() > shape.size() || shape.take_back(suffix.size()) != suffix)
    return emitOpError("C1: expected a result with the last dimensions of ")
           << toString(shape) << ", found " << toString(suffix);
  return success();
}

LogicalResult ReshardOp::verify() { return success(); }
LogicalResult GeluOp::verify() { return success(); }
LogicalResult GeluWithSlopeOp::verify() { return success(); }
LogicalResult SqrtOp::verify() { return success(); }
LogicalResult SwigluOp::verify() { return success(); }
LogicalResult SwigluGradOp::verify() { return success(); }

//===----------------------------------------------------------------------===//
// Embedding, head and loss
//===----------------------------------------------------------------------===//

/// A part of a table says nothing about how many rows the whole has.
static LogicalResult verifyPad(Operation *op, StringRef constraint,
                               std::optional<uint64_t> pad, Value table) {
  auto type = cast<RankedTensorType>(table.getType());
  auto row = static_cast<int64_t>(pad.value_or(0));
  bool isWhole = !type.getEncoding();
  if (!pad || (row >= 0 && (!isWhole || row < type.getDimSize(0))))
    return success();
  return op->emitOpError() << constraint
                           << ": expected pad to be one of the table's "
                           << type.getDimSize(0) << " rows, found " << row;
}

LogicalResult EmbeddingOp::verify() {
  ArrayRef<int64_t> table = shapeOf(getTable());
  if (table.size() != 2)
    return emitOpError("C1: expected a table of rank 2, found ")
           << toString(table);
  if (failed(expectShape(*this, "C2", "a result", getResult(),
                         append(shapeOf(getTokens()), table[1]))))
    return failure();
  return verifyPad(*this, "C3", getPad(), getTable());
}

LogicalResult EmbeddingGradOp::verify() {
  ArrayRef<int64_t> result = shapeOf(getResult());
  if (result.size() != 2)
    return emitOpError("C2: expected a result of rank 2, found ")
           << toString(result);
  if (failed(expectShape(*this, "C1", "dy", getDy(),
                         append(shapeOf(getTokens()), result[1]))))
    return failure();
  if (getAccumulate() &&
      failed(expectShape(*this, "C3", "accumulate", getAccumulate(), result)))
    return failure();
  return verifyPad(*this, "C4", getPad(), getResult());
}

static LogicalResult verifyHead(Operation *op, Value h, Value table,
                                Value targets, Value bias) {
  ArrayRef<int64_t> shape = shapeOf(table);
  if (shape.size() != 2)
    return op->emitOpError("C2: expected a table of rank 2, found ")
           << toString(shape);
  if (bias && failed(expectShape(op, "C3", "bias", bias, shape[0])))
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
// The optimizer
//===----------------------------------------------------------------------===//

static LogicalResult verifyInputs(Operation *op) {
  if (op->getNumOperands() > 0)
    return success();
  return op->emitOpError("C1: expected one input at least, found none");
}

LogicalResult GlobalNormOp::verify() { return verifyInputs(*this); }
LogicalResult SumSquaresOp::verify() { return verifyInputs(*this); }
LogicalResult ClipOp::verify() { return success(); }

LogicalResult AdamWOp::verify() {
  ArrayRef<int64_t> shape = shapeOf(getParam());
  std::pair<StringRef, Value> values[] = {{"grad", getGrad()},
                                          {"exp_avg", getExpAvg()},
                                          {"exp_avg_sq", getExpAvgSq()},
                                          {"new_param", getNewParam()},
                                          {"new_exp_avg", getNewExpAvg()},
                                          {"new_exp_avg_sq", getNewExpAvgSq()}};
  for (auto [name, value] : values)
    if (failed(expectShape(*this, "C1", name, value, shape)))
      return failure();
  return success();
}

#define GET_OP_CLASSES
#include "optimus/Dialect/Optimus/IR/OptimusOps.cpp.inc"
