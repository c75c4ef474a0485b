//===- MachineProfile.h - What a machine was measured to do -----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A machine profile is a JSON object that the compiler's cost model reads:
// {"version": 1, "comm": [...], "gemm": [...]}. Each measurement writes one
// section and leaves the others as they are.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_MEASURE_MACHINEPROFILE_H
#define OPTIMUS_RUNTIME_MEASURE_MACHINEPROFILE_H

#include "optimus-runtime/Status.h"

#include <nlohmann/json.hpp>
#include <span>
#include <string>

namespace optrt {

constexpr int kMachineProfileVersion = 1;

/// Whether `path` is a machine profile, or can become one: the file does not
/// exist, or is one of this version, and what was measured is of the same GPU,
/// an object with its name, or of processors where `gpu` is null. Call it
/// before measuring.
///
/// Errors: InvalidArgument for a file that is something else; Unavailable when
/// it cannot be read.
Status checkMachineProfile(const std::string &path,
                           const nlohmann::ordered_json &gpu = nullptr);

/// Writes the entries of one section into the profile at `path`, which is made
/// if it does not exist. An entry takes the place of the one that has the same
/// values of `keys`; the section's other entries and all other sections stay,
/// except "gpu", which becomes `gpu` unless `gpu` is null. The file is
/// exchanged by one rename.
///
/// Errors: as above; Unavailable when it cannot be written.
Status mergeIntoMachineProfile(const std::string &path,
                               const std::string &section,
                               const nlohmann::ordered_json &entries,
                               std::span<const char *const> keys,
                               const nlohmann::ordered_json &gpu = nullptr);

/// The same of a section with one object, in the place of the old.
Status replaceInMachineProfile(const std::string &path,
                               const std::string &section,
                               const nlohmann::ordered_json &value);

/// seconds = alpha + beta * bytes.
struct LinearCost {
  double alphaSeconds = 0, betaSecondsPerByte = 0;
};

struct CostPoint {
  double bytes = 0, seconds = 0;
};

/// The line through the points with the least sum of squared relative errors,
/// ((alpha + beta * bytes) / seconds - 1)^2, among those with alpha >= 0 and
/// beta >= 0. Relative, because small messages must weigh as much as large
/// ones, which take a thousand times as long. Needs a point, with seconds > 0.
LinearCost fitLinearCost(std::span<const CostPoint> points);

} // namespace optrt

#endif // OPTIMUS_RUNTIME_MEASURE_MACHINEPROFILE_H
