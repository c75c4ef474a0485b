//===- Forward.cpp - optimus-run forward ----------------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BatchAgreement.h"
#include "Commands.h"
#include "TensorFile.h"
#include "TuningFile.h"
#include "optimus-support/PathUse.h"

#include <algorithm>
#include <cstdio>

using namespace optrt;

namespace optimus_run {
namespace {

/// A function's output, for the windows of some data.
struct Plan {
  std::unique_ptr<ModelLibrary> library;
  const Function *function = nullptr;
  std::unique_ptr<Dataset> data;
  std::optional<int64_t> documentEnd;
  int64_t windows = 0;
  TensorDescription tensor;

  std::size_t bytesOfWindow() const {
    return optimus_support::numElements(tensor.shape) / tensor.shape.front() *
           optimus_support::elementBytes(tensor.type);
  }
};

StatusOr<Plan> makePlan(const ForwardOptions &options) {
  Plan plan;
  OPTRT_RETURN_IF_ERROR(TensorFile::check(options.output));
  std::vector<optimus_support::PathUse> inputs = {
      {"the library", options.library},
      {"--load", options.load, /*isWhole=*/true}};
  addInputs("--data", options.data.path, inputs);
  const optimus_support::PathUse outputs[] = {{"--output", options.output},
                                              {"--tune", options.ranks.tune}};
  OPTRT_RETURN_IF_ERROR(optimus_support::checkOutputsApart(inputs, outputs));
  OPTRT_ASSIGN_OR_RETURN(plan.library,
                         options.ranks.openLibrary(options.library));
  const Manifest &manifest = plan.library->manifest();
  OPTRT_ASSIGN_OR_RETURN(plan.function,
                         manifest.findEntry(options.library, EntryKind::Forward,
                                            options.function,
                                            "--function names one"));
  int64_t output = *manifest.findForwardOutput(*plan.function);
  if (!options.result.empty()) {
    OPTRT_ASSIGN_OR_RETURN(
        output,
        manifest.findOutput(options.library, *plan.function, options.result));
  }
  const Buffer &buffer = manifest.buffers[output];
  if (buffer.layout.shape.empty() ||
      buffer.layout.shape.front() != manifest.batch)
    return invalidArgument(
        concat("`", options.library,
               "`: expected an output with a row for "
               "each of ",
               manifest.batch, " sequences, found ", buffer.name, " of shape ",
               optimus_support::shapeToString(buffer.layout.shape)));
  // Tokens are as the file has them: nothing is hidden.
  OPTRT_ASSIGN_OR_RETURN(
      plan.data,
      Dataset::open(options.data.path, manifest.sequence, manifest.vocabulary,
                    DataOrder::Sequential,
                    /*seed=*/0, /*masked=*/std::nullopt,
                    options.data.tokenType));
  OPTRT_ASSIGN_OR_RETURN(plan.documentEnd, options.data.findDocumentEnd(
                                               *plan.library, *plan.data));
  plan.windows = plan.data->numWindows();
  if (options.windows > plan.windows)
    return invalidArgument(
        concat("--windows ", options.windows, ": ", options.data.path, " has ",
               plan.windows, " windows of ", manifest.sequence, " tokens"));
  if (options.windows > 0)
    plan.windows = options.windows;
  plan.tensor = {buffer.name, buffer.type, buffer.layout.shape};
  plan.tensor.shape.front() = plan.windows;
  return plan;
}

/// Computes the batches, and writes what each has of the windows; `file` is the
/// root's.
Status writeAll(const Plan &plan, Session &session, ControlPlane &control,
                TensorFile *file) {
  const int64_t batch = session.manifest().batch;
  const std::string &name = plan.function->name;
  BatchAgreement agreement(session, control, *plan.data);
  HostBatch rows;
  for (int64_t begin = 0; begin < plan.windows; begin += batch) {
    const int64_t index = begin / batch;
    Status own = agreement.read(
        {[&](int64_t first, int64_t count, int32_t *tokens, int32_t *targets,
             uint64_t *hashes) {
           return plan.data->fillEvalBatch(index, batch, first, count, tokens,
                                           targets, hashes);
         },
         [&](int64_t row) {
           return plan.data->windowOfEvalRow(index, batch, row);
         }},
        rows);
    if (own.ok())
      own = session.fill(rows);
    OPTRT_RETURN_IF_ERROR(agreement.agree(own));
    OPTRT_RETURN_IF_ERROR(session.run(name).status());
    // Every call runs the same commands: the first stands for all.
    if (index == 0)
      OPTRT_RETURN_IF_ERROR(session.checkTraffic(name));
    // Rows of the last batch may be padding.
    std::size_t left =
        std::min(batch, plan.windows - begin) * plan.bytesOfWindow();
    own = session.streamOutput(name, plan.tensor.name,
                               [&](std::span<const std::byte> piece) -> Status {
                                 piece =
                                     piece.first(std::min(left, piece.size()));
                                 left -= piece.size();
                                 return file->append(piece);
                               });
    OPTRT_RETURN_IF_ERROR(control.agree(own));
  }
  return control.agree(file ? file->commit() : okStatus());
}

} // namespace

Status forward(const ForwardOptions &options, World &world) {
  ControlPlane &control = *world.control;
  Plan plan;
  auto prepare = [&]() -> Status {
    OPTRT_ASSIGN_OR_RETURN(plan, makePlan(options));
    return okStatus();
  };
  OPTRT_RETURN_IF_ERROR(control.agreeOnFiles(prepare()));
  OPTRT_ASSIGN_OR_RETURN(
      std::unique_ptr<Checkpoint> checkpoint,
      openCheckpoint(control, options.load, options.weights.base));
  OPTRT_RETURN_IF_ERROR(control.agree(
      checkTokenizer(checkpoint.get(), options.load, *plan.data)));
  const ExpectedModel expected = expectedModel(plan.library->manifest());
  if (checkpoint)
    OPTRT_RETURN_IF_ERROR(control.agree(
        checkpoint->findParameters(expected, options.weights.ignored)));
  SessionOptions chosen = sessionOptions({plan.function->name}, options.ranks);
  chosen.documentEnd = plan.documentEnd;
  OPTRT_ASSIGN_OR_RETURN(std::unique_ptr<Session> session,
                         createSession(*plan.library, world, std::move(chosen),
                                       options.ranks.tune));
  printWarnings(world, *session);
  OPTRT_RETURN_IF_ERROR(
      setParameters(*session, control, checkpoint.get(), options.seed));
  std::optional<TensorFile> file;
  auto open = [&]() -> Status {
    if (control.isRoot()) {
      OPTRT_ASSIGN_OR_RETURN(file,
                             TensorFile::open(options.output, plan.tensor));
    }
    return okStatus();
  };
  OPTRT_RETURN_IF_ERROR(control.agree(open()));
  Status written = writeAll(plan, *session, control, file ? &*file : nullptr);
  if (!written.ok())
    return session->canGoOn() ? written : failJob(control, written);
  if (!control.isRoot())
    return okStatus();
  printNotes(checkpoint.get(), expected, options.seed);
  std::printf("%s of %lld windows, %s of shape %s, in %s\n",
              plan.tensor.name.c_str(), static_cast<long long>(plan.windows),
              std::string(toString(plan.tensor.type)).c_str(),
              optimus_support::shapeToString(plan.tensor.shape).c_str(),
              options.output.c_str());
  return okStatus();
}

} // namespace optimus_run
