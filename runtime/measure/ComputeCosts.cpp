//===- ComputeCosts.cpp - What a rank's computations take -----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ComputeCosts.h"

#include "ComputeLoops.h"
#include "ComputeShapes.h"
#include "Operands.h"
#include "Timing.h"

#include "optimus-runtime/RankTeam.h"
#include "optimus-support/ElementType.h"
#include "optimus-support/ResourceLimits.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <numeric>

using optimus_support::elementBytes;
using optimus_support::ElementType;
using Json = nlohmann::ordered_json;

namespace optrt {

void to_json(Json &json, const GemmPoint &point) {
  json = {{"m", point.m},
          {"n", point.n},
          {"k", point.k},
          {"trans_a", point.transA},
          {"trans_b", point.transB},
          {"bias", point.bias},
          {"gaps", point.gaps},
          {"seconds", point.seconds}};
}

void to_json(Json &json, const AttentionPoint &point) {
  json = {{"seq", point.seq},
          {"head_dim", point.headDim},
          {"causal", point.causal},
          {"gradient", point.gradient},
          {"seconds", point.seconds}};
}

void to_json(Json &json, const PackPoint &point) {
  json = {{"rows", point.rows},
          {"cols", point.cols},
          {"trans", point.trans},
          {"seconds", point.seconds}};
}

void to_json(Json &json, const StreamPoint &point) {
  json = {{"bytes", point.bytes}, {"bytes_per_s", point.bytesPerSecond}};
}

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
  if (gaps)
    (transA ? desc.ldc : desc.ldb) *= 2;
  return desc;
}

double GemmPoint::bytes(int32_t type) const {
  auto bytesOf = [](int64_t elements, int32_t of) {
    return static_cast<double>(elements * elementBytes(ElementType(of)));
  };
  return bytesOf(m * k + k * n, type) +
         bytesOf(m * n, command(type).result_type);
}

optrt_pack_desc PackPoint::command() const {
  // As many elements as the compiler plans.
  constexpr int64_t kBlockRows = 16, kBlockCols = 64;
  auto roundUp = [](int64_t value, int64_t unit) {
    return (value + unit - 1) / unit * unit;
  };
  optrt_pack_desc desc{};
  desc.rows = rows;
  desc.cols = cols;
  desc.ld = trans ? rows : cols;
  desc.elements = roundUp(rows, kBlockRows) * roundUp(cols, kBlockCols);
  desc.trans = trans;
  return desc;
}

namespace {

/// Something that is timed round by round.
struct Timed {
  std::function<Status()> call;
  /// Goes before each call, and is not timed.
  std::function<Status()> prepare;
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
    if (timed.prepare)
      OPTRT_RETURN_IF_ERROR(timed.prepare());
    auto begin = Clock::now();
    OPTRT_RETURN_IF_ERROR(timed.call());
    timed.times.push_back(
        std::chrono::duration<double>(Clock::now() - begin).count());
    total += timed.times.back();
  }
  return okStatus();
}

class ComputeTimer {
public:
  ComputeTimer(Device &device, Operands operands, const ComputeGrid &grid)
      : device(device), operands(std::move(operands)), grid(grid) {}

  StatusOr<ComputeCosts> measure();

private:
  Status gemm(const GemmPoint &point, int32_t type, bool rotates);
  Status attention(const AttentionPoint &point, int32_t type);
  Status pack(const PackPoint &point);
  Status launch(optrt_kernel kernel, int64_t elements);
  Status sumColumns(int64_t bytes);
  Status computeBetween(int64_t bytes);
  void addProducts(ProductCosts &costs, int32_t type);
  void storeCold(ProductCosts &costs, int32_t type) const;

  /// Its time, after run(), goes into the place that `store` writes.
  void add(std::function<Status()> call, std::function<void(double)> store,
           std::function<Status()> prepare = {}) {
    all.push_back(
        {{std::move(call), std::move(prepare), {}}, std::move(store)});
  }
  void addStreams(std::vector<StreamPoint> &points,
                  std::function<Status(int64_t)> pass, double passes);
  Status run();

  Device &device;
  Operands operands;
  const ComputeGrid &grid;
  std::vector<std::pair<Timed, std::function<void(double)>>> all;
  /// Products of each type with operands in no cache, and their seconds.
  std::map<int32_t, std::vector<std::pair<const GemmPoint *, double>>> cold;
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
  char *a = operands.read(point.m * point.k, type);
  const int64_t apart = point.gaps ? 2 : 1;
  char *b = operands.read(apart * point.k * point.n, type);
  char *c = operands.write(apart * point.m * point.n, desc.result_type);
  char *bias = operands.read(point.n, type);
  return device.gemm(kCompute, desc, a, b, c, bias, nullptr);
}

/// Features of a token. Heads lie beside each other, so that rows of one are
/// far apart.
constexpr int64_t kWidth = 512;

