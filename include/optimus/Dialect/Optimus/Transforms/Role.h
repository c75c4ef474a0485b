//===- Role.h - What a value is to a strategy -------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_DIALECT_OPTIMUS_TRANSFORMS_ROLE_H
#define OPTIMUS_DIALECT_OPTIMUS_TRANSFORMS_ROLE_H

#include "optimus/Dialect/Optimus/IR/Optimus.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/Error.h"

namespace mlir::optimus {

/// Where a value stands: the weight of which linear, or none.
enum class Position {
  /// What depends on tokens.
  Activation,
  /// Tokens and targets.
  Tokens,
  /// A parameter outside products: a bias, a gain, a table of positions.
  Vector,
  /// The weight of a linear that leads from the residual stream to the
  /// contracted dimension of a second one.
  First,
  /// The weight of a linear that leads back.
  Second,
  /// The weight of a linear that is neither.
  Unpaired,
  /// A parameter with a row for each word of the vocabulary.
  Table,
};

/// On which side of a linear a dimension of its weight is.
enum class LinearSide { Neither, In, Out };

struct RoleDim {
  DimensionClass dimension = DimensionClass::Other;
  LinearSide side = LinearSide::Neither;
};

/// What a value is to a strategy: where it stands, and what its dimensions are.
/// As text, in `optimus.role`, "batch,sequence,hidden" of an activation and
/// "second in.ffn,out.hidden of h.0.mlp.c_proj.weight" of a weight: the
/// position unless it is an activation, a class for each dimension, `-` where
/// it has none, and the path in the model, if it is known.
struct Role {
  Position position = Position::Activation;
  SmallVector<RoleDim> dims;
  StringRef path;

  /// `text` outlives the role. The error says what is expected.
  static llvm::Expected<Role> parse(StringRef text);
  std::string toString() const;
};

/// Gives every value of the forward `function` without a role the one that
/// follows from the program: classes of dimensions from what operations know of
/// theirs, spread by rules; the position of a linear from the classes that it
/// leads from and to. `optimus.role` that are there stay.
///
/// What is between two linears and of no other class is `ffn`. Results of
/// parameters alone get no role: they lie as these do.
void inferRoles(func::FuncOp function);

} // namespace mlir::optimus

#endif // OPTIMUS_DIALECT_OPTIMUS_TRANSFORMS_ROLE_H
