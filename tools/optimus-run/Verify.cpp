//===- Verify.cpp - optimus-run verify ------------------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BatchAgreement.h"
#include "BlockComparison.h"
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

/// The functions of a library whose results are compared.
struct Compared {
  const Function *grad = nullptr;    ///< or null
  const Function *forward = nullptr; ///< or null

  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const Function *function : {grad, forward})
      if (function)
        names.push_back(function->name);
    return names;
  }
};

/// What both libraries have of gradients and logits.
StatusOr<std::pair<Compared, Compared>> chooseCompared(const ModelLibrary &a,
                                                       const ModelLibrary &b) {
  std::pair<Compared, Compared> chosen;
  auto both = [&](EntryKind kind) {
    return a.manifest().has(kind) && b.manifest().has(kind);
  };
  const bool hasForward = both(EntryKind::Forward);
  const bool hasGrad = both(EntryKind::Grad);
  if (!hasForward && !hasGrad)
    return invalidArgument(
        concat("expected functions of the kind grad or forward in both "
               "libraries; `",
               a.path(), "` has ", a.manifest().describeFunctions(), ", and `",
               b.path(), "` has ", b.manifest().describeFunctions()));
  for (auto [library, compared] :
       {std::pair(&a, &chosen.first), {&b, &chosen.second}}) {
    const Manifest &manifest = library->manifest();
    if (hasGrad) {
      OPTRT_ASSIGN_OR_RETURN(
          compared->grad, manifest.findEntry(library->path(), EntryKind::Grad));
    }
    if (hasForward) {
      OPTRT_ASSIGN_OR_RETURN(
          compared->forward,
          manifest.findEntry(library->path(), EntryKind::Forward));
    }
  }
  return chosen;
}

/// What one library makes of the batch.
struct Results {
  float loss = 0;
  std::vector<std::vector<float>> gradients; ///< one a trained parameter
  std::vector<float> logits;
};

/// The buffers of a library's gradients, in the order of their parameters, of
/// which frozen ones have none.
StatusOr<std::vector<int64_t>> findGradients(const ModelLibrary &library) {
  const Manifest &manifest = library.manifest();
  std::vector<int64_t> gradients;
  for (int64_t param : manifest.buffersOfLifetime(Lifetime::Parameter))
    if (std::optional<int64_t> gradient = manifest.findRole("grad", param))
      gradients.push_back(*gradient);
  if (gradients.empty())
    return invalidArgument(
        concat("`", library.path(), "` has no gradient to compare"));
  return gradients;
}

/// One library's results for the batch, and its effect on rounding errors.
struct Computed {
  Results exact;
  /// With the parameters moved by one unit in the last place, of as many as
  /// the program's precision has.
  Results perturbed;
  int64_t numPerturbed = 0;
  /// Weights of few bits, if generation has them, beside the parameters.
  std::vector<TensorComparison> blocks;
};

StatusOr<Results> runCompared(Session &session, const Dataset &data,
                              const Compared &compared,
                              std::span<const int64_t> gradients,
                              const VerifyOptions &options) {
  const Manifest &manifest = session.manifest();
  const int64_t position = options.stepIndex * manifest.batch;
  HostBatch batch;
  OPTRT_RETURN_IF_ERROR(session.read(
      [&](int64_t begin, int64_t count, int32_t *tokens, int32_t *targets) {
        return data.fillBatch(position, manifest.batch, begin, count, tokens,
                              targets);
      },
      batch, endsOf(data, [&](int64_t row) {
        return data.windowOfRow(position, manifest.batch, row);
      })));
  OPTRT_RETURN_IF_ERROR(session.fill(batch));
  Results result;
  if (const Function *grad = compared.grad) {
    OPTRT_ASSIGN_OR_RETURN(StepOutputs outputs, session.run(grad->name));
    OPTRT_RETURN_IF_ERROR(session.checkTraffic(grad->name));
    result.loss = static_cast<float>(outputs.meanLoss());
    for (int64_t gradient : gradients) {
      OPTRT_ASSIGN_OR_RETURN(std::vector<float> whole,
                             session.gather(manifest.buffers[gradient].name));
      result.gradients.push_back(std::move(whole));
    }
  }
  if (const Function *forward = compared.forward) {
    OPTRT_RETURN_IF_ERROR(session.run(forward->name).status());
    OPTRT_RETURN_IF_ERROR(session.checkTraffic(forward->name));
    OPTRT_ASSIGN_OR_RETURN(
        result.logits,
        session.gather(
            manifest.buffers[*manifest.findForwardOutput(*forward)].name));
  }
  return result;
}

