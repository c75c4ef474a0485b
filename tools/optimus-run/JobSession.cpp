//===- JobSession.cpp - The session of a job, and what is said of it ------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "ProcessEnd.h"

#include "tooling/Placement.h"

#include <cstdio>

using namespace optrt;
using namespace optimus_run;

SessionOptions optimus_run::sessionOptions(std::vector<std::string> functions,
                                           const RankOptions &ranks) {
  SessionOptions options;
  options.functions = std::move(functions);
  options.threadsPerRank = ranks.threadsPerRank;
  options.device = ranks.device;
  options.placement = ranks.placement;
  options.eager = ranks.eager;
  options.nvtx = ranks.nvtx;
  options.computing = ranks.computing;
  options.scratchFolder = ranks.scratchFolder;
  options.timeoutSeconds = ranks.timeoutSeconds;
  // The rank to blame cannot be ended in an orderly way, nor those that wait.
  options.onStall = reportEnd;
  return options;
}

std::string optimus_run::describeStrategy(const Manifest &manifest) {
  // A serial library may have no mesh.
  return manifest.mesh.numAxes() == 0
             ? manifest.strategy
             : manifest.strategy + " on " + manifest.mesh.toString();
}

std::string optimus_run::describeRanks(const World &world,
                                       const Session &session) {
  int threads = session.threadsPerRank(), ranks = world.control->size();
  return concat(ranks, ranks == 1 ? " rank (" : " ranks (",
                world.collectives->name(), "), ", threads,
                threads == 1 ? " thread each" : " threads each");
}

void optimus_run::printWarnings(const World &world, const Session &session) {
  const std::string placement =
      explainPlacement(session.manifest().nodes, *world.control);
  if (!world.control->isRoot())
    return;
  for (const std::string &sentence :
       {session.oversubscription(), session.slowPrecision()})
    if (!sentence.empty())
      std::fprintf(stderr, "optimus-run: warning: %s: steps take longer\n",
                   sentence.c_str());
  for (const std::string &sentence :
       {session.mixedArithmetic(), session.refusedSetting(), placement,
        world.control->size() > 1 ? world.collectives->overlapNotice() : ""})
    if (!sentence.empty())
      std::fprintf(stderr, "optimus-run: warning: %s\n", sentence.c_str());
}

Status optimus_run::setParameters(Session &session, ControlPlane &control,
                                  const Checkpoint *checkpoint, uint64_t seed) {
  return control.agree(checkpoint ? session.loadParameters(*checkpoint, seed)
                                  : session.initialize(seed));
}

void optimus_run::printNotes(const Checkpoint *checkpoint,
                             const ExpectedModel &expected, uint64_t seed) {
  if (!checkpoint)
    std::fprintf(stderr,
                 "optimus-run: warning: without --load parameters are the "
                 "initial ones, of --seed %llu\n",
                 static_cast<unsigned long long>(seed));
  else
    for (const std::string &note : checkpoint->notesOn(expected))
      std::printf("%s\n", note.c_str());
}
