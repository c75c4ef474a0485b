//===- CudaSchedule.cpp - Kernels of threads and blocks ---------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Target/CUDA/CudaSchedule.h"

#include "CudaAttention.h"
#include "CudaGroupedLaunches.h"
#include "CudaRowGroups.h"
#include "CudaTiles.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <limits>
#include <numeric>

using namespace mlir;
using namespace mlir::optimus;

/// The elements of a row that a thread loads at a time, whatever their type: a
/// sum of narrow elements is added in the same order as one of f32.
static constexpr int64_t kRowLanes = 4;
/// The most elements of a row that a warp does.
static constexpr int64_t kMostOfWarp = 4096;
/// The most columns that a block sums: in f32 they are a sector of memory.
static constexpr int64_t kColumns = 8;
/// The threads for the rows of a group, done together by a block.
static constexpr int64_t kGroupThreads =
    kGroupRows / CudaTiles::kWarpRows * kWarpThreads;
/// The elements a thread takes of a row without a loop, so that they can stay
/// in registers: so many elements of all operands together.
static constexpr int64_t kHeldElements = 96;
/// A loop over at most so many LLVM may unroll as a whole, and keep in
/// registers what is read again. Longer ones would spill: of 2048 columns of
/// f32 with sums of columns, 448 elements.
static constexpr int64_t kUnrolledElements = 440;

/// The greatest power of two that divides n and is at most `most`.
static int64_t getPowerOfTwo(int64_t n, int64_t most) {
  return std::gcd(n, most);
}

CudaBlock mlir::optimus::getCudaBlock(const IterationSpace &space) {
  constexpr int64_t kLong = 512;
  switch (space.kind) {
  case IterationSpace::Elements:
    return {256, 1};
  case IterationSpace::Items:
    return {128, 1};
  case IterationSpace::Rows:
    if (space.group > 0)
      return {kGroupThreads, kGroupThreads};
    if (space.together > 0)
      return {256, kWarpThreads};
    if (space.lanes > 0)
      return {256, std::min(space.lanes, kWarpThreads)};
    if (space.rows == 1 || space.getLength() > kMostOfWarp)
      return {kLong, kLong};
    return {256, kWarpThreads};
  case IterationSpace::Columns: {
    if (space.rows == 0)
      return {kWarpThreads, 1};
    // No more threads than rows, but a warp at least.
    int64_t columns = getPowerOfTwo(space.cols, kColumns);
    int64_t team = std::min<int64_t>(
        kLong / columns, std::max<int64_t>(llvm::PowerOf2Ceil(space.rows),
                                           kWarpThreads / columns));
    return {columns * team, team};
  }
  }
  llvm_unreachable("all kinds are covered");
}

KernelExtent CudaSchedule::getExtent(const IterationSpace &space) const {
  CudaBlock block = getCudaBlock(space);
  switch (space.kind) {
  case IterationSpace::Elements:
    if (!space.pieces.empty())
      return {CudaGroupedLaunches::getNumChunks(space), 1};
    return {space.rows * space.cols,
            block.threads * kLoadBytes / int64_t(sizeof(float))};
  case IterationSpace::Rows:
    if (space.group > 0)
      return {space.rows / space.group *
                  int64_t(llvm::divideCeil(space.group, kGroupRows)),
              1};
    if (space.together > 0)
      return {int64_t(llvm::divideCeil(space.rows, space.together)), 1};
    return {space.rows, block.getTeams()};
  case IterationSpace::Items:
    return {space.rows, block.getTeams()};
  case IterationSpace::Columns:
    return {space.cols, block.getTeams()};
  }
  llvm_unreachable("all kinds are covered");
}

//===----------------------------------------------------------------------===//
// Iterations
//===----------------------------------------------------------------------===//

