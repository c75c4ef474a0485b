//===- Buffers.h - What arguments and results are ---------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The buffer of an argument or a result, however the program says it: with an
// #optimus.buffer, or as a builder writes it, with `optimus.param` or the name
// of an input.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_OPTIMUS_IR_BUFFERS_H
#define OPTIMUS_DIALECT_OPTIMUS_IR_BUFFERS_H

#include "optimus/Dialect/Optimus/IR/Optimus.h"

#include "mlir/Interfaces/FunctionInterfaces.h"

namespace mlir::optimus {

/// The role of the buffers that are parameters.
inline constexpr StringLiteral kParameterRole = "parameter";

/// Whether the data of a batch say what has this role: "tokens", "targets" and
/// "positions".
bool isFilledByData(StringRef role);

/// Whether it is where tokens stand: in a batch, in a chunk of a prompt, or
/// those of one step of generation.
bool isOfPositions(StringRef role);

/// The buffer of an input that a builder names: what data fill, or "random".
/// Null for any other name.
BufferAttr getInputBuffer(MLIRContext *context, StringRef name);

/// The name of the parameter that an argument is; null for any other value.
StringAttr getParameterName(Value value);

/// The buffer of an argument, null where it is bound to none.
BufferAttr getArgumentBuffer(FunctionOpInterface function, unsigned argument);

/// The buffer of a result: the buffer of the argument that donates to it, or
/// its binding. Null where there is neither.
BufferAttr getResultBuffer(FunctionOpInterface function, unsigned result);
/// Those of all results: for one, all arguments are asked whether they donate.
SmallVector<BufferAttr> getResultBuffers(FunctionOpInterface function);

/// What manifest and tables call a buffer: a parameter by its own name, others
/// by role and parameter. Empty where there is no buffer.
std::string getBufferName(BufferAttr buffer);

/// The argument that donates its buffer to a result, if one does.
std::optional<unsigned> getDonor(FunctionOpInterface function, unsigned result);

} // namespace mlir::optimus

#endif // OPTIMUS_DIALECT_OPTIMUS_IR_BUFFERS_H