Status ComputeTimer::attention(const AttentionPoint &point, int32_t type) {
  optrt_attention_desc desc{};
  desc.type = type;
  desc.batch = 1;
  desc.seq = point.seq;
  desc.heads = desc.kv_heads = kWidth / point.headDim;
  desc.head_dim = point.headDim;
  // Slices of one buffer, as models have them.
  desc.q_ld = desc.kv_ld = 3 * kWidth;
  desc.causal = point.causal;
  operands.begin(/*rotates=*/false);
  const int64_t part = kWidth * elementBytes(ElementType(type));
  char *qkv = operands.read(3 * point.seq * kWidth, type);
  // A gradient reads them.
  auto take = [&](int64_t elements, int32_t of) {
    return point.gradient ? operands.read(elements, of)
                          : operands.write(elements, of);
  };
  char *out = take(point.seq * kWidth, type);
  auto *lse =
      reinterpret_cast<float *>(take(point.seq * desc.heads, OPTRT_F32));
  AttentionOperands given{.q = qkv,
                          .k = qkv + part,
                          .v = qkv + 2 * part,
                          .lengths = nullptr,
                          .out = out,
                          .lse = lse,
                          .workspace = nullptr};
  if (!point.gradient)
    return device.attention(kCompute, desc, given);
  char *grad = operands.write(3 * point.seq * kWidth, type);
  given.dout = operands.read(point.seq * kWidth, type);
  given.dq = grad;
  given.dk = grad + part;
  given.dv = grad + 2 * part;
  return device.attentionGrad(kCompute, desc, given);
}

/// A step packs weights that it has not seen since the last one.
Status ComputeTimer::pack(const PackPoint &point) {
  operands.begin(/*rotates=*/true);
  const optrt_pack_desc desc = point.command();
  const auto *from = reinterpret_cast<const float *>(
      operands.read(point.rows * point.cols, OPTRT_F32));
  auto *to =
      reinterpret_cast<float *>(operands.write(desc.elements, OPTRT_F32));
  return device.pack(kCompute, desc, from, to);
}

/// Over two arrays that have so many elements together.
Status ComputeTimer::launch(optrt_kernel kernel, int64_t elements) {
  operands.begin(/*rotates=*/false);
  void *args[] = {operands.read(elements / 2, OPTRT_F32),
                  operands.write(elements / 2, OPTRT_F32)};
  optrt_launch_desc desc{"loop", elements / 2 / kLoopElements, 16, 2, 0};
  return device.launch(kCompute, desc, hostKernel("loop", kernel), args);
}

/// So many bytes of a matrix, column by column.
Status ComputeTimer::sumColumns(int64_t bytes) {
  operands.begin(/*rotates=*/false);
  constexpr int64_t kRowBytes = kLoopWidth * sizeof(float);
  int64_t rows = bytes / kRowBytes;
  void *args[] = {operands.read(rows * kLoopWidth, OPTRT_F32),
                  operands.write(kLoopWidth, OPTRT_F32), &rows};
  optrt_launch_desc desc{"loop", kLoopWidth / kLoopColumns, 1, 2, 1};
  return device.launch(kCompute, desc, hostKernel("loop", columnsLoop), args);
}

/// What a step multiplies while it touches so many bytes. Others on the machine
/// use its caches meanwhile, so that a large one has not all of it any more.
Status ComputeTimer::computeBetween(int64_t bytes) {
  constexpr double kBytesPerSecond = 2e9;
  constexpr int64_t kExtent = 128;
  using Clock = std::chrono::steady_clock;
  const auto end =
      Clock::now() + std::chrono::duration<double>(static_cast<double>(bytes) /
                                                   kBytesPerSecond);
  while (Clock::now() < end)
    OPTRT_RETURN_IF_ERROR(
        gemm({kExtent, kExtent, kExtent}, OPTRT_F32, /*rotates=*/false));
  return okStatus();
}

void ComputeTimer::addStreams(std::vector<StreamPoint> &points,
                              std::function<Status(int64_t)> pass,
                              double passes) {
  for (int64_t kib : {16, 64, 256, 1024, 2048, 4096, 8192, 16384, 65536})
    points.push_back({kib << 10});
  for (StreamPoint &point : points)
    add([&point, pass] { return pass(point.bytes); },
        [&point, passes](double seconds) {
          point.bytesPerSecond =
              passes * static_cast<double>(point.bytes) / seconds;
        },
        [this, &point] { return computeBetween(point.bytes); });
}

void ComputeTimer::addProducts(ProductCosts &costs, int32_t type) {
  costs.products = productShapes(grid.largest);
  for (GemmPoint &point : costs.products)
    add([this, &point, type] { return gemm(point, type, /*rotates=*/false); },
        [&point](double seconds) { point.seconds = seconds; });
  for (const GemmPoint *point : chooseForCold(costs.products))
    cold[type].push_back({point, 0});
  for (auto &[point, coldSeconds] : cold[type])
    add([this, point = point,
         type] { return gemm(*point, type, /*rotates=*/true); },
        [&coldSeconds = coldSeconds](double seconds) {
          coldSeconds = seconds;
        });
  costs.attentions = attentionShapes(grid.largest);
  for (AttentionPoint &point : costs.attentions)
    add([this, &point, type] { return attention(point, type); },
        [&point](double seconds) {
          point.seconds = seconds * static_cast<double>(point.headDim) / kWidth;
        });
}

