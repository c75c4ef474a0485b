//===- LiveRangeCsv.h - Live ranges and plans as CSV ------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The format is that of the allocation benchmarks in the literature: a header
// `id,lower,upper,size` with an optional `alignment`, `gaps` (`3-5 8-9`) and
// `offset` (empty: the planner's choice), then a buffer per line. A plan
// repeats the columns, with every offset.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_MEMORYPLANNING_LIVERANGECSV_H
#define OPTIMUS_MEMORYPLANNING_LIVERANGECSV_H

#include "optimus/MemoryPlanning/MemoryPlanner.h"

#include <iosfwd>
#include <string_view>

namespace optimus_planning {

/// Reads live ranges. Columns may come in any order. `name` stands for the
/// input in messages. Returns the error, naming line and column, if there is
/// one; `ranges` then holds the lines before it. The ranges of a file without
/// error pass checkRanges().
std::optional<std::string> readLiveRanges(std::istream &in,
                                          std::string_view name,
                                          std::vector<LiveRange> &ranges);

/// Writes ranges as readLiveRanges() reads them.
void writeLiveRanges(std::ostream &out, std::span<const LiveRange> ranges);

/// Writes `id,lower,upper,size,alignment,offset`, a line per range; before the
/// offset the gaps, if there are any.
void writePlan(std::ostream &out, std::span<const LiveRange> ranges,
               const Plan &plan);

} // namespace optimus_planning

#endif // OPTIMUS_MEMORYPLANNING_LIVERANGECSV_H
