//===- FakeCudnnEvaluation.cpp - Graphs of operations, computed -----------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Any graph of products, sums, maxima and operations on elements is computed
// one operation after the other, in f64, and rounded to the type of each
// tensor. What is added to in memory is added in f32 and in random order, as
// the blocks of a GPU do.
//
//===----------------------------------------------------------------------===//

#include "FakeCudnnGraph.h"
#include "FakeGpu.h"

#include "optimus-support/BFloat16.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <unordered_map>

namespace optrt::cuda::fake {

using Place = std::array<int64_t, 4>;
using Values = std::vector<double>;

static int64_t dotOf(const Place &at, const Place &extents,
                     const Place &strides) {
  int64_t sum = 0;
  for (size_t i = 0; i != 4; ++i)
    sum += extents[i] == 1 ? 0 : at[i] * strides[i];
  return sum;
}
int64_t FakeTensor::place(const Place &at) const {
  return dotOf(at, extents, strides);
}
int64_t FakeTensor::number(const Place &at) const {
  const int64_t rows = extents[3], heads = extents[2] * rows;
  return dotOf(at, extents, {extents[1] * heads, heads, rows, 1});
}

/// Calls `run` at each place of a tensor.
template <typename Fn>
static void forEach(const Place &extents, Fn &&run) {
  Place at;
  for (at[0] = 0; at[0] != extents[0]; ++at[0])
    for (at[1] = 0; at[1] != extents[1]; ++at[1])
      for (at[2] = 0; at[2] != extents[2]; ++at[2])
        for (at[3] = 0; at[3] != extents[3]; ++at[3])
          run(at);
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/// Tells the GPU what of a tensor is read or written; where it begins.
static char *touch(const FakeTensor &tensor, void *address, bool isWrite) {
  std::vector<std::pair<int64_t, int64_t>> dims; // stride, extent
  for (size_t i = 0; i != 4; ++i)
    if (tensor.extents[i] > 1)
      dims.emplace_back(tensor.strides[i], tensor.extents[i]);
  std::sort(dims.begin(), dims.end());
  const int64_t bytes = tensor.elementBytes();
  size_t next = 0;
  int64_t row = 1;
  for (; next != dims.size() && dims[next].first == row; ++next)
    row *= dims[next].second;
  int64_t pitch = next == dims.size() ? 0 : dims[next].first, count = 1;
  for (; next != dims.size() && dims[next].first == pitch * count; ++next)
    count *= dims[next].second;
  const auto *base = static_cast<char *>(address);
  char *begin = nullptr;
  // Whatever is left are stretches apart from each other.
  if (next == dims.size())
    dims.emplace_back(0, 1);
  const auto [apart, stretches] = dims[next];
  for (int64_t i = stretches; i-- > 0;) {
    begin = static_cast<char *>(optimus_fake_gpu_touch(
        {base + i * apart * bytes, row * bytes, count, pitch * bytes, isWrite},
        "a tensor of cuDNN's"));
    if (!begin)
      return nullptr;
  }
  return next + 1 < dims.size() ? nullptr : begin;
}

static double rounded(int type, double value) {
  if (type == kDnnBF16)
    return optimus_support::fromBFloat16(
        optimus_support::toBFloat16(static_cast<float>(value)));
  return type == kDnnF32 ? static_cast<float>(value) : value;
}

static double load(int type, const char *at, int64_t i) {
  switch (type) {
  case kDnnBF16:
    return optimus_support::fromBFloat16(
        reinterpret_cast<const uint16_t *>(at)[i]);
  case kDnnI32:
    return reinterpret_cast<const int32_t *>(at)[i];
  default:
    return reinterpret_cast<const float *>(at)[i];
  }
}
static void store(int type, char *at, int64_t i, double value) {
  const auto narrow = static_cast<float>(value);
  if (type == kDnnBF16)
    reinterpret_cast<uint16_t *>(at)[i] = optimus_support::toBFloat16(narrow);
  else
    reinterpret_cast<float *>(at)[i] = narrow;
}

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

static double combine(int mode, double x, double b, double t) {
  switch (mode) {
  case kDnnAdd:
    return x + b;
  case kDnnMul:
    return x * b;
  case kDnnDiv:
    return x / b;
  case kDnnSub:
    return x - b;
  case kDnnExp:
    return std::exp(x);
  case kDnnLog:
    return std::log(x);
  case kDnnIdentity:
    return x;
  case kDnnGreaterEqual:
    return x >= b;
  case kDnnLess:
    return x < b;
  case kDnnAnd:
    return x != 0 && b != 0;
  case kDnnSelect:
    return t != 0 ? x : b;
  default:
    return std::nan("");
  }
}

/// Random numbers for orders of sums, as the turns of streams are random.
static std::mt19937_64 &orders() {
  const char *seed = std::getenv("OPTIMUS_FAKE_GPU_SEED");
  static std::mt19937_64 random(seed ? std::strtoull(seed, nullptr, 10) : 0);
  return random;
}

namespace {
/// The values of a graph's tensors while it runs.
class Evaluation {
public:
  explicit Evaluation(const FakeExecution &execution) : execution(execution) {}

  bool run(const FakeOperation &operation);

private:
  const Values *read(const FakeTensor &tensor);
  double at(const FakeTensor &tensor, const Place &place) {
    return tensor ? (*read(tensor))[size_t(tensor.number(place))] : 0;
  }
  Values multiply(const FakeOperation &o);
  Values reduce(const FakeOperation &o);
  Values reshape(const FakeOperation &o);
  bool write(const FakeOperation &o, Values result);

  const FakeExecution &execution;
  std::map<int64_t, Values> values;
};
} // namespace

const Values *Evaluation::read(const FakeTensor &tensor) {
  const auto [place, isNew] = values.try_emplace(tensor.id);
  if (!isNew)
    return &place->second;
  Values &result = place->second;
  result.resize(size_t(tensor.elements()));
  if (tensor.isByValue) {
    result[0] = execution.values.at(tensor.id);
    return &result;
  }
  const char *memory =
      touch(tensor, execution.pointers.at(tensor.id), /*isWrite=*/false);
  if (!memory)
    return nullptr;
  forEach(tensor.extents, [&](const Place &at) {
    result[size_t(tensor.number(at))] =
        load(tensor.type, memory, tensor.place(at));
  });
  return &result;
}

Values Evaluation::multiply(const FakeOperation &o) {
  const int64_t shared = o.x.extents[1] / o.b.extents[1];
  // What lies in memory in f32 is added to by many.
  const bool isInAnyOrder = o.y.isInMemory() && o.y.type == kDnnF32;
  const Values &x = *read(o.x), &b = *read(o.b);
  std::vector<int64_t> order(size_t(o.x.extents[3]));
  std::iota(order.begin(), order.end(), 0);
  Values result(size_t(o.y.elements()));
  forEach(o.y.extents, [&](const Place &p) {
    auto limit = [&](const FakeTensor &tensor, int64_t otherwise) {
      return tensor ? int64_t(at(tensor, {p[0], 0, 0, 0})) : otherwise;
    };
    const int64_t depth = limit(o.depth, o.x.extents[3]);
    if (p[2] >= limit(o.rows, o.y.extents[2]) ||
        p[3] >= limit(o.cols, o.y.extents[3]))
      return;
    if (isInAnyOrder)
      std::shuffle(order.begin(), order.end(), orders());
    double sum = 0;
    for (int64_t k : order) {
      if (k >= depth)
        continue;
      sum += x[size_t(o.x.number({p[0], p[1], p[2], k}))] *
             b[size_t(o.b.number({p[0], p[1] / shared, k, p[3]}))];
      if (isInAnyOrder)
        sum = static_cast<float>(sum);
    }
    result[size_t(o.y.number(p))] = sum;
  });
  return result;
}

/// Of neighbours, as many as the extents' quotient.
Values Evaluation::reduce(const FakeOperation &o) {
  const bool isSum = o.mode == kDnnSum;
  Values result(size_t(o.y.elements()),
                isSum ? 0 : -std::numeric_limits<double>::infinity());
  forEach(o.x.extents, [&](const Place &p) {
    Place to;
    for (size_t i = 0; i != 4; ++i)
      to[i] = p[i] / (o.x.extents[i] / o.y.extents[i]);
    double &into = result[size_t(o.y.number(to))];
    const double value = at(o.x, p);
    into = isSum ? into + value : std::max(into, value);
  });
  return result;
}

/// The same elements as they would lie in memory, by other extents.
Values Evaluation::reshape(const FakeOperation &o) {
  std::unordered_map<int64_t, double> byPlace;
  forEach(o.x.extents,
          [&](const Place &p) { byPlace[o.x.place(p)] = at(o.x, p); });
  Values result(size_t(o.y.elements()));
  forEach(o.y.extents, [&](const Place &p) {
    result[size_t(o.y.number(p))] = byPlace[o.y.place(p)];
  });
  return result;
}

bool Evaluation::run(const FakeOperation &o) {
  for (const FakeTensor &input : o.inputs())
    if (!read(input))
      return false;
  Values result(size_t(o.y.elements()));
  switch (o.kind) {
  case FakeOperation::Matmul:
    return write(o, multiply(o));
  case FakeOperation::Reduction:
    return write(o, reduce(o));
  case FakeOperation::Reshape:
    return write(o, reshape(o));
  case FakeOperation::Pointwise:
    forEach(o.y.extents, [&](const Place &p) {
      result[size_t(o.y.number(p))] =
          o.mode == kDnnIndex
              ? double(p[size_t(o.axis)])
              : combine(o.mode, at(o.x, p), at(o.b, p), at(o.t, p));
    });
    return write(o, std::move(result));
  }
  return false;
}

bool Evaluation::write(const FakeOperation &o, Values result) {
  for (double &value : result)
    value = rounded(o.y.type, value);
  if (o.y.isInMemory()) {
    char *memory = touch(o.y, execution.pointers.at(o.y.id), /*isWrite=*/true);
    if (!memory)
      return false;
    forEach(o.y.extents, [&](const Place &p) {
      // Rows behind the end of a sequence stay as they are.
      if (!o.rows || p[2] < int64_t(at(o.rows, {p[0], 0, 0, 0})))
        store(o.y.type, memory, o.y.place(p), result[size_t(o.y.number(p))]);
    });
  }
  values[o.y.id] = std::move(result);
  return true;
}

Result FakeExecution::run() const {
  if (workspaceBytes > 0) {
    void *scratch = optimus_fake_gpu_touch(
        {workspace, workspaceBytes, 1, 0, true}, "the workspace of attention");
    if (!scratch)
      return kIllegalAddress;
    // Whoever keeps something there loses it.
    std::memset(scratch, 0xFF, size_t(workspaceBytes));
  }
  Evaluation evaluation(*this);
  for (const FakeOperation &operation : graph.operations)
    if (!evaluation.run(operation))
      return kIllegalAddress;
  return kSuccess;
}

} // namespace optrt::cuda::fake
