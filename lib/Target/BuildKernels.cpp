//===- BuildKernels.cpp - Kernels as a target divides them ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Target/Passes.h"

#include "optimus/Dialect/Optimus/IR/ElementBytes.h"
#include "optimus/Dialect/Optimus/IR/MeshRanks.h"
#include "optimus/Dialect/Optimus/IR/Optimus.h"
#include "optimus/Kernels/CopyKernels.h"
#include "optimus/Kernels/KernelFunctions.h"
#include "optimus/Kernels/ReductionKernels.h"
#include "optimus/Target/Target.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Threading.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/DebugLog.h"

#include <map>
#include <numeric>

#define DEBUG_TYPE "optimus-build-kernels"

namespace mlir::optimus {
#define GEN_PASS_DEF_BUILDKERNELSPASS
#include "optimus/Target/Passes.h.inc"
} // namespace mlir::optimus

using namespace mlir;
using namespace mlir::optimus;

/// Whether the place `begin` bytes into a buffer is aligned to `bytes`, if
/// every tensor is.
static bool isAligned(Value buffer, int64_t begin, int64_t bytes) {
  if (auto slot = buffer.getDefiningOp<exec::ArenaSlotOp>())
    begin += slot.getOffset();
  auto view = buffer.getDefiningOp<exec::BufferViewOpInterface>();
  if (!view)
    return begin % bytes == 0;
  exec::RankNumber offset = view.getByteOffset();
  return offset.scale % bytes == 0 &&
         llvm::all_of(view.getViewedBuffers(), [&](Value viewed) {
           return isAligned(viewed, begin + offset.constant, bytes);
         });
}

/// Compares a launch's accesses to its buffers with its kernel's, and their
/// offsets with the alignment assumed for tensors.
static LogicalResult checkBuffers(exec::LaunchOp launch,
                                  const KernelDescription &description,
                                  int64_t tensorAlignment) {
  ArrayRef<KernelOperand> operands = description.getOperands();
  for (auto [operand, access] : llvm::zip_equal(operands, launch.getAccess()))
    if (static_cast<int32_t>(operand.access) != access)
      return launch.emitOpError()
             << "has access " << access << " to '" << operand.name
             << "', but the kernel has access "
             << static_cast<int32_t>(operand.access);
  for (auto [operand, buffer] :
       llvm::zip_equal(operands, launch.getBuffers())) {
    int64_t bytes = operand.getAlignment(tensorAlignment);
    if (!isAligned(buffer, /*begin=*/0, bytes))
      return launch.emitOpError()
             << "expected '" << operand.name << "' to begin at a multiple of "
             << bytes << " bytes, as the kernels of this target do, found a "
             << "part of a buffer that does not; let extents be multiples of "
             << bytes << " bytes, or copy the part";
  }
  for (auto [first, a] : llvm::enumerate(launch.getBuffers()))
    for (auto [second, b] :
         llvm::enumerate(launch.getBuffers().take_front(first)))
      if (a == b && operands[first].access != KernelAccess::Read &&
          !llvm::is_contained(operands[first].places, operands[second].name))
        return launch.emitOpError()
               << "has one buffer as '" << operands[second].name << "' and as '"
               << operands[first].name
               << "', where the kernel does not work in place";
  return success();
}

/// Whether the kernel of a reduction reads and writes nothing but what begins
/// at a multiple of a tensor's alignment.
static bool isAligned(exec::CollectiveStartOp start, int64_t tensorAlignment) {
  const int64_t bytes = int64_t(start.getOuter() * start.getInner()) *
                        getElementBytes(start.getSrc().getType());
  return isAligned(start.getSrc(), /*begin=*/0, tensorAlignment) &&
         isAligned(start.getDst(), /*begin=*/0, tensorAlignment) &&
         (start.getKind() != exec::CollectiveKind::ReduceScatter ||
          bytes % tensorAlignment == 0);
}

/// A kernel whose operands all have such elements.
static KernelDescription describe(const Kernel &kernel, Type element) {
  KernelDescription description = kernel.describe(element.getContext());
  const SmallVector<Type> types(description.getOperands().size(), element);
  [[maybe_unused]] LogicalResult isSet = description.setElementTypes(types);
  assert(succeeded(isSet) && "there is no kernel of such elements");
  return description;
}

namespace {
/// Names of kernels. A step has a hundred thousand copies of a few kinds: each
/// kind is described once.
class KernelNames {
public:
  /// `decisive` are the kernel's parameters.
  StringAttr get(const Kernel &kernel, Type element,
                 SmallVector<int64_t, 6> decisive) {
    auto [entry, isNew] = names.try_emplace(
        std::pair(element.getAsOpaquePointer(), std::move(decisive)));
    if (isNew)
      entry->second = StringAttr::get(element.getContext(),
                                      describe(kernel, element).getName());
    return entry->second;
  }

private:
  std::map<std::pair<const void *, SmallVector<int64_t, 6>>, StringAttr> names;
};
} // namespace

