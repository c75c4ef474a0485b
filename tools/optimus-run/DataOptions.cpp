//===- DataOptions.cpp - What is said of data -----------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Commands.h"

#include "optimus-runtime/ModelLibrary.h"

using namespace optrt;

StatusOr<std::optional<int64_t>>
optimus_run::DataOptions::findDocumentEnd(const ModelLibrary &library,
                                          const Dataset &opened) const {
  const Manifest &manifest = library.manifest();
  const bool isAsked = manifest.findRole("positions").has_value();
  // The data may know better than a token.
  if (isAsked && !documentEnd && opened.hasEnds())
    return std::optional<int64_t>();
  std::optional<int64_t> end = documentEnd;
  if (const std::optional<TokenOrigin> origin = opened.origin();
      isAsked && origin && !end)
    end = origin->documentEnd;
  OPTRT_RETURN_IF_ERROR(
      manifest.checkDocumentEnd(library.path(), end, "--document-end"));
  return end;
}

void optimus_run::addInputs(const std::string &flag, const std::string &path,
                            std::vector<optimus_support::PathUse> &inputs) {
  for (const std::string &one : Dataset::pathsIn(path))
    inputs.push_back({flag, one, Dataset::isStore(one)});
}

Status optimus_run::checkTokenizer(const Checkpoint *checkpoint,
                                   const std::string &folder,
                                   const Dataset &data) {
  const std::optional<TokenOrigin> origin = data.origin();
  if (!checkpoint || !origin || !checkpoint->state().data)
    return okStatus();
  const std::string &before = checkpoint->state().data->tokenizer;
  if (before.empty() || before == origin->tokenizer)
    return okStatus();
  return invalidArgument(concat(
      "the checkpoint ", folder,
      " was trained on tokens of the "
      "tokenizer with hash ",
      before, ", and ", data.path(), " has tokens of the one with hash ",
      origin->tokenizer, "; prepare the text with the checkpoint's tokenizer"));
}
