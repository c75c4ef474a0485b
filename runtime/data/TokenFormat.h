//===- TokenFormat.h - How a file holds its tokens --------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A file of raw tokens says nothing of their width, and a wrong one gives other
// tokens, most of them valid. So the width comes from whoever knows it: the
// user (--token-type), a note beside the file (FILE.json), or the header that
// llm.c writes. What these say must agree.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_DATA_TOKENFORMAT_H
#define OPTIMUS_RUNTIME_DATA_TOKENFORMAT_H

#include "optimus-runtime/DataIdentity.h"
#include "optimus-runtime/Status.h"
#include "optimus-support/InputFile.h"

#include <cstdint>
#include <optional>
#include <string>

namespace optrt {

struct TokenFormat {
  TokenType type = TokenType::U8;
  std::string source;      ///< who says so, for messages: "--token-type"
  int64_t headerBytes = 0; ///< before the first token
  int64_t tokens = 0;
  /// Of whoever wrote the file, where the note says so.
  std::optional<int64_t> vocabulary;
};

/// Finds out how `file` holds its tokens: FILE.txt one a byte, FILE.bin as u16
/// where nobody says otherwise. `stated` is the user's word for a .bin.
///
/// Errors: InvalidArgument for another ending, for a fraction of a token, for a
/// file of another format (by its name), for statements that disagree, for a
/// width too narrow for `vocabulary`, and for 32-bit tokens not stated to be
/// such.
StatusOr<TokenFormat> findTokenFormat(const optimus_support::InputFile &file,
                                      int64_t vocabulary,
                                      std::optional<TokenType> stated);

/// What to do if a file was read with another width than it was written with;
/// empty for a text.
std::string adviceOnWidth(const TokenFormat &format, const std::string &path);

} // namespace optrt

#endif // OPTIMUS_RUNTIME_DATA_TOKENFORMAT_H
