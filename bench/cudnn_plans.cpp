//===- cudnn_plans.cpp - cuDNN's plans of attention and their workspaces --===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Makes the plans of a causal attention in bf16 on the first GPU, without
// executing them: optimus-bench-cudnn-plans BATCH SEQ HEADS HEAD_DIM prints a
// JSON array of the forward pass, its gradient and its gradient of one order.
//
//===----------------------------------------------------------------------===//

#include "CudnnAttention.h"

#include "optimus-support/GpuScratch.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

using namespace optrt;
using namespace optrt::cuda;

static int fail(const std::string &message) {
  std::fprintf(stderr, "optimus-bench-cudnn-plans: error: %s\n",
               message.c_str());
  return 1;
}

static Status makeContext(const Driver &driver) {
  DeviceNumber device = 0;
  Context context = nullptr;
  OPTRT_CUDA(driver, deviceGet, &device, 0);
  OPTRT_CUDA(driver, contextRetain, &context, device);
  OPTRT_CUDA(driver, contextSetCurrent, context);
  return {};
}

int main(int argc, char **argv) {
  if (argc != 5)
    return fail("expected BATCH SEQ HEADS HEAD_DIM");
  optrt_attention_desc desc = {};
  desc.batch = std::atoll(argv[1]);
  desc.seq = std::atoll(argv[2]);
  desc.heads = desc.kv_heads = std::atoll(argv[3]);
  desc.head_dim = std::atoll(argv[4]);
  // Queries, keys and values of a token lie side by side.
  desc.q_ld = desc.kv_ld = 3 * desc.heads * desc.head_dim;
  desc.causal = true;
  desc.type = OPTRT_BF16;

  StatusOr<const Driver *> driver = Driver::open();
  if (!driver.ok())
    return fail(driver.status().message());
  if (Status made = makeContext(**driver); !made.ok())
    return fail(made.message());
  StatusOr<const Cudnn *> cudnn = Cudnn::open();
  if (!cudnn.ok())
    return fail(cudnn.status().message());
  DnnHandle handle = nullptr;
  if (Status made =
          (*cudnn)->check((*cudnn)->api().create(&handle), "cudnnCreate");
      !made.ok())
    return fail(made.message());

  struct Case {
    const char *name;
    bool isGradient, isDeterministic;
  };
  nlohmann::json rows = nlohmann::json::array();
  for (const Case &one :
       {Case{"forward", false, false}, Case{"gradient", true, false},
        Case{"gradient of one order", true, true}}) {
    desc.deterministic = one.isDeterministic;
    const int64_t reserved = optimus_support::cudnnWorkspaceBytes(
        {desc.batch, desc.seq, desc.heads, desc.kv_heads, desc.head_dim,
         one.isGradient, one.isDeterministic});
    const auto begin = std::chrono::steady_clock::now();
    StatusOr<AttentionPlan> plan =
        planAttention(**cudnn, {handle, {}}, desc, one.isGradient);
    const std::chrono::duration<double> took =
        std::chrono::steady_clock::now() - begin;
    if (!plan.ok())
      return fail((*cudnn)->version() + ", " + one.name + ": " +
                  plan.status().message());
    if (plan->bytes > reserved)
      return fail((*cudnn)->version() + ", " + one.name + ": takes " +
                  std::to_string(plan->bytes) +
                  " bytes of workspace; expected at most " +
                  std::to_string(reserved));
    rows.push_back({{"plan", one.name},
                    {"seconds", took.count()},
                    {"bytes", plan->bytes},
                    {"reserved", reserved}});
  }
  std::printf("%s\n", rows.dump().c_str());
  return 0;
}
