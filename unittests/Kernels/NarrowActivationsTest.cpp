//===- NarrowActivationsTest.cpp - GELU and SwiGLU on bf16 ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// On GPUs their exponentials and quotients are approximate where all results
// are bf16, so nothing is the same to the bit. Each result is held against its
// formula in f64: it is off by one rounding to bf16, and by what a running
// analysis of the kernel's operations leaves, each with its own error.
//
//===----------------------------------------------------------------------===//

#include "EmulatedKernels.h"
#include "KernelTest.h"

#include <numbers>

using namespace mlir::optimus;
using namespace mlir::optimus::kernel_test;

namespace {

/// Errors of instructions in roundings, of the PTX manual: ex2.approx.ftz is
/// off by 2^-22 of its result, and div.approx by 2 units of the last place, for
/// divisors up to 2^126.
constexpr double kOfExp2 = 4, kOfQuotient = 4;
/// What ex2.approx.ftz gives for less is 0.
constexpr double kLeastNormal = 0x1p-126;
/// Where exponents of e^x end, so that 1/(1 + e^x) is a normal number.
constexpr double kMostExponent = 125;

/// A number in exact arithmetic, and how far the kernel's is from it at most.
struct Bounded {
  double value, error = 0;
};

Bounded rounded(double value, double error, double roundings = 1) {
  return {value, error + roundings * kRoundoff * (std::abs(value) + error)};
}
Bounded constant(double value) { return rounded(value, 0); }
Bounded operator+(Bounded a, Bounded c) {
  return rounded(a.value + c.value, a.error + c.error);
}
Bounded operator-(Bounded a, Bounded c) {
  return rounded(a.value - c.value, a.error + c.error);
}
Bounded operator*(Bounded a, Bounded c) {
  return rounded(a.value * c.value, std::abs(a.value) * c.error +
                                        std::abs(c.value) * a.error +
                                        a.error * c.error);
}
Bounded operator/(Bounded a, Bounded c) {
  const double quotient = a.value / c.value;
  return rounded(quotient,
                 (a.error + std::abs(quotient) * c.error) /
                     (std::abs(c.value) - c.error),
                 kOfQuotient);
}
/// A power of two, up to 2^125.
Bounded exp(Bounded x) {
  const Bounded exponent = x * constant(std::numbers::log2e);
  auto power = [&](double error) {
    return std::exp2(std::min(exponent.value + error, kMostExponent));
  };
  const double value = power(0);
  Bounded result = rounded(
      value,
      std::max(power(exponent.error) - value, value - power(-exponent.error)),
      kOfExp2);
  result.error += kLeastNormal;
  return result;
}

using Results = std::vector<Bounded>;
const Bounded kOne = {1};

/// The tanh form: x·s with s = 1/(1 + e^(−2u)), and its slope.
Results boundGelu(const double *operands) {
  const double scale = std::sqrt(2 / M_PI), cubic = 0.044715;
  const Bounded x = {operands[0]}, square = x * x;
  const Bounded e =
      exp(x * (square * constant(-2 * scale * cubic) - constant(2 * scale)));
  const Bounded s = kOne / (kOne + e), quotient = x / (kOne + e);
  const Bounded slope2u =
      square * constant(6 * scale * cubic) + constant(2 * scale);
  const Bounded slope = s + x * slope2u * (e * s) * s;
  // With the slope it is a product, without a quotient: the worse of both.
  const Bounded product = x * s;
  return {{product.value, std::max(product.error, quotient.error)}, slope};
}
std::vector<double> computeGelu(const double *operands) {
  const double scale = std::sqrt(2 / M_PI), x = operands[0];
  const double u = scale * (x + 0.044715 * x * x * x);
  const double s = 1 / (1 + std::exp(-2 * u)), rest = 1 / (1 + std::exp(2 * u));
  return {x * s, s + 2 * x * scale * (1 + 3 * 0.044715 * x * x) * s * rest};
}

/// The distribution of the normal by its tail t·g(t)·e^(−z²)/2, where g is
/// interpolated.
Results boundExactGelu(const double *operands) {
  const Bounded x = {operands[0]};
  const Bounded z = Bounded{std::abs(x.value)} * constant(std::sqrt(0.5));
  const Bounded e = exp(Bounded{0} - z * z);
  const Bounded t = kOne / (kOne + z * constant(0.45));
  // Of the interpolation; of ten sums and products of numbers up to 1, with the
  // coefficients' own roundings; and of t, where the slope is below 6.8. From
  // z = 26 on e is 0, and erfc(z) soon no number of f64.
  constexpr double kMostTail = 26;
  const double g =
      z.value < kMostTail
          ? std::erfc(z.value) * std::exp(z.value * z.value) / t.value
          : 1;
  const Bounded series = {g, 3.4e-8 * g + 30 * kRoundoff + 6.8 * t.error};
  const Bounded tail = t * series * e * constant(0.5);
  const Bounded distribution = x.value > 0 ? kOne - tail : tail;
  return {x * distribution,
          distribution + x * e * constant(1 / std::sqrt(2 * M_PI))};
}
std::vector<double> computeExactGelu(const double *operands) {
  const double x = operands[0], distribution = std::erfc(-x * M_SQRT1_2) / 2;
  return {x * distribution,
          distribution + x * std::exp(-x * x / 2) / std::sqrt(2 * M_PI)};
}

Results boundSwiglu(const double *operands) {
  const Bounded gate = {operands[0]}, up = {operands[1]};
  return {gate / (kOne + exp(gate * Bounded{-1})) * up};
}
std::vector<double> computeSwiglu(const double *operands) {
  return {operands[0] / (1 + std::exp(-operands[0])) * operands[1]};
}

Results boundSwigluGrad(const double *operands) {
  const Bounded dy = {operands[0]}, gate = {operands[1]}, up = {operands[2]};
  const Bounded e = exp(gate * Bounded{-1}), s = kOne / (kOne + e);
  return {dy * up * (s + gate * (e * s) * s), dy * (gate * s)};
}
std::vector<double> computeSwigluGrad(const double *operands) {
  const double dy = operands[0], gate = operands[1], up = operands[2];
  const double s = 1 / (1 + std::exp(-gate)), rest = 1 / (1 + std::exp(gate));
  return {dy * up * (s + gate * s * rest), dy * gate * s};
}

struct Activation {
  std::string name;
  Kernel kernel;
  size_t operands, results;
  Results (*bound)(const double *operands);
  std::vector<double> (*compute)(const double *operands);

