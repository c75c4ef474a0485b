//===- LocalRank.h - One rank of a session ----------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CORE_LOCALRANK_H
#define OPTIMUS_RUNTIME_CORE_LOCALRANK_H

#include "BoundProgram.h"
#include "HostMemory.h"
#include "optimus-runtime/Session.h"
#include "optimus-support/Dropout.h"

#include <array>
#include <map>

namespace optrt {

/// One rank's memory. Everything but the arena lies in `storage`.
struct Session::LocalRank {
  LocalRank(const Mesh &mesh, World &world, int rank,
            std::unique_ptr<Device> device)
      : context(mesh, world, rank, std::move(device)) {}

  Rank context;
  HostMemory storage, arena;
  std::vector<float *> params, grads;
  /// What the optimizer keeps, by kind, one a parameter.
  std::map<ArgKind, std::vector<float *>> states;
  int32_t *tokens = nullptr, *targets = nullptr;
  std::array<int32_t, optimus_support::kNumRandomWords> random{};
  std::array<float, kNumScalars> scalars{};
  std::array<float, kNumOutputs> outputs{};
  std::map<std::string, BoundProgram, std::less<>> programs;
  RankMemory memory;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CORE_LOCALRANK_H
