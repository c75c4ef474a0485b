//===- Report.cpp - What a compiled model needs -----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Report.h"

#include "optimus/Analysis/MeasuredCosts.h"
#include "optimus/Dialect/Exec/IR/Exec.h"
#include "optimus/Dialect/Exec/Transforms/LiveRanges.h"
#include "optimus/Dialect/Optimus/IR/ElementBytes.h"
#include "optimus/Dialect/Optimus/IR/Entries.h"
#include "optimus/Dialect/Optimus/IR/ValuePattern.h"
#include "optimus/Planning/Peak.h"
#include "optimus/Planning/Quantities.h"
#include "optimus/Planning/RankMemory.h"
#include "optimus/Prices/DescribeCarried.h"

#include "optimus-support/ResourceLimits.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/FormatVariadic.h"

#include <map>

using namespace mlir;
using namespace mlir::optimus;
using exec::ExecDialect;
using llvm::formatv;

static int64_t getInteger(Operation *op, StringRef attr) {
  auto value = op->getAttrOfType<IntegerAttr>(attr);
  return value ? value.getInt() : 0;
}

static std::string formatCount(int64_t count, StringRef what) {
  return formatv("{0} {1}{2}", count, what, count == 1 ? "" : "s");
}

//===----------------------------------------------------------------------===//
// Time
//===----------------------------------------------------------------------===//

static double getMs(DictionaryAttr entry, StringRef name) {
  auto value = entry.getAs<FloatAttr>(name);
  return value ? value.getValueAsDouble() : 0;
}

static int64_t getCount(DictionaryAttr entry, StringRef name) {
  auto value = entry.getAs<IntegerAttr>(name);
  return value ? value.getInt() : 0;
}

/// What a rank waits for, the longest first, and why.
static void printWaits(DictionaryAttr schedule, llvm::raw_ostream &out) {
  auto waits = schedule.getAs<ArrayAttr>("waits");
  if (!waits || waits.empty())
    return;
  constexpr size_t kMostListed = 4;
  SmallVector<std::string> listed;
  double all = 0, queued = 0, idle = 0, rest = 0;
  for (auto [index, entry] :
       llvm::enumerate(waits.getAsRange<DictionaryAttr>())) {
    double ms = getMs(entry, "ms");
    all += ms;
    queued += getMs(entry, "queued_ms");
    idle += getMs(entry, "idle_ms");
    if (index >= kMostListed) {
      rest += ms;
      continue;
    }
    StringRef axis = entry.getAs<StringAttr>("axis").getValue();
    StringRef kind = entry.getAs<StringAttr>("collective").getValue();
    listed.push_back(formatv("{0} of {1} {2} over {3}", formatMs(ms),
                             getCount(entry, "count"), kind, axis));
  }
  if (rest > 0)
    listed.push_back(formatMs(rest) + " of others");
  out << "  waits        " << llvm::join(listed, ", ") << "\n";
  SmallVector<std::string> reasons;
  auto addReason = [&](double ms, StringRef why) {
    // A tenth of a percent is no reason.
    if (ms > all / 1000)
      reasons.push_back(formatv("{0} {1}", formatMs(ms), why));
  };
  addReason(idle, "have nothing to compute meanwhile");
  addReason(queued, "are for earlier ones on the axis");
  addReason(all - idle - queued, "are longer than what is computed meanwhile");
  out << "  because      " << llvm::join(reasons, ", ") << "\n";
}

/// What computing consists of, the longest first.
static void printParts(DictionaryAttr schedule, llvm::raw_ostream &out) {
  auto parts = schedule.getAs<DictionaryAttr>("predicted_parts_ms");
  if (!parts || parts.empty())
    return;
  SmallVector<NamedAttribute> sorted(parts.begin(), parts.end());
  llvm::stable_sort(sorted, [&](NamedAttribute a, NamedAttribute b) {
    return getMs(parts, a.getName()) > getMs(parts, b.getName());
  });
  out << "  computing    ";
  llvm::interleaveComma(sorted, out, [&](NamedAttribute part) {
    out << formatMs(getMs(parts, part.getName())) << " of "
        << part.getName().getValue();
  });
  out << "\n";
}

