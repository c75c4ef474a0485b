//===- RankMemory.cpp - What a rank holds -----------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Planning/RankMemory.h"

#include "optimus/Dialect/Exec/IR/Commands.h"
#include "optimus/Dialect/Exec/IR/WeightBlocks.h"
#include "optimus/Dialect/Exec/Transforms/LiveRanges.h"
#include "optimus/Dialect/Optimus/IR/Buffers.h"
#include "optimus/Dialect/Optimus/IR/ElementBytes.h"
#include "optimus/Dialect/Optimus/IR/Entries.h"
#include "optimus/Dialect/Optimus/IR/MeshRanks.h"
#include "optimus/Dialect/Optimus/IR/Optimus.h"

#include "optimus-support/CollectivePlan.h"
#include "optimus-support/DeviceScratch.h"
#include "optimus-support/GpuScratch.h"
#include "optimus-support/MemoryCategory.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::optimus;
using exec::ExecDialect;

/// What the runtime rounds buffers up to.
static constexpr int64_t kBufferAlignment = 64;

/// Where an argument counts.
static int64_t RankMemory::*getCategory(func::FuncOp function,
                                        unsigned argument) {
  constexpr int64_t RankMemory::*members[] = {
      &RankMemory::parameters, &RankMemory::state, &RankMemory::gradients,
      &RankMemory::inputs};
  BufferAttr buffer = getArgumentBuffer(function, argument);
  return buffer ? entryOf(optimus_support::memoryCategory(buffer.getLifetime(),
                                                          bool(buffer.getOf()),
                                                          buffer.isPrepared()),
                          members)
                : &RankMemory::inputs;
}

/// For the commands of a function, with one thread.
static int64_t getScratch(func::FuncOp function) {
  optimus_support::ScratchBound bound;
  auto isNarrow = [](Value buffer) {
    return !cast<MemRefType>(buffer.getType()).getElementType().isF32();
  };
  auto attention = [&](auto op, bool isGradient) {
    bound.attention({.seq = int64_t(op.getSeq()),
                     .headDim = int64_t(op.getHeadDim()),
                     .isGradient = isGradient,
                     .isNarrow = isNarrow(op.getQ()),
                     .hasFirstKeys = op.getPositions() || op.getWindow(),
                     .capacity = exec::getAttentionKeys(op).capacity});
  };
  function.walk([&](Operation *op) {
    if (auto gemm = dyn_cast<exec::GemmOp>(op))
      bound.product({int64_t(gemm.getM()), int64_t(gemm.getN()),
                     int64_t(gemm.getK()), gemm.getTransA(),
                     gemm.getBias() && gemm.getAccumulate()},
                    isNarrow(gemm.getA()), isNarrow(gemm.getC()),
                    isFewBits(exec::getWeightBlocks(gemm.getBlocks())));
    else if (auto forward = dyn_cast<exec::AttentionOp>(op))
      attention(forward, /*isGradient=*/false);
    else if (auto backward = dyn_cast<exec::AttentionGradOp>(op))
      attention(backward, /*isGradient=*/true);
  });
  return bound.get().bytes(1);
}

/// The buffers that communicators keep: those of an axis have as many places as
/// there are collectives under way at a time, the first free one is taken, and
/// each is as large as the largest that was in it.
static int64_t getCommunicationBytes(func::FuncOp function) {
  struct Place {
    Operation *start = nullptr;
    optimus_support::CollectiveRoom bytes{};
  };
  llvm::StringMap<std::vector<Place>> axes;
  MeshOp mesh = getMesh(function);
  bool carries = false;
  auto call = [&](Operation *op) {
    if (auto start = dyn_cast<exec::CollectiveStartOp>(op)) {
      std::vector<Place> &places = axes[start.getAxis()];
      auto free = llvm::find_if(
          places, [](const Place &place) { return !place.start; });
      if (free == places.end())
        free = places.insert(free, Place());
      free->start = op;
      carries |= start.isCarried();
      const int64_t ranks = getRanksAlong(mesh, start.getAxis());
      int64_t size = getElementBytes(start.getSrc().getType());
      optimus_support::CollectiveShape shape{
          optimus_support::program::CollectiveKind(start.getKind()),
          int64_t(start.getOuter()), int64_t(start.getInner()),
          int64_t(start.getSrcLd()), int64_t(start.getDstLd())};
      auto needed =
          optimus_support::largestRoomOverTcp(shape, start.getRoot(), ranks);
      for (auto [held, elements] : llvm::zip_equal(free->bytes, needed))
        held = std::max(held, elements * size);
    } else if (auto wait = dyn_cast<exec::WaitOp>(op)) {
      for (Place &place : axes[wait.getStart().getAxis()])
        if (place.start == wait.getStart())
          place.start = nullptr;
    } else if (auto wait = dyn_cast<exec::WaitCarriedOp>(op)) {
      for (auto &axis : axes)
        for (Place &place : axis.getValue())
          if (place.start &&
              cast<exec::CollectiveStartOp>(place.start).getCarried() ==
                  wait.getCarried())
            place.start = nullptr;
    }
  };
  function.walk(call);
  // The next call begins with what this one carries.
  if (carries)
    function.walk(call);
  int64_t sum = 0;
  for (const auto &axis : axes)
    for (const Place &place : axis.getValue())
      for (int64_t bytes : place.bytes)
        sum += bytes;
  return sum;
}

