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

/// Moves every element of a rank's part of a tensor to the next float above or
/// below it: by a relative 2^-24 to 2^-23, up or down by a random bit at (seed,
/// stream, index in the whole tensor), so alike on every mesh. What is 0,
/// infinite or not a number stays, and so does padding. Returns whether
/// anything moved.
bool perturbShard(uint64_t seed, uint32_t stream, const ShardLayout &layout,
                  const Mesh &mesh, int64_t rank, float *local);

} // namespace optimus_support

#endif // OPTIMUS_SUPPORT_PERTURB_H
