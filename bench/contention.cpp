//===- contention.cpp - Flows that share links ------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads cases from standard input: the number of links and their bytes a
// second, the number of flows, and of each its begin in seconds, its bytes, the
// number of its links and these. Writes when each flow ends, a line a case.
//
//===----------------------------------------------------------------------===//

#include "SharedLinks.h"

#include <cstdio>
#include <iostream>

using namespace optimus_simulation;

int main() {
  for (size_t numLinks; std::cin >> numLinks;) {
    std::vector<double> capacities(numLinks);
    for (double &one : capacities)
      std::cin >> one;
    SharedLinks links(capacities);
    size_t numFlows = 0;
    std::cin >> numFlows;
    std::vector<LinkLoads> loads(numFlows);
    for (size_t number = 0; number != numFlows; ++number) {
      double begin = 0, bytes = 0;
      size_t count = 0;
      std::cin >> begin >> bytes >> count;
      for (size_t i = 0; i != count; ++i) {
        uint32_t link = 0;
        std::cin >> link;
        loads[number].push_back({link, 1});
      }
      links.add(roundUp(begin), {.number = static_cast<uint32_t>(number),
                                 .bytes = bytes,
                                 .loads = &loads[number]});
    }
    std::vector<double> ends(numFlows);
    while (!links.isIdle())
      for (uint32_t number : links.advance())
        ends[number] = double(links.getTime()) * 1e-12;
    for (double end : ends)
      std::printf("%.12f ", end);
    std::printf("\n");
  }
  return 0;
}
