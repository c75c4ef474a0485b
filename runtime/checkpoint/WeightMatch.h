//===- WeightMatch.h - The weights of parameters ----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CHECKPOINT_WEIGHTMATCH_H
#define OPTIMUS_RUNTIME_CHECKPOINT_WEIGHTMATCH_H

#include "WeightTypes.h"
#include "optimus-runtime/CheckpointPieces.h"
#include "optimus-runtime/Status.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace optrt {

/// A tensor in a folder of weights.
struct StoredWeight {
  TensorInfo info;
  std::string type;  ///< safetensors' name
  size_t file = 0;   ///< number of its file
  size_t offset = 0; ///< in the file
};

/// Which tensors of a folder a model is made of.
struct WeightMatch {
  /// Of a parameter of an adapter where a folder has none: it begins anew.
  static constexpr size_t kNone = SIZE_MAX;
  /// For each parameter, in the model's order, the number of its tensor. The
  /// tensor may have more rows: the parameter is its first ones.
  std::vector<size_t> tensors;
  /// Two tensors for one of the model: their values must agree.
  struct Tie {
    size_t copy = 0, original = 0;
  };
  std::vector<Tie> ties;
  std::vector<std::string> notes; ///< for people: what is left out
};

/// "transformer.", "model.", …: of the classes that wrap a model.
std::span<const std::string_view> classPrefixes();

/// Finds a model's parameters, by name, among a folder's tensors. A class that
/// wraps another puts "transformer.", "model." or "bert." before the names of
/// the inner one, so a name may have such a prefix on either side alone.
///
/// All parameters of adapters may be missing.
///
/// Errors, InvalidArgument: parameters without a tensor, all named; another
/// shape; an element type that F32 cannot hold; tensors without a parameter,
/// unless they hold no learned values, are of heads that the model does not
/// have, or match one of the patterns `ignored` (of a shell: * ? [a-z]). `path`
/// is for messages.
StatusOr<WeightMatch> matchWeights(const std::string &path,
                                   std::span<const StoredWeight> weights,
                                   std::span<const TensorInfo> params,
                                   std::span<const std::string> ignored);

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CHECKPOINT_WEIGHTMATCH_H
