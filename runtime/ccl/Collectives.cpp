//===- Collectives.cpp - What back-ends have in common --------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-runtime/Collectives.h"

#include "Agreement.h"
#include "optimus-runtime/QueuedCollectives.h"
#include "optimus-support/ElementType.h"

namespace optrt {

std::string_view collectiveName(int32_t kind) {
  switch (kind) {
  case OPTRT_BROADCAST:
    return "broadcast";
  case OPTRT_REDUCE:
    return "reduce";
  case OPTRT_ALL_REDUCE:
    return "all_reduce";
  case OPTRT_ALL_GATHER:
    return "all_gather";
  case OPTRT_REDUCE_SCATTER:
    return "reduce_scatter";
  case OPTRT_ALL_TO_ALL:
    return "all_to_all";
  case OPTRT_SEND:
    return "send";
  case OPTRT_RECEIVE:
    return "receive";
  }
  return "unknown";
}

Status Communicator::tooManyInFlight() {
  return internal(concat("starts a collective while ", kMaxInFlight,
                         " others of its group are not waited for"));
}

Status Communicator::notStarted() {
  return internal("is waited for but was not started");
}

StatusOr<std::unique_ptr<QueuedCollectives>> Collectives::connect(int, Device &,
                                                                  double) {
  return internal(concat("the back-end ", name(),
                         " moves memory that the host can address"));
}

Status checkAgreement(const ControlPlane &control, const StartedCollective &own,
                      const StartedCollective &other) {
  const bool areEnds = isMessage(own.desc.kind) && isMessage(other.desc.kind) &&
                       own.desc.kind != other.desc.kind;
  const bool areSame = other.id == own.id && other.desc.kind == own.desc.kind &&
                       other.desc.reduction == own.desc.reduction &&
                       other.desc.root == own.desc.root;
  if ((areEnds || areSame) && other.desc.type == own.desc.type &&
      other.desc.outer == own.desc.outer && other.desc.inner == own.desc.inner)
    return okStatus();
  auto describe = [&](const StartedCollective &one) {
    return concat(
        "rank ", one.rank, " runs ", control.nameOf(one.rank, one.id), ", ",
        collectiveName(one.desc.kind), " from or to ", one.desc.root, " of ",
        one.desc.outer, "x", one.desc.inner, " of ",
        optimus_support::toString(optimus_support::ElementType(one.desc.type)));
  };
  return internal(
      concat("ranks disagree: ", describe(own), " where ", describe(other)));
}

} // namespace optrt
