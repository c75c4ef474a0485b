//===- CudaDevice.cpp - NVIDIA's GPUs as a target ---------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Target/CUDA/CudaDevice.h"

#include "optimus-support/GpuScratch.h"
#include "optimus/Target/CUDA/CodeGen.h"
#include "optimus/Target/CUDA/CudaSchedule.h"
#include "optimus/Target/Target.h"

using namespace mlir;
using namespace mlir::optimus;

namespace {
class CudaDevice final : public Target {
public:
  StringRef getName() const override { return "cuda"; }

  /// What cudaMalloc gives, and more than any load needs.
  int64_t getBufferAlignment() const override { return 256; }

  /// Every chunk reads and writes the whole gradient of the table, which a
  /// small one is not worth.
  int64_t getLossChunk(int64_t asked, int64_t) const override {
    constexpr int64_t kLeast = 8192;
    return std::max(asked, kLeast);
  }

  /// Of narrow factors they are narrow, so that a step reads and writes a
  /// quarter of the bytes. Whole lines of 128 bytes are what tensor cores and
  /// loads of 16 bytes ask of rows.
  LogitsForm getLogitsForm(int64_t vocab, Type factors) const override {
    if (factors.isF32())
      return Target::getLogitsForm(vocab, factors);
    constexpr int64_t kLine = 64;
    return {factors, int64_t(llvm::alignTo(vocab, kLine))};
  }

  /// NCCL moves what is one stretch of memory.
  bool movesStrided(exec::CollectiveKind) const override { return false; }

  /// The host's processor decides nothing.
  llvm::Expected<Processor> getProcessor(StringRef) const override {
    return Processor{};
  }

  std::optional<int64_t> getPackedElements(const GemmShape &,
                                           const Processor &) const override {
    return std::nullopt;
  }

  /// What cuBLASLt has: a bias and a matrix that it adds, both of the result's
  /// type, and a bias's gradient, the sum of a factor's rows.
  bool hasEpilogue(exec::Epilogue epilogue) const override {
    return epilogue != exec::Epilogue::Mul;
  }
  bool mixesElements() const override { return false; }

  bool hasAttention() const override { return false; }
  StringRef getAttentionLibrary() const override { return "cudnn"; }

  llvm::Expected<int64_t>
  getAttentionWorkspace(const LibraryAttention &attention) const override {
    if (!attention.elements.isBF16()) {
      std::string found;
      llvm::raw_string_ostream(found) << attention.elements;
      return llvm::createStringError(
          "expected elements of bf16 (--precision bf16), found " + found);
    }
    if (attention.hasPositions)
      return llvm::createStringError(
          "expected sequences of one document, found "
          "positions");
    if (attention.hasWindow)
      return llvm::createStringError(
          "expected attention to all earlier tokens, found a window");
    if (attention.headDim % 8 != 0 || attention.headDim > 128)
      return llvm::createStringError(
          "expected heads whose size is a multiple of 8 up to 128, found " +
          llvm::Twine(attention.headDim));
    if (attention.seq == 1)
      return llvm::createStringError("expected sequences of 2 tokens at least, "
                                     "found 1");
    return optimus_support::cudnnWorkspaceBytes(
        {attention.batch, attention.seq, attention.heads, attention.kvHeads,
         attention.headDim, attention.isGradient, attention.isDeterministic});
  }

  bool addsEmbeddingsByRows() const override { return true; }
  bool reducesByKernels() const override { return true; }

  /// A driver's 2D copies are far below memory's rate where rows are narrow,
  /// and panels' are: a kernel's rate depends on no width.
  bool copiesRowsByKernels() const override { return true; }

  std::optional<DeviceKernel>
  getDeviceKernel(StringRef name, const IterationSpace &space) const override {
    return DeviceKernel{getCudaName(name), getCudaBlock(space).threads,
                        schedule.getExtent(space).grain};
  }

  const KernelSchedule &getKernelSchedule() const override { return schedule; }

private:
  CudaSchedule schedule;
};
} // namespace

void mlir::optimus::registerCUDATarget() {
  registerTarget(std::make_unique<CudaDevice>());
}
