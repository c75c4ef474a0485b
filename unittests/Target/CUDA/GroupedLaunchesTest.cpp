//===- GroupedLaunchesTest.cpp - One launch is as many ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "EmulatedKernels.h"
#include "KernelTest.h"

#include "optimus/Kernels/Grouped.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace mlir::optimus;
using namespace mlir::optimus::kernels;
using mlir::optimus::kernel_test::Floats;
using mlir::optimus::kernel_test::random;
using testing::HasSubstr;

namespace {

/// The buffers of a launch: those that are given, and then each piece's.
std::vector<void *> list(std::vector<void *> buffers,
                         std::vector<std::vector<Floats>> &pieces) {
  for (std::vector<Floats> &piece : pieces)
    for (Floats &buffer : piece)
      buffers.push_back(buffer.data());
  return buffers;
}

/// Less than a vector, ends of every kind, and several chunks.
constexpr int64_t kExtents[] = {1, 37, 4096, 8192, 8195, 20001};

TEST(Pieces, UpdateInOneLaunchWithTheBitsOfMany) {
  EmulatedKernels kernels;
  Grouped grouped{{},
                  {"param", "grad", "exp_avg", "exp_avg_sq", "scale", "lr",
                   "weight_decay", "beta1", "beta2", "epsilon", "beta1_power",
                   "beta2_power", "param", "exp_avg", "exp_avg_sq"},
                  {"scale", "lr", "weight_decay", "beta1", "beta2", "epsilon",
                   "beta1_power", "beta2_power"}};
  std::vector<size_t> numbers;
  for (int64_t n : kExtents) {
    numbers.push_back(kernels.add(kernels.step<AdamWOp>(n, /*decay=*/true)));
    grouped.pieces.push_back(kernels.step<AdamWOp>(n, /*decay=*/true));
  }
  size_t number = kernels.add(grouped);
  ASSERT_EQ(kernels.compile(), "");
  Floats numbersOfStep = {0.25f, 1e-2f, 0.1f, 0.9f, 0.95f, 1e-8f, 0.81f, 0.9f};
  // Each in a buffer of its own, as loads of 16 bytes have it.
  std::vector<void *> shared;
  for (float &value : numbersOfStep)
    shared.push_back(&value);
  std::vector<std::vector<Floats>> alone, together;
  for (int64_t n : kExtents) {
    Floats squares = random(n);
    for (float &value : squares)
      value *= value;
    alone.push_back({random(n), random(n), random(n), squares});
  }
  together = alone;
  for (auto [number, piece] : llvm::zip_equal(numbers, alone)) {
    std::vector<void *> buffers;
    for (Floats &buffer : piece)
      buffers.push_back(buffer.data());
    buffers.insert(buffers.end(), shared.begin(), shared.end());
    for (size_t updated : {0, 2, 3})
      buffers.push_back(piece[updated].data());
    kernels.run(number, buffers, 2);
  }
  kernels.run(number, list(shared, together), 5);
  EXPECT_EQ(together, alone);
}

TEST(Pieces, AddRowsInOneLaunchWithTheBitsOfMany) {
  EmulatedKernels kernels;
  // Of one partial sum or of several, and ends that differ: bodies that do.
  const int64_t extents[] = {64, 64, 100, kPartial, 3 * kPartial + 70};
  Grouped grouped{{}, {"x", "partials"}, {}};
  std::vector<size_t> numbers;
  for (int64_t n : extents) {
    numbers.push_back(kernels.add(SumSquares{n}));
    grouped.pieces.push_back(SumSquares{n});
  }
  size_t number = kernels.add(grouped);
  ASSERT_EQ(kernels.compile(), "");
  std::vector<Floats> x;
  std::vector<std::vector<double>> alone, together;
  std::vector<void *> buffers;
  for (auto [number, n] : llvm::zip_equal(numbers, extents)) {
    x.push_back(random(n));
    alone.emplace_back(getNumPartials(n));
    kernels.run(number, {x.back().data(), alone.back().data()}, 2);
  }
  together.resize(alone.size());
  for (auto [values, partials, expected] :
       llvm::zip_equal(x, together, alone)) {
    partials.resize(expected.size());
    buffers.insert(buffers.end(), {values.data(), partials.data()});
  }
  kernels.run(number, buffers, 4);
  EXPECT_EQ(together, alone);
}

// What is a number for one piece is another for the next.
TEST(Pieces, MayDifferInNumbersThatTheyRead) {
  EmulatedKernels kernels;
  Grouped grouped{
      {kernels.step<LambUpdateOp>(10, /*decay=*/false, /*trust=*/true),
       kernels.step<LambUpdateOp>(3000, /*decay=*/false, /*trust=*/true)},
      {"param", "direction", "lr", "param_norm", "direction_norm", "param"},
      {"lr"}};
  size_t number = kernels.add(grouped);
  ASSERT_EQ(kernels.compile(), "");
  Floats lr = {0.5f};
  std::vector<std::vector<Floats>> pieces = {
      {Floats(10, 1), Floats(10, 2), {3}, {6}},
      {Floats(3000, 4), Floats(3000, 1), {8}, {2}}};
  kernels.run(number, list({lr.data()}, pieces), 2);
  EXPECT_EQ(pieces[0][0], Floats(10, 1 - 0.5f * 0.5f * 2));
  EXPECT_EQ(pieces[1][0], Floats(3000, 4 - 0.5f * 4 * 1));
}

TEST(Pieces, SayWhatTheyTouch) {
  EmulatedKernels kernels;
  MLIRContext &context = kernels.getContext();
  Grouped grouped{
      {kernels.step<SgdOp>(8, false), kernels.step<SgdOp>(4, false)},
      {"param", "grad", "momentum_buffer", "scale", "lr", "weight_decay",
       "momentum", "param", "momentum_buffer"},
      {"scale", "lr", "weight_decay", "momentum"}};
  auto describe = [&](const Kernel &kernel) {
    std::string text;
    KernelDescription description = kernel.describe(&context);
    for (const KernelOperand &operand : description.getOperands())
      text +=
          (llvm::Twine(" ") + operand.name + ":" + llvm::Twine(operand.extent) +
           ":" + llvm::Twine(int(operand.access)))
              .str();
    return text;
  };
  EXPECT_EQ(describe(grouped),
            " scale:1:1 lr:1:1 weight_decay:1:1 momentum:1:1 param.0:8:3 "
            "grad.0:8:1 momentum_buffer.0:8:3 param.1:4:3 grad.1:4:1 "
            "momentum_buffer.1:4:3");
  DictionaryAttr parameters = Kernel(grouped).getParameters(&context);
  std::string message;
  auto read = [&](const Grouped &kernel) {
    ScopedDiagnosticHandler handler(
        &context, [&](Diagnostic &diagnostic) { message = diagnostic.str(); });
    return Kernel::read(Kernel(kernel).getParameters(&context),
                        [&] { return emitError(UnknownLoc::get(&context)); });
  };
  FailureOr<Kernel> again = read(grouped);
  ASSERT_TRUE(succeeded(again)) << message;
  EXPECT_EQ(again->getParameters(&context), parameters);

  // Unlike kernels, a kernel that writes a buffer shared by all, and two
  // operands in one buffer though the kernel does not work in place.
  Grouped other = grouped;
  other.pieces[1] = kernels.step<SgdOp>(4, /*decay=*/true);
  Grouped written = grouped;
  written.shared.push_back("momentum_buffer");
  Grouped overlaid = grouped;
  overlaid.buffers[7] = "grad";
  for (const Grouped &wrong : {other, written, overlaid}) {
    EXPECT_TRUE(failed(read(wrong)));
    EXPECT_THAT(message, HasSubstr("pieces that do not fit each other"));
  }
}

} // namespace
