//===- DimensionClasses.h - Dimensions that are padded alike ----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_ANALYSIS_DIMENSIONCLASSES_H
#define OPTIMUS_ANALYSIS_DIMENSIONCLASSES_H

#include "optimus/Analysis/DimensionGroups.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringMap.h"

#include <algorithm>

namespace mlir::optimus {

/// The classes of dimensions of a sharded program. Dimensions that an
/// operation's rule makes one factor are of one class, and so are those of a
/// parameter or an input in several functions. A class has one padded extent:
/// the smallest multiple of the sizes of all products of axes that shard one of
/// its dimensions. So all shards are equal. On row:2,col:2:
///
///   %x: tensor<5x7xf32> [{row}, {}]     %w: tensor<7x9xf32> [{}, {row, col}]
///   %y = matmul %x, %w -> {x.0, y.0} padded 5 -> 6, {x.1, w.0} 7, unpadded
///                         {w.1, y.1} padded 9 -> 12
///
/// `padded_vocabulary` of `optimus.model` is the least that a vocabulary of the
/// model's size is padded to, also where no axis shards it.
class DimensionClasses {
public:
  /// Reads the shardings of a module that has a mesh; undecided values are
  /// taken as whole.
  explicit DimensionClasses(ModuleOp module);

  struct Class {
    /// From `optimus.dims`; "dimension" where no argument names it.
    std::string name = "dimension";
    int64_t size = 0;
    /// What `padded` is a multiple of.
    int64_t multiple = 1;
    /// What the program asks for.
    int64_t least = 0;
    llvm::SetVector<StringRef> axes;

    int64_t getPadded() const {
      return (std::max(size, least) + multiple - 1) / multiple * multiple;
    }
  };

  const Class &getClass(Value value, int64_t dim) const;
  SmallVector<int64_t> getPaddedShape(Value value) const;

private:
  void addFunction(func::FuncOp function);
  void add(Value value);
  void addSharding(Value value, int64_t dim, ArrayRef<StringRef> axes);
  void nameArguments(func::FuncOp function);
  void padVocabulary(ModuleOp module);

  MeshOp mesh;
  DimensionGroups groups;
  llvm::StringMap<Value> shared;
  SmallVector<Class> classes;
};

} // namespace mlir::optimus

#endif // OPTIMUS_ANALYSIS_DIMENSIONCLASSES_H
