//===- CheckToken.h - Tokens of a vocabulary --------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_GENERATE_CHECKTOKEN_H
#define OPTIMUS_RUNTIME_GENERATE_CHECKTOKEN_H

#include "optimus-runtime/Status.h"

#include <cstdint>

namespace optrt {

/// InvalidArgument for a token beyond the vocabulary, in a sentence with the
/// beginning `where`: "a stop has the token".
template <typename... Parts>
Status checkToken(int32_t token, int64_t vocabulary, const Parts &...where) {
  if (token >= 0 && token < vocabulary)
    return okStatus();
  return invalidArgument(concat(where..., " ", token,
                                "; expected one of the vocabulary's ",
                                vocabulary, ", from 0 on"));
}

} // namespace optrt

#endif // OPTIMUS_RUNTIME_GENERATE_CHECKTOKEN_H