StatusOr<Computed> compute(const ModelLibrary &library,
                           const Compared &compared,
                           const VerifyOptions &options) {
  const Manifest &manifest = library.manifest();
  DataOrder order = options.order == "sequential" ? DataOrder::Sequential
                                                  : DataOrder::Shuffled;
  OPTRT_ASSIGN_OR_RETURN(std::unique_ptr<Dataset> data,
                         Dataset::open(options.data.path, manifest.sequence,
                                       manifest.vocabulary, order, options.seed,
                                       manifest.masked,
                                       options.data.tokenType));
  World world = createLocalWorld();
  const Precision precision(library, options);
  SessionOptions chosen = sessionOptions(compared.names(), options.ranks);
  for (const Function *preparer : findBlockPreparers(library))
    chosen.functions.push_back(preparer->name);
  chosen.computing = precision.computing;
  OPTRT_ASSIGN_OR_RETURN(chosen.documentEnd,
                         options.data.findDocumentEnd(library, *data));
  OPTRT_ASSIGN_OR_RETURN(
      std::unique_ptr<Session> session,
      createSession(library, world, std::move(chosen),
                    manifest.target == "cuda" ? options.ranks.tune : ""));
  if (options.load.empty()) {
    OPTRT_RETURN_IF_ERROR(session->initialize(options.seed));
  } else {
    OPTRT_ASSIGN_OR_RETURN(
        std::unique_ptr<Checkpoint> checkpoint,
        openCheckpoint(*world.control, options.load, options.weights.base));
    OPTRT_RETURN_IF_ERROR(
        checkTokenizer(checkpoint.get(), options.load, *data));
    OPTRT_RETURN_IF_ERROR(checkpoint->findParameters(expectedModel(manifest),
                                                     options.weights.ignored));
    OPTRT_RETURN_IF_ERROR(session->loadParameters(*checkpoint, options.seed));
  }
  // Dropout is the same as in a training step on this batch.
  session->setRandom(options.seed, options.stepIndex + 1);
  std::vector<int64_t> gradients;
  if (compared.grad) {
    OPTRT_ASSIGN_OR_RETURN(gradients, findGradients(library));
  }
  Computed result;
  OPTRT_ASSIGN_OR_RETURN(
      result.exact, runCompared(*session, *data, compared, gradients, options));
  OPTRT_ASSIGN_OR_RETURN(result.blocks, compareBlocks(*session));
  OPTRT_ASSIGN_OR_RETURN(result.numPerturbed,
                         session->perturb(options.seed, precision.bits));
  OPTRT_ASSIGN_OR_RETURN(
      result.perturbed,
      runCompared(*session, *data, compared, gradients, options));
  return result;
}

int64_t numProducts(const ModelLibrary &library, const Function &function) {
  using namespace optimus_support::program;
  const auto functions = functionsOf(library.target());
  const auto &commands =
      (*std::ranges::find(functions, function.name, &FunctionT::name))
          ->commands;
  return std::count_if(
      commands.begin(), commands.end(),
      [](const auto &command) { return command->action.AsGemm(); });
}

/// What the compiler derived of an argument's rounding errors. Of TF32 it knows
/// nothing: that rounds both factors of each product to so many bits.
StatusOr<double> roundingOf(const ModelLibrary &library,
                            const Function &function,
                            std::optional<int64_t> buffer,
                            const Precision &precision) {
  const Arg *arg = buffer ? function.findArg(*buffer) : nullptr;
  if (arg && arg->rounding)
    return precision.isTF32
               ? std::hypot(*arg->rounding,
                            std::sqrt(2.0 * numProducts(library, function)) *
                                precision.unit() / kUnitRoundoff)
               : *arg->rounding;
  return invalidArgument(
      concat("`", library.path(), "` does not say how far the results of ",
             function.name,
             " may be off by rounding; compile it again with the "
             "optimus-compile that came with this program"));
}

/// A tensor and what it is compared by.
struct NamedComputed {
  std::string name;
  ComputedTensor tensor;
};

/// What one library computed: each list is compared together.
struct ComputedLists {
  std::vector<NamedComputed> loss, gradients, logits;
};