/// What HostStaging keeps for a function's collectives: the smallest room
/// that is free and large enough, else a new one. A root reads and writes.
static int64_t getStagedBytes(func::FuncOp function) {
  struct Room {
    int64_t bytes;
    Operation *user;
  };
  std::vector<Room> rooms;
  MeshOp mesh = getMesh(function);
  auto take = [&](exec::CollectiveStartOp start, int64_t parts) {
    int64_t bytes = int64_t(getElementBytes(start.getSrc().getType())) *
                    start.getOuter() * start.getInner() * parts;
    Room *best = nullptr;
    for (Room &room : rooms)
      if (!room.user && room.bytes >= bytes &&
          (!best || room.bytes < best->bytes))
        best = &room;
    if (best)
      best->user = start;
    else
      rooms.push_back({bytes, start});
  };
  auto call = [&] {
    function.walk([&](Operation *op) {
      if (auto start = dyn_cast<exec::CollectiveStartOp>(op)) {
        const int64_t ranks = getRanksAlong(mesh, start.getAxis());
        using exec::CollectiveKind;
        take(start,
             start.getKind() == CollectiveKind::ReduceScatter ? ranks : 1);
        if (start.getSrc() != start.getDst())
          take(start, start.getKind() == CollectiveKind::AllGather ? ranks : 1);
      } else if (auto wait = dyn_cast<exec::WaitOp>(op)) {
        for (Room &room : rooms)
          if (room.user == wait.getStart())
            room.user = nullptr;
      }
    });
  };
  // Later calls find rooms where the first one made them, and may take others.
  for (size_t before = 0; before == 0 || before != rooms.size();) {
    before = rooms.size();
    call();
    if (rooms.empty())
      return 0;
  }
  int64_t sum = 0;
  for (const Room &room : rooms)
    sum += room.bytes;
  return sum;
}

/// A GPU's, for a function.
static int64_t getWorkspace(func::FuncOp function) {
  bool hasProduct =
      function.walk([](exec::GemmOp) { return WalkResult::interrupt(); })
          .wasInterrupted();
  return hasProduct ? optimus_support::kGpuWorkspaceBytes : 0;
}

RankMemory mlir::optimus::getRankMemory(func::FuncOp function, bool isForGpu) {
  RankMemory memory;
  auto arena = function->getAttrOfType<IntegerAttr>(ExecDialect::kArenaBytes);
  // The first argument is the arena, those of other spaces follow.
  for (unsigned i = arena ? 1 : 0; i < function.getNumArguments(); ++i) {
    BlockArgument argument = function.getArgument(i);
    auto type = dyn_cast<MemRefType>(argument.getType());
    if (!type)
      continue;
    bool isArena = type.getElementType().isInteger(8);
    exec::MemorySpace space = exec::getMemorySpace(argument);
    int64_t &bytes =
        space == exec::MemorySpace::File ? memory.offloaded
        : isForGpu && space == exec::MemorySpace::Host
            ? memory.pinned
            : memory.*(isArena ? &RankMemory::arena : getCategory(function, i));
    // Buffers lie one behind the other.
    bytes += llvm::alignTo(getBytes(type), kBufferAlignment);
  }
  memory.arena += arena ? arena.getInt() : exec::computePeakBytes(function);
  const int64_t lanes = exec::getLanes(function);
  for (auto part : {&RankMemory::parameters, &RankMemory::state,
                    &RankMemory::gradients, &RankMemory::inputs})
    memory.*part *= lanes;
  memory.scratch = isForGpu ? getWorkspace(function) : getScratch(function);
  if (isForGpu)
    memory.staged = getStagedBytes(function);
  memory.communication = getCommunicationBytes(function);
  return memory;
}

