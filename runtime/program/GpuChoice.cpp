//===- GpuChoice.cpp - Which GPU each rank computes on --------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GpuChoice.h"

#include <cstdlib>
#include <sstream>

namespace optrt {

/// For the message where ranks have too few.
static Status tooFew(int ranks, size_t gpus) {
  const char *chosen = std::getenv("CUDA_VISIBLE_DEVICES");
  const std::string variable =
      chosen ? concat("CUDA_VISIBLE_DEVICES=", chosen, " shows")
             : std::string("the driver shows");
  return invalidArgument(concat(
      "expected a GPU for each of the ", ranks,
      " ranks on this host; found that ", variable, " ", gpus,
      "; start at most ", gpus,
      " here, let them see more GPUs, or use --backend local, mpi or tcp, "
      "whose ranks may share one"));
}

StatusOr<std::vector<int>> chooseGpus(ControlPlane &control,
                                      std::span<const std::string> visible) {
  std::string own;
  for (const std::string &gpu : visible)
    own += (own.empty() ? "" : ",") + gpu;
  int place = 0, sharing = 0, rank = 0;
  for (const std::string &text :
       control.allGather(concat(control.numLocalRanks(), " ", own))) {
    int ranks = 0;
    std::string gpus;
    std::istringstream(text) >> ranks >> gpus;
    if (gpus == own)
      (rank < control.firstRank() ? place : sharing) += ranks;
    rank += ranks;
  }
  sharing += place;
  OPTRT_RETURN_IF_ERROR(control.agree(size_t(sharing) <= visible.size()
                                          ? okStatus()
                                          : tooFew(sharing, visible.size())));
  std::vector<int> chosen;
  for (int i = 0; i != control.numLocalRanks(); ++i)
    chosen.push_back(place + i);
  return chosen;
}

} // namespace optrt
