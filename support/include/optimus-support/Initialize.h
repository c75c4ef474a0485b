//===- Initialize.h - Initial values of parameters --------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_SUPPORT_INITIALIZE_H
#define OPTIMUS_SUPPORT_INITIALIZE_H

#include "optimus-support/Shard.h"

#include <span>

namespace optimus_support {

enum class InitKind { Normal, Zeros, Ones, Constant, Uniform };

/// The initial value of a tensor. Of Normal, element e, in row-major order of
/// the whole tensor, is `number` times the normal number of (seed, stream, step
/// 0, e), and of Uniform, times the uniform one between −1 and 1; of Constant
/// it is `number`.
struct Initializer {
  InitKind kind = InitKind::Zeros;
  double number =
      0; ///< Normal's standard deviation, Uniform's bound, or the constant
  uint32_t stream = 0;

  bool isDrawn() const {
    return kind == InitKind::Normal || kind == InitKind::Uniform;
  }
  bool operator==(const Initializer &) const = default;
};

/// Fills the shard of `rank` (numLocalElements floats): real elements with the
/// same bits on every mesh, padding with zeros.
void initializeShard(const Initializer &init, uint64_t seed,
                     const ShardLayout &layout, const Mesh &mesh, int64_t rank,
                     float *local);

/// Fills `piece` with the shard's elements from the local offset `begin` on.
void initializePiece(const Initializer &init, uint64_t seed,
                     const ShardLayout &layout, const Mesh &mesh, int64_t rank,
                     int64_t begin, std::span<float> piece);

} // namespace optimus_support

#endif // OPTIMUS_SUPPORT_INITIALIZE_H
