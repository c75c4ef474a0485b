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

Status
optimus_run::DataOptions::checkDocumentEnd(const ModelLibrary &library) const {
  const Manifest &manifest = library.manifest();
  const bool isAsked = manifest.findRole("positions").has_value();
  if (isAsked && !documentEnd)
    return invalidArgument(
        concat("`", library.path(),
               "` keeps documents apart: expected --document-end with the last "
               "token of each, found none"));
  if (!isAsked && documentEnd)
    return invalidArgument(
        concat("--document-end ", *documentEnd, ": `", library.path(),
               "` sees all of a sequence; build the model with "
               "--within-documents"));
  if (documentEnd && (*documentEnd < 0 || *documentEnd >= manifest.vocabulary))
    return invalidArgument(
        concat("--document-end ", *documentEnd, ": expected a token from 0 to ",
               manifest.vocabulary - 1, ", of the vocabulary of `",
               library.path(), "`"));
  return okStatus();
}