void ComputeTimer::storeCold(ProductCosts &costs, int32_t type) const {
  std::vector<double> penalties;
  for (const auto &[point, coldSeconds] : cold.at(type))
    penalties.push_back((coldSeconds - point->seconds) / point->bytes(type));
  if (!penalties.empty())
    costs.coldSecondsPerByte = std::max(0.0, takeMedian(penalties));
}

StatusOr<ComputeCosts> ComputeTimer::measure() {
  ComputeCosts costs;
  addProducts(costs.f32, OPTRT_F32);
  addProducts(costs.bf16, OPTRT_BF16);
  GemmPoint least{1, 1, 1};
  add([&] { return gemm(least, OPTRT_F32, /*rotates=*/false); },
      [&](double seconds) { costs.gemmAlpha = seconds; });
  add([&] { return launch(accumulateLoop, 2 * kLoopElements); },
      [&](double seconds) { costs.kernelAlpha = seconds; });
  costs.packs = packShapes(grid.largest);
  for (PackPoint &point : costs.packs)
    add([this, &point] { return pack(point); },
        [&point](double seconds) { point.seconds = seconds; });
  // Half is read, half is read and written.
  addStreams(
      costs.streams,
      [this](int64_t bytes) { return launch(accumulateLoop, bytes / 4); }, 1.5);
  addStreams(
      costs.columns, [this](int64_t bytes) { return sumColumns(bytes); }, 1);
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
  OPTRT_RETURN_IF_ERROR(run());
  storeCold(costs.f32, OPTRT_F32);
  storeCold(costs.bf16, OPTRT_BF16);
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

static StatusOr<ComputeCosts> measureRank(Device &device,
                                          const ComputeGrid &grid) {
  OPTRT_ASSIGN_OR_RETURN(Operands operands, Operands::allocate(device));
  return ComputeTimer(device, std::move(operands), grid).measure();
}

static ComputeCosts medianOf(std::vector<ComputeCosts> ranks) {
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
    set([type](ComputeCosts &c) -> double & {
      return (c.*type).coldSecondsPerByte;
    });
  }
  for (std::size_t i = 0; i != result.packs.size(); ++i)
    set([i](ComputeCosts &c) -> double & { return c.packs[i].seconds; });
  for (std::vector<StreamPoint> ComputeCosts::*list :
       {&ComputeCosts::streams, &ComputeCosts::columns})
    for (std::size_t i = 0; i != (result.*list).size(); ++i)
      set([list, i](ComputeCosts &c) -> double & {
        return (c.*list)[i].bytesPerSecond;
      });
  for (double ComputeCosts::*figure :
       {&ComputeCosts::gemmAlpha, &ComputeCosts::kernelAlpha,
        &ComputeCosts::vectorOps, &ComputeCosts::divisions,
        &ComputeCosts::scalarOps})
    set([figure](ComputeCosts &c) -> double & { return c.*figure; });
  return result;
}

StatusOr<ComputeCosts> measureComputeCosts(int threads, int ranks,
                                           const ComputeGrid &grid) {
  OPTRT_ASSIGN_OR_RETURN(DeviceFactory factory, DeviceFactory::open("cpu"));
  OPTRT_ASSIGN_OR_RETURN(std::unique_ptr<RankTeam> team,
                         RankTeam::create(ranks, [](const Status &) {}));
  std::vector<ComputeCosts> costs(ranks);
  OPTRT_RETURN_IF_ERROR(team->run([&](int rank) -> Status {
    OPTRT_ASSIGN_OR_RETURN(std::unique_ptr<Device> device,
                           factory.create(threads));
    OPTRT_ASSIGN_OR_RETURN(costs[rank], measureRank(*device, grid));
    return okStatus();
  }));
  return medianOf(std::move(costs));
}

static Json toJson(const ProductCosts &costs) {
  return {{"flops_per_s", costs.flops()},
          {"cold_s_per_byte", costs.coldSecondsPerByte},
          {"attention_flops_per_s", costs.attentionFlops()},
          {"attention", costs.attentions},
          {"points", costs.products}};
}

Json machineEntries(const ComputeCosts &costs, int threads, int ranks) {
  const int cores = optimus_support::resourceLimits().usableCores();
  Json entry{{"threads", threads},
             {"ranks", ranks},
             {"cores", cores},
             {"alpha_s", costs.gemmAlpha},
             {"kernel_alpha_s", costs.kernelAlpha},
             {"bytes_per_s", costs.bytesPerSecond()},
             {"vector_ops_per_s", costs.vectorOps},
             {"divisions_per_s", costs.divisions},
             {"scalar_ops_per_s", costs.scalarOps},
             {"packs", costs.packs},
             {"streams", costs.streams},
             {"columns", costs.columns}};
  entry.update(toJson(costs.f32));
  Json narrow{{"type", "bf16"}};
  narrow.update(toJson(costs.bf16));
  entry["types"] = Json::array({narrow});
  return Json::array({entry});
}

} // namespace optrt
