//===- DataBench.h - What data cost a step ----------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// After DS-Analyzer (Mohan et al., VLDB 2021): a step alone, the fetching of
// its batch and the preparation of its tokens are timed apart, so that the
// step's time follows for any share of the data in memory.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_RUN_DATABENCH_H
#define OPTIMUS_TOOLS_OPTIMUS_RUN_DATABENCH_H

#include "optimus-runtime/Dataset.h"
#include "optimus-runtime/Session.h"
#include "optimus-runtime/Status.h"

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace optimus_run {

/// Milliseconds of a step, of this process.
struct DataTimes {
  double step = 0;        ///< without data
  double fetchCold = 0;   ///< from the disk
  double fetchWarm = 0;   ///< from the memory of the system
  double preparation = 0; ///< tokens and targets of what is fetched
  int64_t batches = 0;    ///< that were read

  /// A share of the data that is in memory, from 0 to 1, is hit as often. A
  /// batch is read while the step before runs.
  double reading(double share) const {
    return share * fetchWarm + (1 - share) * fetchCold + preparation;
  }
  double predict(double share) const;
  /// Of a predicted step, from 0 to 1: waiting for its batch.
  double stall(double share) const;
  /// The least share without a stall, or 2 where there is none.
  double shareNeeded() const;
};

/// Reads batches of `data` as a training run of this process would. What the
/// system has of the data in memory is dropped before.
optrt::StatusOr<DataTimes> measureData(const optrt::Session &session,
                                       const optrt::Dataset &data, double step);

void printDataTimes(const DataTimes &times);
nlohmann::ordered_json dataTimesToJson(const DataTimes &times);

} // namespace optimus_run

#endif // OPTIMUS_TOOLS_OPTIMUS_RUN_DATABENCH_H
