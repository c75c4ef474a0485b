//===- Tuning.cpp - The fastest algorithms for products -------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaDevice.h"

#include "optimus-runtime/Measure.h"
#include "optimus-support/Sizes.h"

#include <charconv>
#include <cstring>

namespace optrt::cuda {

/// Of each product; cuBLASLt's heuristic names the promising ones first.
static constexpr int kMostAlgorithms = 16;
static constexpr int kTimedCalls = 5;
/// Times that differ by less are the same: the heuristic decides.
static constexpr double kSameTime = 0.01;

//===----------------------------------------------------------------------===//
// Algorithms as text
//===----------------------------------------------------------------------===//

static std::string toText(const LtAlgorithm &algorithm) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (uint64_t word : algorithm.data)
    for (int shift = 60; shift >= 0; shift -= 4)
      text += digits[word >> shift & 15];
  return text;
}

static StatusOr<LtAlgorithm> toAlgorithm(const std::string &text) {
  constexpr std::size_t kDigits = 16;
  LtAlgorithm algorithm = {};
  bool isRight = text.size() == kDigits * std::size(algorithm.data);
  for (std::size_t i = 0; isRight && i != std::size(algorithm.data); ++i) {
    const char *begin = text.data() + i * kDigits, *end = begin + kDigits;
    auto [stop, error] =
        std::from_chars(begin, end, algorithm.data[i], /*base=*/16);
    isRight = error == std::errc() && stop == end;
  }
  if (!isRight)
    return invalidArgument(concat("expected an algorithm of cuBLASLt in ",
                                  kDigits * std::size(algorithm.data),
                                  " hexadecimal digits, found `",
                                  text.substr(0, 160),
                                  "`; name another file of tuned products or "
                                  "remove this one"));
  return algorithm;
}

std::string Products::nameOf(const Key &key) const {
  static constexpr const char *words[] = {
      "m",        "n",        "k",           "lda",       "ldb",
      "ldc",      "ld_extra", "trans_a",     "trans_b",   "accumulate",
      "epilogue", "bias",     "factors",     "result",    "align_a",
      "align_b",  "align_c",  "align_added", "align_bias"};
  static_assert(std::size(words) == std::tuple_size_v<Key>);
  std::string name;
  for (std::size_t i = 0; i != key.size(); ++i)
    name += concat(i ? " " : "", words[i], "=", key[i]);
  return tf32 ? name + " tf32" : name;
}

//===----------------------------------------------------------------------===//
// One product
//===----------------------------------------------------------------------===//

static ProductOperands operandsOf(const ProductCall &call) {
  return {call.a, call.b, call.c, call.bias, call.extra};
}

bool Products::accepts(const Plan &plan, LtHeuristic &algorithm) const {
  return api.algorithmCheck(handle, plan.operation, plan.b, plan.a, plan.added,
                            plan.c, &algorithm.algorithm,
                            &algorithm) == kLtSuccess &&
         algorithm.workspaceBytes <= std::size_t(kProductWorkspaceBytes);
}

StatusOr<bool> Products::adopt(const ProductCall &product,
                               const TunedProducts &tuned) {
  const ProductOperands operands = operandsOf(product);
  OPTRT_RETURN_IF_ERROR(checkProduct(product.desc, operands));
  if (product.desc.m == 0 || product.desc.n == 0)
    return true;
  OPTRT_ASSIGN_OR_RETURN(Plan *const plan, this->plan(product.desc, operands));
  auto known = tuned.find(plan->name);
  if (plan->isTuned || known == tuned.end())
    return plan->isTuned;
  StatusOr<LtAlgorithm> algorithm = toAlgorithm(known->second.algorithm);
  if (!algorithm.ok())
    return algorithm.status().withContext(plan->name);
  LtHeuristic written = {};
  written.algorithm = *algorithm;
  plan->isTuned = accepts(*plan, written);
  if (plan->isTuned)
    plan->found = written;
  return plan->isTuned;
}

