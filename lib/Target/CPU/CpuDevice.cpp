//===- CpuDevice.cpp - The CPU as a target ----------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Target/CPU/CpuDevice.h"

#include "optimus/Target/CPU/CodeGen.h"
#include "optimus/Target/CPU/CpuSchedule.h"
#include "optimus/Target/Target.h"

using namespace mlir;
using namespace mlir::optimus;

namespace {
class CpuDevice final : public Target {
public:
  StringRef getName() const override { return "cpu"; }

  /// A cache line, and what a vector of 512 bits lies in.
  int64_t getBufferAlignment() const override { return 64; }

  /// Programs ask for what a cache holds.
  int64_t getLossChunk(int64_t asked, int64_t) const override { return asked; }

  /// Threads and MPI's types read and write rows where they lie.
  bool movesStrided(exec::CollectiveKind) const override { return true; }

  llvm::Expected<Processor> getProcessor(StringRef name) const override {
    llvm::Expected<CpuTarget> target = CpuTarget::get(name);
    if (!target)
      return target.takeError();
    return Processor{target->required};
  }

  /// oneDNN multiplies f32 from blocks of 16 rows and up to 64 columns, on
  /// processors with AVX-512 and where it can read A and write C as they lie.
  /// A B that lies as it is multiplied its sgemm takes as fast; transposed that
  /// is up to a quarter slower, and a sum costs a pass of its own.
  std::optional<int64_t>
  getPackedElements(const GemmShape &shape,
                    const Processor &processor) const override {
    constexpr StringLiteral needed[] = {"avx512f", "avx512bw", "avx512dq",
                                        "avx512vl"};
    bool hasBlocks = llvm::all_of(
        needed, [&](StringRef feature) { return processor.has(feature); });
    if (!hasBlocks || !shape.isDense || !(shape.transB || shape.adds))
      return std::nullopt;
    return int64_t(llvm::alignTo(shape.k, 16) * llvm::alignTo(shape.n, 64));
  }

  bool readsBlocks() const override { return true; }

  bool hasEpilogue(exec::Epilogue epilogue) const override {
    return epilogue != exec::Epilogue::BiasGrad;
  }
  bool mixesElements() const override { return true; }
  bool hasAttention() const override { return true; }

  std::optional<DeviceKernel>
  getDeviceKernel(StringRef, const IterationSpace &) const override {
    return std::nullopt;
  }

  const KernelSchedule &getKernelSchedule() const override { return schedule; }

private:
  CpuSchedule schedule;
};
} // namespace

void mlir::optimus::registerCPUTarget() {
  registerTarget(std::make_unique<CpuDevice>());
}
