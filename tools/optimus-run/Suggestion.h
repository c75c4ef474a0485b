//===- Suggestion.h - What a misspelt word may mean -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_RUN_SUGGESTION_H
#define OPTIMUS_TOOLS_OPTIMUS_RUN_SUGGESTION_H

#include <span>
#include <string>

namespace optimus_run {

/// "; did you mean `train`?" for the one of `words` that is nearest to `word`, or
/// nothing if none is near: with at most a third of its letters inserted, left
/// out, changed or exchanged with their neighbours, or its beginning.
std::string didYouMean(const std::string &word,
                       std::span<const std::string> words);

} // namespace optimus_run

#endif // OPTIMUS_TOOLS_OPTIMUS_RUN_SUGGESTION_H
