//===- CpuKernels.h - Kernels of vector code --------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TARGET_CPU_CPUKERNELS_H
#define OPTIMUS_TARGET_CPU_CPUKERNELS_H

#include "optimus/Target/KernelLibrary.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringSet.h"

namespace mlir::optimus {

class KernelBuilder;
struct Num;

/// Kernels whose iterations are loops over lanes, for any processor.
class CpuKernels final : public KernelLibrary {
public:
  /// Kernels go to the end of `module`, which must outlive the library. The
  /// func, scf, arith, math, memref and vector dialects must be loaded.
  explicit CpuKernels(ModuleOp module);

  /// Loads the dialects that kernels are made of.
  static void getDependentDialects(DialectRegistry &registry);

  KernelLaunch add(int64_t rows, int64_t cols) override;
  KernelLaunch mul(int64_t rows, int64_t cols) override;
  KernelLaunch sumLeading(int64_t rows, int64_t cols) override;
  KernelLaunch gelu(int64_t n, bool exact) override;
  KernelLaunch geluWithSlope(int64_t n, bool exact) override;
  KernelLaunch cast(int64_t n, Type from, Type to) override;
  KernelLaunch sqrt(int64_t n) override;
  KernelLaunch swiglu(int64_t n) override;
  KernelLaunch swigluGrad(int64_t n) override;
  KernelLaunch dropout(ArrayRef<int64_t> local, ArrayRef<int64_t> whole,
                       int64_t addends, double rate) override;

  KernelLaunch layerNorm(int64_t rows, int64_t n, double epsilon) override;
  KernelLaunch layerNormGrad(int64_t rows, int64_t n,
                             bool hasResidual) override;
  KernelLaunch normParamGrad(int64_t rows, int64_t n) override;

  KernelLaunch rowMoments(int64_t rows, int64_t n) override;
  KernelLaunch mergeMoments(int64_t rows, ArrayRef<int64_t> counts,
                            double epsilon) override;
  KernelLaunch normalize(int64_t rows, int64_t n) override;
  KernelLaunch normGradSums(int64_t rows, int64_t n) override;
  KernelLaunch normGradApply(int64_t rows, int64_t n, int64_t size,
                             bool hasResidual) override;

  KernelLaunch rmsNorm(int64_t rows, int64_t n, double epsilon) override;
  KernelLaunch rmsNormGrad(int64_t rows, int64_t n, int64_t size, bool hasSums,
                           bool hasResidual) override;
  KernelLaunch rmsParamGrad(int64_t rows, int64_t n) override;
  KernelLaunch rowDot(int64_t rows, int64_t n, bool hasWeight) override;
  KernelLaunch rmsRstd(int64_t rows, int64_t size, double epsilon) override;
  KernelLaunch rmsScale(int64_t rows, int64_t n) override;

  KernelLaunch rotary(int64_t batch, int64_t seq, int64_t heads, int64_t dim,
                      double theta, bool inverse) override;

  KernelLaunch embedding(int64_t count, int64_t rows, int64_t cols) override;
  KernelLaunch embeddingGrad(int64_t count, int64_t rows, int64_t cols,
                             bool zero, std::optional<int64_t> pad) override;
  KernelLaunch lengths(int64_t rows, int64_t cols, int64_t pad,
                       bool masked) override;

  KernelLaunch rowMax(int64_t rows, int64_t cols) override;
  KernelLaunch expSum(int64_t rows, int64_t cols) override;
  KernelLaunch softmaxSums(int64_t rows, int64_t cols, bool withGrad) override;
  KernelLaunch tokenLoss(int64_t rows) override;
  KernelLaunch logitsGrad(int64_t rows, int64_t cols) override;
  KernelLaunch sumTokens(int64_t n) override;
  KernelLaunch countReal(int64_t n) override;

  int64_t getNumPartials(int64_t n) const override;
  KernelLaunch sumSquares(int64_t n) override;
  KernelLaunch sumPartials(int64_t n) override;
  KernelLaunch clip() override;
  KernelLaunch adamw(int64_t n, bool decay) override;
  KernelLaunch sgd(int64_t n, bool decay) override;
  KernelLaunch lambDirection(int64_t n, bool decay) override;
  KernelLaunch lambUpdate(int64_t n, bool hasNorms) override;

private:
  /// The kernel `name`, built by `body` if it is new.
  FlatSymbolRefAttr getOrBuild(StringRef name, ArrayRef<Type> operands,
                               llvm::function_ref<void(KernelBuilder &)> body);
  /// `combine` of each element of rows and the one of a single row above it.
  KernelLaunch broadcast(StringRef name, int64_t rows, int64_t cols,
                         llvm::function_ref<Num(Num, Num)> combine);
  /// The name of the table of `rotary`: for each position, dim/2 cosines and
  /// then dim/2 sines. Made on first use.
  std::string getRotaryTable(int64_t seq, int64_t dim, double theta);

  ModuleOp module;
  llvm::StringSet<> known;
};

} // namespace mlir::optimus

#endif // OPTIMUS_TARGET_CPU_CPUKERNELS_H
