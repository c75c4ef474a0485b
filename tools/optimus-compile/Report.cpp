//===- Report.cpp - What a compiled model needs -----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Report.h"

#include "optimus/Dialect/Exec/IR/Exec.h"
#include "optimus/Target/CPU/KernelLibrary.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using exec::ExecDialect;

static int64_t getInteger(Operation *op, StringRef attr) {
  auto value = op->getAttrOfType<IntegerAttr>(attr);
  return value ? value.getInt() : 0;
}

/// Bytes as MiB with a digit behind the point, since buffers of interest are
/// that large; small ones in bytes.
static std::string formatBytes(int64_t bytes) {
  if (bytes < 100 * 1024)
    return llvm::formatv("{0} B", bytes).str();
  return llvm::formatv("{0:f1} MiB", bytes / 1048576.0).str();
}

static void printSchedule(DictionaryAttr schedule, llvm::raw_ostream &out) {
  auto getMs = [&](StringRef name) {
    return schedule.getAs<FloatAttr>(name).getValueAsDouble();
  };
  auto getCount = [&](StringRef name) {
    return schedule.getAs<IntegerAttr>(name).getInt();
  };
  out << llvm::formatv("  predicted    {0:f2} ms, of {1:f2} ms of "
                       "communication {2:f2} exposed\n",
                       getMs("predicted_step_ms"), getMs("predicted_comm_ms"),
                       getMs("predicted_exposed_ms"));
  out << llvm::formatv("  overlap      {0} of workspace; {1} collectives are "
                       "not overlapped, {2} for want of workspace\n",
                       formatBytes(getCount("extra_workspace_bytes")),
                       getCount("not_overlapped"),
                       getCount("out_of_workspace"));
}

void printReport(ModuleOp module, llvm::raw_ostream &out) {
  int64_t kernels = 0;
  for (auto function : module.getOps<func::FuncOp>())
    kernels += function->hasAttr(optimus::KernelLibrary::kKernelAttr);

  out << llvm::formatv("{0,-12} {1,9} {2,12} {3,12} {4,7}\n", "function",
                       "commands", "arena", "lower bound", "ratio");
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function->hasAttr(optimus::KernelLibrary::kKernelAttr))
      continue;
    int64_t arena = getInteger(function, ExecDialect::kArenaBytes);
    int64_t bound = getInteger(function, ExecDialect::kLowerBoundBytes);
    out << llvm::formatv("{0,-12} {1,9} {2,12} {3,12} {4,7:f4}\n",
                         function.getSymName(),
                         getInteger(function, ExecDialect::kCommands),
                         formatBytes(arena), formatBytes(bound),
                         bound ? double(arena) / bound : 1.0);
    if (auto peak =
            function->getAttrOfType<DictionaryAttr>(ExecDialect::kPeakBytes))
      for (NamedAttribute category : peak)
        out << llvm::formatv(
            "  at the peak  {0,-16} {1,12}\n", category.getName().getValue(),
            formatBytes(cast<IntegerAttr>(category.getValue()).getInt()));
    if (auto axes =
            function->getAttrOfType<ArrayAttr>(ExecDialect::kCommunication))
      for (auto axis : axes.getAsRange<DictionaryAttr>())
        out << llvm::formatv(
            "  over axis    {0,-16} {1,12} in {2} messages a rank\n",
            axis.getAs<StringAttr>("axis").getValue(),
            formatBytes(axis.getAs<IntegerAttr>("bytes").getInt()),
            axis.getAs<IntegerAttr>("messages").getInt());
    if (auto schedule =
            function->getAttrOfType<DictionaryAttr>(ExecDialect::kSchedule))
      printSchedule(schedule, out);
  }
  out << kernels << " kernels\n";
}