int64_t RankMemoryTable::getMost() const {
  int64_t most = 0;
  for (const Row &row : rows)
    if (row.isJudged)
      most = std::max(most, row.memory.getTotal());
  return most;
}

int64_t RankMemoryTable::countFitting(int64_t bytes, int64_t lanes) const {
  int64_t fitting = optimus_support::kMaxLanes;
  for (const auto &[name, memory, isJudged] : rows) {
    if (!isJudged)
      continue;
    // The others have the arena and scratch of the first.
    const int64_t once = memory.arena + memory.scratch;
    const int64_t ofLane = (memory.getTotal() - once) / lanes;
    fitting = std::min(fitting, std::max<int64_t>(0, bytes - once) /
                                    std::max<int64_t>(1, ofLane));
  }
  return fitting;
}

RankMemory RankMemoryTable::getMostOfEach() const {
  RankMemory most;
  for (const Row &row : rows)
    most.include(row.memory);
  return most;
}

/// Calls fn(name, bytes) for parameters, and what is prepared of them.
static void
forEachParameter(func::FuncOp function,
                 llvm::function_ref<void(Attribute name, int64_t bytes)> fn) {
  for (BlockArgument argument : function.getArguments()) {
    const unsigned number = argument.getArgNumber();
    Attribute name = function.getArgAttr(number, OptimusDialect::kParam);
    if (!name)
      name = function.getArgAttr(number, OptimusDialect::kBinding);
    auto type = dyn_cast<MemRefType>(argument.getType());
    if (name && type &&
        getCategory(function, number) == &RankMemory::parameters)
      fn(name, llvm::alignTo(getBytes(type), kBufferAlignment) *
                   exec::getLanes(function));
  }
}

/// Parameters and what is prepared of them, each once.
static void addParameters(ArrayRef<func::FuncOp> called,
                          ArrayRef<func::FuncOp> preparers,
                          RankMemory &memory) {
  llvm::SmallDenseSet<Attribute> known;
  memory.parameters = 0;
  for (func::FuncOp function : called)
    forEachParameter(function, [&](Attribute name, int64_t bytes) {
      if (known.insert(name).second)
        memory.parameters += bytes;
    });
  // Where all readers of a parameter prepare nothing else, it is held while they
  // are called.
  for (func::FuncOp function : preparers) {
    SmallVector<int64_t> own;
    forEachParameter(function, [&](Attribute name, int64_t bytes) {
      if (known.insert(name).second)
        own.push_back(bytes);
    });
    if (own.size() == 1)
      memory.staging = std::max(memory.staging, own.front());
    else
      memory.parameters += llvm::sum_of(own);
  }
}

RankMemoryTable mlir::optimus::getRankMemoryTable(ModuleOp module,
                                                  bool isForGpu) {
  RankMemoryTable table;
  const SmallVector<func::FuncOp> ofGeneration =
      findGenerationPreparers(module);
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function->hasAttr(ExecDialect::kKernel) ||
        llvm::is_contained(ofGeneration, function))
      continue;
    const bool isForVerify = getEntryKind(function) == EntryKind::Grad &&
                             findEntry(module, EntryKind::Train);
    table.rows.push_back({function.getSymName(),
                          getRankMemory(function, isForGpu), !isForVerify});
  }
  auto addTogether = [&](const char *name, ArrayRef<EntryKind> kinds) {
    SmallVector<func::FuncOp> called;
    llvm::SetVector<func::FuncOp> preparers;
    RankMemory memory;
    for (EntryKind kind : kinds)
      for (func::FuncOp function : findEntries(module, kind)) {
        called.push_back(function);
        preparers.insert_range(findPreparers(function));
        memory.include(getRankMemory(function, isForGpu));
      }
    for (func::FuncOp function : preparers)
      memory.include(getRankMemory(function, isForGpu));
    addParameters(called, preparers.getArrayRef(), memory);
    table.rows.push_back({name, memory});
  };
  if (findEntry(module, EntryKind::Accumulate))
    addTogether("microbatches", {EntryKind::Accumulate, EntryKind::Update});
  if (!ofGeneration.empty())
    addTogether("generation", kGenerationKinds);
  return table;
}