void CudaSchedule::forElements(KernelBuilder &k, int64_t rows, int64_t cols,
                               ElementsFn body) const {
  CudaThreads threads(k);
  Value perBlock = k.index(threads.getBlock().threads);
  Value thread = k.addIndex(k.mulIndex(threads.getBlockIndex(), perBlock),
                            threads.getThread());
  Value all = k.mulIndex(threads.getNumBlocks(), perBlock);
  Value n = k.getEnd();
  int64_t lanes = threads.getMostLanes();
  if (rows > 1)
    lanes = getPowerOfTwo(cols, lanes);
  auto cover = [&](Value first, Value end, int64_t count) {
    Value start = k.addIndex(first, k.mulIndex(thread, k.index(count)));
    threads.stride(start, end, k.mulIndex(all, k.index(count)), [&](Value at) {
      Value column = rows == 1 ? at
                               : Value(arith::RemUIOp::create(
                                     k.getBuilder(), at, k.index(cols)));
      body(at, column, threads.getLanes(count));
    });
  };
  Value whole = threads.getWhole(n, lanes);
  cover(k.index(0), whole, lanes);
  // The code does not know n, so that it serves every n.
  if (rows == 1)
    cover(whole, n, 1);
}

void CudaSchedule::forRows(KernelBuilder &k, IndexFn body) const {
  CudaThreads threads(k);
  Value teams = k.index(threads.getBlock().getTeams());
  Value first =
      k.addIndex(k.mulIndex(threads.getBlockIndex(), teams), threads.getTeam());
  threads.stride(first, k.getEnd(), k.mulIndex(threads.getNumBlocks(), teams),
                 body);
}

// The columns of a block divide their number: all threads go through the loop
// equally often.
void CudaSchedule::forColumns(KernelBuilder &k, int64_t, LanesFn body) const {
  forRows(k, [&](Value column) { body(column, k.f32()); });
}

//===----------------------------------------------------------------------===//
// Lanes
//===----------------------------------------------------------------------===//

using PieceFn = function_ref<SmallVector<Value>(Value, ValueRange)>;

/// Has LLVM unroll the loop that was just written by so many turns.
static void limitUnrolling(KernelBuilder &k, int32_t turns) {
  ImplicitLocOpBuilder &b = k.getBuilder();
  Operation &loop = *std::prev(b.getInsertionPoint());
  auto unroll = LLVM::LoopUnrollAttr::get(
      b.getContext(), /*disable=*/{}, b.getI32IntegerAttr(turns),
      /*runtimeDisable=*/{}, /*full=*/{}, /*followupUnrolled=*/{},
      /*followupRemainder=*/{}, /*followupAll=*/{});
  cast<scf::ForOp>(loop)->setAttr(
      "loop_annotation",
      LLVM::LoopAnnotationAttr::get(
          b.getContext(), /*disableNonforced=*/{}, /*vectorize=*/{},
          /*interleave=*/{}, unroll, /*unrollAndJam=*/{}, /*licm=*/{},
          /*distribute=*/{}, /*pipeline=*/{}, /*peeled=*/{}, /*unswitch=*/{},
          /*mustProgress=*/{}, /*isVectorized=*/{}, /*startLoc=*/{},
          /*endLoc=*/{}, /*parallelAccesses=*/{}));
}

/// Calls `body` for the pieces of [0, n), of so many lanes, that are this
/// thread's, and carries values through.
static SmallVector<Value> coverRow(KernelBuilder &k, int64_t n, int64_t lanes,
                                   ArrayRef<Value> init, PieceFn body) {
  CudaThreads threads(k);
  int64_t width = threads.getBlock().team * lanes, turns = n / width;
  int64_t operands = 0;
  if (k.getSpace().pieces.empty()) {
    for (Type type : k.getFunction().getArgumentTypes())
      if (auto buffer = dyn_cast<MemRefType>(type))
        operands += buffer.getNumElements() >= n;
  } else {
    for (const KernelOperand &operand : k.getDescription().getOperands())
      operands += operand.extent >= n;
  }
  Value first = k.mulIndex(threads.getRank(), k.index(lanes));
  SmallVector<Value> carried(init);
  const int64_t elements = turns * lanes * operands;
  if (elements <= kHeldElements)
    for (int64_t turn = 0; turn < turns; ++turn)
      carried = body(k.addIndex(first, k.index(turn * width)), carried);
  else
    carried = k.loop(k.index(0), k.index(turns * width), width, carried,
                     [&](Value from, ValueRange values) {
                       return body(k.addIndex(from, first), values);
                     });
  if (elements > kUnrolledElements)
    limitUnrolling(k, /*turns=*/4);
  if (n % width == 0)
    return carried;
  return k.loop(k.addIndex(k.index(turns * width), first), k.index(n), width,
                carried, body);
}