  std::vector<std::string> getNames() const {
    std::vector<std::string> names;
    for (size_t i = 0; i < operands; ++i)
      names.push_back("operand" + std::to_string(i));
    for (size_t i = 0; i < results; ++i)
      names.push_back("result" + std::to_string(i));
    return names;
  }
};

std::vector<Activation> getActivations(CompiledKernels &kernels, int64_t n) {
  return {
      {"gelu", kernels.elementwise<GeluOp>(n), 1, 1, boundGelu, computeGelu},
      {"gelu_with_slope", kernels.elementwise<GeluWithSlopeOp>(n), 1, 2,
       boundGelu, computeGelu},
      {"exact_gelu", kernels.elementwise<GeluOp>(n, /*exact=*/true), 1, 1,
       boundExactGelu, computeExactGelu},
      {"exact_gelu_with_slope",
       kernels.elementwise<GeluWithSlopeOp>(n, /*exact=*/true), 1, 2,
       boundExactGelu, computeExactGelu},
      {"swiglu", kernels.elementwise<SwigluOp>({n, n}), 2, 1, boundSwiglu,
       computeSwiglu},
      {"swiglu_grad", kernels.elementwise<SwigluGradOp>({n, n, n}), 3, 2,
       boundSwigluGrad, computeSwigluGrad},
  };
}

/// Operands of bf16, with those of exponentials that are 0 or at their end.
std::vector<Halves> drawOperands(size_t count, size_t n) {
  std::vector<Halves> operands;
  for (size_t i = 0; i < count; ++i) {
    Floats numbers = random(n, 0, 3);
    const float special[] = {0, 40, -40, 1e4f, -1e4f, -0.0f, -12, 90, -90};
    // A gate's, or GELU's.
    if (i == (count == 3 ? 1 : 0))
      std::copy_n(special, std::min(n, std::size(special)), numbers.begin());
    operands.push_back(narrow(numbers));
  }
  return operands;
}

/// Half of what bf16 has between its numbers there.
double halfUnit(double value) {
  constexpr int kHalf = 8, kLeast = -126;
  return std::ldexp(
      1, (value == 0 ? kLeast : std::max(std::ilogb(value), kLeast)) - kHalf);
}

/// Of the results of a kernel, how many are farther from their formula than
/// its operations leave; those of each result.
std::vector<size_t> countWrong(const Activation &activation,
                               const std::vector<Halves> &operands,
                               const std::vector<Halves> &results) {
  std::vector<size_t> wrong(results.size());
  for (size_t i = 0; i < operands.front().size(); ++i) {
    std::vector<double> inputs;
    for (const Halves &operand : operands)
      inputs.push_back(widen(operand[i]));
    const Results bounds = activation.bound(inputs.data());
    const std::vector<double> exact = activation.compute(inputs.data());
    for (size_t number = 0; number < results.size(); ++number) {
      const auto [value, error] = bounds[number];
      // The analysis is of the formula. What an exponent's end leaves of a
      // gradient is below 2^-80.
      EXPECT_LE(std::abs(value - exact[number]), error + 0x1p-80)
          << activation.name << " of " << inputs[0];
      const double found = widen(results[number][i]);
      const double allowed = error + halfUnit(std::abs(value) + error);
      wrong[number] += !(std::abs(found - value) <= allowed);
    }
  }
  return wrong;
}

/// As many numbers as vectors cover, fewer, and some more.
constexpr int64_t kNumbers[] = {1, 37, 4096, 5003};

} // namespace

