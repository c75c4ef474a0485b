//===- MeasuresJson.h - Communication and memory, as data -------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_TOOLING_MEASURESJSON_H
#define OPTIMUS_RUNTIME_TOOLING_MEASURESJSON_H

#include "optimus-runtime/Session.h"

#include <nlohmann/json.hpp>
#include <span>

namespace optrt {

/// [{"axis", "bytes", "messages"}], as in a manifest.
nlohmann::ordered_json communicationToJson(const Mesh &mesh,
                                           std::span<const Traffic> traffic);
/// {"in_flight", "exposed", "axes": [{"axis", "in_flight", "exposed"}]}, in
/// milliseconds.
nlohmann::ordered_json communicationTimeToJson(const Mesh &mesh,
                                               const SlowestRank &slowest);
nlohmann::ordered_json memoryToJson(const RankMemory &memory);

} // namespace optrt

#endif // OPTIMUS_RUNTIME_TOOLING_MEASURESJSON_H
