//===- CudaGroupedLaunches.cpp - Several pieces in a launch -----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaGroupedLaunches.h"

#include "CudaThreads.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

#include <limits>

using namespace mlir;
using namespace mlir::optimus;

/// What a block does at a time: enough to pay for finding its piece, and little
/// enough that a large tensor is the work of many blocks.
static constexpr int64_t kChunkElements = 8192;

/// The iterations of a piece.
static int64_t getIterations(const IterationSpace &space, int64_t count) {
  return space.kind == IterationSpace::Elements
             ? llvm::divideCeil(count, kChunkElements)
             : count;
}

int64_t CudaGroupedLaunches::getNumChunks(const IterationSpace &space) {
  int64_t chunks = 0;
  for (int64_t count : space.pieces)
    chunks += getIterations(space, count);
  return chunks;
}

// Rows are those that a block does whatever their number: else a launch of one
// row adds in another order than one of several.
bool CudaGroupedLaunches::takes(const IterationSpace &space) const {
  switch (space.kind) {
  case IterationSpace::Elements:
    return space.rows == 1;
  case IterationSpace::Items:
    return true;
  case IterationSpace::Rows: {
    IterationSpace one = space, several = space;
    one.rows = 1;
    several.rows = 2;
    return space.group == 0 &&
           getCudaBlock(one).team == getCudaBlock(several).team;
  }
  case IterationSpace::Columns:
    return false;
  }
  llvm_unreachable("all kinds are covered");
}

//===----------------------------------------------------------------------===//
// Iterations
//===----------------------------------------------------------------------===//

/// Reads an entry of a table of the code.
static Value lookUp(KernelBuilder &k, StringRef name, ArrayRef<int64_t> entries,
                    Value at) {
  ImplicitLocOpBuilder &b = k.getBuilder();
  auto module = k.getFunction()->getParentOfType<ModuleOp>();
  std::string symbol = (k.getFunction().getSymName() + "_" + name).str();
  auto global = module.lookupSymbol<memref::GlobalOp>(symbol);
  if (!global) {
    OpBuilder outside(k.getFunction());
    const int64_t shape[] = {static_cast<int64_t>(entries.size())};
    Type element = b.getI64Type();
    global = memref::GlobalOp::create(
        outside, k.getFunction().getLoc(), symbol, b.getStringAttr("private"),
        MemRefType::get(shape, element, MemRefLayoutAttrInterface(),
                        b.getI64IntegerAttr(kConstantMemory)),
        DenseElementsAttr::get(RankedTensorType::get(shape, element), entries),
        /*constant=*/true, /*alignment=*/b.getI64IntegerAttr(16));
  }
  Value table = memref::GetGlobalOp::create(b, global.getType(), symbol);
  return arith::IndexCastOp::create(b, b.getIndexType(),
                                    memref::LoadOp::create(b, table, at));
}

/// The last piece that begins at or before an iteration; there are a power of
/// two, with those that begin behind all.
static Value findPiece(KernelBuilder &k, ArrayRef<int64_t> begins,
                       Value iteration) {
  Value piece = k.index(0);
  for (size_t step = begins.size() / 2; step > 0; step /= 2) {
    Value next = k.addIndex(piece, k.index(step));
    Value isBehind = k.less(iteration, lookUp(k, "begins", begins, next));
    piece = arith::SelectOp::create(k.getBuilder(), isBehind, piece, next);
  }
  return piece;
}

void CudaGroupedLaunches::forGrouped(
    KernelBuilder &k, function_ref<void(const GroupedIteration &)> body) const {
  const IterationSpace &space = k.getSpace();
  SmallVector<int64_t> begins;
  int64_t begin = 0;
  for (int64_t count : space.pieces) {
    begins.push_back(begin);
    begin += getIterations(space, count);
  }
  // As many as halving takes; nobody reaches those that are added.
  begins.resize(llvm::PowerOf2Ceil(begins.size()),
                std::numeric_limits<int64_t>::max());
  CudaThreads threads(k);
  // A chunk is the whole block's.
  bool isBlocks = space.kind == IterationSpace::Elements;
  int64_t teams = isBlocks ? 1 : threads.getBlock().getTeams();
  Value first = k.mulIndex(threads.getBlockIndex(), k.index(teams));
  if (!isBlocks)
    first = k.addIndex(first, threads.getTeam());
  threads.stride(first, k.getEnd(),
                 k.mulIndex(threads.getNumBlocks(), k.index(teams)),
                 [&](Value iteration) {
                   Value number = findPiece(k, begins, iteration);
                   Value from = lookUp(k, "begins", begins, number);
                   body({number, k.subIndex(iteration, from)});
                 });
}

void CudaGroupedLaunches::forElements(KernelBuilder &k,
                                      const GroupedIteration &piece,
                                      ElementsFn body) const {
  CudaThreads threads(k);
  Value n = lookUp(k, "extents", k.getSpace().pieces, piece.number);
  Value begin = k.mulIndex(piece.iteration, k.index(kChunkElements));
  Value end = k.minIndex(n, k.addIndex(begin, k.index(kChunkElements)));
  int64_t lanes = threads.getMostLanes();
  auto cover = [&](Value from, Value to, int64_t count) {
    Value start =
        k.addIndex(from, k.mulIndex(threads.getThread(), k.index(count)));
    threads.stride(start, to, k.index(threads.getBlock().threads * count),
                   [&](Value at) { body(at, at, threads.getLanes(count)); });
  };
  Value whole = threads.getWhole(end, lanes);
  cover(begin, whole, lanes);
  cover(whole, end, 1);
}

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

