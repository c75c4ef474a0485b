//===- BoundProgramRehearsal.cpp - What loads code before steps -----------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BoundProgram.h"

#include "optimus-support/ElementType.h"

using namespace optimus_support::program;

namespace optrt {

/// Zeros in what an attention or its gradient has written.
static Status clear(Device &device, const optrt_attention_desc &d,
                    const AttentionOperands &operands) {
  const int64_t elementBytes =
      optimus_support::elementBytes(optimus_support::ElementType(d.type));
  const int64_t rows = d.batch * d.seq, width = d.heads * d.head_dim;
  auto matrix = [&](void *start, int64_t cols, int64_t ld) {
    return start ? device.clear(kCompute, start,
                                ((rows - 1) * ld + cols) * elementBytes)
                 : okStatus();
  };
  // A gradient reads the first two, which are zero.
  OPTRT_RETURN_IF_ERROR(matrix(operands.out, width, width));
  OPTRT_RETURN_IF_ERROR(device.clear(kCompute, operands.lse,
                                     rows * d.heads * int64_t(sizeof(float))));
  OPTRT_RETURN_IF_ERROR(matrix(operands.dq, width, d.q_ld));
  for (void *keys : {operands.dk, operands.dv})
    OPTRT_RETURN_IF_ERROR(matrix(keys, d.kv_heads * d.head_dim, d.kv_ld));
  return operands.workspace
             ? device.clear(kCompute, operands.workspace, d.workspace_bytes)
             : okStatus();
}

Status BoundProgram::rehearse(Device &device) const {
  auto runOne = [&](const Bound &command) -> Status {
    void *const *p = pointers.data() + command.pointers;
    if (command.action == Action::Gemm)
      return device.gemm(kCompute, gemms[command.descriptor], p[0], p[1], p[2],
                         p[3], p[4]);
    const bool isGradient = command.action == Action::AttentionGrad;
    if (!isGradient && command.action != Action::Attention)
      return okStatus();
    const optrt_attention_desc &desc = attentions[command.descriptor];
    const AttentionOperands operands = operandsOf(command.action, p);
    OPTRT_RETURN_IF_ERROR(isGradient
                              ? device.attentionGrad(kCompute, desc, operands)
                              : device.attention(kCompute, desc, operands));
    return clear(device, desc, operands);
  };
  for (uint32_t number = 0; number != commands.size(); ++number)
    OPTRT_RETURN_IF_ERROR(
        runOne(commands[number]).withContext(describe(number)));
  return device.synchronize();
}

} // namespace optrt
