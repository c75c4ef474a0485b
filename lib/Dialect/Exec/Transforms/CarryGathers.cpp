//===- CarryGathers.cpp - Gathers that the next step waits for -*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A step's last work is to gather the parameters that it has updated. The next
// step reads them layer by layer, so it waits for each where it reads it:
//
//   train_step(%w):
//     gemm %x, %w, …                     // the forward
//     adamw %part, …                     // %part is an alloc
//     %t = collective_start all_gather over "data", %part to %w
//     wait %t
//   becomes
//   train_step(%w, %updated):
//     wait_carried 1, %w, %updated
//     gemm %x, %w, …
//     adamw %updated, …
//     collective_start all_gather over "data", %updated to %w {carried = 1}
//
// With microbatches `update` starts them, and the functions before it in their
// sequence wait.
//
//===----------------------------------------------------------------------===//

#include "OwnBuffers.h"

#include "optimus-support/model_abi.h"
#include "optimus/Analysis/Pricing.h"
#include "optimus/Dialect/Exec/IR/Commands.h"
#include "optimus/Dialect/Exec/IR/Exec.h"
#include "optimus/Dialect/Exec/Transforms/Passes.h"
#include "optimus/Dialect/Exec/Transforms/Prediction.h"
#include "optimus/Dialect/Exec/Transforms/Regions.h"
#include "optimus/Dialect/Optimus/IR/Buffers.h"
#include "optimus/Dialect/Optimus/IR/ElementBytes.h"
#include "optimus/Dialect/Optimus/IR/Entries.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/DebugLog.h"

#define DEBUG_TYPE "optimus-carry-gathers"

namespace mlir::exec {
#define GEN_PASS_DEF_CARRYGATHERSPASS
#include "optimus/Dialect/Exec/Transforms/Passes.h.inc"
} // namespace mlir::exec

using namespace mlir;
using namespace mlir::exec;
using optimus::EntryKind;
using optimus::OptimusDialect;

/// Of an axis, the most gathers that are carried: as many others may start
/// before these are waited for.
static constexpr size_t kMostCarried = OPTRT_MAX_IN_FLIGHT / 2;

namespace {
/// A gather of an updated parameter.
struct Gather {
  CollectiveStartOp start;
  AllocOp part;
  BlockArgument parameter;

  StringAttr getName() const { return optimus::getParameterName(parameter); }
  int64_t getBytes() const { return optimus::getBytes(parameter.getType()); }
};

/// What is carried under a number.
struct Carried {
  int32_t number;
  StringAttr axis;
};
using CarriedParameters = llvm::MapVector<StringAttr, Carried>;
} // namespace

static bool touches(CommandOpInterface command, Value buffer) {
  return llvm::any_of(command.getAccesses(), [&](const Access &access) {
    return llvm::is_contained(getBases(access.operand->get()), buffer);
  });
}

/// The gather, if it fills a parameter from a buffer of its own, and nothing
/// touches either afterwards.
static std::optional<Gather> findGather(CollectiveStartOp start) {
  auto part = start.getSrc().getDefiningOp<AllocOp>();
  auto parameter = dyn_cast<BlockArgument>(start.getDst());
  WaitOp wait = start.getWait();
  if (start.getKind() != CollectiveKind::AllGather || !part || !parameter ||
      !wait)
    return std::nullopt;
  Gather found{start, part, parameter};
  if (!found.getName() ||
      getMemorySpace(part.getResult()) != MemorySpace::Device ||
      getMemorySpace(parameter) != MemorySpace::Device)
    return std::nullopt;
  for (Operation *op = start->getNextNode(); op; op = op->getNextNode())
    if (auto command = dyn_cast<CommandOpInterface>(op);
        command &&
        (touches(command, part.getResult()) || touches(command, parameter)))
      return std::nullopt;
  return found;
}

