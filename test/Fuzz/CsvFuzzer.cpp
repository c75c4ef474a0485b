//===- CsvFuzzer.cpp - Live ranges in CSV ---------------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/MemoryPlanning/LiveRangeCsv.h"

#include <cstdio>
#include <cstdlib>
#include <sstream>

using namespace optimus_planning;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::istringstream in(
      std::string(reinterpret_cast<const char *>(data), size));
  std::vector<LiveRange> ranges;
  if (readLiveRanges(in, "input.csv", ranges))
    return 0;
  Options options;
  options.nodeLimit = 2000;
  options.goodEnough = 1;
  Plan result = plan(ranges, options);
  if (std::optional<std::string> mistake = validate(ranges, result)) {
    std::fprintf(stderr, "invalid plan: %s\n", mistake->c_str());
    std::abort();
  }
  return 0;
}
