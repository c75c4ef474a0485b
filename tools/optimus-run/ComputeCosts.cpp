//===- ComputeCosts.cpp - What a rank's computations take -----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ComputeCosts.h"

#include "ComputeLoops.h"

#include "optimus-support/ElementType.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <numeric>

using namespace optrt;
using optimus_support::elementBytes;
using optimus_support::ElementType;

namespace optimus_run {

optrt_gemm_desc GemmPoint::command(int32_t type) const {
  optrt_gemm_desc desc{};
  desc.factor_type = desc.bias_type = desc.extra_type = type;
  desc.result_type = transA ? OPTRT_F32 : type;
  desc.m = m;
  desc.n = n;
  desc.k = k;
  desc.trans_a = transA;
  desc.trans_b = transB;
  desc.has_bias = bias;
  desc.lda = transA ? m : k;
  desc.ldb = transB ? k : n;
  desc.ldc = n;
  return desc;
}

namespace {

double takeMedian(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2,
                   values.end());
  return values[values.size() / 2];
}

/// Something that is timed round by round.
struct Timed {
  std::function<Status()> call;
  std::vector<double> times;

  double seconds() const { return std::max(takeMedian(times), 1e-9); }
};

Status timeRound(Timed &timed) {
  using Clock = std::chrono::steady_clock;
  constexpr double kSecondsOfARound = 0.0025;
  // Of fewer, a single moment without a processor would be the median.
  constexpr int kFewestCalls = 3, kMostCalls = 200;
  // The first call may make buffers.
  if (timed.times.empty())
    OPTRT_RETURN_IF_ERROR(timed.call());
  double total = 0;
  for (int calls = 0; calls < kFewestCalls ||
                      (calls != kMostCalls && total < kSecondsOfARound);
       ++calls) {
    auto begin = Clock::now();
    OPTRT_RETURN_IF_ERROR(timed.call());
    timed.times.push_back(
        std::chrono::duration<double>(Clock::now() - begin).count());
    total += timed.times.back();
  }
  return okStatus();
}

/// Operands of what is timed. They are always those of the call before, or
/// where `rotates` such as no cache has any more.
class Operands {
public:
  static StatusOr<Operands> allocate(Device &device) {
    constexpr int64_t kBytes = int64_t(192) << 20;
    Operands operands;
    OPTRT_ASSIGN_OR_RETURN(operands.memory,
                           device.allocate(kBytes, "the operands of products"));
    // 0.5 of bf16, and hardly more of f32. Not zeros: some processors multiply
    // those faster.
    std::fill_n(reinterpret_cast<uint32_t *>(operands.memory.data()),
                kBytes / sizeof(uint32_t), 0x3f003f00);
    return operands;
  }

  void begin(bool rotates) {
    if (!rotates)
      next = 0;
  }
  /// Different ones between two calls of begin().
  char *take(int64_t elements, int32_t type) {
    constexpr int64_t kAlignment = 1024;
    int64_t bytes = elements * elementBytes(ElementType(type));
    if (next + bytes > memory.size())
      next = 0;
    char *start = memory.data() + next;
    next += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return start;
  }

private:
  DeviceMemory memory;
  int64_t next = 0;
};

/// Of a model's extents, those of 2 octaves each have two.
constexpr int64_t kFeatures[] = {32,  64,  128,  192,  256,  384,
                                 512, 768, 1024, 1536, 2048, 3072};
constexpr int64_t kTokens[] = {32, 128, 1024};

/// Rows are tokens of a rank, or what a panel cuts; forward products have no
/// operand transposed and may have a bias, those of the input's gradient the
/// second transposed. Of their pairs of features each second one is left out,
/// like the black squares of a chess board: their neighbours are near. Those of
/// the weight's gradient have the first transposed, and k is tokens; how rows
/// lie in caches makes them uneven, so that all pairs are timed.
std::vector<GemmPoint> shapes(int64_t largest) {
  struct Operation {
    bool transA, transB, bias;
  };
  std::vector<GemmPoint> points;
  for (auto [transA, transB, bias] :
       {Operation{false, false, false}, Operation{false, false, true},
        Operation{false, true, false}, Operation{true, false, false}})
    for (int64_t tokens : kTokens)
      for (std::size_t i = 0; i != std::size(kFeatures); ++i)
        for (std::size_t j = transA ? 0 : i % 2; j < std::size(kFeatures);
             j += transA ? 1 : 2) {
          if (transA && tokens == kTokens[0])
            continue;
          int64_t p = kFeatures[i], q = kFeatures[j];
          GemmPoint point{transA ? p : tokens,
                          q,
                          transA ? tokens : p,
                          transA,
                          transB,
                          bias};
          // Larger ones are as fast, and take long.
          constexpr int64_t kMostElements = 3 << 19;
          if (std::max({tokens, p, q}) <= largest && p * q <= kMostElements)
            points.push_back(point);
        }
  return points;
}

/// Those that are also timed with operands which no cache has, where that
/// shows.
std::vector<const GemmPoint *>
chooseForCold(const std::vector<GemmPoint> &points) {
  constexpr std::size_t kEvery = 15;
  constexpr int64_t kLeast = 128;
  std::vector<const GemmPoint *> large, chosen;
  for (const GemmPoint &point : points)
    if (std::min({point.m, point.n, point.k}) >= kLeast)
      large.push_back(&point);
  for (std::size_t i = 0; i < large.size(); i += kEvery)
    chosen.push_back(large[i]);
  return chosen;
}

std::vector<AttentionPoint> attentionShapes(int64_t largest) {
  std::vector<AttentionPoint> points;
  for (bool gradient : {false, true})
    for (bool causal : {false, true})
      for (int64_t seq : {32, 128, 512})
        for (int64_t headDim : {16, 32, 64, 128})
          if (seq <= largest)
            points.push_back({seq, headDim, causal, gradient});
  return points;
}

class ComputeTimer {
public:
  ComputeTimer(Device &device, Operands operands, const ComputeGrid &grid)
      : device(device), operands(std::move(operands)), grid(grid) {}