Status Products::tryAll(const ProductCall &product, TunedProducts &tuned,
                        const std::function<StatusOr<double>()> &time) {
  const ProductOperands operands = operandsOf(product);
  OPTRT_ASSIGN_OR_RETURN(Plan *const plan, this->plan(product.desc, operands));
  OPTRT_ASSIGN_OR_RETURN(const std::vector<LtHeuristic> all,
                         list(product.desc, operands, *plan, kMostAlgorithms));
  const LtHeuristic *best = nullptr;
  double seconds = 0;
  Status failure;
  for (const LtHeuristic &one : all) {
    plan->found = one;
    StatusOr<double> took = time();
    // The heuristic may name what does not run; where none does, a failure is
    // the GPU's.
    if (!took.ok())
      failure = took.status();
    else if (!best || *took < seconds * (1 - kSameTime))
      best = &one, seconds = *took;
  }
  if (!best)
    return failure;
  plan->found = *best;
  plan->isTuned = true;
  tuned[plan->name] = {toText(best->algorithm), seconds};
  return okStatus();
}

//===----------------------------------------------------------------------===//
// All products
//===----------------------------------------------------------------------===//

StatusOr<std::string> CudaDevice::tuningMachine() {
  int version = 0;
  OPTRT_CUDA(driver, driverGetVersion, &version);
  std::string text = concat(gpu.name, " (", gpu.architecture(), "), CUDA ",
                            version / 1000, ".", version % 1000 / 10);
  if (!products)
    return text;
  OPTRT_ASSIGN_OR_RETURN(const std::string library, products->version());
  return concat(text, ", ", library);
}

/// Visits where the operands of a product lie: their address and bytes.
static Status
forEachOperand(const ProductCall &call,
               const std::function<Status(void *, int64_t)> &visit) {
  using optimus_support::matrixExtent;
  const optrt_gemm_desc &d = call.desc;
  struct Operand {
    const void *start;
    int64_t rows, cols, ld;
    int32_t type;
  };
  for (const Operand &one :
       {Operand{call.a, d.trans_a ? d.k : d.m, d.trans_a ? d.m : d.k, d.lda,
                d.factor_type},
        {call.b, d.trans_b ? d.n : d.k, d.trans_b ? d.k : d.n, d.ldb,
         d.factor_type},
        {call.c, d.m, d.n, d.ldc, d.result_type},
        {d.has_bias ? call.bias : nullptr, 1, d.n, d.n, d.bias_type},
        {d.epilogue == OPTRT_EPILOGUE_ADD ? call.extra : nullptr, d.m, d.n,
         d.ld_extra, d.extra_type}}) {
    // It was checked.
    const int64_t elements =
        matrixExtent(one.rows, one.cols, one.ld).get().value_or(0);
    const int64_t elementBytes = one.type == OPTRT_F32 ? 4 : 2;
    if (one.start && elements != 0)
      OPTRT_RETURN_IF_ERROR(
          visit(const_cast<void *>(one.start), elements * elementBytes));
  }
  return okStatus();
}

Status CudaDevice::tune(std::span<const ProductCall> calls,
                        TunedProducts &tuned) {
  OPTRT_RETURN_IF_ERROR(enter());
  if (!calls.empty() && !products)
    return internal("products, of which prepare() was told nothing");
  for (const ProductCall &call : calls) {
    OPTRT_ASSIGN_OR_RETURN(const bool isKnown, products->adopt(call, tuned));
    if (isKnown)
      continue;
    OPTRT_RETURN_IF_ERROR(forEachOperand(call, [&](void *start, int64_t bytes) {
      return fillWithNumbers(*this, start, bytes);
    }));
    OPTRT_RETURN_IF_ERROR(products->tryAll(call, tuned, [&] {
      return medianSeconds(*this, kTimedCalls, [&] {
        return gemm(kCompute, call.desc, call.a, call.b, call.c, call.bias,
                    call.extra);
      });
    }));
    OPTRT_RETURN_IF_ERROR(forEachOperand(call, [&](void *start, int64_t bytes) {
      return clear(kCompute, start, bytes);
    }));
  }
  return synchronize();
}

} // namespace optrt::cuda
