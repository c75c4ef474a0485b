//===- GpuCosts.cpp - What commands of a GPU take -------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GpuCosts.h"

#include "optimus-runtime/Measure.h"
#include "optimus-support/GpuScratch.h"

#include <algorithm>

using optimus_support::elementBytes;
using optimus_support::ElementType;

namespace optrt {
namespace {

using Json = nlohmann::ordered_json;

/// Features of models, and tokens of a rank; rows are tokens, or are summed
/// over for the gradient of a weight.
constexpr int64_t kGpuFeatures[] = {32,   128,  768,  1024, 1536,
                                    2304, 3072, 4096, 8192};
constexpr int64_t kGpuTokens[] = {32, 256, 2048, 16384};

std::vector<GemmPoint> gpuShapes(int64_t largest) {
  std::vector<GemmPoint> points;
  for (auto [transA, transB] :
       {std::pair(false, false), {false, true}, {true, false}})
    for (int64_t tokens : kGpuTokens)
      for (int64_t p : kGpuFeatures)
        for (int64_t q : kGpuFeatures) {
          GemmPoint point{transA ? p : tokens, q, transA ? tokens : p, transA,
                          transB};
          if (std::max({point.m, point.n, point.k}) <= largest)
            points.push_back(point);
        }
  return points;
}

/// Attention of one head as models for GPUs have it, with the mask.
std::vector<AttentionPoint> gpuAttentionShapes(int64_t largest) {
  std::vector<AttentionPoint> points;
  for (bool gradient : {false, true})
    for (int64_t seq : {32, 512, 1024, 2048, 4096})
      for (int64_t headDim : {64, 128})
        if (seq <= largest)
          points.push_back({seq, headDim, /*causal=*/true, gradient});
  return points;
}

class GpuTimer {
public:
  GpuTimer(Device &device, const ComputeGrid &grid)
      : device(device), grid(grid) {}

  StatusOr<GpuCosts> measure();

private:
  Status allocate();
  StatusOr<double> time(const std::function<Status()> &command) {
    constexpr int kCallsOfARound = 10;
    return medianSeconds(device, static_cast<int>(kCallsOfARound * grid.rounds),
                         command);
  }
  StatusOr<double> timeProduct(const GemmPoint &point, ElementType type);
  StatusOr<double> timeAttention(const AttentionPoint &point);
  Status timeAttentions(GpuCosts &costs);
  /// Room for so many elements, behind what was taken since `next` was at the
  /// beginning.
  char *take(char *&next, int64_t elements, int32_t type) {
    constexpr int64_t kAlignment = 256;
    char *start = next;
    next += (elements * elementBytes(ElementType(type)) + kAlignment - 1) /
            kAlignment * kAlignment;
    return start;
  }
  /// Anew for each command that is timed: results of earlier ones may be
  /// infinite, and need less power.
  Status fillUpTo(const char *next) {
    OPTRT_RETURN_IF_ERROR(
        fillWithNumbers(device, memory.data(), next - memory.data()));
    return device.synchronize();
  }
  StatusOr<double> timeRepeated();
  Status copy(int64_t bytes) {
    return device.copy(kCompute, {1, bytes, bytes, bytes, 1}, memory.data(),
                       memory.data() + memory.size() / 2);
  }