/// As many lanes as leave no thread of the team without work.
static int64_t chooseLanes(KernelBuilder &k, int64_t n) {
  int64_t team = getCudaBlock(k.getSpace()).team;
  int64_t lanes = getPowerOfTwo(n, kRowLanes);
  while (lanes > 1 && lanes * team > n)
    lanes /= 2;
  return lanes;
}

void CudaSchedule::lanes(KernelBuilder &k, int64_t n, LanesFn body) const {
  int64_t count = chooseLanes(k, n);
  coverRow(k, n, count, {}, [&](Value at, ValueRange) {
    body(at, CudaThreads(k).getLanes(count));
    return SmallVector<Value>();
  });
}

/// Covers [0, n) in pieces of what divides rows, and the rest one by one.
static void coverRow(KernelBuilder &k, Value n,
                     function_ref<void(Value, Value, int64_t, Type)> body) {
  CudaThreads threads(k);
  int64_t lanes = chooseLanes(k, k.getDescription().getSpace().cols);
  int64_t team = threads.getBlock().team;
  Value rank = threads.getRank(), whole = threads.getWhole(n, lanes);
  body(k.mulIndex(rank, k.index(lanes)), whole, team * lanes,
       threads.getLanes(lanes));
  if (lanes > 1)
    body(k.addIndex(whole, rank), n, team, k.f32());
}

void CudaSchedule::lanes(KernelBuilder &k, Value n, LanesFn body) const {
  coverRow(k, n, [&](Value from, Value to, int64_t step, Type type) {
    k.loop(from, to, step, [&](Value at) { body(at, type); });
  });
}

void CudaSchedule::each(KernelBuilder &k, Value from, Value to,
                        IndexFn body) const {
  CudaThreads threads(k);
  k.loop(k.addIndex(from, threads.getRank()), to, threads.getBlock().team,
         body);
}

//===----------------------------------------------------------------------===//
// Sums
//===----------------------------------------------------------------------===//

static Terms combineSums(KernelBuilder &k, const Terms &sums) {
  return CudaThreads(k).combine(sums, [](Num a, Num c) { return a + c; });
}

Terms CudaSchedule::sums(KernelBuilder &k, int64_t n, int64_t count,
                         TermsFn terms, bool wide) const {
  int64_t lanes = chooseLanes(k, n);
  Type type = CudaThreads(k).getLanes(lanes);
  Type element = wide ? k.f64() : k.f32();
  SmallVector<Value> zeros(count,
                           k.constant(0, k.withElement(type, element)).value);
  Terms sums;
  for (Value sum :
       coverRow(k, n, lanes, zeros, [&](Value at, ValueRange carried) {
         return k.addTerms(carried, terms(at, type));
       }))
    sums.push_back(k.reduce(vector::CombiningKind::ADD, k.num(sum)));
  return combineSums(k, sums);
}

Terms CudaSchedule::sums(KernelBuilder &k, Value n, int64_t count,
                         TermsFn terms) const {
  Terms sums(count, k.constant(0, k.f32()));
  coverRow(k, n, [&](Value from, Value to, int64_t step, Type type) {
    SmallVector<Value> zeros(count, k.constant(0, type).value);
    SmallVector<Value> parts =
        k.loop(from, to, step, zeros, [&](Value at, ValueRange carried) {
          return k.addTerms(carried, terms(at, type));
        });
    for (auto [sum, part] : llvm::zip_equal(sums, parts))
      sum = sum + k.reduce(vector::CombiningKind::ADD, k.num(part));
  });
  return combineSums(k, sums);
}

Num CudaSchedule::maximum(KernelBuilder &k, Value n,
                          function_ref<Num(Value, Type)> term) const {
  double lowest = std::numeric_limits<float>::lowest();
  Num result = k.constant(lowest, k.f32());
  coverRow(k, n, [&](Value from, Value to, int64_t step, Type type) {
    SmallVector<Value> init{k.constant(lowest, type).value};
    Value part =
        k.loop(from, to, step, init, [&](Value at, ValueRange carried) {
           return SmallVector<Value>{
               k.max(term(at, type), k.num(carried.front())).value};
         }).front();
    result =
        k.max(k.reduce(vector::CombiningKind::MAXNUMF, k.num(part)), result);
  });
  return CudaThreads(k)
      .combine({result}, [&](Num a, Num c) { return k.max(a, c); })
      .front();
}

