//===- Generate.cpp - Texts that a session generates, in Python -----------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Bindings.h"

#include <pybind11/stl.h>

namespace py = pybind11;
using namespace optrt;

namespace optimus_python {

/// The session's generator, made for its first text.
static Generator &generatorOf(BoundSession &self) {
  ModelRun &run = self.run();
  Held &held = *self.heldNow();
  if (!held.generator) {
    if (!run.has(EntryKind::Prefill) || !run.has(EntryKind::Decode))
      raise("InvalidArgumentError",
            "expected a session of the kind generate, of a library whose model "
            "was built with --generate; found none of both");
    held.generator = std::make_unique<Generator>(
        run.session(), run.controlPlane(),
        take(GenerationEntries::find(held.library->path(), run.manifest())),
        held.hostPages);
  }
  return *held.generator;
}

static int64_t
addText(BoundSession &self, std::vector<int32_t> prompt, int64_t maxTokens,
        std::vector<std::vector<int32_t>> stops,
        std::map<int32_t, double> logitBias, double repetitionPenalty,
        double presencePenalty, double frequencyPenalty, double temperature,
        int64_t topK, double topP, double minP, uint64_t seed,
        uint64_t alternative, std::optional<double> copyingPenalty,
        std::optional<std::vector<int32_t>> copyingSource,
        std::set<int32_t> copyingExceptions, std::vector<int32_t> continuation,
        std::optional<int64_t> logProbabilities, int64_t beams,
        double lengthPenalty) {
  Generator &generator = generatorOf(self);
  GenerationRequest request;
  request.prompt = std::move(prompt);
  request.maxTokens = maxTokens;
  request.stops = std::move(stops);
  request.continuation = std::move(continuation);
  request.wantsScores = logProbabilities.has_value();
  request.numBest = logProbabilities.value_or(0);
  request.beams = beams;
  request.lengthPenalty = lengthPenalty;
  if (request.numBest < 0 || request.numBest > generator.functions().vocabulary)
    raise("InvalidArgumentError",
          concat("logprobs: expected a number from 0 to the vocabulary's ",
                 generator.functions().vocabulary, ", found ",
                 request.numBest));
  SamplingOptions &sampling = request.sampling;
  sampling.logitBias = std::move(logitBias);
  sampling.repetitionPenalty = repetitionPenalty;
  sampling.presencePenalty = presencePenalty;
  sampling.frequencyPenalty = frequencyPenalty;
  sampling.temperature = temperature;
  sampling.topK = topK;
  sampling.topP = topP;
  sampling.minP = minP;
  sampling.seed = seed;
  sampling.alternative = alternative;
  sampling.copyingPenalty = copyingPenalty;
  sampling.copyingSource = std::move(copyingSource);
  sampling.copyingExceptions = std::move(copyingExceptions);
  return take(generator.add(std::move(request)));
}

/// What a step adds to a text: (text, tokens, finish, log-probability of the
/// step's choice, the best of its place).
static py::tuple toTuple(const GeneratedPart &part) {
  std::vector<std::pair<int32_t, double>> best;
  for (const ScoredToken &each : part.best)
    best.emplace_back(each.token, each.logProbability);
  return py::make_tuple(
      part.text, part.tokens,
      part.finish ? py::object(py::str(std::string(toString(*part.finish))))
                  : py::none(),
      part.score, best);
}

/// Extends the list within the call, since Python hears of an interrupt after
/// it: none of the step's tokens is lost.
static void generateStep(BoundSession &self, py::list parts) {
  Generator &generator = generatorOf(self);
  ModelRun &run = self.run();
  const std::vector<GeneratedPart> made =
      take(unlocked([&]() -> StatusOr<std::vector<GeneratedPart>> {
        OPTRT_RETURN_IF_ERROR(run.beginGeneration());
        return generator.step();
      }));
  for (const GeneratedPart &part : made)
    parts.append(toTuple(part));
}

static py::dict generationCounters(BoundSession &self) {
  const Generator &generator = generatorOf(self);
  const GenerationCounters &counts = generator.counters();
  py::dict named;
  named["prompt_tokens"] = counts.promptTokens;
  named["generated_tokens"] = counts.generatedTokens;
  named["prefills"] = counts.prefills;
  named["decodes"] = counts.decodes;
  if (const std::optional<PageCounts> pages = generator.pages()) {
    named["shared_tokens"] = counts.sharedTokens;
    named["pages_held"] = pages->held;
    named["pages_free"] = pages->free;
    named["pages_shared"] = pages->shared;
    named["pages_on_host"] = pages->onHost;
    named["moved_pages"] = counts.movedPages;
    named["host_bytes"] = pages->hostBytes;
  }
  return named;
}

void bindGeneration(py::class_<BoundSession> &session) {
  const SamplingOptions defaults;
  session
      .def("add_text", addText, py::arg("prompt"), py::kw_only(),
           py::arg("max_tokens") = 0,
           py::arg("stops") = std::vector<std::vector<int32_t>>(),
           py::arg("logit_bias") = defaults.logitBias,
           py::arg("repetition_penalty") = defaults.repetitionPenalty,
           py::arg("presence_penalty") = defaults.presencePenalty,
           py::arg("frequency_penalty") = defaults.frequencyPenalty,
           py::arg("temperature") = defaults.temperature,
           py::arg("top_k") = defaults.topK, py::arg("top_p") = defaults.topP,
           py::arg("min_p") = defaults.minP, py::arg("seed") = defaults.seed,
           py::arg("alternative") = defaults.alternative,
           py::arg("copying_penalty") = defaults.copyingPenalty,
           py::arg("copying_source") = defaults.copyingSource,
           py::arg("copying_exceptions") = defaults.copyingExceptions,
           py::arg("continuation") = std::vector<int32_t>(),
           py::arg("logprobs") = py::none(), py::arg("beams") = 1,
           py::arg("length_penalty") = 1.0)
      .def("generate_step", generateStep, py::arg("parts"))
      .def_property_readonly(
          "has_texts",
          [](BoundSession &self) { return generatorOf(self).hasWork(); })
      .def("generation_counters", generationCounters)
      .def(
          "cancel_text",
          [](BoundSession &self, int64_t text) {
            generatorOf(self).cancel(text);
          },
          py::arg("text"));
}

} // namespace optimus_python
