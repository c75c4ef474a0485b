//===- OptimusInterfaces.h - What operations say of themselves --*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_OPTIMUS_IR_OPTIMUSINTERFACES_H
#define OPTIMUS_DIALECT_OPTIMUS_IR_OPTIMUSINTERFACES_H

#include "optimus/Dialect/Optimus/IR/GradientAccumulator.h"
#include "optimus/Dialect/Optimus/IR/Precision.h"
#include "optimus/Dialect/Optimus/IR/ShardingRule.h"
#include "optimus/Dialect/Optimus/IR/Work.h"

#include "mlir/IR/OpDefinition.h"

namespace mlir::optimus {
class SymbolicValues;
class ModelFacts;

/// Of a product whose tensors can move in panels.
template <typename ConcreteType>
class MovesInPanels : public OpTrait::TraitBase<ConcreteType, MovesInPanels> {};

namespace detail {
/// Of operation classes that say it by `Optimus_RowStatistics`.
template <typename ConcreteType>
class HasRowStatistics
    : public OpTrait::TraitBase<ConcreteType, HasRowStatistics> {};
} // namespace detail
} // namespace mlir::optimus

#include "optimus/Dialect/Optimus/IR/OptimusInterfaces.h.inc"

#endif // OPTIMUS_DIALECT_OPTIMUS_IR_OPTIMUSINTERFACES_H
