//===- ModelRecord.h - What a checkpoint keeps of its model -----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Two models can have parameters of the same names and shapes and compute
// something else. A library says what decides its function (docs/manifest.md),
// a checkpoint keeps it, and the two are compared value by value.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_MODELRECORD_H
#define OPTIMUS_RUNTIME_MODELRECORD_H

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace optrt {

/// A value that is known of a model.
struct ModelFact {
  std::string value; ///< as JSON
  /// Of the model's builder, as "--heads"; may be empty. A truth has two:
  /// "--tied" and "--untied".
  std::string flag;

  bool operator==(const ModelFact &) const = default;
};

/// By name: "heads".
using ModelFacts = std::map<std::string, ModelFact>;

/// The identity of a model's function.
struct ModelFunction {
  /// What is of different versions cannot be compared.
  int64_t version = 0;
  /// Of all that computes the loss: 16 hexadecimal digits.
  std::string hash;
  /// Its named facts.
  ModelFacts facts;

  bool operator==(const ModelFunction &) const = default;
};

/// What a library says of itself and a checkpoint keeps.
struct ModelRecord {
  /// Nothing where the compiler did not see the whole program.
  std::optional<ModelFunction> function;
  std::string optimizer;
  /// What changes no function: mesh, precision, dropout.
  ModelFacts compilation;

  bool operator==(const ModelRecord &) const = default;
};

/// "heads 6, mask causal".
std::string toString(const ModelFacts &facts);

/// Whether two functions can be compared.
bool areComparable(const std::optional<ModelFunction> &first,
                   const std::optional<ModelFunction> &second);

/// How two comparable functions differ: "heads: checkpoint 6, library 4; …
/// with --heads 6", the flags making a program as the first. Empty if they do
/// not.
std::string describeDifference(const ModelFunction &first,
                               std::string_view nameOfFirst,
                               const ModelFunction &second,
                               std::string_view nameOfSecond);

/// "batch 4 (was 8), mesh row:2 (was row:4)"; empty if nothing changed.
std::string describeChanges(const ModelFacts &now, const ModelFacts &before);

} // namespace optrt

#endif // OPTIMUS_RUNTIME_MODELRECORD_H
