//===- LaunchReport.cpp - What launches of a GPU move -----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LaunchReport.h"

#include "optimus/Dialect/Exec/IR/Commands.h"
#include "optimus/Kernels/Grouped.h"
#include "optimus/Kernels/KernelTraffic.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::optimus;
using llvm::formatv;

namespace {
/// All launches of a kernel in a function.
struct Row {
  StringRef kernel;
  int64_t launches = 0, pieces = 1;
  KernelTraffic traffic = {};
};
} // namespace

static int64_t countPieces(func::FuncOp kernel) {
  auto computes =
      kernel->getAttrOfType<DictionaryAttr>(exec::ExecDialect::kComputes);
  auto pieces = computes.getAs<ArrayAttr>(kernels::Grouped::kPieces);
  return pieces ? pieces.size() : 1;
}

static SmallVector<Row> collectRows(func::FuncOp function,
                                    SymbolTableCollection &symbols,
                                    const KernelSchedule &schedule) {
  llvm::MapVector<StringRef, Row> rows;
  function.walk([&](exec::LaunchOp launch) {
    auto [found, isNew] = rows.try_emplace(launch.getKernel());
    Row &row = found->second;
    ++row.launches;
    if (!isNew)
      return;
    row.kernel = launch.getKernel();
    auto kernel = symbols.lookupNearestSymbolFrom<func::FuncOp>(
        launch, launch.getKernelAttr());
    row.pieces = countPieces(kernel);
    // The pass behind a kernel has reported one that cannot be counted.
    if (FailureOr<KernelTraffic> traffic = countTraffic(kernel, schedule);
        succeeded(traffic))
      row.traffic = *traffic;
  });
  for (auto &[name, row] : rows)
    row.traffic *= row.launches;
  SmallVector<Row> sorted;
  for (auto &[name, row] : rows)
    sorted.push_back(row);
  llvm::stable_sort(sorted, [](const Row &a, const Row &b) {
    return a.traffic.least > b.traffic.least;
  });
  return sorted;
}

static void printRows(StringRef function, ArrayRef<Row> rows,
                      int64_t numCommands, llvm::raw_ostream &out) {
  int64_t launches = 0, pieces = 0;
  size_t width = StringRef("kernel").size();
  for (const Row &row : rows) {
    launches += row.launches;
    pieces += row.launches * row.pieces;
    width = std::max(width, row.kernel.size());
  }
  out << "\n"
      << function << ": " << numCommands << " commands, of which " << launches
      << " are launches of " << pieces << " kernels\n";
  auto print = [&](StringRef kernel, StringRef launches, StringRef least,
                   StringRef touched, StringRef ratio) {
    out << kernel;
    out.indent(width - kernel.size());
    out << formatv("  {0,8}  {1,10}  {2,10}  {3,5}\n", launches, least, touched,
                   ratio);
  };
  print("kernel", "launches", "least", "touches", "times");
  for (const Row &row : rows) {
    const KernelTraffic &traffic = row.traffic;
    // Of a table few rows may be read, and code that only some do is not
    // counted.
    bool isKnown = traffic.touched && *traffic.touched >= traffic.least;
    print(row.kernel, std::to_string(row.launches), formatBytes(traffic.least),
          isKnown ? formatBytes(*traffic.touched) : "-",
          isKnown ? formatv("{0:f2}",
                            double(*traffic.touched) / double(traffic.least))
                        .str()
                  : "-");
  }
}

void mlir::optimus::printLaunches(ModuleOp module,
                                  const KernelSchedule &schedule,
                                  llvm::raw_ostream &out) {
  SymbolTableCollection symbols;
  for (auto function : module.getOps<func::FuncOp>()) {
    SmallVector<exec::CommandOpInterface> commands =
        exec::getCommands(function);
    if (!commands.empty())
      printRows(function.getSymName(), collectRows(function, symbols, schedule),
                commands.size(), out);
  }
  out << "bytes: the least is each input read once and each output written "
         "once; what bodies touch again is\nin a cache where a row fits one\n";
}
