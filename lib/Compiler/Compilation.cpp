//===- Compilation.cpp - Runs the phases ------------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Compilation.h"

#include "LaunchReport.h"
#include "Record.h"
#include "Report.h"
#include "ReportJson.h"
#include "ScopedPrices.h"

#include "optimus/Conversion/ExecToLLVM/Passes.h"
#include "optimus/Conversion/ExecToProgram/ExecToProgram.h"
#include "optimus/Conversion/ToExec/BufferElements.h"
#include "optimus/Dialect/Exec/IR/Exec.h"
#include "optimus/Dialect/Optimus/IR/Entries.h"
#include "optimus/Manifest/ModelDescription.h"
#include "optimus/Target/Target.h"
#include "optimus/Tool/Files.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/MathExtras.h"

#include <limits>

using namespace mlir;
using namespace mlir::optimus;
using optimus_support::internal;
using optimus_support::invalidArgument;
using optimus_support::okStatus;
using optimus_support::Status;
using optimus_support::StatusOr;

//===----------------------------------------------------------------------===//
// The program
//===----------------------------------------------------------------------===//

/// Sums of the sizes of all tensors of a program stay far below 2^63.
static constexpr uint64_t kMostTensorBytes = uint64_t(1) << 50;

static bool isTooLarge(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !tensor.hasStaticShape())
    return false;
  uint64_t bytes = 8;
  bool overflows = false;
  for (int64_t extent : tensor.getShape()) {
    bool now = false;
    bytes = llvm::SaturatingMultiply(bytes, uint64_t(extent), &now);
    overflows |= now;
  }
  return overflows || bytes > kMostTensorBytes;
}

static LogicalResult checkSizes(Operation *op, TypeRange types) {
  for (Type type : types)
    if (isTooLarge(type))
      return op->emitError("expected tensors of at most 2^50 bytes, found ")
             << type;
  return success();
}

/// Whether the functions that a phase leaves are of tensors; of later ones they
/// are device programs.
static bool holdsTensors(StringRef phase) {
  return getPhaseNumber(phase) < getPhaseNumber("exec");
}

/// Checks a function against the assumptions of all phases, also those of the
/// last ones only.
static LogicalResult checkForm(FunctionOpInterface function) {
  auto fail = [&] {
    return function->emitError("expected @")
           << function.getName() << " to have ";
  };
  size_t numBlocks = function.getFunctionBody().getBlocks().size();
  if (numBlocks != 1)
    return fail() << "a body of one block, found " << numBlocks
                  << (numBlocks == 0 ? "; nothing is called: remove it" : "");
  auto check = [&](StringRef what, ArrayRef<Type> types) -> LogicalResult {
    for (auto [number, type] : llvm::enumerate(types))
      if (!hasBuffers(type))
        return fail() << "tensors of f32, bf16, f16 or i32 with a static shape "
                         "and at least one element, found "
                      << what << ' ' << number << " of type " << type;
    return success();
  };
  if (failed(check("argument", function.getArgumentTypes())))
    return failure();
  return check("result", function.getResultTypes());
}

/// Refuses a program as its author wrote it where later phases begin: they
/// would take @loss for the function of a step.
static LogicalResult checkStart(ModuleOp module, StringRef from) {
  if (from.empty() || getPhaseNumber(from) < getPhaseNumber("step"))
    return success();
  auto loss = module.lookupSymbol<func::FuncOp>("loss");
  if (!loss || findEntry(module, EntryKind::Train))
    return success();
  return loss.emitError("expected a program that the phase '")
         << from
         << "' made, found @loss, of which the phase 'step' has yet to make "
            "steps; leave --compile-from out";
}

LogicalResult mlir::optimus::checkProgram(ModuleOp module,
                                          const CompileOptions &options) {
  if (failed(checkStart(module, options.compileFrom)))
    return failure();
  if (options.compileFrom.empty() || holdsTensors(options.compileFrom))
    for (auto function : module.getOps<FunctionOpInterface>())
      if (failed(checkForm(function)))
        return failure();
  // A program without functions lacks more than that, as its phases will say.
  bool hasFunctions = !module.getOps<FunctionOpInterface>().empty();
  if (options.writesLibrary() && hasFunctions &&
      failed(checkModelDescription(module)))
    return failure();
  WalkResult walked = module.walk([](Operation *op) -> WalkResult {
    if (auto function = dyn_cast<FunctionOpInterface>(op))
      return WalkResult(checkSizes(op, function.getArgumentTypes()));
    return WalkResult(checkSizes(op, op->getResultTypes()));
  });
  return failure(walked.wasInterrupted());
}

