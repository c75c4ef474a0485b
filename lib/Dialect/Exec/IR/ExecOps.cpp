//===- ExecOps.cpp - Operations of the exec dialect -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Operands.h"

#include "optimus/Dialect/Exec/IR/Commands.h"
#include "optimus/Dialect/Exec/IR/WeightBlocks.h"

#include "optimus-support/CachePages.h"

#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;
using namespace mlir::exec;
using optimus_support::CheckedSize;
using optimus_support::kMaxElements;
using optimus_support::matrixExtent;

//===----------------------------------------------------------------------===//
// Gemm
//===----------------------------------------------------------------------===//

SmallVector<Access> GemmOp::getAccesses() {
  int64_t m = getM(), n = getN(), k = getK();
  int64_t rowsA = getTransA() ? k : m, colsA = getTransA() ? m : k;
  int64_t rowsB = getTransB() ? n : k, colsB = getTransB() ? k : n;
  SmallVector<Access> accesses = {
      {&getAMutable(), true, false, rowsA, colsA, int64_t(getLda())},
      {&getBMutable(), true, false, getPackedB() ? 1 : rowsB,
       getPackedB() ? int64_t(getLdb()) : colsB, int64_t(getLdb())},
      {&getCMutable(), getAccumulate(), true, m, n, int64_t(getLdc())}};
  if (getBias()) {
    const bool isResult = getEpilogue() == Epilogue::BiasGrad;
    accesses.push_back({&*getBiasMutable().begin(), !isResult, isResult});
  }
  if (getExtra())
    accesses.push_back({&*getExtraMutable().begin(), true, false, m, n,
                        int64_t(getLdExtra())});
  if (getLive())
    accesses.push_back({&*getLiveMutable().begin(), true, false, 1, m, m});
  return accesses;
}

/// Verifies that a buffer with `elements` for packing has room for a matrix.
static LogicalResult verifyPacked(Operation *op, StringRef name, Value buffer,
                                  CheckedSize all, int64_t elements) {
  if (all.isAtMost(elements) && elements <= getExtent(buffer))
    return success();
  return op->emitOpError() << name << " has " << elements << " elements of "
                           << getExtent(buffer) << " in its buffer; expected "
                           << "at least " << all.toString()
                           << " for a packed matrix";
}

/// Checks blocks of B [k,n].
static LogicalResult verifyBlocks(Operation *op, StringRef name, Value buffer,
                                  Blocks blocks, int64_t k, int64_t n) {
  const optimus_support::BlockLayout layout = getBlockLayout(blocks, k, n);
  const CheckedSize words = layout.words();
  if (layout.takesRows() && words.isAtMost(getExtent(buffer)) &&
      *words.get() == getExtent(buffer))
    return success();
  InFlightDiagnostic error = op->emitOpError()
                             << name << " has " << getExtent(buffer)
                             << " words for blocks of " << k << " x " << n
                             << " elements; expected " << words.toString();
  if (isFewBits(layout.blocks))
    error << ", and a multiple of " << optimus_support::kBlockElements
          << " rows";
  return error;
}

