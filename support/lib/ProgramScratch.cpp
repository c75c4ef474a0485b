//===- ProgramScratch.cpp - What a function needs besides plans -----------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/ProgramScratch.h"

#include "optimus-support/GpuScratch.h"
#include "optimus-support/WeightBlocks.h"

#include <algorithm>

namespace optimus_support::program {

DeviceScratch scratchOf(const FunctionT &function) {
  ScratchBound bound;
  for (const std::unique_ptr<CommandT> &command : function.commands) {
    auto isNarrow = [&](size_t operand) {
      return command->operands[operand]->type != ElementType::F32;
    };
    auto attention = [&](const AttentionShapeT &shape, size_t positions) {
      bound.attention(
          {.seq = shape.seq,
           .headDim = shape.head_dim,
           .isGradient = command->action.type == Action::AttentionGrad,
           .isNarrow = isNarrow(0),
           .hasFirstKeys = shape.window != 0 ||
                           command->operands[positions]->address != kNone,
           .capacity = shape.capacity});
    };
    if (const GemmT *gemm = command->action.AsGemm()) {
      const bool hasBias =
          command->operands.size() > 3 && command->operands[3]->address != kNone;
      bound.product({gemm->m, gemm->n, gemm->k, gemm->trans_a,
                     hasBias && gemm->accumulate},
                    isNarrow(0), isNarrow(2), isFewBits(gemm->blocks));
    } else if (const AttentionT *forward = command->action.AsAttention()) {
      attention(*forward->shape, /*positions=*/4);
    } else if (const AttentionGradT *backward =
                   command->action.AsAttentionGrad()) {
      attention(*backward->shape, /*positions=*/5);
    }
  }
  return bound.get();
}

DeviceScratch scratchOf(const TargetT &target, const FunctionT &function) {
  if (target.name != "cuda")
    return scratchOf(function);
  const bool multiplies =
      std::any_of(function.commands.begin(), function.commands.end(),
                  [](const auto &command) { return command->action.AsGemm(); });
  return {0, multiplies ? kGpuWorkspaceBytes : 0};
}

} // namespace optimus_support::program