StatusOr<ComputedLists> listTensors(const ModelLibrary &library,
                                    const Compared &compared,
                                    const Computed &computed,
                                    const Precision &precision) {
  const Manifest &manifest = library.manifest();
  ComputedLists lists;
  auto add = [&](std::vector<NamedComputed> &list, std::string name,
                 const Function &function, std::optional<int64_t> buffer,
                 std::span<const float> exact,
                 std::span<const float> perturbed) -> Status {
    OPTRT_ASSIGN_OR_RETURN(double rounding,
                           roundingOf(library, function, buffer, precision));
    list.push_back({std::move(name),
                    {exact, perturbed, rounding, computed.numPerturbed,
                     precision.unit()}});
    return okStatus();
  };
  if (const Function *grad = compared.grad) {
    OPTRT_RETURN_IF_ERROR(
        add(lists.loss, "loss", *grad, manifest.findRole("loss_sum"),
            {&computed.exact.loss, 1}, {&computed.perturbed.loss, 1}));
    OPTRT_ASSIGN_OR_RETURN(std::vector<int64_t> gradients,
                           findGradients(library));
    for (std::size_t p = 0; p != gradients.size(); ++p) {
      const Buffer &gradient = manifest.buffers[gradients[p]];
      OPTRT_RETURN_IF_ERROR(add(lists.gradients,
                                manifest.buffers[gradient.of].name, *grad,
                                gradients[p], computed.exact.gradients[p],
                                computed.perturbed.gradients[p]));
    }
  }
  if (const Function *forward = compared.forward) {
    const int64_t output = *manifest.findForwardOutput(*forward);
    OPTRT_RETURN_IF_ERROR(add(lists.logits, manifest.buffers[output].name,
                              *forward, output, computed.exact.logits,
                              computed.perturbed.logits));
  }
  return lists;
}

/// Leaves the gradients of parameters that both libraries train; returns how
/// many it took out.
std::size_t keepCommon(std::vector<NamedComputed> &gradients,
                       const std::vector<NamedComputed> &others) {
  return std::erase_if(gradients, [&](const NamedComputed &gradient) {
    return std::ranges::find(others, gradient.name, &NamedComputed::name) ==
           others.end();
  });
}

/// They list their parameters in one order: checkComparable() has seen to it.
void compareLists(const std::vector<NamedComputed> &a,
                  const std::vector<NamedComputed> &b,
                  std::vector<TensorComparison> &results) {
  std::vector<TensorPair> pairs;
  for (std::size_t i = 0; i != a.size(); ++i)
    pairs.push_back({a[i].name, a[i].tensor, b[i].tensor});
  for (TensorComparison &result : compareTensors(pairs))
    results.push_back(std::move(result));
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

void printReport(const VerifyOptions &options, const Results &a,
                 const Results &b, std::span<const TensorComparison> results) {
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
  std::cout << '\n';
  if (!a.gradients.empty())
    std::cout << format("loss of a %.8f, of b %.8f\n", a.loss, b.loss);
  std::cout << "|a-b| and bound are relative to the larger of |a| and |b|\n";
}

void printJson(const Results &a, const Results &b, bool same,
               std::span<const TensorComparison> results) {
  nlohmann::ordered_json report;
  report["same"] = same;
  if (!a.gradients.empty()) {
    report["loss_a"] = a.loss;
    report["loss_b"] = b.loss;
  }
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
  OPTRT_ASSIGN_OR_RETURN(auto compared, chooseCompared(*first, *second));
  StatusOr<Computed> a = compute(*first, compared.first, options);
  if (!a.ok())
    return a.status().withContext(options.first);
  StatusOr<Computed> b = compute(*second, compared.second, options);
  if (!b.ok())
    return b.status().withContext(options.second);

  OPTRT_ASSIGN_OR_RETURN(
      ComputedLists ofA,
      listTensors(*first, compared.first, *a, Precision(*first, options)));
  OPTRT_ASSIGN_OR_RETURN(
      ComputedLists ofB,
      listTensors(*second, compared.second, *b, Precision(*second, options)));
  const std::size_t numFrozen = keepCommon(ofA.gradients, ofB.gradients) +
                                keepCommon(ofB.gradients, ofA.gradients);
  if (compared.first.grad && ofA.gradients.empty())
    return invalidArgument(concat(
        "cannot compare gradients of `", first->path(), "` with those of `",
        second->path(), "`: they train other parameters"));
  if (numFrozen > 0)
    std::cerr << "optimus-run: gradients of " << numFrozen
              << " parameters are not compared: one library freezes them\n";
  std::vector<TensorComparison> results;
  compareLists(ofA.loss, ofB.loss, results);
  compareLists(ofA.gradients, ofB.gradients, results);
  compareLists(ofA.logits, ofB.logits, results);
  for (const Computed *computed : {&*a, &*b})
    results.insert(results.end(), computed->blocks.begin(),
                   computed->blocks.end());
  auto differing =
      std::find_if(results.begin(), results.end(),
                   [](const TensorComparison &result) { return !result.same; });
  bool same = differing == results.end();
  if (options.json)
    printJson(a->exact, b->exact, same, results);
  else
    printReport(options, a->exact, b->exact, results);
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
