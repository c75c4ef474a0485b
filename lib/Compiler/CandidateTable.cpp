//===- CandidateTable.cpp - Candidates, for people --------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CandidateTable.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace mlir::optimus;
using llvm::formatv;

void mlir::optimus::printCandidates(std::vector<Candidate> candidates,
                                    const std::optional<Candidate> &chosen,
                                    std::optional<int64_t> budget,
                                    llvm::raw_ostream &out) {
  auto getKey = [](const Candidate &candidate) {
    return std::tuple(!candidate.problem.empty(), !candidate.ruledOut.empty(),
                      candidate.stepMs);
  };
  llvm::stable_sort(candidates, [&](const Candidate &a, const Candidate &b) {
    return getKey(a) < getKey(b);
  });
  constexpr double mebi = 1048576;
  size_t width = 12;
  for (const Candidate &candidate : candidates)
    width = std::max(width, candidate.strategy.size());
  // A format has a fixed one.
  auto pad = [&](StringRef strategy) {
    return strategy.str() + std::string(width - strategy.size(), ' ');
  };
  out << formatv("  {0,-22} {1} {2,-10} {3,12} {4,12} {5,12} {6,12}\n", "mesh",
                 pad("strategy"), "recompute", "step, ms", "exposed, ms",
                 "moved, MiB", "rank, MiB");
  for (const Candidate &candidate : candidates) {
    bool isChosen = chosen && chosen->hasLayoutOf(candidate) &&
                    chosen->recompute == candidate.recompute;
    out << formatv("{0} {1,-22} {2} {3,-10} ", isChosen ? "*" : " ",
                   candidate.mesh.toString(), pad(candidate.strategy),
                   candidate.recompute);
    if (!candidate.isPredicted()) {
      out << candidate.problem << candidate.ruledOut << "\n";
      continue;
    }
    out << formatv(
        "{0,12:f2} {1,12:f2} {2,12:f1} {3,12:f1}{4}{5}{6}\n", candidate.stepMs,
        candidate.exposedMs, candidate.commBytes / mebi,
        candidate.rankBytes / mebi,
        budget && candidate.rankBytes > *budget ? "  over the budget" : "",
        candidate.isEstimated ? "  estimated" : "",
        candidate.offload.empty()
            ? ""
            : "  --offload-window " + std::to_string(candidate.offloadWindow) +
                  " --offload " + candidate.offload);
  }
}

void mlir::optimus::printEntries(ArrayRef<EntryLayout> entries,
                                 llvm::raw_ostream &out) {
  if (entries.empty())
    return;
  out << formatv("  {0,-22} {1,-12} {2,-10} {3,12} {4,12} {5,12}\n", "function",
                 "strategy", "", "call, ms", "", "moved, MiB");
  for (const EntryLayout &entry : entries)
    out << formatv("{0} {1,-22} {2,-12} {3,-10} {4,12:f3} {5,12} {6,12:f3}\n",
                   entry.isChosen ? "*" : " ",
                   stringifyEntryKind(entry.needs.entry), entry.strategy, "",
                   entry.needs.ms, "", double(entry.needs.commBytes) / 1048576);
}

void mlir::optimus::printFinalists(ArrayRef<Finalist> finalists,
                                   llvm::raw_ostream &out) {
  if (finalists.empty())
    return;
  out << formatv("\n  {0,-22} {1,-12} {2,-10} {3,-18} {4,15} {5,13}\n", "mesh",
                 "strategy", "recompute", "on a node", "closed form, ms",
                 "simulated, ms");
  const Finalist *predicted = &finalists.front();
  for (const Finalist &one : finalists) {
    if (one.layout.stepMs < predicted->layout.stepMs)
      predicted = &one;
    out << formatv(
        "{0} {1,-22} {2,-12} {3,-10} {4,-18} {5,15:f2} ",
        &one == &finalists.front() ? "*" : " ", one.layout.mesh.toString(),
        one.layout.strategy, one.layout.recompute,
        one.placement.empty() ? "consecutive ranks"
                              : optimus_simulation::printTile(one.placement),
        one.layout.stepMs);
    if (one.problem.empty())
      out << formatv("{0,13:f2}\n", one.stepMs);
    else
      out << one.problem << "\n";
  }
  const Candidate &chosen = finalists.front().layout;
  if (llvm::all_of(finalists, [&](const Finalist &one) {
        return one.layout.hasLayoutOf(chosen);
      }))
    return;
  out << "decided by simulation: ";
  if (predicted->layout.hasLayoutOf(chosen))
    out << "the closed form's choice\n";
  else
    out << formatv("the closed form's choice is --mesh {0} --strategy {1}\n",
                   predicted->layout.mesh.toString(),
                   predicted->layout.strategy);
}