// What the target's own pass makes a read of the table.
Value CudaGroupedLaunches::choose(KernelBuilder &k, ArrayRef<Value> arguments,
                                  Value number) const {
  Type element = cast<MemRefType>(arguments.front().getType()).getElementType();
  SmallVector<Value> operands(arguments);
  operands.push_back(number);
  return UnrealizedConversionCastOp::create(
             k.getBuilder(), MemRefType::get({ShapedType::kDynamic}, element),
             operands)
      .getResult(0);
}

namespace {
/// Reads buffers from the table that a kernel takes.
class TableReader {
public:
  TableReader(func::FuncOp kernel, Value table)
      : b(kernel.getLoc(), kernel.getContext()), table(table) {}

  ImplicitLocOpBuilder b;

  Value index(int64_t value) {
    return arith::ConstantIndexOp::create(b, value);
  }

  /// The buffer of this number, aligned to so many bytes.
  Value read(Value number, MemRefType type, int64_t alignment) {
    MLIRContext *context = b.getContext();
    auto generic = LLVM::LLVMPointerType::get(context);
    Value word = memref::LoadOp::create(b, table, number);
    Value global = LLVM::IntToPtrOp::create(
        b, LLVM::LLVMPointerType::get(context, kGlobalMemory), word);
    Value address = LLVM::AddrSpaceCastOp::create(b, generic, global);
    LLVM::AssumeOp::create(
        b, LLVM::ConstantOp::create(b, b.getI1Type(), b.getBoolAttr(true)),
        LLVM::AssumeAlignTag{}, address,
        LLVM::ConstantOp::create(b, b.getI64Type(),
                                 b.getI64IntegerAttr(alignment)));
    Type i64 = b.getI64Type(), one = LLVM::LLVMArrayType::get(i64, 1);
    Value descriptor = LLVM::PoisonOp::create(
        b, LLVM::LLVMStructType::getLiteral(context,
                                            {generic, generic, i64, one, one}));
    auto set = [&](Value value, ArrayRef<int64_t> at) {
      descriptor = LLVM::InsertValueOp::create(b, descriptor, value, at);
    };
    auto constant = [&](int64_t value) -> Value {
      return LLVM::ConstantOp::create(b, i64, b.getI64IntegerAttr(value));
    };
    set(address, {0});
    set(address, {1});
    set(constant(0), {2});
    // Nobody asks for the extent of what is chosen.
    set(constant(type.hasStaticShape() ? type.getNumElements() : 0), {3, 0});
    set(constant(1), {4, 0});
    return UnrealizedConversionCastOp::create(b, Type(type), descriptor)
        .getResult(0);
  }

private:
  Value table;
};
} // namespace

void mlir::optimus::takeBuffersByTable(func::FuncOp kernel,
                                       ArrayRef<KernelOperand> operands) {
  // The number of iterations comes first.
  constexpr unsigned kFirst = 1;
  const int64_t numBuffers = operands.size();
  const int64_t ofTensors = CudaSchedule().getTensorAlignment();
  Block &entry = kernel.getBody().front();
  auto type =
      MemRefType::get({numBuffers}, IntegerType::get(kernel.getContext(), 64));
  (void)kernel.insertArgument(kFirst, type, {}, kernel.getLoc());
  TableReader reader(kernel, entry.getArgument(kFirst));
  auto numberOf = [&](Value buffer) -> int64_t {
    return cast<BlockArgument>(buffer).getArgNumber() - kFirst - 1;
  };
  kernel.walk([&](UnrealizedConversionCastOp choice) {
    if (choice->getNumOperands() < 2)
      return;
    ValueRange buffers = choice.getOperands().drop_back();
    int64_t first = numberOf(buffers.front());
    int64_t apart = buffers.size() > 1 ? numberOf(buffers[1]) - first : 0;
    reader.b.setInsertionPoint(choice);
    Value number = arith::AddIOp::create(
        reader.b, reader.index(first),
        arith::MulIOp::create(reader.b, choice.getOperands().back(),
                              reader.index(apart)));
    choice.getResult(0).replaceAllUsesWith(
        reader.read(number, cast<MemRefType>(choice.getResult(0).getType()),
                    operands[first].getAlignment(ofTensors)));
    choice.erase();
  });
  reader.b.setInsertionPointToStart(&entry);
  for (auto [number, operand] : llvm::enumerate(operands)) {
    BlockArgument buffer = entry.getArgument(kFirst + 1 + number);
    if (!buffer.use_empty())
      buffer.replaceAllUsesWith(reader.read(reader.index(number),
                                            cast<MemRefType>(buffer.getType()),
                                            operand.getAlignment(ofTensors)));
  }
  for (int64_t number = 0; number < numBuffers; ++number)
    (void)kernel.eraseArgument(kFirst + 1);
}
