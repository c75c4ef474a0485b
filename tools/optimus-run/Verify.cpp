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
#include "TuningFile.h"
#include "optimus-runtime/Dataset.h"
#include "optimus-runtime/Session.h"
#include "optimus-support/ElementType.h"
#include "optimus-support/Program.h"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>

using namespace optrt;

namespace optimus_run {
namespace {

/// With how many bits of precision a library's narrowest products compute. TF32
/// is of GPUs' f32: a processor's library is what it is compared with.
struct Precision {
  Precision(const ModelLibrary &library, const VerifyOptions &options) {
    const Manifest &manifest = library.manifest();
    bits = optimus_support::precisionBits(manifest.precision);
    computing = options.ranks.computing;
    computing.tf32 &= manifest.target == "cuda";
    isTF32 = computing.tf32 && manifest.precision == ElementType::F32;
    if (isTF32)
      bits = 11;
  }
  double unit() const { return std::ldexp(1.0, -bits); }

  int bits;
  DeviceOptions computing; ///< as far as it is for this library
  bool isTF32;             ///< products of a program in f32
};

/// What one library makes of the batch.
struct Gradients {
  float loss = 0;
  std::vector<std::vector<float>> tensors; ///< one a parameter
};

/// The buffers of a library's gradients, in the order of their parameters.
StatusOr<std::vector<int64_t>> findGradients(const ModelLibrary &library) {
  const Manifest &manifest = library.manifest();
  std::vector<int64_t> gradients;
  for (int64_t param : manifest.buffersOfLifetime(Lifetime::Parameter)) {
    std::optional<int64_t> gradient = manifest.findRole("grad", param);
    if (!gradient)
      return invalidArgument(
          concat("`", library.path(), "` has no gradient of ",
                 manifest.buffers[param].name, " to compare"));
    gradients.push_back(*gradient);
  }
  return gradients;
}

/// One library's results for the batch, and its effect on rounding errors.
struct Computed {
  Gradients exact;
  /// With the parameters moved by one unit in the last place, of as many as
  /// the program's precision has.
  Gradients perturbed;
  int64_t numPerturbed = 0;
};

StatusOr<Gradients> runGradStep(Session &session, const Dataset &data,
                                std::span<const int64_t> gradients,
                                const VerifyOptions &options) {
  const Manifest &manifest = session.manifest();
  OPTRT_RETURN_IF_ERROR(session.fill(
      [&](int64_t begin, int64_t count, int32_t *tokens, int32_t *targets) {
        return data.fillBatch(options.stepIndex * manifest.batch,
                              manifest.batch, begin, count, tokens, targets);
      }));
  OPTRT_ASSIGN_OR_RETURN(StepOutputs outputs, session.run("grad_step"));
  OPTRT_RETURN_IF_ERROR(session.checkTraffic("grad_step"));
  Gradients result;
  result.loss = static_cast<float>(outputs.meanLoss());
  for (int64_t gradient : gradients) {
    OPTRT_ASSIGN_OR_RETURN(std::vector<float> whole,
                           session.gather(manifest.buffers[gradient].name));
    result.tensors.push_back(std::move(whole));
  }
  return result;
}

StatusOr<Computed> computeGradients(const ModelLibrary &library,
                                    const VerifyOptions &options) {
  const Manifest &manifest = library.manifest();
  DataOrder order = options.order == "sequential" ? DataOrder::Sequential
                                                  : DataOrder::Shuffled;
  OPTRT_RETURN_IF_ERROR(options.data.checkDocumentEnd(library));
  OPTRT_ASSIGN_OR_RETURN(std::unique_ptr<Dataset> data,
                         Dataset::open(options.data.path, manifest.sequence,
                                       manifest.vocabulary, order, options.seed,
                                       manifest.masked,
                                       options.data.tokenType));
  World world = createLocalWorld();
  const Precision precision(library, options);
  SessionOptions chosen = sessionOptions({"grad_step"}, options.ranks);
  chosen.computing = precision.computing;
  chosen.documentEnd = options.data.documentEnd;
  OPTRT_ASSIGN_OR_RETURN(
      std::unique_ptr<Session> session,
      createSession(library, world, std::move(chosen),
                    manifest.target == "cuda" ? options.ranks.tune : ""));
  if (options.load.empty()) {
    OPTRT_RETURN_IF_ERROR(session->initialize(options.seed));
  } else {
    OPTRT_ASSIGN_OR_RETURN(std::unique_ptr<Checkpoint> checkpoint,
                           Checkpoint::open(options.load));
    OPTRT_RETURN_IF_ERROR(checkpoint->checkParameters(expectedModel(manifest)));
    OPTRT_RETURN_IF_ERROR(session->loadParameters(*checkpoint, options.seed));
  }
  // Dropout is the same as in a training step on this batch.
  session->setRandom(options.seed, options.stepIndex + 1);
  OPTRT_ASSIGN_OR_RETURN(std::vector<int64_t> gradients,
                         findGradients(library));
  Computed result;
  OPTRT_ASSIGN_OR_RETURN(result.exact,
                         runGradStep(*session, *data, gradients, options));
  OPTRT_ASSIGN_OR_RETURN(result.numPerturbed,
                         session->perturb(options.seed, precision.bits));
  OPTRT_ASSIGN_OR_RETURN(result.perturbed,
                         runGradStep(*session, *data, gradients, options));
  return result;
}

int64_t numProducts(const ModelLibrary &library) {
  using namespace optimus_support::program;
  const auto &commands =
      findFunction(tableOf(library.target(), /*rank=*/0), "grad_step")
          ->commands;
  return std::count_if(
      commands.begin(), commands.end(),
      [](const auto &command) { return command->action.AsGemm(); });
}

/// What the compiler derived of an argument's rounding errors. Of TF32 it knows
/// nothing: that rounds both factors of each product to so many bits.
StatusOr<double> roundingOf(const ModelLibrary &library,
                            std::optional<int64_t> buffer,
                            const Precision &precision) {
  const Function &function = *library.manifest().findFunction("grad_step");
  const Arg *arg = buffer ? function.findArg(*buffer) : nullptr;
  if (arg && arg->rounding)
    return precision.isTF32 ? std::hypot(*arg->rounding,
                                         std::sqrt(2.0 * numProducts(library)) *
                                             precision.unit() / kUnitRoundoff)
                            : *arg->rounding;
  return invalidArgument(
      concat("`", library.path(),
             "` does not say how far its gradients may be "
             "off by rounding; compile it again with the optimus-compile that "
             "came with this program"));
}

/// The loss, as a tensor of one element, and all gradients.
StatusOr<std::vector<ComputedTensor>> listTensors(const ModelLibrary &library,
                                                  const Computed &computed,
                                                  const Precision &precision) {
  std::vector<ComputedTensor> tensors;
  const double unit = precision.unit();
  OPTRT_ASSIGN_OR_RETURN(
      double loss,
      roundingOf(library, library.manifest().findRole("loss_sum"), precision));
  tensors.push_back({{&computed.exact.loss, 1},
                     {&computed.perturbed.loss, 1},
                     loss,
                     computed.numPerturbed,
                     unit});
  OPTRT_ASSIGN_OR_RETURN(std::vector<int64_t> gradients,
                         findGradients(library));
  for (std::size_t p = 0; p != gradients.size(); ++p) {
    OPTRT_ASSIGN_OR_RETURN(double rounding,
                           roundingOf(library, gradients[p], precision));
    tensors.push_back({computed.exact.tensors[p], computed.perturbed.tensors[p],
                       rounding, computed.numPerturbed, unit});
  }
  return tensors;
}

/// How the functions of two libraries differ, which is why gradients may; empty
/// if they do not, or one does not say.
std::string describeFunctions(const ModelLibrary &a, const ModelLibrary &b) {
  const Manifest &first = a.manifest(), &second = b.manifest();
  if (!areComparable(first.function, second.function))
    return "";
  std::string difference =
      describeDifference(*first.function, concat("`", a.path(), "`"),
                         *second.function, concat("`", b.path(), "`"));
  return difference.empty() ? "" : "they are different models: " + difference;
}

Status checkComparable(const ModelLibrary &a, const ModelLibrary &b) {
  const Manifest &first = a.manifest(), &second = b.manifest();
  auto differ = [&](const char *what, const auto &one, const auto &other) {
    return invalidArgument(concat("cannot compare `", a.path(), "` with `",
                                  b.path(), "`: ", what, " ", one, " and ",
                                  other));
  };
  if (expectedModel(first).params != expectedModel(second).params)
    return differ("they are different models, with hashes", first.modelHash,
                  second.modelHash)
        .withAdvice("compile both from programs with the same parameters");
  if (first.batch != second.batch)
    return differ("their batches have", first.batch, second.batch);
  if (first.sequence != second.sequence)
    return differ("their sequences have", first.sequence, second.sequence);
  return okStatus();
}

void printReport(const VerifyOptions &options, float lossA, float lossB,
                 std::span<const TensorComparison> results) {
  std::cout << "a: " << options.first << "\nb: " << options.second << "\n\n";
  Table table(
      {"tensor", "max |a-b|", "|a-b|", "bound", "of bound", "amplified", ""},
      {6});
  for (const TensorComparison &result : results)
    table.addRow({result.name, format("%.2e", result.maxDifference),
                  format("%.2e", result.relativeDifference),
                  format("%.2e", result.bound),
                  format("%.3f", result.ofBound()),
                  format("%.1f", result.amplification),
                  result.same ? "same" : "DIFFERS"});
  table.print(std::cout);
  std::cout << format("\nloss of a %.8f, of b %.8f\n", lossA, lossB)
            << "|a-b| and bound are relative to the larger of |a| and |b|\n";
}

void printJson(float lossA, float lossB, bool same,
               std::span<const TensorComparison> results) {
  nlohmann::ordered_json report;
  report["same"] = same;
  report["loss_a"] = lossA;
  report["loss_b"] = lossB;
  report["tensors"] = nlohmann::ordered_json::array();
  for (const TensorComparison &result : results)
    report["tensors"].push_back(
        {{"name", result.name},
         {"max_difference", result.maxDifference},
         {"relative_difference", result.relativeDifference},
         {"bound", result.bound},
         {"of_bound", result.ofBound()},
         {"amplification", result.amplification},
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
  if ((options.ranks.computing.tf32 || !options.ranks.tune.empty()) &&
      first->manifest().target != "cuda" && second->manifest().target != "cuda")
    return invalidArgument(concat("--tf32 and --tune are for libraries for "
                                  "GPUs, and neither `",
                                  first->path(), "` nor `", second->path(),
                                  "` is one"));
  StatusOr<Computed> a = computeGradients(*first, options);
  if (!a.ok())
    return a.status().withContext(options.first);
  StatusOr<Computed> b = computeGradients(*second, options);
  if (!b.ok())
    return b.status().withContext(options.second);

  OPTRT_ASSIGN_OR_RETURN(std::vector<ComputedTensor> tensorsA,
                         listTensors(*first, *a, Precision(*first, options)));
  OPTRT_ASSIGN_OR_RETURN(std::vector<ComputedTensor> tensorsB,
                         listTensors(*second, *b, Precision(*second, options)));
  // They list their parameters in one order: checkComparable() has seen to it.
  TensorPair loss{"loss", tensorsA[0], tensorsB[0]};
  std::vector<TensorPair> gradients;
  std::vector<int64_t> parameters =
      first->manifest().buffersOfLifetime(Lifetime::Parameter);
  for (std::size_t p = 0; p != parameters.size(); ++p)
    gradients.push_back({first->manifest().buffers[parameters[p]].name,
                         tensorsA[p + 1], tensorsB[p + 1]});
  std::vector<TensorComparison> results = compareTensors({&loss, 1});
  for (TensorComparison &result : compareTensors(gradients))
    results.push_back(std::move(result));
  auto differing =
      std::find_if(results.begin(), results.end(),
                   [](const TensorComparison &result) { return !result.same; });
  bool same = differing == results.end();
  if (options.json)
    printJson(a->exact.loss, b->exact.loss, same, results);
  else
    printReport(options, a->exact.loss, b->exact.loss, results);
  const std::string functions = describeFunctions(*first, *second);
  if (same && !functions.empty())
    std::cerr << "optimus-run: warning: the libraries agree on this batch, and "
              << functions << "\n";
  if (same)
    return okStatus();
  return invalidArgument(
             concat("the libraries disagree: `", differing->name,
                    "` is the first of ",
                    std::count_if(results.begin(), results.end(),
                                  [](const TensorComparison &result) {
                                    return !result.same;
                                  }),
                    " tensors to differ by more than rounding, by ",
                    format("%.2e", differing->relativeDifference), " where ",
                    format("%.2e", differing->bound), " is allowed"))
      .withAdvice(functions);
}

} // namespace optimus_run
