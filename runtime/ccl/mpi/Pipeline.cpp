//===- Pipeline.cpp - A rank's place in a chain of ranks ------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Pipeline.h"

#include <algorithm>

namespace optrt {

void Pipeline::begin(Plan newPlan) {
  plan = std::move(newPlan);
  numSegments = (plan.count + plan.segmentLength - 1) / plan.segmentLength;
  posted = processed = started = sent = 0;
  receives.fill(MPI_REQUEST_NULL);
  sends.fill(MPI_REQUEST_NULL);
}

int Pipeline::lengthOf(int64_t k) const {
  return static_cast<int>(
      std::min(plan.segmentLength, plan.count - k * plan.segmentLength));
}

Status Pipeline::advance() {
  bool moved = true;
  while (moved) {
    moved = false;
    OPTRT_RETURN_IF_ERROR(receive(moved));
    if (plan.to != kNobody)
      OPTRT_RETURN_IF_ERROR(send(moved));
  }
  return okStatus();
}

Status Pipeline::receive(bool &moved) {
  // A place in the ring is free when what was in it has been sent.
  auto isFree = [&](int64_t k) {
    return !plan.inRing || plan.to == kNobody || k < sent + kWindow;
  };
  while (processed != numSegments) {
    if (plan.from != kNobody) {
      for (; posted != numSegments && posted < processed + kWindow &&
             isFree(posted);
           ++posted)
        OPTIMUS_MPI_CHECK(MPI_Irecv, plan.place(posted), lengthOf(posted),
                          plan.unit.type, plan.from, plan.fromTag, plan.comm,
                          &receives[posted % kWindow]);
      if (processed == posted)
        return okStatus();
      // An arrived one stays a null request, which tests as complete.
      int arrived = 0;
      OPTIMUS_MPI_CHECK(MPI_Test, &receives[processed % kWindow], &arrived,
                        MPI_STATUS_IGNORE);
      if (!arrived)
        return okStatus();
    } else if (!isFree(processed)) {
      return okStatus();
    }
    if (!plan.process(processed * plan.segmentLength, lengthOf(processed),
                      plan.place(processed)))
      return okStatus();
    ++processed;
    moved = true;
  }
  return okStatus();
}

Status Pipeline::send(bool &moved) {
  for (; started < processed && started < sent + kWindow; ++started)
    OPTIMUS_MPI_CHECK(MPI_Isend, plan.place(started), lengthOf(started),
                      plan.unit.type, plan.to, plan.toTag, plan.comm,
                      &sends[started % kWindow]);
  while (sent < started) {
    int left = 0;
    OPTIMUS_MPI_CHECK(MPI_Test, &sends[sent % kWindow], &left,
                      MPI_STATUS_IGNORE);
    if (!left)
      break;
    ++sent;
    moved = true;
  }
  return okStatus();
}

} // namespace optrt