//===----------------------------------------------------------------------===//
// The phases
//===----------------------------------------------------------------------===//

Status Compilation::print(const std::string &path, StringRef phase) {
  OPTRT_ASSIGN_OR_RETURN(std::unique_ptr<OutputStream> stream,
                         OutputStream::open(path));
  ScopedRecord record(module, phase, options);
  // Where things come from is part of a phase: --compile-from reads it.
  module.print(*stream, OpPrintingFlags().enableDebugInfo());
  return stream->commit();
}

Verification Compilation::getVerification(const Phase &phase) const {
  // A reproducer names the pass that broke the program.
  if (!mlir.reproducer.empty())
    return Verification::EachPass;
  const bool isLast = phase.name == "place" && !options.writesLibrary();
  return phase.isVerifiedLater && !isLast && !isSeen(phase.name)
             ? Verification::Never
             : Verification::AtEnd;
}

Status Compilation::runPhase(const Phase &phase) {
  TimingScope phaseTiming = timing.nest(("Phase '" + phase.name + "'").str());
  auto passes = PassManager::on<ModuleOp>(module.getContext());
  if (!mlir.preparePasses)
    passes.enableTiming(phaseTiming);
  else if (failed(mlir.preparePasses(passes, phaseTiming)))
    return reporter.diagnosed();
  phase.addPasses(passes, phases);
  if (succeeded(runPasses(passes, module, getVerification(phase))))
    return okStatus();
  const std::string text = ("phase '" + phase.name + "' failed").str();
  // A program written by others may have another form than a phase's.
  const bool isInput = checksInput(phase, options.recompute, phases) ||
                       !options.compileFrom.empty();
  return reporter.fail(isInput ? invalidArgument(text) : internal(text));
}

Status Compilation::finishPhase(StringRef phase) {
  if (phase == "place" && options.report) {
    std::optional<ScopedPrices> prices;
    if (const auto &own = options.ownMachine)
      prices.emplace(module, *own, options.phases.getMeasured());
    printReport(module, options, reporter.getReport());
    if (options.isForGpu())
      printLaunches(module,
                    findTarget(options.phases.target)->getKernelSchedule(),
                    reporter.getReport());
  }
  if (phase == "place" && !options.reportJson.empty())
    if (Status written = optimus_support::OutputFile::write(
            options.reportJson, buildReportJson(module, options));
        !written.ok())
      return reporter.fail(written);
  // Where compilation goes on, the dump is what was read.
  if (!options.dumpFolder.empty() && phase != options.compileFrom)
    if (Status dumped = print(getDumpPath(options, phase), phase); !dumped.ok())
      return reporter.fail(dumped);
  if (phase != options.compileTo)
    return okStatus();
  TimingScope output = timing.nest("Output");
  Status printed = print(options.output, phase);
  return printed.ok() ? printed : reporter.fail(printed);
}

static StatusOr<std::string> compileForHost(ModuleOp kernels,
                                            const CpuTarget &target,
                                            const LibraryWriter &writer) {
  auto passes = PassManager::on<ModuleOp>(kernels.getContext());
  passes.addPass(createKernelsToLLVMPass());
  if (failed(passes.run(kernels)))
    return internal("kernels cannot be lowered");
  return writer.compileKernels(kernels, target);
}

/// A module of one kernel and the tables that it reads. Its body is
/// written, so its parameters are left out.
static OwningOpRef<ModuleOp> takeAlone(ModuleOp kernels, func::FuncOp kernel) {
  OwningOpRef<ModuleOp> module = ModuleOp::create(kernel.getLoc());
  Operation *own = kernel->clone();
  own->removeAttr(exec::ExecDialect::kComputes);
  module->push_back(own);
  llvm::SetVector<Operation *> tables;
  kernel.walk([&](memref::GetGlobalOp use) {
    tables.insert(kernels.lookupSymbol(use.getNameAttr()));
  });
  for (Operation *table : tables)
    module->push_back(table->clone());
  return module;
}

/// The text that code follows from: without locations, and whole, whatever
/// flags of MLIR ask for.
static std::string printWhole(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream,
               OpPrintingFlags().enableDebugInfo(false).elideLargeElementsAttrs(
                   std::numeric_limits<int64_t>::max()));
  return text;
}