/// The gathers to be carried, in their order: of each axis the largest.
static SmallVector<Gather> chooseGathers(func::FuncOp function) {
  llvm::MapVector<StringAttr, SmallVector<Gather>> axes;
  for (auto start : function.getOps<CollectiveStartOp>())
    if (std::optional<Gather> found = findGather(start))
      axes[start.getAxisAttr()].push_back(*found);
  llvm::DenseSet<Operation *> chosen;
  for (auto &[axis, gathers] : axes) {
    llvm::stable_sort(gathers, [](const Gather &a, const Gather &b) {
      return a.getBytes() > b.getBytes();
    });
    if (gathers.size() > kMostCarried)
      gathers.truncate(kMostCarried);
    for (const Gather &gather : gathers)
      chosen.insert(gather.start);
  }
  SmallVector<Gather> result;
  for (auto start : function.getOps<CollectiveStartOp>())
    if (chosen.contains(start))
      result.push_back(*findGather(start));
  return result;
}

static BlockArgument findParameter(func::FuncOp function, StringAttr name) {
  for (BlockArgument argument : function.getArguments())
    if (optimus::getParameterName(argument) == name)
      return argument;
  return nullptr;
}

/// Waits for a parameter before the first command that touches it.
static void insertWait(func::FuncOp function, Value parameter, Value part,
                       int32_t number) {
  for (auto command : function.getOps<CommandOpInterface>()) {
    if (!touches(command, parameter) && !(part && touches(command, part)))
      continue;
    SmallVector<Value, 2> buffers{parameter};
    if (part)
      buffers.push_back(part);
    OpBuilder builder(command);
    WaitCarriedOp::create(builder, command->getLoc(), number, buffers,
                          /*id=*/nullptr, /*queue=*/nullptr,
                          /*after=*/nullptr);
    return;
  }
}

/// Moves what is carried behind all other starts of its axis, if it is not
/// among the last ones anyway: at most OPTRT_MAX_IN_FLIGHT follow it until its
/// wait.
static void startLast(func::FuncOp function) {
  llvm::DenseMap<StringAttr, unsigned> numStarts, firstCarried;
  for (auto start : function.getOps<CollectiveStartOp>()) {
    const unsigned number = numStarts[start.getAxisAttr()]++;
    if (start.isCarried())
      firstCarried.try_emplace(start.getAxisAttr(), number);
  }
  SmallVector<CollectiveStartOp> moved;
  for (auto start : function.getOps<CollectiveStartOp>()) {
    StringAttr axis = start.getAxisAttr();
    if (start.isCarried() &&
        numStarts[axis] - firstCarried[axis] > kMostCarried)
      moved.push_back(start);
  }
  for (CollectiveStartOp start : moved)
    start->moveBefore(function.getBody().front().getTerminator());
}

/// Waits earlier where OPTRT_MAX_IN_FLIGHT collectives of an axis would start
/// before. `carried` may be under way when the function begins.
static void limitInFlight(func::FuncOp function,
                          const CarriedParameters &carried) {
  /// A wait, and which start of its axis it waits for, from 0; what is carried
  /// comes before.
  struct Open {
    Operation *wait;
    int64_t number;
  };
  llvm::DenseMap<StringAttr, SmallVector<Open>> open;
  llvm::DenseMap<StringAttr, int64_t> numStarts;
  for (auto wait : function.getOps<WaitCarriedOp>()) {
    auto found = llvm::find_if(carried, [&](const auto &one) {
      return one.second.number == static_cast<int32_t>(wait.getCarried());
    });
    open[found->second.axis].push_back(
        {wait, -static_cast<int64_t>(kMostCarried)});
  }
  for (CommandOpInterface command : getCommands(function)) {
    for (auto &[axis, waits] : open)
      llvm::erase_if(waits, [&](const Open &one) {
        return one.wait == command.getOperation();
      });
    auto start = dyn_cast<CollectiveStartOp>(*command);
    if (!start)
      continue;
    SmallVector<Open> &waits = open[start.getAxisAttr()];
    const int64_t number = numStarts[start.getAxisAttr()]++;
    llvm::erase_if(waits, [&](const Open &one) {
      const bool isLate = one.number <= number - OPTRT_MAX_IN_FLIGHT;
      if (isLate)
        one.wait->moveBefore(start);
      return isLate;
    });
    if (!start.isCarried())
      waits.push_back({start.getWait(), number});
  }
}