TEST_P(KernelTest, NarrowActivationsAreTheirFormulasRounded) {
  struct Case {
    Activation activation;
    size_t n, narrow, wide;
  };
  std::vector<Case> cases;
  for (int64_t n : kNumbers)
    for (const Activation &activation : getActivations(kernels, n))
      cases.push_back(
          {activation, size_t(n),
           kernels.add(activation.kernel, {}, activation.getNames()),
           kernels.add(activation.kernel)});
  ASSERT_EQ(kernels.compile(), "");
  for (const auto &[activation, n, narrowNumber, wideNumber] : cases) {
    std::vector<Halves> operands = drawOperands(activation.operands, n);
    std::vector<Halves> results(activation.results, unsetHalves(n));
    std::vector<void *> buffers;
    for (auto *list : {&operands, &results})
      for (Halves &buffer : *list)
        buffers.push_back(buffer.data());
    kernels.run(narrowNumber, buffers, 3);
    if (isApproximate()) {
      EXPECT_EQ(countWrong(activation, operands, results),
                std::vector<size_t>(activation.results))
          << activation.name << " of " << n;
      continue;
    }
    // Elsewhere they are what f32 gives, rounded once.
    std::vector<Floats> wides;
    for (const Halves &operand : operands)
      wides.push_back(widen(operand));
    wides.resize(operands.size() + results.size(), unset(n));
    std::vector<void *> wideBuffers;
    for (Floats &buffer : wides)
      wideBuffers.push_back(buffer.data());
    kernels.run(wideNumber, wideBuffers, 1);
    for (size_t i = 0; i < results.size(); ++i)
      EXPECT_EQ(results[i], narrow(wides[operands.size() + i]))
          << activation.name << " of " << n;
  }
}

namespace {

/// log2(e) rounded to 8 bits: exponents are off by 2^-9 of theirs.
struct RoughLogarithm final : CudaSchedule {
  Num narrowExp(KernelBuilder &k, Num x) const override {
    return CudaSchedule::narrowExp(k, x * (1.4453125 / std::numbers::log2e));
  }
};
/// Quotients with 9 bits, one more than results have.
struct RoughQuotient final : CudaSchedule {
  Num narrowQuotient(KernelBuilder &k, Num a, Num c) const override {
    return CudaSchedule::narrowQuotient(k, a * (1 + 0x1p-9), c);
  }
};
/// e^x goes to infinity: 2^x twice, of which each half is finite.
struct EndlessExp final : CudaSchedule {
  Num narrowExp(KernelBuilder &k, Num x) const override {
    Num root = CudaSchedule::narrowExp(k, x * 0.5);
    return root * root;
  }
};

/// The names of the activations whose results are found to be wrong.
std::vector<std::string> findWrong(const CudaSchedule &schedule) {
  const int64_t n = 4096;
  EmulatedKernels kernels(schedule);
  std::vector<Activation> activations = getActivations(kernels, n);
  std::vector<size_t> numbers;
  for (const Activation &activation : activations)
    numbers.push_back(
        kernels.add(activation.kernel, {}, activation.getNames()));
  EXPECT_EQ(kernels.compile(), "");
  std::vector<std::string> wrong;
  for (auto [activation, number] : llvm::zip_equal(activations, numbers)) {
    std::vector<Halves> operands = drawOperands(activation.operands, n);
    std::vector<Halves> results(activation.results, unsetHalves(n));
    std::vector<void *> buffers;
    for (auto *list : {&operands, &results})
      for (Halves &buffer : *list)
        buffers.push_back(buffer.data());
    EXPECT_EQ(kernels.runOnce(number, buffers, 2, emulator::Order::Forward),
              "");
    if (countWrong(activation, operands, results) !=
        std::vector<size_t>(activation.results))
      wrong.push_back(activation.name);
  }
  return wrong;
}

} // namespace

TEST(NarrowActivations, FindRoughArithmetic) {
  const std::vector<std::string> all = {"gelu",       "gelu_with_slope",
                                        "exact_gelu", "exact_gelu_with_slope",
                                        "swiglu",     "swiglu_grad"};
  EXPECT_EQ(findWrong(CudaSchedule()), std::vector<std::string>());
  EXPECT_EQ(findWrong(RoughLogarithm()), all);
  EXPECT_EQ(findWrong(RoughQuotient()), all);
  // 0 times infinity, and quotients that leave the normal numbers.
  EXPECT_EQ(findWrong(EndlessExp()),
            (std::vector<std::string>{"gelu", "gelu_with_slope", "swiglu",
                                      "swiglu_grad"}));
}
