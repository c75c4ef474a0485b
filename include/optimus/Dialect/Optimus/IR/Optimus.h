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

#include "optimus/Dialect/Optimus/IR/GradientAccumulator.h"
#include "optimus/Dialect/Optimus/IR/ShardingRule.h"

#include "optimus/Dialect/Optimus/IR/OptimusDialect.h.inc"

#define GET_ATTRDEF_CLASSES
#include "optimus/Dialect/Optimus/IR/OptimusAttrs.h.inc"

#include "optimus/Dialect/Optimus/IR/OptimusInterfaces.h.inc"

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

/// Checks that `value`, named `what` in errors on `op`, is a sharding for a
/// tensor of this type and, where the module has a mesh, on that mesh.
LogicalResult verifySharding(Operation *op, const Twine &what, Type type,
                             Attribute value);

} // namespace mlir::optimus

#endif // OPTIMUS_DIALECT_OPTIMUS_IR_OPTIMUS_H