  StatusOr<ComputeCosts> measure();

private:
  Status gemm(const GemmPoint &point, int32_t type, bool rotates);
  Status attention(const AttentionPoint &point, int32_t type);
  Status launch(optrt_kernel kernel, int64_t elements);
  void addProducts(ProductCosts &costs, int32_t type);

  /// Its time, after run(), goes into the place that `store` writes.
  void add(std::function<Status()> call, std::function<void(double)> store) {
    all.push_back({{std::move(call), {}}, std::move(store)});
  }
  Status run();

  Device &device;
  Operands operands;
  const ComputeGrid &grid;
  std::vector<std::pair<Timed, std::function<void(double)>>> all;
};

Status ComputeTimer::run() {
  for (int64_t round = 0; round != grid.rounds; ++round)
    for (auto &[timed, store] : all)
      OPTRT_RETURN_IF_ERROR(timeRound(timed));
  for (auto &[timed, store] : all)
    store(timed.seconds());
  return okStatus();
}

Status ComputeTimer::gemm(const GemmPoint &point, int32_t type, bool rotates) {
  operands.begin(rotates);
  const optrt_gemm_desc desc = point.command(type);
  char *a = operands.take(point.m * point.k, type);
  char *b = operands.take(point.k * point.n, type);
  char *c = operands.take(point.m * point.n, desc.result_type);
  char *bias = operands.take(point.n, type);
  return device.gemm(kCompute, desc, a, b, c, bias, nullptr);
}

/// Heads of one sequence, as many as keep a team busy.
constexpr int64_t kHeads = 4;

Status ComputeTimer::attention(const AttentionPoint &point, int32_t type) {
  optrt_attention_desc desc{};
  desc.type = type;
  desc.batch = 1;
  desc.seq = point.seq;
  desc.heads = desc.kv_heads = kHeads;
  desc.head_dim = point.headDim;
  // Slices of one buffer, as models have them.
  const int64_t width = kHeads * point.headDim;
  desc.q_ld = desc.kv_ld = 3 * width;
  desc.causal = point.causal;
  operands.begin(/*rotates=*/false);
  const int64_t part = width * elementBytes(ElementType(type));
  char *qkv = operands.take(3 * point.seq * width, type);
  char *out = operands.take(point.seq * width, type);
  auto *lse =
      reinterpret_cast<float *>(operands.take(point.seq * kHeads, OPTRT_F32));
  if (!point.gradient)
    return device.attention(kCompute, desc, qkv, qkv + part, qkv + 2 * part,
                            /*lengths=*/nullptr, out, lse);
  char *grad = operands.take(3 * point.seq * width, type);
  return device.attentionGrad(
      kCompute, desc, out, qkv, qkv + part, qkv + 2 * part,
      /*lengths=*/nullptr, out, lse, grad, grad + part, grad + 2 * part);
}

/// Over two arrays that have so many elements together.
Status ComputeTimer::launch(optrt_kernel kernel, int64_t elements) {
  operands.begin(/*rotates=*/false);
  void *args[] = {operands.take(elements / 2, OPTRT_F32),
                  operands.take(elements / 2, OPTRT_F32)};
  optrt_launch_desc desc{"loop", elements / 2 / kLoopElements, 16, 2, 0};
  return device.launch(kCompute, desc, hostKernel("loop", kernel), args);
}

void ComputeTimer::addProducts(ProductCosts &costs, int32_t type) {
  costs.products = shapes(grid.largest);
  for (GemmPoint &point : costs.products)
    add([this, &point, type] { return gemm(point, type, /*rotates=*/false); },
        [&point](double seconds) { point.seconds = seconds; });
  costs.attentions = attentionShapes(grid.largest);
  for (AttentionPoint &point : costs.attentions)
    add([this, &point, type] { return attention(point, type); },
        [&point](double seconds) { point.seconds = seconds / kHeads; });
}

StatusOr<ComputeCosts> ComputeTimer::measure() {
  ComputeCosts costs;
  addProducts(costs.f32, OPTRT_F32);
  addProducts(costs.bf16, OPTRT_BF16);
  GemmPoint least{1, 1, 1};
  add([&] { return gemm(least, OPTRT_F32, /*rotates=*/false); },
      [&](double seconds) { costs.gemmAlpha = seconds; });
  add([&] { return launch(multiplyLoop, 2 * kLoopElements); },
      [&](double seconds) { costs.kernelAlpha = seconds; });
  for (int64_t kib : {16, 64, 256, 1024, 4096, 16384, 65536})
    costs.streams.push_back({kib << 10});
  for (StreamPoint &point : costs.streams)
    add([&] { return launch(multiplyLoop, point.bytes / 4); },
        // Half is read, half is read and written.
        [&](double seconds) {
          point.bytesPerSecond = 1.5 * point.bytes / seconds;
        });
  constexpr int64_t kInCache = 1 << 15;
  auto addLoop = [&](optrt_kernel kernel, double opsOfAnElement, double &rate) {
    add([this, kernel] { return launch(kernel, kInCache); },
        [&rate, opsOfAnElement](double seconds) {
          rate = opsOfAnElement * kInCache / 2 / seconds;
        });
  };
  addLoop(polynomialLoop, kPolynomialOps, costs.vectorOps);
  addLoop(divisionLoop, kDivisions, costs.divisions);
  addLoop(recurrenceLoop, 2, costs.scalarOps);
  std::vector<std::pair<const GemmPoint *, double>> cold;
  for (const GemmPoint *point : chooseForCold(costs.f32.products))
    cold.push_back({point, 0});
  for (auto &[point, coldSeconds] : cold)
    add([this,
         point = point] { return gemm(*point, OPTRT_F32, /*rotates=*/true); },
        [&coldSeconds = coldSeconds](double seconds) {
          coldSeconds = seconds;
        });
  OPTRT_RETURN_IF_ERROR(run());
  std::vector<double> penalties;
  for (const auto &[point, coldSeconds] : cold)
    penalties.push_back((coldSeconds - point->seconds) / point->bytes());
  if (!penalties.empty())
    costs.coldSecondsPerByte = std::max(0.0, takeMedian(penalties));
  return costs;
}

} // namespace