/// How much of a prediction a profile knows.
static void printMeasured(DictionaryAttr schedule, llvm::raw_ostream &out) {
  auto measured = schedule.getAs<DictionaryAttr>("measured");
  if (!measured)
    return;
  double all = getMs(measured, "of_ms");
  out << formatv("  measured     {0} of {1} commands, {2:f1} % of their time\n",
                 getCount(measured, "commands"), getCount(measured, "of"),
                 all > 0 ? 100 * getMs(measured, "ms") / all : 0);
}

/// The values with the longest idle times between two accesses, in bytes times
/// seconds: those that recomputation or another memory would gain most by.
static void printIdle(func::FuncOp function, const MeasuredCosts &measured,
                      llvm::raw_ostream &out) {
  constexpr size_t kMostListed = 4;
  SmallVector<std::pair<double, std::string>> idle;
  function.walk([&](exec::ArenaSlotOp slot) {
    ArrayAttr values = slot.getValuesAttr();
    if (!values || values.empty())
      return;
    StringRef id = cast<StringAttr>(values[0]).getValue();
    auto found = measured.getProfile().idle.find(id.str());
    if (found == measured.getProfile().idle.end())
      return;
    auto [bytes, seconds] = found->second;
    idle.push_back({double(bytes) * seconds,
                    formatv("{0} {1} for {2}", id, formatBytes(bytes),
                            formatMs(1e3 * seconds))});
  });
  llvm::stable_sort(
      idle, [](const auto &a, const auto &b) { return a.first > b.first; });
  SmallVector<std::string> listed;
  for (const auto &[weight, text] : ArrayRef(idle).take_front(kMostListed))
    listed.push_back(text);
  if (!listed.empty())
    out << "  lay idle     " << llvm::join(listed, ", ") << "\n";
}

/// The milliseconds that a function waits for copies between memory spaces.
static double getExposedCopies(func::FuncOp function) {
  auto paging = function->getAttrOfType<DictionaryAttr>(ExecDialect::kPaging);
  return paging ? getMs(paging, "exposed_ms") : 0;
}

/// The copies between memory spaces, and their hidden share.
static void printPaging(func::FuncOp function, llvm::raw_ostream &out) {
  auto paging = function->getAttrOfType<DictionaryAttr>(ExecDialect::kPaging);
  if (!paging)
    return;
  double in = getMs(paging, "fetch_ms"), to = getMs(paging, "store_ms"),
         exposed = getMs(paging, "exposed_ms");
  double hidden = in + to > 0 ? std::max(0.0, 1 - exposed / (in + to)) : 1;
  out << formatv(
      "  paging       {0} fetched in {1}, {2} stored in {3}; {4} are "
      "waited for, {5:f0} % is hidden\n",
      formatBytes(getCount(paging, "fetched_bytes")), formatMs(in),
      formatBytes(getCount(paging, "stored_bytes")), formatMs(to),
      formatMs(exposed), 100 * hidden);
  for (BlockArgument argument : function.getArguments()) {
    auto type = dyn_cast<MemRefType>(argument.getType());
    exec::MemorySpace space = exec::getMemorySpace(argument);
    if (type && type.getElementType().isInteger(8) &&
        space != exec::MemorySpace::Device)
      out << formatv("  arena of     {0,-16} {1,12}\n",
                     exec::stringifyMemorySpace(space),
                     formatBytes(getBytes(type)));
  }
}

/// What goes on behind a call, and how much of it passes unnoticed.
static void printCarried(DictionaryAttr schedule, llvm::raw_ostream &out) {
  auto carried = schedule.getAs<DictionaryAttr>("carried");
  if (!carried)
    return;
  auto getSeconds = [&](StringRef name) { return getMs(carried, name) * 1e-3; };
  out << "  carried      "
      << optimus_prices::describeCarried(
             {getCount(carried, "count"), getSeconds("ms"),
              getSeconds("after_ms"), getSeconds("exposed_ms")},
             formatMs)
      << "\n";
}