Terms CudaSchedule::columnSums(KernelBuilder &k, int64_t rows, int64_t count,
                               Type, TermsFn terms) const {
  CudaThreads threads(k);
  const int64_t team = threads.getBlock().team;
  const int64_t columns = threads.getBlock().getTeams();
  Value rank = threads.getRank(), column = threads.getTeam();
  SmallVector<Value> zeros(count, k.constant(0, k.f32()).value);
  SmallVector<Value> parts = k.loop(
      rank, k.index(rows), team, zeros, [&](Value row, ValueRange carried) {
        return k.addTerms(carried, terms(row, k.f32()));
      });
  // The parts of a thread, and then those of its column.
  KernelBuffer shared(
      k, threads.getShared("columns", count * team * columns, k.f32()));
  auto getPlace = [&](int64_t number, Value rank) {
    return k.addIndex(k.addIndex(k.index(number * team * columns), column),
                      k.mulIndex(rank, k.index(columns)));
  };
  threads.synchronizeBlock();
  for (auto [number, part] : llvm::enumerate(parts))
    shared.store(k.num(part), getPlace(number, rank));
  threads.synchronizeBlock();
  for (int64_t half = team / 2; half > 0; half /= 2) {
    k.when(k.less(rank, k.index(half)), [&] {
      Value other = k.addIndex(rank, k.index(half));
      for (int64_t number = 0; number < count; ++number) {
        Value place = getPlace(number, rank);
        shared.store(shared.load(place) + shared.load(getPlace(number, other)),
                     place);
      }
    });
    threads.synchronizeBlock();
  }
  Terms result;
  for (int64_t number = 0; number < count; ++number)
    result.push_back(shared.load(getPlace(number, k.index(0))));
  return result;
}

//===----------------------------------------------------------------------===//
// What threads share
//===----------------------------------------------------------------------===//

void CudaSchedule::once(KernelBuilder &k, function_ref<void()> body) const {
  CudaThreads threads(k);
  if (threads.getBlock().team == 1)
    return body();
  k.when(arith::CmpIOp::create(k.getBuilder(), arith::CmpIPredicate::eq,
                               threads.getRank(), k.index(0)),
         body);
}

void CudaSchedule::separate(KernelBuilder &k) const {
  CudaThreads(k).synchronize();
}

Value CudaSchedule::allocateShared(KernelBuilder &k, int64_t extent) const {
  CudaThreads threads(k);
  Value room;
  k.atStart([&] {
    ImplicitLocOpBuilder &b = k.getBuilder();
    int64_t teams = threads.getBlock().getTeams();
    // Each call has room of its own, though it may ask for as much as another.
    auto known =
        llvm::range_size(k.getFunction().getOps<memref::GetGlobalOp>());
    Value all = threads.getShared("room" + std::to_string(known),
                                  teams * extent, k.f32());
    Value first = k.mulIndex(threads.getTeam(), k.index(extent));
    auto type = MemRefType::get(
        {extent}, k.f32(),
        StridedLayoutAttr::get(b.getContext(), ShapedType::kDynamic, {1}),
        cast<MemRefType>(all.getType()).getMemorySpace());
    room = memref::ReinterpretCastOp::create(
        b, type, all, OpFoldResult(first),
        ArrayRef<OpFoldResult>{b.getIndexAttr(extent)},
        ArrayRef<OpFoldResult>{b.getIndexAttr(1)});
  });
  return room;
}

bool CudaSchedule::writeAttention(KernelBuilder &k,
                                  const kernels::AttentionExtents &extents,
                                  kernels::AttentionPart part) const {
  if (k.getSpace().group == 0)
    return false;
  writeTiledAttention(k, extents, part);
  return true;
}

// Longer rows are a block's, which shares nothing as close as a warp does.
bool CudaSchedule::takesChains(const IterationSpace &space) const {
  return space.getLength() <= kMostOfWarp;
}

const RowGroups *CudaSchedule::getRowGroups() const {
  static const CudaRowGroups groups;
  return &groups;
}

const GroupedLaunchSchedule *CudaSchedule::getGroupedLaunches() const {
  static const CudaGroupedLaunches pieces;
  return &pieces;
}
