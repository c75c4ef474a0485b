//===- SessionTuning.cpp - Products that are tuned before the first step --===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LocalRank.h"
#include "optimus-runtime/RankTeam.h"

namespace optrt {

/// One rank of this process after the other: they may share a GPU.
Status Session::tuneOwn(TunedProducts &tuned) {
  for (std::size_t turn = 0; turn != ranks.size(); ++turn)
    OPTRT_RETURN_IF_ERROR(team->run([&](int i) -> Status {
      if (static_cast<std::size_t>(i) != turn)
        return okStatus();
      std::vector<ProductCall> products;
      for (const std::optional<BoundProgram> &program : ranks[i]->programs)
        if (program)
          for (const ProductCall &product : program->products())
            products.push_back(product);
      return ranks[i]->context.device->tune(products, tuned);
    }));
  return okStatus();
}

/// Processes take turns, too, so that each product is tried once in a job and
/// all ranks compute it alike.
Status Session::tune(Tuning &tuning) {
  StatusOr<std::string> machine = ranks[0]->context.device->tuningMachine();
  OPTRT_RETURN_IF_ERROR(control.agree(machine.status()));
  const Setting same[] = {{"the GPU that --tune is for", *machine}};
  OPTRT_RETURN_IF_ERROR(control.checkSame(same));
  if (tuning.machine != *machine)
    tuning = {*machine, {}};
  const int own = control.firstRank() / control.numLocalRanks();
  auto take = [&](int process) -> Status {
    const std::vector<std::string> texts =
        control.allGather(process == own ? tuning.toJson() : "");
    OPTRT_ASSIGN_OR_RETURN(tuning, Tuning::parse(texts[process]));
    return okStatus();
  };
  OPTRT_RETURN_IF_ERROR(take(0));
  const int numProcesses = control.size() / control.numLocalRanks();
  for (int process = 0; process != numProcesses; ++process) {
    OPTRT_RETURN_IF_ERROR(control.agree(
        process == own ? tuneOwn(tuning.products).withContext("--tune")
                       : okStatus()));
    OPTRT_RETURN_IF_ERROR(take(process));
  }
  return okStatus();
}

} // namespace optrt
