//===- GemmBench.cpp - optimus-run bench --gemm ---------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Times what one rank computes: products over a grid of shapes and all
// transpositions that training needs, a kernel that streams through memory,
// and attention. The compiler's cost model reads what it writes.
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "Format.h"
#include "MachineProfile.h"
#include "optimus-runtime/Device.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <iostream>
#include <thread>

using namespace optrt;

namespace optimus_run {
namespace {

/// The median of several runs, in seconds; as many as fill a fiftieth of a
/// second, but some.
StatusOr<double> timeCall(const std::function<Status()> &call) {
  using Clock = std::chrono::steady_clock;
  constexpr double kSecondsOfAPoint = 0.02;
  constexpr std::size_t kFewest = 5, kMost = 1000;
  // The first call may make buffers.
  OPTRT_RETURN_IF_ERROR(call());
  std::vector<double> times;
  double total = 0;
  while (times.size() < kFewest ||
         (total < kSecondsOfAPoint && times.size() < kMost)) {
    auto begin = Clock::now();
    OPTRT_RETURN_IF_ERROR(call());
    times.push_back(
        std::chrono::duration<double>(Clock::now() - begin).count());
    total += times.back();
  }
  std::nth_element(times.begin(), times.begin() + times.size() / 2,
                   times.end());
  return std::max(times[times.size() / 2], 1e-9);
}

struct GemmPoint {
  int64_t m, n, k;
  bool transA, transB;
  double seconds = 0;

