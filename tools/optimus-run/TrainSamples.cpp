//===- TrainSamples.cpp - What a model in training says -------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TrainSamples.h"

#include "Generation.h"

#include <algorithm>

using namespace optrt;

namespace optimus_run {

/// New tokens of a sample whose prompt does not say how many.
static constexpr int64_t kSampleTokens = 64;

StatusOr<TrainSamples> TrainSamples::open(const TrainOptions &options,
                                          const ModelLibrary &library) {
  TrainSamples samples;
  samples.every = options.sampleEvery;
  if (samples.every == 0)
    return samples;
  OPTRT_ASSIGN_OR_RETURN(
      samples.entries,
      GenerationEntries::find(library.path(), library.manifest()));
  samples.areText = options.samplePrompts.isText();
  OPTRT_ASSIGN_OR_RETURN(
      samples.requests,
      readPrompts(options.samplePrompts, samples.entries.vocabulary, {}));
  for (std::size_t i = 0; i != samples.requests.size(); ++i) {
    GenerationRequest &request = samples.requests[i];
    const int64_t place = samples.entries.placeBehind(request);
    if (request.maxTokens == 0)
      request.maxTokens = std::clamp<int64_t>(place, 0, kSampleTokens);
    OPTRT_RETURN_IF_ERROR(samples.entries.check(request).withContext(
        describePrompt(options.samplePrompts, i)));
  }
  return samples;
}

void TrainSamples::choose(SessionOptions &chosen) const {
  if (every == 0)
    return;
  for (const std::string &function : entries.functions())
    chosen.functions.push_back(function);
}

std::string TrainSamples::describe() const {
  return every == 0 ? "none"
                    : concat("every ", every, ", of prompts with hash ",
                             hashOf(requests));
}

StatusOr<nlohmann::ordered_json>
TrainSamples::write(Session &session, ControlPlane &control) const {
  for (const Function *reader : {entries.prefill, entries.decode})
    OPTRT_RETURN_IF_ERROR(session.prepareFor(*reader));
  Generator generator(session, control, entries);
  for (const GenerationRequest &request : requests)
    OPTRT_RETURN_IF_ERROR(generator.add(request).status());
  std::vector<std::vector<int32_t>> texts(requests.size());
  while (generator.hasWork()) {
    OPTRT_ASSIGN_OR_RETURN(std::vector<GeneratedPart> parts, generator.step());
    for (const GeneratedPart &part : parts)
      texts[part.text].insert(texts[part.text].end(), part.tokens.begin(),
                              part.tokens.end());
  }
  nlohmann::ordered_json written = nlohmann::ordered_json::array();
  for (const std::vector<int32_t> &text : texts)
    if (areText)
      written.push_back(toText(text));
    else
      written.push_back(text);
  return written;
}

} // namespace optimus_run
