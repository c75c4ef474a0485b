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
        take(GenerationEntries::find(held.library->path(), run.manifest())));
  }
  return *held.generator;
}

static int64_t addText(BoundSession &self, std::vector<int32_t> prompt,
                       int64_t maxTokens,
                       std::vector<std::vector<int32_t>> stops,
                       std::map<int32_t, double> logitBias,
                       double repetitionPenalty, double presencePenalty,
                       double frequencyPenalty, double temperature,
                       int64_t topK, double topP, double minP, uint64_t seed,
                       uint64_t alternative) {
  Generator &generator = generatorOf(self);
  GenerationRequest request;
  request.prompt = std::move(prompt);
  request.maxTokens = maxTokens;
  request.stops = std::move(stops);
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
  return take(generator.add(std::move(request)));
}

static py::list generateStep(BoundSession &self) {
  Generator &generator = generatorOf(self);
  ModelRun &run = self.run();
  const std::vector<GeneratedPart> parts =
      take(unlocked([&]() -> StatusOr<std::vector<GeneratedPart>> {
        OPTRT_RETURN_IF_ERROR(run.beginGeneration());
        return generator.step();
      }));
  py::list list;
  for (const GeneratedPart &part : parts)
    list.append(py::make_tuple(
        part.text, part.tokens,
        part.finish ? py::object(py::str(std::string(toString(*part.finish))))
                    : py::none()));
  return list;
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
           py::arg("alternative") = defaults.alternative)
      .def("generate_step", generateStep)
      .def(
          "cancel_text",
          [](BoundSession &self, int64_t text) {
            generatorOf(self).cancel(text);
          },
          py::arg("text"));
}

} // namespace optimus_python