  double rate() const { return 2.0 * static_cast<double>(m * n * k) / seconds; }
};

/// Rows are tokens of a rank, or what a panel cuts; forward products have no
/// operand transposed, those of the input's gradient the second, those of the
/// weight's gradient the first.
std::vector<GemmPoint> shapes() {
  std::vector<GemmPoint> points;
  for (auto [transA, transB] : {std::pair(false, false), std::pair(false, true),
                                std::pair(true, false)})
    for (int64_t m : {32, 128, 512, 2048})
      for (int64_t n : {32, 128, 512})
        for (int64_t k : {32, 128, 512})
          points.push_back({m, n, k, transA, transB});
  return points;
}

Status timeGemm(Device &device, GemmPoint &point) {
  optrt_gemm_desc desc{};
  desc.m = point.m;
  desc.n = point.n;
  desc.k = point.k;
  desc.trans_a = point.transA;
  desc.trans_b = point.transB;
  desc.lda = point.transA ? point.m : point.k;
  desc.ldb = point.transB ? point.k : point.n;
  desc.ldc = point.n;
  // Not zeros: some processors multiply those faster.
  std::vector<float> a(point.m * point.k, 0.5f), b(point.k * point.n, 0.25f),
      c(point.m * point.n);
  OPTRT_ASSIGN_OR_RETURN(point.seconds, timeCall([&] {
                           return device.gemm(kCompute, desc, a.data(),
                                              b.data(), c.data(), nullptr,
                                              nullptr);
                         }));
  return okStatus();
}

/// y = x·y, elementwise.
void multiply(int64_t begin, int64_t end, void *const *args) {
  const float *x = static_cast<const float *>(args[0]);
  float *y = static_cast<float *>(args[1]);
  for (int64_t i = begin; i != end; ++i)
    y[i] *= x[i];
}

StatusOr<double> timeKernel(Device &device, int64_t extent) {
  std::vector<float> x(extent, 1), y(extent, 1);
  void *args[] = {x.data(), y.data()};
  optrt_launch_desc desc{"multiply", extent, 4096, 2, 0};
  return timeCall(
      [&] { return device.launch(kCompute, desc, multiply, args); });
}

/// Floating-point operations a second, forward and backward together.
StatusOr<double> attentionRate(Device &device) {
  constexpr int64_t kSeq = 256, kHeads = 4, kHeadDim = 64;
  constexpr int64_t kElements = kSeq * kHeads * kHeadDim;
  optrt_attention_desc desc{};
  desc.batch = 1;
  desc.seq = kSeq;
  desc.heads = desc.kv_heads = kHeads;
  desc.head_dim = kHeadDim;
  desc.q_ld = desc.kv_ld = kHeads * kHeadDim;
  desc.causal = 1;
  std::vector<float> q(kElements, 0.1f), out(kElements), dq(kElements),
      dk(kElements), dv(kElements), lse(kSeq * kHeads);
  OPTRT_ASSIGN_OR_RETURN(double forward, timeCall([&] {
                           return device.attention(
                               kCompute, desc, q.data(), q.data(), q.data(),
                               /*lengths=*/nullptr, out.data(), lse.data());
                         }));
  OPTRT_ASSIGN_OR_RETURN(double backward, timeCall([&] {
                           return device.attentionGrad(
                               kCompute, desc, q.data(), q.data(), q.data(),
                               q.data(),
                               /*lengths=*/nullptr, out.data(), lse.data(),
                               dq.data(), dk.data(), dv.data());
                         }));
  // 2 products and 5, half of each with the causal mask.
  return 7.0 * kSeq * kSeq * kHeads * kHeadDim / (forward + backward);
}

struct ComputeCosts {
  std::vector<GemmPoint> points;
  double gemmAlpha = 0, flops = 0, kernelAlpha = 0, bytes = 0, attention = 0;
};

StatusOr<ComputeCosts> measure(Device &device) {
  ComputeCosts costs;
  costs.points = shapes();
  for (GemmPoint &point : costs.points) {
    OPTRT_RETURN_IF_ERROR(timeGemm(device, point));
    costs.flops = std::max(costs.flops, point.rate());
  }
  GemmPoint least{1, 1, 1, false, false};
  OPTRT_RETURN_IF_ERROR(timeGemm(device, least));
  costs.gemmAlpha = least.seconds;
  OPTRT_ASSIGN_OR_RETURN(costs.kernelAlpha, timeKernel(device, 1));
  // Two arrays of 16 MiB, larger than the caches that a core has to itself.
  constexpr int64_t kStream = 1 << 22;
  OPTRT_ASSIGN_OR_RETURN(double streamed, timeKernel(device, kStream));
  costs.bytes =
      12.0 * kStream / std::max(streamed - costs.kernelAlpha, 0.1 * streamed);
  OPTRT_ASSIGN_OR_RETURN(costs.attention, attentionRate(device));
  return costs;
}

void print(const ComputeCosts &costs, int threads) {
  Table table({"m", "n", "k", "operands", "time (us)", "GFLOP/s"}, {3});
  for (const GemmPoint &point : costs.points)
    table.addRow(
        {std::to_string(point.m), std::to_string(point.n),
         std::to_string(point.k),
         concat(point.transA ? "A'" : "A", point.transB ? " B'" : " B"),
         format("%.1f", point.seconds * 1e6),
         format("%.1f", point.rate() / 1e9)});
  table.print(std::cout);
  std::cout << format("%d threads: products cost %.1f us and at best %.1f "
                      "GFLOP/s, kernels %.1f us and %.1f GB/s, attention "
                      "%.1f GFLOP/s\n",
                      threads, costs.gemmAlpha * 1e6, costs.flops / 1e9,
                      costs.kernelAlpha * 1e6, costs.bytes / 1e9,
                      costs.attention / 1e9);
}

nlohmann::ordered_json toJson(const ComputeCosts &costs, int threads) {
  auto points = nlohmann::ordered_json::array();
  for (const GemmPoint &point : costs.points)
    points.push_back({{"m", point.m},
                      {"n", point.n},
                      {"k", point.k},
                      {"trans_a", point.transA},
                      {"trans_b", point.transB},
                      {"seconds", point.seconds}});
  auto entries = nlohmann::ordered_json::array();
  entries.push_back({{"threads", threads},
                     {"cores", std::thread::hardware_concurrency()},
                     {"alpha_s", costs.gemmAlpha},
                     {"flops_per_s", costs.flops},
                     {"kernel_alpha_s", costs.kernelAlpha},
                     {"bytes_per_s", costs.bytes},
                     {"attention_flops_per_s", costs.attention},
                     {"points", points}});
  return entries;
}

} // namespace

Status benchProducts(const BenchOptions &options, World &world) {
  // Ranks would disturb each other.
  if (world.control->size() != world.control->numLocalRanks())
    return invalidArgument("bench --gemm measures one rank: start it without "
                           "mpirun");
  if (!options.profile.empty())
    OPTRT_RETURN_IF_ERROR(checkMachineProfile(options.profile));
  int threads = std::max(1, options.ranks.threadsPerRank);
  OPTRT_ASSIGN_OR_RETURN(DeviceFactory factory,
                         DeviceFactory::open(options.ranks.device));
  OPTRT_ASSIGN_OR_RETURN(std::unique_ptr<Device> device,
                         factory.create(threads));
  OPTRT_ASSIGN_OR_RETURN(ComputeCosts costs, measure(*device));
  nlohmann::ordered_json entries = toJson(costs, threads);
  if (options.json)
    std::cout << entries.dump(2) << '\n';
  else
    print(costs, threads);
  static constexpr const char *kKeys[] = {"threads"};
  return options.profile.empty()
             ? okStatus()
             : mergeIntoMachineProfile(options.profile, "gemm", entries, kKeys);
}

} // namespace optimus_run