LogicalResult GemmOp::verify() {
  int64_t m = getM(), n = getN(), k = getK();
  // C1
  if (m <= 0 || n <= 0 || k <= 0)
    return emitOpError() << "m, n and k must be positive, found " << m << ", "
                         << n << ", " << k;
  // C2, C3
  const bool hasBlocks = getBlocks() != Blocks::None;
  if (hasBlocks && failed(verifyBlocks(*this, "B", getB(), getBlocks(), k, n)))
    return failure();
  if (failed(verifyMatrix(*this, "A", getA(), getTransA() ? k : m,
                          getTransA() ? m : k, getLda(), "lda")) ||
      failed(
          hasBlocks ? success()
          : getPackedB()
              ? verifyPacked(*this, "B", getB(), CheckedSize(k) * n, getLdb())
              : verifyMatrix(*this, "B", getB(), getTransB() ? n : k,
                             getTransB() ? k : n, getLdb(), "ldb")) ||
      failed(verifyMatrix(*this, "C", getC(), m, n, getLdc(), "ldc")))
    return failure();
  if (failed(verifyMatrix(*this, "extra", getExtra(), m, n, getLdExtra(),
                          "ld_extra")))
    return failure();
  if (getBias() && getExtent(getBias()) < n)
    return emitOpError() << "bias needs " << n << " elements, but has "
                         << getExtent(getBias());
  // C4
  const bool takesExtra =
      getEpilogue() == Epilogue::Add || getEpilogue() == Epilogue::Mul;
  if (takesExtra != static_cast<bool>(getExtra()))
    return emitOpError() << "epilogue " << stringifyEpilogue(getEpilogue())
                         << (getExtra() ? " takes no extra operand"
                                        : " needs an extra operand");
  // C5
  for (Value input : {getA(), getB(), getBias(), getExtra()})
    if (input == getC())
      return emitOpError("writes the buffer of one of its inputs");
  // C6
  if (getPackedB() && getTransB())
    return emitOpError("has a packed B that is transposed; expected packed "
                       "what is multiplied");
  if (hasBlocks && (!getPackedB() || int64_t(getLdb()) != getExtent(getB())))
    return emitOpError() << "has blocks of " << stringifyBlocks(getBlocks())
                         << "; expected a packed B and an ldb of "
                         << getExtent(getB());
  // C7
  Type factors = getElementType(getA()), elements = getElementType(getC());
  Type words = IntegerType::get(getContext(), 32);
  if (getBlocks() == Blocks::BF16 &&
      failed(verifyElementType(*this, "A", getA(),
                               BFloat16Type::get(getContext()))))
    return failure();
  if (failed(
          verifyElementType(*this, "B", getB(), hasBlocks ? words : factors)) ||
      failed(verifyElementType(*this, "C", getC(), factors, /*orF32=*/true)) ||
      failed(verifyElementType(*this, "bias", getBias(), elements,
                               /*orF32=*/true)))
    return failure();
  if (failed(verifyElementType(*this, "extra", getExtra(), elements,
                               /*orF32=*/true)))
    return failure();
  // C8
  const bool isGradient = getEpilogue() == Epilogue::BiasGrad;
  if (isGradient != static_cast<bool>(getKernelAttr()))
    return emitOpError() << "epilogue " << stringifyEpilogue(getEpilogue())
                         << (isGradient ? " needs a kernel"
                                        : " takes no kernel");
  if (isGradient &&
      (!getBias() || getElementType(getBias()) != elements || getAccumulate() ||
       getPackedB() || getTransB() || int64_t(getLdb()) != n))
    return emitOpError() << "epilogue bias_grad expects a bias of C's type, a "
                            "C that is not accumulated, and a B of rows one "
                            "after the other";
  // C9
  if (getLive() && (getExtent(getLive()) != m || getTransA() || isGradient))
    return emitOpError() << "live has " << getExtent(getLive())
                         << " elements; expected one for each of the " << m
                         << " rows of an A that is not transposed";
  return success();
}

bool GemmOp::needsOperandsApart() { return true; }

//===----------------------------------------------------------------------===//
// Pack
//===----------------------------------------------------------------------===//

SmallVector<Access> PackOp::getAccesses() {
  int64_t rows = getRows(), cols = getCols();
  return {{&getSrcMutable(), true, false, getTrans() ? cols : rows,
           getTrans() ? rows : cols, int64_t(getLd())},
          {&getDstMutable(), false, true}};
}

bool PackOp::needsOperandsApart() { return true; }

