//===- Inspect.cpp - optimus-run inspect ----------------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "Format.h"
#include "optimus-runtime/ModelLibrary.h"

#include <iostream>
#include <nlohmann/json.hpp>

using namespace optrt;

namespace optimus_run {
namespace {

/// For instance "row, col"; "-" for none.
std::string axisNames(const Mesh &mesh, std::span<const int> axes) {
  std::string text;
  for (int axis : axes)
    text += (text.empty() ? "" : ", ") + mesh.axes()[axis].name;
  return text.empty() ? "-" : text;
}

/// For instance "[{row}, {}, {col}]".
std::string shardingToString(const Mesh &mesh, const ShardLayout &layout) {
  std::string text = "[";
  for (std::size_t d = 0; d != layout.axes.size(); ++d) {
    std::string axes = axisNames(mesh, layout.axes[d]);
    text += concat(d == 0 ? "{" : ", {", axes == "-" ? "" : axes, "}");
  }
  return text + "]";
}

std::string initToString(const optimus_support::Initializer &init) {
  switch (init.kind) {
  case optimus_support::InitKind::Normal:
    return format("normal %g", init.stddev);
  case optimus_support::InitKind::Zeros:
    return "zeros";
  case optimus_support::InitKind::Ones:
    return "ones";
  }
  return "";
}

void printModel(const ModelLibrary &library) {
  const Manifest &manifest = library.manifest();
  std::string features;
  for (const std::string &feature : manifest.targetFeatures)
    features += (features.empty() ? " with " : ", ") + feature;
  std::cout << library.path() << "\n  compiled by " << manifest.compiler
            << " for " << manifest.targetCpu << features << "\n  strategy "
            << describeStrategy(manifest) << ", " << manifest.mesh.numRanks()
            << (manifest.mesh.numRanks() == 1 ? " rank" : " ranks")
            << ", optimizer " << manifest.optimizer << "\n  batch "
            << manifest.batch << ", sequence " << manifest.sequence
            << ", vocabulary " << manifest.vocabulary << "\n  hashes: source "
            << manifest.sourceHash << ", model " << manifest.modelHash << "\n";
}

void printDimensions(const Manifest &manifest) {
  if (manifest.dimensions.empty())
    return;
  std::cout << "\nDimensions that are cut or padded\n";
  Table table({"name", "size", "padded", "axes"}, {3});
  for (const Dimension &dimension : manifest.dimensions)
    table.addRow({dimension.name, std::to_string(dimension.size),
                  std::to_string(dimension.padded),
                  axisNames(manifest.mesh, dimension.axes)});
  table.print(std::cout);
}

void printParams(const Manifest &manifest) {
  std::cout << "\nParameters: " << manifest.params.size() << " tensors, "
            << formatCount(manifest.numParamElements()) << " elements\n";
  Table table({"name", "shape", "on each rank", "sharding", "init", "decay"},
              {1, 2, 3, 4, 5});
  for (const Param &param : manifest.params)
    table.addRow({param.name,
                  optimus_support::shapeToString(param.layout.shape),
                  optimus_support::shapeToString(param.layout.localShape),
                  shardingToString(manifest.mesh, param.layout),
                  initToString(param.init), param.decay ? "yes" : "no"});
  table.print(std::cout);
}

void printFunctions(const Manifest &manifest) {
  std::cout << "\nFunctions\n";
  Table table({"name", "commands", "arena", "lower bound", "above it"});
  for (const Function &function : manifest.functions) {
    double above = function.lowerBoundBytes > 0
                       ? 100.0 * static_cast<double>(function.arenaBytes) /
                                 static_cast<double>(function.lowerBoundBytes) -
                             100.0
                       : 0;
    table.addRow({function.name, std::to_string(function.commands),
                  formatBytes(function.arenaBytes),
                  formatBytes(function.lowerBoundBytes),
                  format("%.2f %%", above)});
  }
  table.print(std::cout);

  std::cout << "\nMemory of a rank at a function's peak\n";
  Table peaks({"function", "category", "bytes"}, {1});
  for (const Function &function : manifest.functions)
    for (const auto &[category, bytes] : function.peakBytes)
      peaks.addRow({function.name, category, formatBytes(bytes)});
  peaks.print(std::cout);

  std::cout << "\nCommunication of a call, summed over ranks\n";
  Table traffic({"function", "axis", "bytes", "messages"}, {1});
  for (const Function &function : manifest.functions)
    for (const AxisTraffic &axis : function.communication)
      traffic.addRow({function.name, manifest.mesh.axes()[axis.axis].name,
                      formatBytes(axis.bytes), std::to_string(axis.messages)});
  traffic.print(std::cout);

  bool hasSchedule = false;
  Table schedules({"function", "predicted", "communication", "exposed",
                   "extra workspace", "not overlapped", "for want of it"});
  for (const Function &function : manifest.functions)
    if (const std::optional<Schedule> &schedule = function.schedule) {
      hasSchedule = true;
      schedules.addRow({function.name, format("%.2f ms", schedule->stepMs),
                        format("%.2f ms", schedule->commMs),
                        format("%.2f ms", schedule->exposedMs),
                        formatBytes(schedule->extraWorkspaceBytes),
                        std::to_string(schedule->notOverlapped),
                        std::to_string(schedule->outOfWorkspace)});
    }
  if (hasSchedule) {
    std::cout << "\nSchedule: predicted times of a call on a rank, and "
                 "collectives that overlap with no computation\n";
    schedules.print(std::cout);
  }
}

} // namespace

Status inspect(const InspectOptions &options) {
  OPTRT_ASSIGN_OR_RETURN(
      std::unique_ptr<ModelLibrary> library,
      ModelLibrary::open(options.library, ModelLibrary::Use::Inspect));
  if (options.json) {
    std::cout << nlohmann::ordered_json::parse(library->manifestText()).dump(2)
              << '\n';
    return okStatus();
  }
  printModel(*library);
  printDimensions(library->manifest());
  printParams(library->manifest());
  printFunctions(library->manifest());
  return okStatus();
}

} // namespace optimus_run
