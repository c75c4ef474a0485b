//===- Perturb.h - Parameters moved by one unit in the last place -*- C++
//-*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_SUPPORT_PERTURB_H
#define OPTIMUS_SUPPORT_PERTURB_H

#include "optimus-support/Mesh.h"
#include "optimus-support/Shard.h"

#include <cstdint>

namespace optimus_support {

/// Moves every element of a rank's part of a tensor by a relative 2^-p to
/// 2^(1-p), one unit in the last of p = `precision` bits, of 24 at most: of 24 to
/// the next float. Up or down by a random bit at (seed, stream, index in the
/// whole tensor), so alike on every mesh. What is infinite, not a number or
/// smaller than a unit stays, and so does padding. Returns whether anything
/// moved.
bool perturbShard(uint64_t seed, uint32_t stream, const ShardLayout &layout,
                  const Mesh &mesh, int64_t rank, int precision, float *local);

} // namespace optimus_support

#endif // OPTIMUS_SUPPORT_PERTURB_H