/// The objects of kernels, of which some are kept from programs before.
static StatusOr<std::vector<std::string>>
compileByCache(ModuleOp kernels, const CpuTarget &target,
               const LibraryWriter &writer, const ObjectCache &cache) {
  std::vector<std::string> objects;
  for (auto kernel : kernels.getOps<func::FuncOp>()) {
    OwningOpRef<ModuleOp> own = takeAlone(kernels, kernel);
    OPTRT_ASSIGN_OR_RETURN(std::string object, cache.get(printWhole(*own), [&] {
      return compileForHost(*own, target, writer);
    }));
    objects.push_back(std::move(object));
  }
  return objects;
}

void Compilation::startKernels() {
  if (!options.writesLibrary() || options.isPlan() ||
      !options.compileFrom.empty() || !options.dumpFolder.empty() ||
      !mlir.reproducer.empty() ||
      !(module.getContext()->isMultithreadingEnabled() || cache))
    return;
  using Objects = std::vector<std::string>;
  kernels.emplace(
      module, timing, [this](ModuleOp kernels) -> StatusOr<Objects> {
        if (cache)
          return compileByCache(kernels, target, *writer, *cache);
        OPTRT_ASSIGN_OR_RETURN(std::string object,
                               compileForHost(kernels, target, *writer));
        return Objects{std::move(object)};
      });
  phases.kernelsApart = true;
}

void Compilation::startImages() {
  if (options.compileTo.empty() && !options.isPlan())
    images.emplace(module, timing, [this](ModuleOp kernels) {
      return buildGpuKernels(kernels, options, writer);
    });
}

Status Compilation::finishImages() {
  TimingScope waiting = timing.nest("Wait for kernels");
  if (!images)
    startImages();
  auto built = images->wait();
  if (!built.ok())
    return reporter.fail(built.status());
  reporter.getReport() << built->report;
  phases.images = std::make_shared<DeviceImages>(std::move(built->images));
  return okStatus();
}

Status Compilation::writeLibrary() {
  std::vector<std::string> objects;
  if (kernels) {
    TimingScope waiting = timing.nest("Wait for kernels");
    auto compiled = kernels->wait();
    if (!compiled.ok())
      return reporter.fail(compiled.status());
    objects = *std::move(compiled);
  }
  TimingScope writing = timing.nest("Code generation");
  auto check = [this]() -> Status {
    std::future<Status> &checked = phases.tableCheck->status;
    // A module that somebody else lowered has tables of its own.
    if (checked.valid() && failed(verifyPrograms(module, checked.get())))
      return internal("phase 'llvm' failed");
    return okStatus();
  };
  Status written =
      writer->write(module, target, options.output, std::move(objects), check,
                    cache ? &*cache : nullptr);
  // A module of somebody else's may not be what it must be.
  if (written.code() == optimus_support::StatusCode::Internal &&
      !options.compileFrom.empty())
    written = invalidArgument(written.message());
  return written.ok() ? written : reporter.fail(written);
}

Status Compilation::run() {
  if (!options.kernelCache.empty()) {
    auto opened = ObjectCache::open(options.kernelCache, target);
    if (!opened.ok())
      return reporter.fail(opened.status().withContext("--kernel-cache"));
    cache = *std::move(opened);
  }
  StringRef start =
      options.compileFrom.empty() ? "input" : StringRef(options.compileFrom);
  OPTRT_RETURN_IF_ERROR(finishPhase(start));
  if (options.compileTo == start)
    return okStatus();
  bool isDone = start != "input";
  for (const Phase &phase : getPhases()) {
    if (isDone) {
      isDone = phase.name != start;
      continue;
    }
    if (options.isForGpu() && phase.name == "llvm") {
      if (!options.isPlan())
        OPTRT_RETURN_IF_ERROR(finishImages());
      if (!options.writesLibrary())
        return okStatus();
    }
    OPTRT_RETURN_IF_ERROR(runPhase(phase));
    OPTRT_RETURN_IF_ERROR(finishPhase(phase.name));
    if (options.compileTo == phase.name)
      return okStatus();
    if (phase.name != "exec")
      continue;
    if (options.isForGpu())
      startImages();
    else
      startKernels();
  }
  return writeLibrary();
}
