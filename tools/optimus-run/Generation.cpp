//===- Generation.cpp - What generate and score share ---------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Generation.h"

#include "TuningFile.h"
#include "optimus-support/Hash.h"
#include "optimus-support/Program.h"

#include <cstdio>

using namespace optrt;

namespace optimus_run {

Status GenerationPlan::open(const std::string &path, const RankOptions &ranks) {
  OPTRT_ASSIGN_OR_RETURN(library, ranks.openLibrary(path));
  OPTRT_ASSIGN_OR_RETURN(entries,
                         GenerationEntries::find(path, library->manifest()));
  functions = entries.functions();
  return okStatus();
}

double bytesOfDecode(const ModelLibrary &library, const Function &decode,
                     const CacheExtents &cache, int64_t tokens) {
  using namespace optimus_support::program;
  auto bytes = static_cast<double>(cache.bytesPerToken * tokens);
  for (int rank = 0; rank != library.manifest().mesh.numRanks(); ++rank) {
    const auto &function =
        *findFunction(tableOf(library.target(), rank), decode.name);
    for (const auto &command : function.commands)
      if (const GemmT *gemm = command->action.AsGemm())
        bytes += static_cast<double>(
            // Blocks lie without gaps.
            (gemm->blocks != optimus_support::WeightBlocks::None
                 ? gemm->ldb
                 : gemm->n * gemm->k) *
            optimus_support::elementBytes(command->operands[1]->type));
  }
  return bytes;
}

/// A session of the plan's functions, with its parameters. Collective; the root
/// says what is otherwise than the checkpoint's run.
static StatusOr<std::unique_ptr<Session>>
createSession(const GenerationPlan &plan, const GenerationSource &source,
              World &world) {
  const ModelLibrary &library = *plan.library;
  ControlPlane &control = *world.control;
  OPTRT_ASSIGN_OR_RETURN(
      std::unique_ptr<Checkpoint> checkpoint,
      openCheckpoint(control, source.load, source.weights.base));
  const ExpectedModel expected = expectedModel(library.manifest());
  if (checkpoint)
    OPTRT_RETURN_IF_ERROR(control.agree(
        checkpoint->findParameters(expected, source.weights.ignored)));
  OPTRT_ASSIGN_OR_RETURN(
      std::unique_ptr<Session> session,
      optimus_run::createSession(library, world,
                                 sessionOptions(plan.functions, source.ranks),
                                 source.ranks.tune));
  printWarnings(world, *session);
  OPTRT_RETURN_IF_ERROR(
      setParameters(*session, control, checkpoint.get(), source.seed));
  OPTRT_RETURN_IF_ERROR(control.agree(plan.entries.prepare(*session)));
  if (checkpoint && control.isRoot())
    for (const std::string &note : checkpoint->notesOn(expected))
      std::fprintf(stderr, "%s\n", note.c_str());
  return session;
}

std::string toText(std::span<const int32_t> tokens) {
  std::string text;
  for (int32_t token : tokens)
    text.push_back(static_cast<char>(token));
  return text;
}

std::string hashOf(std::span<const GenerationRequest> requests) {
  optimus_support::Hash64 hash;
  auto add = [&](const auto &number) { hash.update(&number, sizeof(number)); };
  auto addAll = [&](std::span<const int32_t> tokens) {
    add(tokens.size());
    for (int32_t token : tokens)
      add(token);
  };
  for (const GenerationRequest &request : requests) {
    add(request.maxTokens);
    add(request.beams);
    add(request.lengthPenalty);
    addAll(request.prompt);
    addAll(request.continuation);
    for (const std::vector<int32_t> &stop : request.stops)
      addAll(stop);
  }
  return optimus_support::hashToHex(hash.digest());
}

Status withGeneration(Status planned, const GenerationPlan &plan,
                      const GenerationSource &source, World &world,
                      const std::function<Status(Session &)> &run) {
  ControlPlane &control = *world.control;
  OPTRT_RETURN_IF_ERROR(control.agreeOnFiles(std::move(planned)));
  const Setting same[] = {{"the hash of all prompts", hashOf(plan.requests)}};
  OPTRT_RETURN_IF_ERROR(control.checkSame(same));
  OPTRT_ASSIGN_OR_RETURN(std::unique_ptr<Session> session,
                         createSession(plan, source, world));
  Status status = run(*session);
  if (!status.ok() && !session->canGoOn())
    return failJob(control, status);
  return status;
}

} // namespace optimus_run