LogicalResult PackOp::verify() {
  int64_t rows = getRows(), cols = getCols();
  // C1
  if (rows <= 0 || cols <= 0)
    return emitOpError() << "rows and cols must be positive, found " << rows
                         << " and " << cols;
  // C2, C3
  const bool hasBlocks = getBlocks() != Blocks::None;
  if (failed(verifyMatrix(*this, "src", getSrc(), getTrans() ? cols : rows,
                          getTrans() ? rows : cols, getLd(), "ld")) ||
      failed(hasBlocks
                 ? success()
                 : verifyPacked(*this, "dst", getDst(),
                                CheckedSize(rows) * cols, getExtent(getDst()))))
    return failure();
  // C4
  if (getSrc() == getDst())
    return emitOpError("packs a buffer into itself");
  // C5
  if (!hasBlocks)
    return verifyElementType(*this, "dst", getDst(), getElementType(getSrc()));
  if (failed(verifyElementType(*this, "src", getSrc(),
                               Float32Type::get(getContext()))) ||
      failed(verifyElementType(*this, "dst", getDst(),
                               IntegerType::get(getContext(), 32))))
    return failure();
  return verifyBlocks(*this, "dst", getDst(), getBlocks(), rows, cols);
}

//===----------------------------------------------------------------------===//
// Launch
//===----------------------------------------------------------------------===//

SmallVector<Access> LaunchOp::getAccesses() {
  SmallVector<Access> accesses;
  for (auto [operand, access] :
       llvm::zip_equal(getBuffersMutable(), getAccess()))
    accesses.push_back({&operand, (access & Read) != 0, (access & Write) != 0});
  return accesses;
}

LogicalResult LaunchOp::verify() {
  // C1
  if (getExtent().has_value() != getGrain().has_value())
    return emitOpError("extent and grain must be both there or both missing");
  if (getExtent() && (static_cast<int64_t>(*getExtent()) <= 0 ||
                      static_cast<int64_t>(*getGrain()) <= 0))
    return emitOpError() << "extent and grain must be positive, found "
                         << static_cast<int64_t>(*getExtent()) << " and "
                         << static_cast<int64_t>(*getGrain());
  // C2
  if (getAccess().size() != getBuffers().size())
    return emitOpError() << "has " << getAccess().size() << " accesses for "
                         << getBuffers().size() << " buffers";
  for (int32_t access : getAccess())
    if (access < Read || access > Update)
      return emitOpError() << "access " << access << " is none of 1 to 3";
  return success();
}

LogicalResult LaunchOp::verifySymbolUses(SymbolTableCollection &symbols) {
  // C3
  auto kernel = symbols.lookupNearestSymbolFrom<FunctionOpInterface>(
      *this, getKernelAttr());
  if (!kernel)
    return emitOpError() << "there is no function " << getKernelAttr();
  SmallVector<Type> expected(getBuffers().getTypes());
  llvm::append_range(expected, getScalars().getTypes());
  ArrayRef<Type> found = kernel.getArgumentTypes();
  bool hasRange = found.size() >= 2 && found[0] == found[1] &&
                  (found[0].isIndex() || found[0].isInteger(64));
  if (!hasRange || found.drop_front(2) != ArrayRef<Type>(expected))
    return emitOpError() << "kernel " << getKernelAttr()
                         << " does not take a range and these operands: its "
                            "type is "
                         << kernel.getFunctionType();
  return success();
}

static ParseResult
parseLaunchBuffers(OpAsmParser &parser,
                   SmallVectorImpl<OpAsmParser::UnresolvedOperand> &buffers,
                   SmallVectorImpl<Type> &types, DenseI32ArrayAttr &access) {
  SmallVector<int32_t> accesses;
  auto parseBuffer = [&]() -> ParseResult {
    StringRef keyword;
    llvm::SMLoc location = parser.getCurrentLocation();
    if (parser.parseKeyword(&keyword))
      return failure();
    int32_t bits = llvm::StringSwitch<int32_t>(keyword)
                       .Case("read", LaunchOp::Read)
                       .Case("write", LaunchOp::Write)
                       .Case("update", LaunchOp::Update)
                       .Default(0);
    if (bits == 0)
      return parser.emitError(location, "expected read, write or update");
    accesses.push_back(bits);
    return failure(parser.parseOperand(buffers.emplace_back()) ||
                   parser.parseColonType(types.emplace_back()));
  };
  if (failed(parser.parseOptionalKeyword("none")) &&
      parser.parseCommaSeparatedList(parseBuffer))
    return failure();
  access = DenseI32ArrayAttr::get(parser.getContext(), accesses);
  return success();
}

