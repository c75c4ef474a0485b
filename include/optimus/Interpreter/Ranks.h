//===- Ranks.h - The ranks of a mesh and what they hold ---------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_INTERPRETER_RANKS_H
#define OPTIMUS_INTERPRETER_RANKS_H

#include "optimus/Interpreter/Tensor.h"

#include "optimus-support/Shard.h"

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/DenseMap.h"

namespace mlir::optimus {

class MeshOp;

/// Where a dimension of a rank's part lies in the whole tensor: element i is
/// element offset + i of the whole, and padding from `real` on.
struct Extent {
  int64_t offset, real;
};

/// All ranks of a mesh in lockstep: the parts of every value computed so far.
/// What a type without `#ccl.local` encoding describes is whole on every rank.
class Ranks {
public:
  /// One rank where there is no mesh.
  explicit Ranks(MeshOp mesh);

  const optimus_support::Mesh &getMesh() const { return mesh; }
  int64_t getNumRanks() const { return mesh.numRanks(); }
  /// Ranks that differ in one axis only, in its order. All groups of the mesh.
  SmallVector<SmallVector<int64_t>> getGroups(StringRef axis) const;
  /// "rank 3", or "rank 3 (row 1, col 1)" on a mesh.
  std::string describe(int64_t rank) const;

  //===--------------------------------------------------------------------===//
  // Values
  //===--------------------------------------------------------------------===//

  const Tensor &get(Value value, int64_t rank) const;
  /// Sets the parts of a value, one a rank; rounded where its elements are
  /// narrower than f32. What is f32 stays as precise as it was computed.
  void set(Value value, SmallVector<Tensor> parts);

  //===--------------------------------------------------------------------===//
  // Types: how tensors lie on the mesh
  //===--------------------------------------------------------------------===//

  optimus_support::ShardLayout getLayout(Type type) const;
  /// The same with the padding taken for real elements.
  optimus_support::ShardLayout getPaddedLayout(Type type) const;
  SmallVector<Extent> getExtents(Type type, int64_t rank) const;
  /// The axes over which parts are partial sums.
  SmallVector<int> getUnreducedAxes(Type type) const;
  /// The rank that holds the same as `rank` and comes first.
  int64_t getFirstReplica(Type type, int64_t rank) const;

  //===--------------------------------------------------------------------===//
  // Between whole tensors and parts
  //===--------------------------------------------------------------------===//

  /// Shards a whole, unpadded tensor; every part of it complete.
  SmallVector<Tensor> shard(const Tensor &whole, Type type,
                            double padding) const;
  /// Puts parts together to the whole, unpadded tensor: first replicas only,
  /// partial sums summed in rank order.
  Tensor assemble(ArrayRef<Tensor> parts, Type type) const;
  Tensor assemble(Value value) const;
  /// With its padding.
  Tensor assemblePadded(Value value) const;

private:
  Tensor assemble(ArrayRef<Tensor> parts, Type type,
                  const optimus_support::ShardLayout &layout) const;

  optimus_support::Mesh mesh;
  llvm::DenseMap<Value, SmallVector<Tensor>> values;
};

/// Checks that the mesh has the axes named by a value's type, and whether their
/// parts make up the whole. Errors go to `op`.
LogicalResult checkEncoding(Operation *op, Type type, const Ranks &ranks);

} // namespace mlir::optimus

#endif // OPTIMUS_INTERPRETER_RANKS_H
