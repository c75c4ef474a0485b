//===- TokenMutator.h - Changes text where its grammar bends ----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_FUZZ_TOKENMUTATOR_H
#define OPTIMUS_FUZZ_TOKENMUTATOR_H

#include <cstdint>
#include <string>
#include <string_view>

namespace optimus_fuzz {

/// A text with one to four changes: numbers become those at which arithmetic
/// breaks, names and strings become others of the same text, tokens and lines
/// are dropped, doubled, exchanged and moved, brackets pile up, and now and
/// then a byte is anything. IR, JSON, CSV and command lines survive it well
/// enough to get past their parsers. The same seed makes the same changes.
std::string mutate(std::string_view text, uint32_t seed);

/// The lines of one text, some of them replaced by lines of another.
std::string cross(std::string_view text, std::string_view other, uint32_t seed);

} // namespace optimus_fuzz

#endif // OPTIMUS_FUZZ_TOKENMUTATOR_H