static void printLaunchBuffers(OpAsmPrinter &printer, Operation *,
                               OperandRange buffers, TypeRange types,
                               DenseI32ArrayAttr access) {
  if (buffers.empty())
    printer << "none";
  llvm::interleaveComma(llvm::zip_equal(buffers, types, access.asArrayRef()),
                        printer, [&](auto entry) {
                          auto [buffer, type, bits] = entry;
                          printer << (bits == LaunchOp::Read    ? "read "
                                      : bits == LaunchOp::Write ? "write "
                                                                : "update ")
                                  << buffer << " : " << type;
                        });
}

//===----------------------------------------------------------------------===//
// Copy and attention
//===----------------------------------------------------------------------===//

SmallVector<Access> CopyOp::getAccesses() {
  int64_t rows = getRows(), cols = getCols();
  SmallVector<Access> accesses;
  if (getSrc())
    accesses.push_back({&*getSrcMutable().begin(), true, false, rows, cols,
                        int64_t(getSrcLd())});
  accesses.push_back(
      {&getDstMutable(), false, true, rows, cols, int64_t(getDstLd())});
  return accesses;
}

bool CopyOp::needsOperandsApart() { return true; }

/// Whether it leads from one memory space to another.
static bool crosses(CopyOp op) {
  return op.getSrc() &&
         exec::getMemorySpace(op.getSrc()) != exec::getMemorySpace(op.getDst());
}

StringRef CopyOp::getOwnQueue() {
  if (!crosses(*this))
    return kComputeQueue;
  return exec::getMemorySpace(getDst()) == MemorySpace::Device ? kFetchQueue
                                                               : kStoreQueue;
}

int64_t CopyOp::getCommandLag() {
  return static_cast<int64_t>(getLag().value_or(0));
}

LogicalResult CopyOp::verify() {
  int64_t rows = getRows(), cols = getCols();
  // C1
  if (rows <= 0 || cols <= 0)
    return emitOpError() << "rows and cols must be positive, found " << rows
                         << " and " << cols;
  // C2
  if (failed(verifyMatrix(*this, "src", getSrc(), rows, cols, getSrcLd(),
                          "src_ld")) ||
      failed(verifyMatrix(*this, "dst", getDst(), rows, cols, getDstLd(),
                          "dst_ld")))
    return failure();
  // C3
  if (getSrc() == getDst())
    return emitOpError("copies a buffer to itself");
  // C4
  if (failed(
          verifyElementType(*this, "src", getSrc(), getElementType(getDst()))))
    return failure();
  // C5
  if (getLagAttr() && !crosses(*this))
    return emitOpError("lags behind nothing: expected a lag between two memory "
                       "spaces only");
  // C6
  if (getKernelAttr() && (!getSrc() || crosses(*this)))
    return emitOpError() << "is not for kernel " << getKernelAttr()
                         << ": expected a source in the memory of the result";
  return success();
}

