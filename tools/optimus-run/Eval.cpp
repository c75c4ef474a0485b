//===- Eval.cpp - optimus-run eval ----------------------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BatchAgreement.h"
#include "Commands.h"
#include "Evaluation.h"
#include "TuningFile.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

using namespace optrt;

namespace optimus_run {

StatusOr<Evaluation> evaluate(Session &session, ControlPlane &control,
                              const Dataset &data, const Function &function) {
  int64_t batch = session.manifest().batch;
  double lossSum = 0, realCount = 0;
  BatchAgreement agreement(session, control, data);
  HostBatch rows;
  for (int64_t index = 0; index != data.numEvalBatches(batch); ++index) {
    Status own = agreement.read(
        {[&](int64_t begin, int64_t count, int32_t *tokens, int32_t *targets,
             uint64_t *hashes) {
           return data.fillEvalBatch(index, batch, begin, count, tokens,
                                     targets, hashes);
         },
         [&](int64_t row) { return data.windowOfEvalRow(index, batch, row); }},
        rows);
    if (own.ok())
      own = session.fill(rows);
    OPTRT_RETURN_IF_ERROR(agreement.agree(own));
    OPTRT_ASSIGN_OR_RETURN(StepOutputs outputs, session.run(function.name));
    // Every call runs the same commands: the first stands for all.
    if (index == 0)
      OPTRT_RETURN_IF_ERROR(session.checkTraffic(function.name));
    lossSum += outputs.lossSum();
    realCount += outputs.realCount();
  }
  return Evaluation{lossSum / std::max(realCount, 1.0),
                    static_cast<int64_t>(realCount)};
}

Status eval(const EvalOptions &options, World &world) {
  ControlPlane &control = *world.control;
  std::unique_ptr<ModelLibrary> library;
  const Function *function = nullptr;
  std::unique_ptr<Dataset> data;
  std::optional<int64_t> documentEnd;
  auto open = [&]() -> Status {
    OPTRT_ASSIGN_OR_RETURN(library, options.ranks.openLibrary(options.library));
    const Manifest &manifest = library->manifest();
    OPTRT_ASSIGN_OR_RETURN(
        function, manifest.findEntry(options.library, EntryKind::Eval,
                                     options.function, "--function names one"));
    OPTRT_ASSIGN_OR_RETURN(
        data,
        Dataset::open(options.data.path, manifest.sequence, manifest.vocabulary,
                      DataOrder::Sequential, /*seed=*/0, manifest.masked,
                      options.data.tokenType, StoreSplit::HeldOut));
    OPTRT_ASSIGN_OR_RETURN(documentEnd,
                           options.data.findDocumentEnd(*library, *data));
    return okStatus();
  };
  OPTRT_RETURN_IF_ERROR(control.agreeOnFiles(open()));
  OPTRT_ASSIGN_OR_RETURN(
      std::unique_ptr<Checkpoint> checkpoint,
      openCheckpoint(control, options.load, options.weights.base));
  OPTRT_RETURN_IF_ERROR(
      control.agree(checkTokenizer(checkpoint.get(), options.load, *data)));
  const ExpectedModel expected = expectedModel(library->manifest());
  if (checkpoint)
    OPTRT_RETURN_IF_ERROR(control.agree(
        checkpoint->findParameters(expected, options.weights.ignored)));
  SessionOptions chosen = sessionOptions({function->name}, options.ranks);
  chosen.documentEnd = documentEnd;
  OPTRT_ASSIGN_OR_RETURN(
      std::unique_ptr<Session> session,
      createSession(*library, world, std::move(chosen), options.ranks.tune));
  printWarnings(world, *session);
  OPTRT_RETURN_IF_ERROR(
      setParameters(*session, control, checkpoint.get(), options.seed));

  StatusOr<Evaluation> result = evaluate(*session, control, *data, *function);
  if (!result.ok())
    return session->canGoOn() ? result.status()
                              : failJob(control, result.status());
  if (!control.isRoot())
    return okStatus();
  if (options.json) {
    nlohmann::ordered_json line;
    line["loss"] = result->loss;
    line["tokens"] = result->tokens;
    std::printf("%s\n", line.dump().c_str());
  } else {
    printNotes(checkpoint.get(), expected, options.seed);
    std::printf("loss %.6f nats over %lld tokens\n", result->loss,
                static_cast<long long>(result->tokens));
  }
  return okStatus();
}

} // namespace optimus_run
