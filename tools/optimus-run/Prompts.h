//===- Prompts.h - What texts are asked for ---------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_RUN_PROMPTS_H
#define OPTIMUS_TOOLS_OPTIMUS_RUN_PROMPTS_H

#include "optimus-runtime/Generator.h"

#include <optional>
#include <string>
#include <vector>

namespace optimus_run {

/// One of both: a text whose bytes are tokens, or a file of requests.
struct PromptOptions {
  std::optional<std::string> bytes;
  std::string file;               ///< a JSON object or list of tokens a line
  std::vector<std::string> stops; ///< texts beside bytes, else tokens

  bool isText() const { return bytes.has_value(); }
};

/// The requests, each as `common` but for the members of its line.
/// Errors, InvalidArgument or Unavailable, name the line.
optrt::StatusOr<std::vector<optrt::GenerationRequest>>
readPrompts(const PromptOptions &options, int64_t vocabulary,
            const optrt::GenerationRequest &common);

/// A text to be scored, or continuations of it.
struct ScoredText {
  std::vector<int32_t> tokens;
  /// Each is scored behind the tokens; nothing where the tokens are themselves.
  std::vector<std::vector<int32_t>> choices = {};
};
/// Errors as above.
optrt::StatusOr<std::vector<ScoredText>>
readScoredTexts(const PromptOptions &options, int64_t vocabulary);

/// Where a prompt comes from, in messages.
std::string describePrompt(const PromptOptions &options, std::size_t index);

} // namespace optimus_run

#endif // OPTIMUS_TOOLS_OPTIMUS_RUN_PROMPTS_H