namespace {
/// An operation's kernel on elements of one type, and the parameters that tell
/// it from others.
template <typename KernelT>
struct OwnKernel {
  KernelT kernel;
  Type element;
  SmallVector<int64_t, 6> decisive;
};
} // namespace

/// Declares the kernels of operations of a kind, and names them there: one for
/// all that have its name. `find` gives an operation its kernel, beside other
/// functions; `join` lets a kernel serve the operations of another one.
template <typename KernelT, typename OpT, typename FindFn, typename JoinFn>
static void declareKernels(ModuleOp module, FindFn find, JoinFn join) {
  struct Named {
    KernelT kernel;
    Type element;
    SmallVector<OpT> ops;
  };
  using AllNamed = llvm::MapVector<StringAttr, Named>;
  SmallVector<func::FuncOp> functions(module.getOps<func::FuncOp>());
  std::vector<AllNamed> found(functions.size());
  parallelFor(module.getContext(), 0, functions.size(), [&](size_t number) {
    KernelNames names;
    functions[number].walk([&](OpT op) {
      std::optional<OwnKernel<KernelT>> own = find(op);
      if (!own)
        return;
      StringAttr name =
          names.get(own->kernel, own->element, std::move(own->decisive));
      auto [entry, isNew] =
          found[number].try_emplace(name, Named{own->kernel, own->element, {}});
      if (!isNew)
        join(entry->second.kernel, own->kernel);
      entry->second.ops.push_back(op);
    });
  });
  AllNamed all;
  for (AllNamed &ofFunction : found)
    for (auto &[name, named] : ofFunction) {
      auto [entry, isNew] =
          all.try_emplace(name, Named{named.kernel, named.element, {}});
      if (!isNew)
        join(entry->second.kernel, named.kernel);
    }
  KernelDeclarations declarations(module);
  for (auto &[name, named] : all)
    declarations.declare(named.kernel, describe(named.kernel, named.element));
  parallelForEach(module.getContext(), found, [](AllNamed &ofFunction) {
    for (auto &[name, named] : ofFunction)
      for (OpT op : named.ops)
        op.setKernel(name);
  });
}

/// Declares the kernels that ranks add by where they share a device, and names
/// them where they reduce: one for each number of ranks and type.
static void declareReductions(ModuleOp module, int64_t tensorAlignment) {
  using exec::CollectiveKind;
  using kernels::ReduceRanks;
  MeshOp mesh = getMesh(module);
  auto find = [&](exec::CollectiveStartOp start)
      -> std::optional<OwnKernel<ReduceRanks>> {
    const CollectiveKind kind = start.getKind();
    const int64_t ranks = getRanksAlong(mesh, start.getAxis());
    if (ranks == 1 || kind == CollectiveKind::Broadcast ||
        kind == CollectiveKind::AllGather)
      return std::nullopt;
    const ReduceRanks kernel{ranks,
                             int64_t(start.getOuter() * start.getInner()),
                             kind == CollectiveKind::AllReduce,
                             start.getReduction() == exec::Reduction::Max,
                             isAligned(start, tensorAlignment)};
    return OwnKernel<ReduceRanks>{kernel,
                                  getElementTypeOrSelf(start.getSrc()),
                                  {kernel.ranks, kernel.elements, kernel.toAll,
                                   kernel.maximum, kernel.isAligned}};
  };
  declareKernels<ReduceRanks, exec::CollectiveStartOp>(
      module, find, [](ReduceRanks &shared, const ReduceRanks &other) {
        shared.elements = std::max(shared.elements, other.elements);
        shared.isAligned &= other.isAligned;
      });
}

/// The most elements, a power of two, that both sides of a copy begin at a
/// multiple of, and all their rows.
static int64_t getUnit(exec::CopyOp copy, int64_t tensorAlignment) {
  const int64_t bytes = getElementBytes(copy.getDst().getType());
  int64_t unit = std::max<int64_t>(tensorAlignment / bytes, 1);
  for (int64_t extent : {copy.getCols(), copy.getSrcLd(), copy.getDstLd()})
    unit = std::gcd(unit, extent);
  while (unit > 1 && !(isAligned(copy.getSrc(), /*begin=*/0, unit * bytes) &&
                       isAligned(copy.getDst(), /*begin=*/0, unit * bytes)))
    unit /= 2;
  return unit;
}

/// Whether it moves rows that lie apart on either side. One stretch is the
/// device's own to copy, as fast as its memory.
static bool movesRows(exec::CopyOp copy) {
  const auto cols = copy.getCols();
  Type element = getElementTypeOrSelf(copy.getDst());
  return copy.getSrc() && copy.getRows() > 1 &&
         (copy.getSrcLd() != cols || copy.getDstLd() != cols) &&
         (element.isF32() || element.isBF16() || element.isF16()) &&
         exec::getMemorySpace(copy.getSrc()) ==
             exec::getMemorySpace(copy.getDst());
}

