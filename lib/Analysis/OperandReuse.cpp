//===- OperandReuse.cpp - How far apart uses of a buffer are ----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Analysis/OperandReuse.h"

#include <limits>

using namespace mlir;
using namespace mlir::optimus;

SmallVector<OperandTraffic>
mlir::optimus::getTraffic(exec::CommandOpInterface command) {
  SmallVector<OperandTraffic> traffic;
  for (const exec::Access &access : command.getAccesses())
    traffic.push_back({access.operand, access.reads, access.writes,
                       double(access.getTouchedBytes()),
                       std::numeric_limits<double>::infinity()});
  return traffic;
}

SmallVector<OperandTraffic>
OperandReuse::advance(exec::CommandOpInterface command) {
  SmallVector<OperandTraffic> traffic = getTraffic(command);
  double before = touched;
  for (OperandTraffic &one : traffic)
    touched += one.bytes;
  for (OperandTraffic &one : traffic)
    for (Value base : exec::getBases(one.operand->get())) {
      auto found = lastUse.find(base);
      if (found != lastUse.end())
        one.reuseBytes =
            std::min(one.reuseBytes, before - found->second + one.bytes);
    }
  for (OperandTraffic &one : traffic)
    for (Value base : exec::getBases(one.operand->get()))
      lastUse[base] = touched;
  return traffic;
}
