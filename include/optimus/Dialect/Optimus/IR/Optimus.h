//===- Optimus.h - The optimus dialect --------------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_OPTIMUS_IR_OPTIMUS_H
#define OPTIMUS_DIALECT_OPTIMUS_IR_OPTIMUS_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "optimus-support/Sizes.h"

#include "optimus/Dialect/Optimus/IR/OptimusInterfaces.h"
#include "optimus/Dialect/Optimus/IR/ResultTypes.h"

namespace mlir::optimus {
/// Whether a tensor may have this shape: extents are positive, and dimensions
/// and elements within the bounds of Sizes.h.
bool isTensorShape(ArrayRef<int64_t> shape);

/// Whether a number is positive and finite when rounded to f32.
bool isPositiveFloat(const APFloat &value);

/// Whether a text can stand in the manifest and in a message: 1 to 255 bytes of
/// UTF-8 without control characters.
bool isPlainName(StringRef name);
} // namespace mlir::optimus

#include "optimus/Dialect/Optimus/IR/OptimusDialect.h.inc"
#include "optimus/Dialect/Optimus/IR/OptimusEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "optimus/Dialect/Optimus/IR/OptimusAttrs.h.inc"

#define GET_OP_CLASSES
#include "optimus/Dialect/Optimus/IR/OptimusOps.h.inc"

namespace mlir::optimus {

/// The mesh of the module that holds `op`, or null.
MeshOp getMesh(Operation *op);

/// The role of a value: that of the operation it is the first result of, or of
/// the function argument; empty where it has none.
StringRef getRole(Value value);

/// The sharding of a function argument or of an operation's result, or null
/// where it is undecided.
ShardingAttr getSharding(Value value);

/// Change the attributes of all of a function's arguments or results, which
/// MLIR writes all anew wherever one is set.
void updateArgAttrs(
    FunctionOpInterface function,
    function_ref<void(unsigned number, NamedAttrList &attributes)> update);
void updateResultAttrs(
    FunctionOpInterface function,
    function_ref<void(unsigned number, NamedAttrList &attributes)> update);

/// The most chunks of tokens that a head may go through: each is a handful of
/// commands.
inline constexpr int64_t kMostChunks = 4096;

/// Whether a product of matrices is most of what an operation does.
bool isProduct(Operation *op);

/// Checks the constraint `label` of a head with the loss: the number of its
/// chunks, and the logits of one.
LogicalResult verifyChunks(Operation *op, StringRef label, Value targets,
                           Value table, int64_t chunk);

/// Checks that `value` is a sharding for a tensor of this type and, where the
/// module has a mesh, on its mesh. Errors are on `op` and call the value
/// `what`.
LogicalResult verifySharding(Operation *op, const Twine &what, Type type,
                             Attribute value);

} // namespace mlir::optimus

#endif // OPTIMUS_DIALECT_OPTIMUS_IR_OPTIMUS_H
