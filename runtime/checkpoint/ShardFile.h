//===- ShardFile.h - Shards out of a file of whole tensors ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CHECKPOINT_SHARDFILE_H
#define OPTIMUS_RUNTIME_CHECKPOINT_SHARDFILE_H

#include "optimus-support/InputFile.h"
#include "optimus-runtime/Status.h"
#include "optimus-support/Shard.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace optrt {

/// Reads `piece`, from the local offset `begin` of the shard of `rank` on, of
/// the F32 tensor that begins at byte `offset` of a file; padding is zeroed.
/// Long runs go from the file to where they lie in the shard. Short ones close
/// together are read at once, with the gaps between them, into a buffer of
/// 256 KiB: all the memory that it takes.
Status readShard(const optimus_support::InputFile &file, size_t offset,
                 const optimus_support::ShardLayout &layout,
                 const optimus_support::Mesh &mesh, int64_t rank, int64_t begin,
                 std::span<float> piece);

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CHECKPOINT_SHARDFILE_H
