//===- ToyModel.h - A model written by hand ---------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// A bigram model, logits[t] = W[token[t]] + b, as the compiler would lay it
// out on a mesh row:R: the batch and the rows of W are sharded over `row`, b is
// whole everywhere. It has commands of every kind but attention and lets the
// runtime be tested without the compiler.
//
// A library is made of its tables (ToyProgram.cpp), its manifest
// (ToyManifest.cpp), both of which ToyWriter.cpp writes as the data of a C
// file, its kernels (ToyKernels.c), and its one entry (ToyLibrary.c).
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_MODEL_UNITTESTS_TOY_TOYMODEL_H
#define OPTIMUS_RUNTIME_MODEL_UNITTESTS_TOY_TOYMODEL_H

#include "optimus-support/Program.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace optimus_toy {

/// What is wrong with a library, for the tests of error messages.
enum class Fault {
  None,
  Abi,      ///< was compiled for another interface
  Feature,  ///< needs a feature that no processor has
  Traffic,  ///< communicates otherwise than it says
  Rank,     ///< the last rank has a table of its own, with a kernel of its own
  Gradient, ///< the gradient of b is wrong
  Source,   ///< another program, with the same parameters
  Stall,    ///< the last rank sleeps for ever in its third step
  Rounding, ///< does not say how far gradients may be off
  NoPrograms, ///< has no section of programs
  Truncated,  ///< has half of its programs
  Arena,      ///< its tables have a larger arena than its manifest
  Kernel,     ///< its tables name a kernel that there is no code for
  Signature,  ///< its tables state another signature than the kernel's
  Race,       ///< a collective may begin before its data is there
  Order,      ///< starts two collectives the other way round
  Prepare,    ///< nothing: eval_step reads a copy of the table, which another
              ///< function prepares
  Stages,     ///< nothing: two ranks have tables of their own, with functions
              ///< that send b there and back, over slots
};

/// The fault with a name: "none", "no-programs".
std::optional<Fault> findFault(std::string_view name);

inline constexpr int64_t kBatch = 4, kSequence = 8, kVocabulary = 256;

/// The sizes of a rank. Extents that the number of ranks does not divide are
/// padded.
struct Sizes {
  explicit Sizes(int64_t ranks)
      : ranks(ranks), batch((kBatch + ranks - 1) / ranks),
        rows((kVocabulary + ranks - 1) / ranks), paddedRows(rows * ranks),
        tokens(batch * kSequence) {}

  int64_t ranks, batch, rows, paddedRows, tokens;
};

/// The functions that ranks with tables of their own have besides: the first
/// two are those of rank 0.
inline constexpr const char *kStageFunctions[] = {"give", "check", "take",
                                                  "give_back"};
/// Buffers that they take in turns.
inline constexpr int kSlots = 2;

/// The tables: train_step, eval_step and grad_step, perhaps prepare; and
/// sequences of them.
optimus_support::program::ProgramsT writePrograms(const Sizes &sizes,
                                                  Fault fault);

/// The manifest that goes with them.
std::string writeManifest(const Sizes &sizes, Fault fault,
                          const optimus_support::program::ProgramsT &programs);

} // namespace optimus_toy

#endif // OPTIMUS_RUNTIME_MODEL_UNITTESTS_TOY_TOYMODEL_H