static void printSchedule(DictionaryAttr schedule, double copies,
                          const CompileOptions &options,
                          llvm::raw_ostream &out) {
  double exposed = getMs(schedule, "predicted_exposed_ms");
  double step = getMs(schedule, "predicted_step_ms");
  out << formatv("  predicted    {0}: {1} computing, {2} waiting for {3} of "
                 "communication\n",
                 formatMs(step), formatMs(step - exposed - copies),
                 formatMs(exposed),
                 formatMs(getMs(schedule, "predicted_comm_ms")));
  printParts(schedule, out);
  printMeasured(schedule, out);
  printWaits(schedule, out);
  printCarried(schedule, out);
  int64_t extra = getCount(schedule, "extra_workspace_bytes");
  int64_t bounded = getCount(schedule, "out_of_workspace");
  if (extra == 0 && bounded == 0)
    return;
  out << "  workspace    " << formatBytes(extra) << " more for overlap";
  if (bounded > 0)
    out << formatv("; {0} would overlap with more than --extra-workspace {1}",
                   formatCount(bounded, "collective"),
                   options.phases.extraWorkspace);
  out << "\n";
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/// What most bytes of the peak are, by category and values; those of all layers
/// together, since who makes one smaller makes all of them.
static void printLargest(func::FuncOp function, llvm::raw_ostream &out) {
  struct Group {
    std::string category, values;
    int64_t bytes = 0, count = 0;
  };
  std::vector<Group> groups;
  llvm::StringMap<size_t> numbers;
  Peak peak = findPeak(function);
  for (exec::ArenaSlotOp slot : peak.slots) {
    std::string category = slot.getCategory().str();
    std::string values = describeSlot(slot, Layers::Any);
    auto [number, isNew] =
        numbers.try_emplace(category + " " + values, groups.size());
    if (isNew)
      groups.push_back({category, values});
    Group &group = groups[number->second];
    group.bytes += exec::getPlacedBytes(slot);
    ++group.count;
  }
  llvm::stable_sort(
      groups, [](const Group &a, const Group &b) { return a.bytes > b.bytes; });
  constexpr size_t kMostListed = 3;
  for (const Group &group : ArrayRef(groups).take_front(kMostListed)) {
    out << formatv("  the largest  {0,-16} {1,12} ", group.category,
                   formatBytes(group.bytes));
    if (group.count > 1)
      out << group.count << " of ";
    out << group.values << "\n";
  }
}

/// The recomputed operations of a function, the bytes they save at the peak and
/// their time.
static void printRecomputed(func::FuncOp function,
                            const CompileOptions &options,
                            llvm::raw_ostream &out) {
  std::map<std::string, int64_t> counts;
  function.walk([&](exec::ArenaSlotOp slot) {
    if (ArrayAttr values = slot.getValuesAttr())
      for (auto value : values.getAsRange<StringAttr>())
        if (StringRef id = value.getValue(); id.consume_back(" recomputed"))
          ++counts[getPattern(id)];
  });
  if (counts.empty())
    return;
  SmallVector<std::string> listed;
  for (const auto &[pattern, count] : counts)
    listed.push_back(count > 1 ? formatv("{0} of {1}", count, pattern).str()
                               : pattern);
  out << "  recomputed   " << llvm::join(listed, ", ") << "\n";
  auto schedule =
      function->getAttrOfType<DictionaryAttr>(ExecDialect::kSchedule);
  bool isKnown = options.withoutRecompute && schedule &&
                 getEntryKind(function) == EntryKind::Train;
  if (!isKnown)
    return;
  const StepNeeds &kept = *options.withoutRecompute;
  double more = getMs(schedule, "predicted_step_ms") - kept.ms;
  int64_t saved =
      kept.peakBytes - getInteger(function, ExecDialect::kLowerBoundBytes);
  out << formatv("  which saves  {0} at the peak, of {1}, for {2} more in a "
                 "step ({3:f1} %)\n",
                 formatBytes(saved), formatBytes(kept.peakBytes),
                 formatMs(more), 100 * more / kept.ms);
}

static void printFunction(func::FuncOp function, const CompileOptions &options,
                          llvm::raw_ostream &out) {
  int64_t arena = getInteger(function, ExecDialect::kArenaBytes);
  int64_t bound = getInteger(function, ExecDialect::kLowerBoundBytes);
  out << formatv(
      "{0,-12} {1,9} {2,12} {3,12} {4,7:f4}\n", function.getSymName(),
      getInteger(function, ExecDialect::kCommands), formatBytes(arena),
      formatBytes(bound), bound ? double(arena) / bound : 1.0);
  if (auto peak =
          function->getAttrOfType<DictionaryAttr>(ExecDialect::kPeakBytes))
    for (NamedAttribute category : peak)
      out << formatv(
          "  at the peak  {0,-16} {1,12}\n", category.getName().getValue(),
          formatBytes(cast<IntegerAttr>(category.getValue()).getInt()));
  printLargest(function, out);
  if (auto axes =
          function->getAttrOfType<ArrayAttr>(ExecDialect::kCommunication))
    for (auto axis : axes.getAsRange<DictionaryAttr>())
      out << formatv("  over axis    {0,-16} {1,12} in {2} messages a rank\n",
                     axis.getAs<StringAttr>("axis").getValue(),
                     formatBytes(getCount(axis, "bytes")),
                     getCount(axis, "messages"));
  if (auto schedule =
          function->getAttrOfType<DictionaryAttr>(ExecDialect::kSchedule))
    printSchedule(schedule, getExposedCopies(function), options, out);
  printPaging(function, out);
  if (auto measured = options.phases.getMeasured();
      measured && measured->hasRun(function.getSymName()))
    printIdle(function, *measured, out);
  printRecomputed(function, options, out);
}

/// Whether a rank fits its GPU, by the machine profile.
static void printGpuFit(int64_t rankBytes, const GpuProfile &gpu,
                        const CompileOptions &options, llvm::raw_ostream &out) {
  StringRef profile = options.phases.machineProfile;
  if (!isKnownProfile(profile))
    profile = options.machineProfile;
  out << formatv("a rank needs {0} ({1} bytes) of its GPU; {2} of {3} has {4}, "
                 "of which {5} are for the driver and code: it {6}\n",
                 formatBytes(rankBytes), rankBytes, gpu.name, profile,
                 formatBytes(gpu.memoryBytes), formatBytes(gpu.reservedBytes),
                 rankBytes <= gpu.getUsableBytes()
                     ? "fits"
                     : "does not fit; more ranks, a smaller batch or "
                       "--recompute need less of each");
}

/// What a GPU's host pins for a rank.
static void printPinned(const RankMemory &memory, llvm::raw_ostream &out) {
  if (memory.pinned > 0)
    out << formatv("host memory of a rank that is pinned: {0} offloaded\n",
                   formatBytes(memory.pinned));
  if (memory.staged > 0)
    out << formatv("host memory of a rank that is pinned for collectives: none "
                   "over NCCL or within a GPU, {0} ({1} bytes) where they go "
                   "by way of the host\n",
                   formatBytes(memory.staged), memory.staged);
}

/// The bytes of the ranks, and whether they fit: a budget that is given, and
/// this machine, if all of them run on it, or the GPU of each.
static void printFit(int64_t rankBytes, const CompileOptions &options,
                     llvm::raw_ostream &out) {
  if (options.memoryBudget)
    out << formatv("a rank needs {0}, which {1} the memory budget of {2}\n",
                   formatBytes(rankBytes),
                   rankBytes <= *options.memoryBudget ? "fits" : "exceeds",
                   formatBytes(*options.memoryBudget));
  if (const std::optional<GpuProfile> &gpu = options.machine.gpu) {
    printGpuFit(rankBytes, *gpu, options, out);
    return;
  }
  int64_t ranks = options.phases.mesh.getNumRanks();
  const optimus_support::ResourceLimits &limits =
      optimus_support::resourceLimits();
  int64_t machine = limits.memoryBytes;
  int64_t fitting = std::min(ranks, machine / std::max<int64_t>(rankBytes, 1));
  out << formatv("{0} {1} {2}", formatCount(ranks, "rank"),
                 ranks == 1 ? "needs" : "need", formatBytes(rankBytes * ranks));
  out << formatv("; {0} has {1}", limits.memoryOwner(), formatBytes(machine));
  if (fitting == ranks)
    out << ": " << (ranks == 1 ? "it fits\n" : "all of them fit\n");
  else
    out << formatv(": {0} of them {1}; more ranks on more machines, a smaller "
                   "batch or --recompute need less of each\n",
                   fitting == 0 ? "none" : std::to_string(fitting),
                   fitting <= 1 ? "fits" : "fit");
}

SmallVector<MemoryLimit>
mlir::optimus::getMemoryLimits(const CompileOptions &options) {
  SmallVector<MemoryLimit> limits;
  if (options.memoryBudget)
    limits.push_back({"the memory budget", *options.memoryBudget});
  if (const std::optional<GpuProfile> &gpu = options.machine.gpu)
    limits.push_back({gpu->name, gpu->getUsableBytes()});
  if (limits.empty()) {
    const optimus_support::ResourceLimits &here =
        optimus_support::resourceLimits();
    limits.push_back({here.memoryOwner(),
                      here.memoryBytes / options.phases.mesh.getNumRanks()});
  }
  return limits;
}

/// How many lanes there are room for, by what was given or this machine has.
static void printLanes(const RankMemoryTable &table,
                       const CompileOptions &options, llvm::raw_ostream &out) {
  const int64_t lanes = options.phases.lanes;
  if (lanes == 1)
    return;
  const MemoryLimit limit = getMemoryLimits(options).front();
  out << formatv(
      "{0} lanes: memory is that of all, on one thread; each further "
      "thread has an arena and scratch of its own. Commands and "
      "times are those of one lane; {1} has room for {2}\n",
      lanes, limit.owner, table.countFitting(limit.bytes, lanes));
}

/// Where a rank that fits otherwise does not for `optimus-run verify`.
static void printVerify(const RankMemoryTable &table,
                        const CompileOptions &options, llvm::raw_ostream &out) {
  for (const auto &[name, memory, isJudged] : table.rows)
    for (const MemoryLimit &limit : getMemoryLimits(options))
      if (!isJudged && memory.getTotal() > limit.bytes &&
          table.getMost() <= limit.bytes)
        out << formatv("{0}, for optimus-run verify alone, needs {1} of a "
                       "rank; {2} has {3}\n",
                       name, formatBytes(memory.getTotal()), limit.owner,
                       formatBytes(limit.bytes));
}

static void printRankMemory(const RankMemoryTable &table,
                            const CompileOptions &options,
                            llvm::raw_ostream &out) {
  constexpr const char *kRow =
      "{0,-12} {1,12} {2,12} {3,12} {4,12} {5,12} {6,12} {7,12}\n";
  out << formatv(kRow, "of a rank", "parameters", "state", "gradients",
                 "inputs", "arena",
                 options.isForGpu() ? "workspace" : "scratch", "in all");
  for (const auto &[name, memory, isJudged] : table.rows)
    out << formatv(kRow, name, formatBytes(memory.parameters),
                   formatBytes(memory.state), formatBytes(memory.gradients),
                   formatBytes(memory.inputs), formatBytes(memory.arena),
                   formatBytes(memory.scratch), formatBytes(memory.getTotal()));
  RankMemory beside = table.getMostOfEach();
  if (options.phases.mesh.getNumRanks() > 1)
    out << "communication buffers: none where ranks are threads, "
        << formatBytes(beside.communication) << " more of a rank over TCP\n";
  if (beside.staging > 0)
    out << "generation: weights are prepared as they are loaded, tensor by "
           "tensor; in all has the largest, of "
        << formatBytes(beside.staging) << "\n";
  if (beside.offloaded > 0)
    out << formatv("a rank keeps {0} in scratch files beside that\n",
                   formatBytes(beside.offloaded));
  printPinned(beside, out);
  printLanes(table, options, out);
  printFit(table.getMost(), options, out);
  printVerify(table, options, out);
}

std::string mlir::optimus::explainUnusedProfile(const PhaseOptions &phases) {
  if (!phases.measured || phases.getMeasured())
    return "";
  const RunProfile &run = phases.measured->getProfile();
  return formatv("profile {0} is not used: it is of mesh {1} with strategy "
                 "{2} on {3}",
                 phases.measured->getName(), run.mesh, run.strategy,
                 run.device);
}

void mlir::optimus::printReport(ModuleOp module, const CompileOptions &options,
                                llvm::raw_ostream &out) {
  int64_t kernels = 0;
  SmallVector<func::FuncOp> functions;
  // There is one a parameter, each of a command or two.
  const SmallVector<func::FuncOp> preparers = findGenerationPreparers(module);
  for (auto function : module.getOps<func::FuncOp>())
    if (function->hasAttr(exec::ExecDialect::kKernel))
      ++kernels;
    else if (!llvm::is_contained(preparers, function))
      functions.push_back(function);

  if (options.ownMachine)
    out << "times are of this machine, by " << options.ownProfile << "\n\n";
  out << formatv("{0,-12} {1,9} {2,12} {3,12} {4,7}\n", "function", "commands",
                 "arena", "lower bound", "ratio");
  for (func::FuncOp function : functions)
    printFunction(function, options, out);
  out << formatCount(kernels, "kernel") << "\n\n";
  if (std::string unused = explainUnusedProfile(options.phases);
      !unused.empty())
    out << unused << "\n\n";
  printRankMemory(getRankMemoryTable(module, options.isForGpu()), options, out);
}