/// Declares the kernels of copies of rows that lie apart, and names them there:
/// one for each width and distance, whatever the number of rows.
static void declareCopies(ModuleOp module, int64_t tensorAlignment) {
  using kernels::CopyRows;
  auto find = [&](exec::CopyOp copy) -> std::optional<OwnKernel<CopyRows>> {
    if (!movesRows(copy))
      return std::nullopt;
    const CopyRows kernel{int64_t(copy.getRows()), int64_t(copy.getCols()),
                          int64_t(copy.getSrcLd()), int64_t(copy.getDstLd()),
                          getUnit(copy, tensorAlignment)};
    return OwnKernel<CopyRows>{
        kernel,
        getElementTypeOrSelf(copy.getDst()),
        {kernel.rows, kernel.cols, kernel.srcLd, kernel.dstLd, kernel.unit}};
  };
  declareKernels<CopyRows, exec::CopyOp>(
      module, find, [](CopyRows &shared, const CopyRows &other) {
        shared.rows = std::max(shared.rows, other.rows);
      });
}

/// Kernels of products read and write what begins where tensors do.
static LogicalResult checkRowSums(func::FuncOp function,
                                  int64_t tensorAlignment) {
  WalkResult result = function.walk([&](exec::GemmOp gemm) {
    if (!gemm.getKernelAttr() ||
        (isAligned(gemm.getB(), /*begin=*/0, tensorAlignment) &&
         isAligned(gemm.getBias(), /*begin=*/0, tensorAlignment)))
      return WalkResult::advance();
    gemm.emitOpError() << "expected B and bias to begin at a multiple of "
                       << tensorAlignment << " bytes, as "
                       << gemm.getKernelAttr()
                       << " reads them, found a part of a buffer that does "
                          "not; let extents be multiples of "
                       << tensorAlignment << " bytes, or copy the part";
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

namespace {
class BuildKernelsPass
    : public optimus::impl::BuildKernelsPassBase<BuildKernelsPass> {
public:
  using BuildKernelsPassBase::BuildKernelsPassBase;

  LogicalResult initialize(MLIRContext *context) override {
    return checkTarget(context, target);
  }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    const Target &device = *findTarget(target);
    const KernelSchedule &schedule = device.getKernelSchedule();
    if (device.reducesByKernels())
      declareReductions(module, schedule.getTensorAlignment());
    if (device.copiesRowsByKernels())
      declareCopies(module, schedule.getTensorAlignment());
    llvm::StringMap<ScheduledKernel> kernels;
    for (auto function : module.getOps<func::FuncOp>()) {
      if (!function->hasAttr(exec::ExecDialect::kKernel))
        continue;
      LDBG() << (function.isExternal() ? "write @" : "given @")
             << function.getSymName();
      numKernels += function.isExternal();
      FailureOr<ScheduledKernel> kernel = buildKernel(function, schedule);
      if (failed(kernel))
        return signalPassFailure();
      kernels.try_emplace(function.getSymName(), std::move(*kernel));
    }
    SmallVector<func::FuncOp> functions(module.getOps<func::FuncOp>());
    auto finish = [&](func::FuncOp function) {
      return success(
          succeeded(divideLaunches(function, kernels,
                                   schedule.getTensorAlignment())) &&
          succeeded(checkRowSums(function, schedule.getTensorAlignment())));
    };
    if (failed(failableParallelForEach(&getContext(), functions, finish)))
      signalPassFailure();
  }

private:
  /// Tells the launches of a function how their kernels are divided.
  LogicalResult divideLaunches(func::FuncOp function,
                               const llvm::StringMap<ScheduledKernel> &kernels,
                               int64_t tensorAlignment) {
    WalkResult result = function.walk([&](exec::LaunchOp launch) {
      auto found = kernels.find(launch.getKernel());
      if (found == kernels.end()) {
        launch.emitOpError() << "launches " << launch.getKernelAttr()
                             << ", which is not marked as a kernel";
        return WalkResult::interrupt();
      }
      const ScheduledKernel &kernel = found->second;
      if (failed(checkBuffers(launch, kernel.description, tensorAlignment)))
        return WalkResult::interrupt();
      LDBG() << "launch @" << launch.getKernel() << ": extent "
             << kernel.extent.extent << ", grain " << kernel.extent.grain;
      launch.setExtent(kernel.extent.extent);
      launch.setGrain(kernel.extent.grain);
      ++numLaunches;
      return WalkResult::advance();
    });
    return failure(result.wasInterrupted());
  }
};
} // namespace
