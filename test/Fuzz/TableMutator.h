//===- TableMutator.h - Mutants of tables of commands -----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TEST_FUZZ_TABLEMUTATOR_H
#define OPTIMUS_TEST_FUZZ_TABLEMUTATOR_H

#include "optimus-support/Program.h"

#include <cstddef>
#include <random>
#include <string>
#include <vector>

namespace reflection {
struct Field;
struct Object;
struct Schema;
struct Type;
} // namespace reflection

namespace optimus_fuzz {

/// Changes packed programs in place: every number, length, choice of a union and
/// order of a list that program.fbs has, whatever it means. Flatbuffers' own
/// structure stays, except for lengths.
class TableMutator {
public:
  explicit TableMutator(optimus_support::program::ProgramsT &programs);

  /// Leaves all but sequences and messages as they are.
  void keepToSequences();

  /// The places where something can be changed, and in how many ways.
  size_t numFields() const { return fields.size(); }
  static constexpr uint32_t kWays = 12;

  /// The programs with one place changed, and what was done: "Gemm.lda 0 for
  /// 32".
  std::string change(size_t field, uint32_t way, std::string &what) const;
  /// With some places changed at random.
  std::string change(std::mt19937 &random, std::string &what) const;

private:
  struct Field {
    const reflection::Object *object;
    const reflection::Field *field;
    size_t at;
    uint8_t bytes;
    /// An offset to a table, which is exchanged for its neighbour's.
    bool isOffset;
  };
  class Walker;

  void apply(std::string &bytes, size_t field, uint32_t way, uint64_t noise,
             std::string &what) const;

  std::string packed;
  std::vector<Field> fields;
};

} // namespace optimus_fuzz

#endif // OPTIMUS_TEST_FUZZ_TABLEMUTATOR_H
