//===- CollectiveKinds.h - Which collectives are tested ---------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CCL_UNITTESTS_COLLECTIVEKINDS_H
#define OPTIMUS_RUNTIME_CCL_UNITTESTS_COLLECTIVEKINDS_H

#include "optimus-runtime/CommandDescriptors.h"
#include "optimus-support/ElementType.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace optrt {

struct Kind {
  std::string name;
  int32_t kind, reduction;
  int32_t type = OPTRT_F32;
};

/// These and, but for maxima, the same in bf16.
inline std::vector<Kind> withNarrow(std::vector<Kind> kinds) {
  for (std::size_t i = 0, count = kinds.size(); i != count; ++i) {
    Kind narrow = kinds[i];
    if (narrow.reduction != OPTRT_SUM)
      continue;
    narrow.name += "BF16";
    narrow.type = OPTRT_BF16;
    kinds.push_back(narrow);
  }
  return kinds;
}

inline std::vector<Kind> kindsInPlace() {
  std::vector<Kind> kinds =
      withNarrow({{"Broadcast", OPTRT_BROADCAST, OPTRT_SUM},
                  {"Reduce", OPTRT_REDUCE, OPTRT_SUM},
                  {"ReduceMax", OPTRT_REDUCE, OPTRT_MAX},
                  {"AllReduce", OPTRT_ALL_REDUCE, OPTRT_SUM},
                  {"AllReduceMax", OPTRT_ALL_REDUCE, OPTRT_MAX}});
  kinds.push_back(
      {"AllReduceMaxBF16", OPTRT_ALL_REDUCE, OPTRT_MAX, OPTRT_BF16});
  kinds.push_back({"AllReduceF16", OPTRT_ALL_REDUCE, OPTRT_SUM, OPTRT_F16});
  return kinds;
}

inline std::vector<Kind> allKinds() {
  std::vector<Kind> kinds = kindsInPlace();
  for (const Kind &kind :
       withNarrow({{"AllGather", OPTRT_ALL_GATHER, OPTRT_SUM},
                   {"ReduceScatter", OPTRT_REDUCE_SCATTER, OPTRT_SUM},
                   {"ReduceScatterMax", OPTRT_REDUCE_SCATTER, OPTRT_MAX}}))
    kinds.push_back(kind);
  return kinds;
}

/// What adds nothing moves elements of any size.
inline std::vector<Kind> kindsOfAnyType() {
  using optimus_support::ElementType;
  auto move = [&](const char *name, int32_t kind, ElementType type) {
    return Kind{name, kind, OPTRT_SUM, int32_t(type)};
  };
  return {move("BroadcastI64", OPTRT_BROADCAST, ElementType::I64),
          move("BroadcastI8", OPTRT_BROADCAST, ElementType::I8),
          move("AllGatherI32", OPTRT_ALL_GATHER, ElementType::I32),
          move("AllGatherI8", OPTRT_ALL_GATHER, ElementType::I8),
          move("AllToAll", OPTRT_ALL_TO_ALL, ElementType::F32),
          move("AllToAllF64", OPTRT_ALL_TO_ALL, ElementType::F64),
          move("AllToAllI8", OPTRT_ALL_TO_ALL, ElementType::I8)};
}

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CCL_UNITTESTS_COLLECTIVEKINDS_H
