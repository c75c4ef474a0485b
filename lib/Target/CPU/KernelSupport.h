//===- KernelSupport.h - What several kernels are made of ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_TARGET_CPU_KERNELSUPPORT_H
#define OPTIMUS_LIB_TARGET_CPU_KERNELSUPPORT_H

#include "KernelBuilder.h"

#include "optimus/Target/CPU/CpuKernels.h"

#include "llvm/Support/FormatVariadic.h"

#include <string>

namespace mlir::optimus {

/// Elements that one iteration of an elementwise kernel covers.
inline constexpr int64_t kBlock = 4096;
/// Elements that one partial sum of squares covers.
inline constexpr int64_t kPartial = 16384;
/// Elements that make a task worth its hand-over, a few microseconds of work.
inline constexpr int64_t kTask = 16384;

inline int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// As many rows as make a task.
inline int64_t rowGrain(int64_t cols) {
  return std::max<int64_t>(1, kTask / std::max<int64_t>(cols, 1));
}

inline std::string nameOf(StringRef kind, int64_t rows, int64_t cols) {
  return llvm::formatv("{0}_{1}x{2}", kind, rows, cols).str();
}

inline std::string nameOf(StringRef kind, int64_t n) {
  return llvm::formatv("{0}_{1}", kind, n).str();
}

/// A name's part that tells floating-point options apart.
inline std::string bitsOf(double value) {
  return llvm::formatv("{0:x-16}", llvm::bit_cast<uint64_t>(value)).str();
}

/// The types of a kernel's operands.
struct OperandTypes {
  explicit OperandTypes(MLIRContext *context) : b(context) {}

  OperandTypes &f32(std::initializer_list<int64_t> sizes) {
    return buffers(sizes, b.getF32Type());
  }
  OperandTypes &f64(std::initializer_list<int64_t> sizes) {
    return buffers(sizes, b.getF64Type());
  }
  OperandTypes &i32(std::initializer_list<int64_t> sizes) {
    return buffers(sizes, b.getI32Type());
  }
  OperandTypes &scalars(int64_t count) {
    types.append(count, b.getI64Type());
    return *this;
  }
  operator ArrayRef<Type>() const { return types; }

private:
  OperandTypes &buffers(std::initializer_list<int64_t> sizes, Type element) {
    for (int64_t size : sizes)
      types.push_back(MemRefType::get({size}, element));
    return *this;
  }

  Builder b;
  SmallVector<Type> types;
};

/// The launch of a kernel made of forBlocks.
inline KernelLaunch elementwise(FlatSymbolRefAttr kernel, int64_t n) {
  return {kernel, ceilDiv(n, kBlock), kTask / kBlock};
}

/// Blocks of kBlock elements of [0, n): `body(offset, type)`.
void forBlocks(KernelBuilder &k, int64_t n,
               function_ref<void(Value, Type)> body);

/// For column-parallel kernels: `count` sums over rows [0, rows) of
/// `terms(row, type)`, where `type` is that of a piece of a row. Rows are
/// summed in groups of 256 and the groups' sums then added, which keeps the
/// rounding error of a sum over many rows small.
KernelBuilder::Terms columnSums(KernelBuilder &k, int64_t rows, int64_t count,
                                Type type, KernelBuilder::TermsFn terms);

/// Calls `inside(row)` if the table's rows [first, first + rows) hold the entry
/// at `position` of the i32 buffer, else `outside`.
void whenInTable(KernelBuilder &k, int64_t buffer, Value position, Value first,
                 int64_t rows, function_ref<void(Value)> inside,
                 function_ref<void()> outside = nullptr);

} // namespace mlir::optimus

#endif // OPTIMUS_LIB_TARGET_CPU_KERNELSUPPORT_H
