//===- Verify.cpp - optimus-run verify ------------------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "Format.h"
#include "GradientComparison.h"
#include "optimus-runtime/Dataset.h"
#include "optimus-runtime/Session.h"

#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>

using namespace optrt;

namespace optimus_run {
namespace {

/// What one library makes of the batch.
struct Gradients {
  double loss = 0;
  std::vector<std::vector<float>> tensors; ///< one a parameter
};

StatusOr<Gradients> computeGradients(const ModelLibrary &library,
                                     const VerifyOptions &options) {
  const Manifest &manifest = library.manifest();
  DataOrder order = options.order == "sequential" ? DataOrder::Sequential
                                                  : DataOrder::Shuffled;
  OPTRT_ASSIGN_OR_RETURN(std::unique_ptr<Dataset> data,
                         Dataset::open(options.data, manifest.sequence,
                                       manifest.vocabulary, order, options.seed,
                                       manifest.masked));
  std::unique_ptr<World> world = createLocalWorld();
  OPTRT_ASSIGN_OR_RETURN(
      std::unique_ptr<Session> session,
      Session::create(library, *world,
                      sessionOptions({"grad_step"}, options.ranks)));
  if (options.load.empty()) {
    OPTRT_RETURN_IF_ERROR(session->initialize(options.seed));
  } else {
    OPTRT_ASSIGN_OR_RETURN(std::unique_ptr<Checkpoint> checkpoint,
                           Checkpoint::open(options.load));
    OPTRT_RETURN_IF_ERROR(checkpoint->checkModel(manifest.modelHash,
                                                 tensorInfos(manifest),
                                                 /*states=*/{}));
    OPTRT_RETURN_IF_ERROR(session->load(*checkpoint));
  }
  // What is dropped out is what a training step drops that reads this batch.
  session->setRandom(options.seed, options.stepIndex + 1);
  OPTRT_ASSIGN_OR_RETURN(
      StepOutputs outputs,
      session->run("grad_step", [&](int64_t begin, int64_t count,
                                    int32_t *tokens, int32_t *targets) {
        data->fillBatch(options.stepIndex, manifest.batch, begin, count, tokens,
                        targets);
      }));
  OPTRT_RETURN_IF_ERROR(session->checkTraffic("grad_step"));
  Gradients result;
  result.loss = outputs.meanLoss();
  for (std::size_t p = 0; p != manifest.params.size(); ++p) {
    OPTRT_ASSIGN_OR_RETURN(std::vector<float> whole,
                           session->gatherGradient(static_cast<int64_t>(p)));
    result.tensors.push_back(std::move(whole));
  }
  return result;
}

Status checkComparable(const ModelLibrary &a, const ModelLibrary &b) {
  const Manifest &first = a.manifest(), &second = b.manifest();
  auto differ = [&](const char *what, const auto &one, const auto &other) {
    return invalidArgument(concat("cannot compare `", a.path(), "` with `",
                                  b.path(), "`: ", what, " ", one, " and ",
                                  other));
  };
  if (first.modelHash != second.modelHash)
    return differ("they are different models, with hashes", first.modelHash,
                  second.modelHash);
  if (first.batch != second.batch)
    return differ("their batches have", first.batch, second.batch);
  if (first.sequence != second.sequence)
    return differ("their sequences have", first.sequence, second.sequence);
  return okStatus();
}

void printReport(const VerifyOptions &options, const Gradients &a,
                 const Gradients &b,
                 std::span<const TensorComparison> results) {
  std::cout << "a: " << options.first << "\nb: " << options.second << "\n\n";
  Table table({"tensor", "max |a-b|", "|a-b| / |a|", "bound", ""}, {4});
  for (const TensorComparison &result : results)
    table.addRow({result.name, format("%.2e", result.maxDifference),
                  format("%.2e", result.relativeDifference),
                  format("%.2e", result.bound),
                  result.same ? "same" : "DIFFERS"});
  table.print(std::cout);
  std::cout << format("\nloss of a %.8f, of b %.8f\n", a.loss, b.loss);
}

void printJson(const Gradients &a, const Gradients &b, bool same,
               std::span<const TensorComparison> results) {
  nlohmann::ordered_json report;
  report["same"] = same;
  report["loss_a"] = a.loss;
  report["loss_b"] = b.loss;
  report["tensors"] = nlohmann::ordered_json::array();
  for (const TensorComparison &result : results)
    report["tensors"].push_back(
        {{"name", result.name},
         {"max_difference", result.maxDifference},
         {"relative_difference", result.relativeDifference},
         {"bound", result.bound},
         {"same", result.same}});
  std::cout << report.dump(2) << '\n';
}

} // namespace

Status verify(const VerifyOptions &options) {
  OPTRT_ASSIGN_OR_RETURN(std::unique_ptr<ModelLibrary> first,
                         ModelLibrary::open(options.first));
  OPTRT_ASSIGN_OR_RETURN(std::unique_ptr<ModelLibrary> second,
                         ModelLibrary::open(options.second));
  OPTRT_RETURN_IF_ERROR(checkComparable(*first, *second));
  StatusOr<Gradients> a = computeGradients(*first, options);
  if (!a.ok())
    return a.status().withContext(options.first);
  StatusOr<Gradients> b = computeGradients(*second, options);
  if (!b.ok())
    return b.status().withContext(options.second);

  // The loss is compared like a tensor of one element.
  const float lossA = static_cast<float>(a->loss);
  const float lossB = static_cast<float>(b->loss);
  double bound = roundingBound(first->manifest());
  std::vector<TensorPair> pairs;
  for (std::size_t p = 0; p != a->tensors.size(); ++p) {
    // Libraries of one model list its parameters in one order: the hash says.
    pairs.push_back(
        {first->manifest().params[p].name, a->tensors[p], b->tensors[p]});
  }
  TensorPair lossPair{"loss", {&lossA, 1}, {&lossB, 1}};
  std::vector<TensorComparison> results = compareTensors({&lossPair, 1}, bound);
  for (TensorComparison &result : compareTensors(pairs, bound))
    results.push_back(std::move(result));
  auto differing =
      std::find_if(results.begin(), results.end(),
                   [](const TensorComparison &result) { return !result.same; });
  bool same = differing == results.end();
  if (options.json)
    printJson(*a, *b, same, results);
  else
    printReport(options, *a, *b, results);
  if (same)
    return okStatus();
  return invalidArgument(
      concat("the libraries disagree: `", differing->name, "` is the first of ",
             std::count_if(
                 results.begin(), results.end(),
                 [](const TensorComparison &result) { return !result.same; }),
             " tensors to differ by more than rounding, by ",
             format("%.2e", differing->relativeDifference), " where ",
             format("%.2e", differing->bound), " is allowed"));
}

} // namespace optimus_run
