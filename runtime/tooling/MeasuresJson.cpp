//===- MeasuresJson.cpp - Communication and memory, as data ---------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MeasuresJson.h"

namespace optrt {

nlohmann::ordered_json communicationToJson(const Mesh &mesh,
                                           std::span<const Traffic> traffic) {
  auto list = nlohmann::ordered_json::array();
  for (int axis = 0; axis != mesh.numAxes(); ++axis)
    if (mesh.axisSize(axis) > 1)
      list.push_back({{"axis", mesh.axes()[axis].name},
                      {"bytes", traffic[axis].bytes},
                      {"messages", traffic[axis].messages}});
  return list;
}

nlohmann::ordered_json communicationTimeToJson(const Mesh &mesh,
                                               const SlowestRank &slowest) {
  nlohmann::ordered_json report = {{"in_flight", 1e3 * slowest.total.inFlight},
                                   {"exposed", 1e3 * slowest.total.exposed}};
  auto list = nlohmann::ordered_json::array();
  for (int axis = 0; axis != mesh.numAxes(); ++axis)
    if (mesh.axisSize(axis) > 1)
      list.push_back({{"axis", mesh.axes()[axis].name},
                      {"in_flight", 1e3 * slowest.axes[axis].inFlight},
                      {"exposed", 1e3 * slowest.axes[axis].exposed}});
  report["axes"] = std::move(list);
  return report;
}

nlohmann::ordered_json memoryToJson(const RankMemory &memory) {
  return {
      {"total", memory.total()},       {"parameters", memory.parameters},
      {"state", memory.state},         {"gradients", memory.gradients},
      {"inputs", memory.inputs},       {"arena", memory.arena},
      {"scratch", memory.device},      {"communication", memory.communication},
      {"offloaded", memory.offloaded}, {"staging", memory.staging},
      {"snapshot", memory.snapshot},   {"code", memory.code}};
}

} // namespace optrt