  Device &device;
  const ComputeGrid &grid;
  DeviceMemory memory;
};

Status GpuTimer::allocate() {
  // Three operands of the largest product, and more than any cache.
  constexpr int64_t kLeast = int64_t(8) << 20, kBeyondCaches = 1 << 29;
  int64_t bytes = grid.largest >= 1024 ? kBeyondCaches : kLeast;
  for (const GemmPoint &point : gpuShapes(grid.largest))
    bytes =
        std::max(bytes, static_cast<int64_t>(point.bytes(OPTRT_F32)) + 3 * 256);
  OPTRT_ASSIGN_OR_RETURN(memory,
                         device.allocate(bytes, "the operands of products"));
  return okStatus();
}

StatusOr<double> GpuTimer::timeProduct(const GemmPoint &point,
                                       ElementType type) {
  const optrt_gemm_desc desc = point.command(int32_t(type));
  Workload workload;
  workload.products.push_back(desc);
  OPTRT_RETURN_IF_ERROR(device.prepare(workload));
  char *next = memory.data();
  char *a = take(next, point.m * point.k, desc.factor_type),
       *b = take(next, point.k * point.n, desc.factor_type),
       *c = take(next, point.m * point.n, desc.result_type);
  OPTRT_RETURN_IF_ERROR(fillUpTo(next));
  return time(
      [&] { return device.gemm(kCompute, desc, a, b, c, nullptr, nullptr); });
}

StatusOr<double> GpuTimer::timeAttention(const AttentionPoint &point) {
  // Of a rank's batch, in what is allocated: 8192 tokens of 1024 channels.
  constexpr int64_t kWidth = 1024, kTokens = 8192;
  const bool isSmall = grid.largest < 1024;
  optrt_attention_desc desc{};
  desc.type = OPTRT_BF16;
  desc.seq = point.seq;
  desc.batch = isSmall ? 1 : kTokens / point.seq;
  desc.heads = desc.kv_heads = isSmall ? 1 : kWidth / point.headDim;
  desc.head_dim = point.headDim;
  const int64_t width = desc.heads * desc.head_dim;
  const int64_t tokens = desc.batch * desc.seq;
  // Slices of one buffer, as models have them.
  desc.q_ld = desc.kv_ld = 3 * width;
  desc.causal = point.causal;
  desc.workspace_bytes = optimus_support::cudnnWorkspaceBytes(
      {desc.batch, desc.seq, desc.heads, desc.kv_heads, desc.head_dim,
       point.gradient, /*isDeterministic=*/false});
  Workload workload;
  (point.gradient ? workload.attentionGrads : workload.attentions)
      .push_back({desc, "cuDNN's attention"});
  OPTRT_RETURN_IF_ERROR(device.prepare(workload));
  char *next = memory.data();
  const int64_t part = width * elementBytes(ElementType::BF16);
  char *qkv = take(next, 3 * tokens * width, OPTRT_BF16);
  char *grad = take(next, 3 * tokens * width, OPTRT_BF16);
  AttentionOperands given{.q = qkv,
                          .k = qkv + part,
                          .v = qkv + 2 * part,
                          .lengths = nullptr,
                          .out = take(next, tokens * width, OPTRT_BF16),
                          .lse = nullptr,
                          .workspace = nullptr};
  given.lse =
      reinterpret_cast<float *>(take(next, tokens * desc.heads, OPTRT_F32));
  given.dout = take(next, tokens * width, OPTRT_BF16);
  given.dq = grad;
  given.dk = grad + part;
  given.dv = grad + 2 * part;
  given.workspace = next;
  OPTRT_RETURN_IF_ERROR(fillUpTo(next));
  OPTRT_ASSIGN_OR_RETURN(
      double seconds, time([&] {
        return point.gradient ? device.attentionGrad(kCompute, desc, given)
                              : device.attention(kCompute, desc, given);
      }));
  return seconds / static_cast<double>(desc.batch * desc.heads);
}

/// A machine without cuDNN has its other figures.
Status GpuTimer::timeAttentions(GpuCosts &costs) {
  std::vector<AttentionPoint> points = gpuAttentionShapes(grid.largest);
  for (AttentionPoint &point : points) {
    StatusOr<double> seconds = timeAttention(point);
    if (!seconds.ok() && seconds.status().code() == StatusCode::Unavailable) {
      costs.noAttention = seconds.status().message();
      return okStatus();
    }
    OPTRT_RETURN_IF_ERROR(seconds.status());
    point.seconds = *seconds;
  }
  costs.types[1].attentions = std::move(points);
  return okStatus();
}

StatusOr<double> GpuTimer::timeRepeated() {
  constexpr int kCommands = 64;
  constexpr int64_t kBytes = 256;
  OPTRT_RETURN_IF_ERROR(copy(kBytes));
  OPTRT_RETURN_IF_ERROR(device.synchronize());
  OPTRT_RETURN_IF_ERROR(device.beginRecording());
  for (int i = 0; i != kCommands; ++i)
    OPTRT_RETURN_IF_ERROR(copy(kBytes));
  OPTRT_ASSIGN_OR_RETURN(uint32_t recording, device.endRecording());
  OPTRT_ASSIGN_OR_RETURN(double seconds,
                         time([&] { return device.replay(recording); }));
  return seconds / kCommands;
}

StatusOr<GpuCosts> GpuTimer::measure() {
  OPTRT_RETURN_IF_ERROR(allocate());
  GpuCosts costs;
  for (std::size_t kind = 0; kind != std::size(kGpuTypes); ++kind) {
    costs.types[kind].products = gpuShapes(grid.largest);
    for (GemmPoint &point : costs.types[kind].products) {
      OPTRT_ASSIGN_OR_RETURN(point.seconds,
                             timeProduct(point, kGpuTypes[kind]));
    }
  }
  OPTRT_RETURN_IF_ERROR(timeAttentions(costs));
  OPTRT_ASSIGN_OR_RETURN(costs.gemmAlpha,
                         timeProduct({32, 32, 32}, kGpuTypes[0]));
  OPTRT_RETURN_IF_ERROR(fillUpTo(memory.data() + memory.size()));
  OPTRT_ASSIGN_OR_RETURN(costs.commandAlpha, timeRepeated());
  for (int64_t bytes = int64_t(1) << 20; bytes <= memory.size(); bytes *= 4) {
    // Half is read, half is written.
    OPTRT_ASSIGN_OR_RETURN(double seconds,
                           time([&] { return copy(bytes / 2); }));
    costs.streams.push_back({bytes, static_cast<double>(bytes) / seconds});
  }
  return costs;
}

Json ratesOf(const ProductCosts &costs, ElementType type) {
  // Of the best product, as those of the profile h100; attention's kernels are
  // a model's and not timed.
  const double part = type == ElementType::F32 ? 0.2 : 0.3;
  const double rate = costs.flops();
  // Where points are far, products take what tiles leave idle.
  Json rates{{"flops_per_s", rate},
             {"half_m", 128},
             {"half_n", 128},
             {"half_k", 256},
             {"attention_flops_per_s", part * rate}};
  if (!costs.attentions.empty()) {
    rates["attention_cudnn_flops_per_s"] = costs.attentionFlops();
    rates["attention_cudnn"] = costs.attentions;
  }
  rates["points"] = costs.products;
  return rates;
}

} // namespace

StatusOr<GpuCosts> measureGpuCosts(Device &device, const ComputeGrid &grid) {
  return GpuTimer(device, grid).measure();
}

Json machineEntries(const GpuCosts &costs) {
  Json entry{{"threads", 1}, {"ranks", 1}, {"cores", 0}};
  entry["alpha_s"] = costs.gemmAlpha;
  entry["kernel_alpha_s"] = costs.commandAlpha;
  entry["bytes_per_s"] = costs.streams.back().bytesPerSecond;
  entry["streams"] = costs.streams;
  entry.update(ratesOf(costs.types[0], kGpuTypes[0]));
  Json other{{"type", toString(kGpuTypes[1])}};
  other.update(ratesOf(costs.types[1], kGpuTypes[1]));
  entry["types"] = Json::array({other});
  return Json::array({entry});
}

} // namespace optrt
