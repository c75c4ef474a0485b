//===- BufferAssignment.h - Which buffer each tensor lives in ---*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_CONVERSION_TOEXEC_BUFFERASSIGNMENT_H
#define OPTIMUS_LIB_CONVERSION_TOEXEC_BUFFERASSIGNMENT_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"

namespace mlir::optimus {

/// Where tensors live.
struct Buffer {
  enum Kind { Argument, Output, Allocated };
  Kind kind;
  /// The argument's or the result's number; of an allocation, its number.
  int64_t index;
  MemRefType type;
  /// Of an allocation: its category, and the ids of its values, in program
  /// order.
  StringRef category;
  SmallVector<std::string, 1> values;
};

/// Gives every tensor of a straight-line function a buffer.
class BufferAssignment {
public:
  /// Fails, with an error on the operation, where a donated buffer would need
  /// a copy.
  static FailureOr<BufferAssignment> compute(func::FuncOp function);

  ArrayRef<Buffer> getBuffers() const { return buffers; }
  int64_t getBufferIndex(Value tensor) const { return assigned.at(tensor); }

  /// The buffers of the results that no argument donates to, by result number;
  /// nothing for the others.
  std::optional<int64_t> getOutput(unsigned result) const;

  /// Results with a value elsewhere than in their output's buffer, to be copied
  /// at the end.
  ArrayRef<unsigned> getCopiedResults() const { return copied; }

  int64_t getNumInPlace() const { return numInPlace; }

private:
  SmallVector<Buffer> buffers;
  llvm::DenseMap<Value, int64_t> assigned;
  SmallVector<std::optional<int64_t>> outputs;
  SmallVector<unsigned> copied;
  int64_t numInPlace = 0;

  friend class BufferAssigner;
};

/// The flat buffer type of a tensor.
MemRefType getFlatType(Type tensor);

} // namespace mlir::optimus

#endif // OPTIMUS_LIB_CONVERSION_TOEXEC_BUFFERASSIGNMENT_H