/// Checks the extents common to both commands, and the number of elements of
/// each named buffer against its operand.
template <typename Op>
static LogicalResult
verifyAttention(Op op, ArrayRef<std::pair<StringRef, Value>> queries,
                ArrayRef<std::pair<StringRef, Value>> keys,
                ArrayRef<std::pair<StringRef, Value>> results) {
  int64_t batch = op.getBatch(), seq = op.getSeq(), heads = op.getHeads(),
          kvHeads = op.getKvHeads(), headDim = op.getHeadDim();
  // C1
  for (int64_t extent : {batch, seq, heads, kvHeads, headDim})
    if (extent <= 0)
      return op.emitOpError() << "extents must be positive, found " << extent;
  // C8
  const AttentionKeys cached = getAttentionKeys(op);
  if (cached.capacity != 0 &&
      (!op.getCausal() || !op.getLengths() || !op.getPositions()))
    return op.emitOpError() << "attention of a cache must be causal, with "
                               "lengths and positions";
  // C2
  if (heads % kvHeads != 0)
    return op.emitOpError() << "kv_heads must divide heads, found " << kvHeads
                            << " and " << heads;
  auto check = [&](ArrayRef<std::pair<StringRef, Value>> buffers,
                   CheckedSize expected) -> LogicalResult {
    for (auto [name, buffer] : buffers)
      if (!expected.isAtMost(getExtent(buffer)))
        return op.emitOpError()
               << name << " needs " << expected.toString()
               << " elements, but its buffer has " << getExtent(buffer);
    return success();
  };
  // C5
  for (ArrayRef<std::pair<StringRef, Value>> group : {queries, keys, results})
    for (auto [name, buffer] : group)
      if (failed(
              verifyElementType(op, name, buffer, getElementType(op.getQ()))))
        return failure();
  CheckedSize tokens = CheckedSize(batch) * seq;
  CheckedSize numKeys =
      optimus_support::attentionKeys(batch, seq, cached.capacity, cached.pool);
  CheckedSize width = CheckedSize(heads) * headDim;
  CheckedSize kvWidth = CheckedSize(kvHeads) * headDim;
  if (failed(check(results, tokens * width)))
    return failure();
  // C3
  int64_t qLd = op.getQLd(), kvLd = op.getKvLd();
  if (!width.isAtMost(qLd) || !kvWidth.isAtMost(kvLd))
    return op.emitOpError()
           << "q_ld and kv_ld must hold a token's heads, found " << qLd
           << " and " << kvLd;
  if (failed(check(queries, matrixExtent(tokens, width, qLd))) ||
      failed(check(keys, matrixExtent(numKeys, kvWidth, kvLd))))
    return failure();
  for (int64_t ld : {qLd, kvLd})
    if (ld > kMaxElements)
      return op.emitOpError() << "q_ld and kv_ld must be at most "
                              << kMaxElements << ", found " << ld;
  // C4
  if (op.getLengths() && failed(check({{"lengths", op.getLengths()}}, batch)))
    return failure();
  // C6
  if (op.getPositions()) {
    if (!op.getCausal())
      return op.emitOpError() << "attention with positions must be causal";
    if (failed(check({{"positions", op.getPositions()}}, tokens)))
      return failure();
  }
  // C7
  if (IntegerAttr window = op.getWindowAttr()) {
    if (window.getInt() < 1)
      return op.emitOpError()
             << "window must be positive, found " << window.getInt();
    if (!op.getCausal())
      return op.emitOpError() << "attention with a window must be causal";
  }
  return check({{"lse", op.getLse()}}, tokens * heads);
}

/// Those of the operands that an attention may do without.
static void addOptional(SmallVector<Access> &accesses,
                        MutableOperandRange lengths,
                        MutableOperandRange positions,
                        MutableOperandRange workspace) {
  for (MutableOperandRange range : {lengths, positions})
    for (OpOperand &operand : range)
      accesses.push_back({&operand, true, false});
  for (OpOperand &operand : workspace)
    accesses.push_back({&operand, true, true});
}