double ProductCosts::flops() const {
  double best = 0;
  for (const GemmPoint &point : products)
    best = std::max(best, point.rate());
  return best;
}

double ComputeCosts::bytesPerSecond() const {
  return streams.back().bytesPerSecond;
}

double ProductCosts::attentionFlops() const {
  double flops = 0, seconds = 0;
  for (const AttentionPoint &point : attentions) {
    flops += point.flops();
    seconds += point.seconds;
  }
  return flops / seconds;
}

StatusOr<ComputeCosts> measureComputeCosts(Device &device,
                                           const ComputeGrid &grid) {
  OPTRT_ASSIGN_OR_RETURN(Operands operands, Operands::allocate(device));
  return ComputeTimer(device, std::move(operands), grid).measure();
}

ComputeCosts medianOf(std::vector<ComputeCosts> ranks) {
  ComputeCosts result = ranks.front();
  auto set = [&](auto get) {
    std::vector<double> values;
    for (ComputeCosts &rank : ranks)
      values.push_back(get(rank));
    get(result) = takeMedian(std::move(values));
  };
  for (ProductCosts ComputeCosts::*type :
       {&ComputeCosts::f32, &ComputeCosts::bf16}) {
    for (std::size_t i = 0; i != (result.*type).products.size(); ++i)
      set([type, i](ComputeCosts &c) -> double & {
        return (c.*type).products[i].seconds;
      });
    for (std::size_t i = 0; i != (result.*type).attentions.size(); ++i)
      set([type, i](ComputeCosts &c) -> double & {
        return (c.*type).attentions[i].seconds;
      });
  }
  for (std::size_t i = 0; i != result.streams.size(); ++i)
    set([i](ComputeCosts &c) -> double & {
      return c.streams[i].bytesPerSecond;
    });
  for (double ComputeCosts::*figure :
       {&ComputeCosts::gemmAlpha, &ComputeCosts::kernelAlpha,
        &ComputeCosts::coldSecondsPerByte, &ComputeCosts::vectorOps,
        &ComputeCosts::divisions, &ComputeCosts::scalarOps})
    set([figure](ComputeCosts &c) -> double & { return c.*figure; });
  return result;
}

} // namespace optimus_run
