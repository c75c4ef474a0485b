//===- Collectives.cpp - Communication of the exec dialect -----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Operands.h"

using namespace mlir;
using namespace mlir::exec;
using optimus_support::CheckedSize;

/// Where a collective writes less than its destination may be. The root of a
/// broadcast that receives its panel where it lies writes nothing: there, the
/// destination is but a source.
static Value getWrittenPart(CollectiveStartOp start) {
  auto select = start.getDst().getDefiningOp<SelectRankOp>();
  if (start.getKind() == CollectiveKind::Broadcast && select &&
      select.getAxis() == start.getAxis() &&
      select.getIndex() == start.getRoot() &&
      select.getMine() == start.getSrc())
    return select.getOther();
  return nullptr;
}

SmallVector<Access> CollectiveStartOp::getAccesses() {
  int64_t outer = getOuter(), inner = getInner();
  // A row of the side that has every rank's block is as long as it can be.
  bool gathers = getKind() == CollectiveKind::AllGather;
  bool scatters = getKind() == CollectiveKind::ReduceScatter;
  int64_t srcLd = getSrcLd(), dstLd = getDstLd();
  return {
      {&getSrcMutable(), true, false, outer, scatters ? srcLd : inner, srcLd},
      {&getDstMutable(), false, true, outer, gathers ? dstLd : inner, dstLd,
       getWrittenPart(*this)}};
}

StringRef CollectiveStartOp::getOwnQueue() { return getAxis(); }

Operation *CollectiveStartOp::getWaitingCommand() { return getWait(); }

bool CollectiveStartOp::isCarried() { return getCarried().has_value(); }

WaitOp CollectiveStartOp::getWait() {
  for (Operation *user : getToken().getUsers())
    return dyn_cast<WaitOp>(user);
  return nullptr;
}

LogicalResult CollectiveStartOp::verify() {
  // C1
  FailureOr<int64_t> ranks = verifyAxes(*this, getAxisAttr());
  if (failed(ranks))
    return failure();
  int64_t root = getRoot(), outer = getOuter(), inner = getInner();
  if (root < 0 || root >= *ranks)
    return emitOpError() << "root " << root << " is not on axis \"" << getAxis()
                         << "\" of " << *ranks << " ranks";
  // C2, C3
  if (outer <= 0 || inner <= 0)
    return emitOpError() << "outer and inner must be positive, found " << outer
                         << " and " << inner;
  bool gathers = getKind() == CollectiveKind::AllGather;
  bool scatters = getKind() == CollectiveKind::ReduceScatter;
  CheckedSize whole = CheckedSize(inner) * *ranks;
  if (failed(verifyMatrix(*this, "src", getSrc(), outer,
                          scatters ? whole : inner, getSrcLd(), "src_ld")) ||
      failed(verifyMatrix(*this, "dst", getDst(), outer,
                          gathers ? whole : inner, getDstLd(), "dst_ld")))
    return failure();
  // C4
  if (isCarried()) {
    if (static_cast<int32_t>(*getCarried()) <= 0 || !getToken().use_empty())
      return emitOpError("is carried under ")
             << static_cast<int32_t>(*getCarried())
             << "; expected a positive number, and no exec.wait for its token";
  } else if (!getToken().hasOneUse() || !getWait())
    return emitOpError("needs exactly one exec.wait for its token");
  // C5
  bool reduces = getKind() == CollectiveKind::Reduce ||
                 getKind() == CollectiveKind::AllReduce || scatters;
  if (!reduces && getReduction() != Reduction::Sum)
    return emitOpError() << stringifyCollectiveKind(getKind())
                         << " combines nothing: reduction must be sum";
  // C6
  return verifyElementType(*this, "src", getSrc(), getElementType(getDst()));
}

/// Waiting ends what the collective may still read and write.
SmallVector<Access> WaitOp::getAccesses() { return {}; }

Operation *WaitOp::getAwaitedCommand() { return getStart(); }

CollectiveStartOp WaitOp::getStart() {
  return getToken().getDefiningOp<CollectiveStartOp>();
}

LogicalResult WaitOp::verify() {
  // C1
  if (!getStart())
    return emitOpError("waits for something that is no exec.collective_start");
  return success();
}

SmallVector<Access> WaitCarriedOp::getAccesses() {
  SmallVector<Access> accesses;
  for (OpOperand &buffer : getBuffersMutable())
    accesses.push_back({&buffer, true, true});
  return accesses;
}

LogicalResult WaitCarriedOp::verify() {
  // C1
  if (static_cast<int32_t>(getCarried()) <= 0)
    return emitOpError("waits for number ")
           << static_cast<int32_t>(getCarried()) << "; expected a positive one";
  return success();
}