namespace {
/// Where an attention's queries and keys are: rows of tokens, which are slices
/// of longer ones. Of 2 heads of 4 elements and a q_ld of 24, q has 8 elements
/// in each 24.
struct AttentionRows {
  template <typename Op>
  explicit AttentionRows(Op op)
      : tokens(op.getBatch() * op.getSeq()),
        width(op.getHeads() * op.getHeadDim()),
        keyWidth(op.getKvHeads() * op.getHeadDim()), qLd(op.getQLd()),
        kvLd(op.getKvLd()) {
    const AttentionKeys cached = getAttentionKeys(op);
    // The operation was checked.
    keys = *optimus_support::attentionKeys(op.getBatch(), op.getSeq(),
                                           cached.capacity, cached.pool)
                .get();
  }

  Access ofQueries(OpOperand &operand, bool writes = false) const {
    return {&operand, !writes, writes, tokens, width, qLd};
  }
  Access ofKeys(OpOperand &operand, bool writes = false) const {
    return {&operand, !writes, writes, keys, keyWidth, kvLd};
  }

  int64_t tokens, width, keyWidth, qLd, kvLd, keys;
};
} // namespace

SmallVector<Access> AttentionOp::getAccesses() {
  const AttentionRows rows(*this);
  SmallVector<Access> accesses = {rows.ofQueries(getQMutable()),
                                  rows.ofKeys(getKMutable()),
                                  rows.ofKeys(getVMutable()),
                                  {&getOutMutable(), false, true},
                                  {&getLseMutable(), false, true}};
  addOptional(accesses, getLengthsMutable(), getPositionsMutable(),
              getWorkspaceMutable());
  for (OpOperand &operand : getPagesMutable())
    accesses.push_back({&operand, true, false});
  return accesses;
}

LogicalResult AttentionOp::verify() {
  using optimus_support::kPageTokens;
  const std::optional<int64_t> pool = getPool(), capacity = getCapacity();
  // C8
  if (capacity && *capacity <= 0)
    return emitOpError() << "capacity must be positive, found " << *capacity;
  // C9
  if (bool(pool) != bool(getPages()))
    return emitOpError("expected pages and the pool they are of, or neither");
  if (pool) {
    if (!capacity || *capacity % kPageTokens != 0 || getSeq() != 1 ||
        int64_t(getBatch()) < 1 || *pool < 1 ||
        *pool % int64_t(getBatch()) != 0)
      return emitOpError() << "expected a pool of as many pages for each "
                              "sequence, a capacity of whole pages of "
                           << kPageTokens << ", and one query a sequence";
    const CheckedSize entries =
        optimus_support::attentionPages(getBatch(), *capacity);
    if (!entries.isAtMost(getExtent(getPages())))
      return emitOpError() << "pages needs " << entries.toString()
                           << " elements, but its buffer has "
                           << getExtent(getPages());
  }
  return verifyAttention(*this, {{"q", getQ()}}, {{"k", getK()}, {"v", getV()}},
                         {{"out", getOut()}});
}

SmallVector<Access> AttentionGradOp::getAccesses() {
  const AttentionRows rows(*this);
  SmallVector<Access> accesses = {
      {&getDoutMutable(), true, false},     rows.ofQueries(getQMutable()),
      rows.ofKeys(getKMutable()),           rows.ofKeys(getVMutable()),
      {&getOutMutable(), true, false},      {&getLseMutable(), true, false},
      rows.ofQueries(getDqMutable(), true), rows.ofKeys(getDkMutable(), true),
      rows.ofKeys(getDvMutable(), true)};
  addOptional(accesses, getLengthsMutable(), getPositionsMutable(),
              getWorkspaceMutable());
  return accesses;
}

LogicalResult AttentionGradOp::verify() {
  return verifyAttention(
      *this, {{"q", getQ()}, {"dq", getDq()}},
      {{"k", getK()}, {"v", getV()}, {"dk", getDk()}, {"dv", getDv()}},
      {{"dout", getDout()}, {"out", getOut()}});
}

#include "optimus/Dialect/Exec/IR/ExecInterfaces.cpp.inc"

#define GET_OP_CLASSES
#include "optimus/Dialect/Exec/IR/ExecOps.cpp.inc"