namespace {
class CarryGathersPass
    : public exec::impl::CarryGathersPassBase<CarryGathersPass> {
public:
  using CarryGathersPassBase::CarryGathersPassBase;
  CarryGathersPass() = default;
  CarryGathersPass(const CarryGathersPassOptions &options,
                   std::shared_ptr<const optimus::MeasuredCosts> measured)
      : CarryGathersPassBase(options), pricing(std::move(measured)) {}

  LogicalResult initialize(MLIRContext *context) override {
    if (llvm::Error error = pricing.load(machineProfile, profile))
      return emitError(UnknownLoc::get(context))
             << llvm::toString(std::move(error));
    return success();
  }

  void runOnOperation() override {
    for (const auto &calls : listTrainingCalls(getOperation()))
      if (failed(carry(calls.back(), calls)))
        return signalPassFailure();
  }

private:
  /// Carries what the last function of a sequence gathers.
  LogicalResult carry(func::FuncOp last, ArrayRef<func::FuncOp> sequence) {
    CarriedParameters carried;
    llvm::DenseMap<StringAttr, Value> parts;
    for (Gather &gather : chooseGathers(last)) {
      StringAttr name = gather.getName();
      auto [known, isNew] = numbers.try_emplace(name, numbers.size() + 1);
      carried.insert({name, {known->second, gather.start.getAxisAttr()}});
      parts[name] = keep(gather, known->second);
      ++numCarried;
      LDBG() << "carry " << name << " under " << known->second;
    }
    if (carried.empty())
      return success();
    for (func::FuncOp function : sequence) {
      for (const auto &[name, one] : carried)
        if (BlockArgument parameter = findParameter(function, name))
          insertWait(function, parameter,
                     function == last ? parts[name] : Value(), one.number);
      if (function == last)
        startLast(function);
      limitInFlight(function, carried);
      numberCommands(function);
    }
    return predict(sequence);
  }

  /// Says in the schedules of a sequence's calls what they take now, if there
  /// are any.
  LogicalResult predict(ArrayRef<func::FuncOp> sequence) {
    if (!llvm::all_of(sequence, [](func::FuncOp function) {
          return function->hasAttr(ExecDialect::kSchedule);
        }))
      return success();
    FailureOr<optimus::CostModel> costs = pricing.getCosts(sequence.back());
    if (failed(costs))
      return failure();
    for (auto [call, prediction] :
         llvm::zip_equal(sequence, costs->predictCalls(sequence))) {
      NamedAttrList entries(
          call->getAttrOfType<DictionaryAttr>(ExecDialect::kSchedule));
      setPrediction(entries, prediction, &getContext());
      call->setAttr(ExecDialect::kSchedule,
                    entries.getDictionary(&getContext()));
    }
    return success();
  }

  /// Gives the source of a gather memory beyond the call. Returns it.
  Value keep(Gather &gather, int32_t number) {
    auto function =
        cast<func::FuncOp>(gather.parameter.getOwner()->getParentOp());
    auto buffer = optimus::BufferAttr::get(
        function.getContext(), "updated", gather.getName(),
        optimus::Lifetime::State, /*init=*/{}, optimus::Reset::Never,
        optimus::FilledBy::Program, optimus::SavedIn::Nowhere);
    BlockArgument part =
        appendOwnBuffer(function, gather.part.getType(), buffer,
                        ExecDialect::kAccessWrite, gather.part.getLoc());
    gather.part.getResult().replaceAllUsesWith(part);
    gather.part.erase();
    gather.start.getWait().erase();
    gather.start.setCarried(number);
    return part;
  }

  optimus::Pricing pricing;
  llvm::MapVector<StringAttr, int32_t> numbers; ///< by parameter
};
} // namespace

std::unique_ptr<Pass> exec::createCarryGathersPass(
    const CarryGathersPassOptions &options,
    std::shared_ptr<const optimus::MeasuredCosts> measured) {
  return std::make_unique<CarryGathersPass>(options, std::move(measured));
}
