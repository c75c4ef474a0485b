//===- EmulatedKernels.cpp - Kernels for GPUs compiled and run  -*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "EmulatedKernels.h"

#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

#include "gtest/gtest.h"

#include <cstring>
#include <map>

using namespace mlir;
using namespace mlir::optimus;
using namespace mlir::optimus::emulator;

static const CudaSchedule cudaSchedule;

EmulatedKernels::EmulatedKernels() : EmulatedKernels(cudaSchedule) {}

EmulatedKernels::EmulatedKernels(const CudaSchedule &schedule)
    : CompiledKernels(schedule) {
  getContext()
      .loadDialect<LLVM::LLVMDialect, NVVM::NVVMDialect,
                   cf::ControlFlowDialect>();
}

std::string EmulatedKernels::compile() {
  return compile([](std::string &) {});
}

optimus_support::StatusOr<std::string>
EmulatedKernels::generatePtx(const std::string &architecture) {
  if (failed(convertKernelsToNVVM(getModule())))
    return optimus_support::internal("the kernels cannot be lowered");
  return optimus::generatePtx(getModule(), architecture);
}

size_t EmulatedKernels::getNumKernels() {
  return llvm::count_if(
      getModule().getOps<LLVM::LLVMFuncOp>(),
      [](LLVM::LLVMFuncOp function) { return !function.isExternal(); });
}

std::string
EmulatedKernels::compile(const std::function<void(std::string &)> &change) {
  if (failed(convertKernelsToNVVM(getModule())))
    return "the kernels cannot be lowered";
  auto ir = generateCudaIR(getModule(), "sm_90");
  if (!ir.ok())
    return ir.status().message();
  change(*ir);
  auto created = EmulatedDevice::create(*ir);
  if (!created)
    return llvm::toString(created.takeError());
  device = std::move(*created);
  return "";
}

/// The size of an operand in bytes.
static size_t getBytes(const KernelOperand &operand) {
  return operand.extent * operand.elementType.getIntOrFloatBitWidth() / 8;
}

std::string EmulatedKernels::runOnce(size_t number,
                                     const std::vector<void *> &buffers,
                                     int blocks, Order order,
                                     int64_t moreIterations) {
  const Launch &launch = getLaunch(number);
  const KernelDescription &description = launch.scheduled.description;
  EmulatedLaunch what;
  what.kernel = getCudaName(description.getName());
  what.blocks = blocks;
  what.threads = getCudaBlock(description.getSpace()).threads;
  what.iterations = launch.scheduled.extent.extent + moreIterations;
  what.scalars = launch.scalars;
  for (auto [operand, buffer] :
       llvm::zip_equal(description.getOperands(), buffers)) {
    // In place of another operand, it may be written if either is.
    bool isWritten = llvm::any_of(
        llvm::zip_equal(description.getOperands(), buffers), [&](auto other) {
          return std::get<1>(other) == buffer &&
                 std::get<0>(other).access != KernelAccess::Read;
        });
    what.buffers.push_back(
        {operand.name, buffer, getBytes(operand), isWritten});
  }
  return device->run(what, order);
}

namespace {
/// Copies of the buffers of a launch, as far apart as can be: aligned as they
/// must be and to no more. What is one buffer stays one.
class Copies {
public:
  Copies(const std::vector<void *> &buffers, ArrayRef<KernelOperand> operands) {
    for (auto [buffer, operand] : llvm::zip_equal(buffers, operands)) {
      Copy &copy = copies[buffer];
      copy.bytes = std::max(copy.bytes, getBytes(operand));
      copy.alignment = std::max<size_t>(copy.alignment,
                                        operand.getAlignment(kMostAlignment));
    }
    for (auto &[buffer, copy] : copies) {
      copy.room.resize(copy.bytes + 3 * copy.alignment);
      auto address = reinterpret_cast<uintptr_t>(copy.room.data());
      copy.begin =
          copy.room.data() +
          (llvm::alignTo(address, 2 * copy.alignment) + copy.alignment) -
          address;
      std::memcpy(copy.begin, buffer, copy.bytes);
    }
    for (void *buffer : buffers)
      addresses.push_back(copies[buffer].begin);
  }

  const std::vector<void *> &getAddresses() const { return addresses; }
  bool operator==(const Copies &other) const {
    return llvm::all_of(llvm::zip_equal(copies, other.copies), [](auto both) {
      const Copy &a = std::get<0>(both).second, &b = std::get<1>(both).second;
      return std::memcmp(a.begin, b.begin, a.bytes) == 0;
    });
  }
  void copyBack() const {
    for (const auto &[buffer, copy] : copies)
      std::memcpy(buffer, copy.begin, copy.bytes);
  }

private:
  struct Copy {
    std::vector<char> room;
    char *begin = nullptr;
    size_t bytes = 0, alignment = 1;
  };
  static constexpr size_t kMostAlignment = 16;
  std::map<void *, Copy> copies;
  std::vector<void *> addresses;
};
} // namespace

void EmulatedKernels::run(size_t number, std::vector<void *> buffers,
                          int parts) {
  auto operands = getLaunch(number).scheduled.description.getOperands();
  Copies forward(buffers, operands), backward(buffers, operands),
      random(buffers, operands);
  EXPECT_EQ(runOnce(number, forward.getAddresses(), parts, Order::Forward), "");
  EXPECT_EQ(runOnce(number, backward.getAddresses(), 1, Order::Backward), "");
  EXPECT_EQ(runOnce(number, random.getAddresses(), 3, Order::Random), "");
  EXPECT_TRUE(forward == backward) << "results depend on the order of threads";
  EXPECT_TRUE(forward == random) << "results depend on the order of threads";
  forward.copyBack();
}
