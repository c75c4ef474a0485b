//===- Lowering.h - What the lowering of every operation uses ---*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_CONVERSION_TOEXEC_LOWERING_H
#define OPTIMUS_LIB_CONVERSION_TOEXEC_LOWERING_H

#include "BufferAssignment.h"
#include "HeldWeights.h"
#include "LiveRows.h"

#include "optimus/Dialect/CCL/IR/CCL.h"
#include "optimus/Dialect/Exec/IR/Exec.h"
#include "optimus/Dialect/Optimus/IR/Optimus.h"
#include "optimus/Kernels/KernelFunctions.h"
#include "optimus/Target/Target.h"

namespace mlir::optimus {

/// A matrix in a buffer, row-major.
struct Matrix {
  Value buffer;
  int64_t ld;
};

/// What exec.gemm computes; see its description.
struct Gemm {
  int64_t m, n, k;
  Matrix a, b, c;
  bool transA = false, transB = false, accumulate = false;
  Value bias = {};
  exec::Epilogue epilogue = exec::Epilogue::None;
  Matrix extra = {};
  /// Whether B is a weight, which may be packed, or read in blocks.
  bool isWeightB = false;
  exec::Blocks blocks = exec::Blocks::None;
  /// Positions of the rows, where rows without a token may be left out.
  Value live = {};
};

/// What exec.collective_start does; see its description.
struct Collective {
  exec::CollectiveKind kind;
  StringRef axis;
  Matrix src, dst;
  int64_t outer, inner;
  int64_t root = 0;
  exec::Reduction reduction = exec::Reduction::Sum;

  /// Whether all ranks' blocks lie in `dst`, or in `src`, next to each other.
  bool gathers() const { return kind == exec::CollectiveKind::AllGather; }
  bool scatters() const { return kind == exec::CollectiveKind::ReduceScatter; }
};

/// A collective whose source is ready to move.
struct Movement {
  Collective given, moved;
  /// The target moves it as it lies.
  bool isStrided = true;
};

/// A buffer that a kernel is given, by the name of the operand.
struct NamedBuffer {
  StringRef operand;
  Value buffer;
};

/// What computes attention.
struct AttentionChoice {
  /// A library of the target where it does, kernels or commands of the target's
  /// own, or that library alone.
  enum Who { Auto, Builtin, Library } who = Auto;
  bool isDeterministic = false;
};

/// Emits the commands of one function.
class Lowering {
public:
  Lowering(OpBuilder &builder, MeshOp mesh, const Target &target,
           const Processor &processor, KernelDeclarations &declarations,
           const BufferAssignment &assignment, LiveRows liveRows,
           HeldWeights weights, AttentionChoice attention)
      : builder(builder), mesh(mesh), target(target), processor(processor),
        attention(attention), declarations(declarations),
        assignment(assignment), liveRows(std::move(liveRows)), weights(weights),
        values(assignment.getBuffers().size()) {}

  OpBuilder &builder;

  /// The location that commands get.
  Location location = builder.getUnknownLoc();

  MeshOp getMesh() const { return mesh; }
  const Target &getTarget() const { return target; }
  const AttentionChoice &getAttention() const { return attention; }
  MLIRContext *getContext() const { return builder.getContext(); }

  /// The buffer of a tensor; allocates it at first.
  Value getBuffer(Value tensor) {
    return getBufferAt(assignment.getBufferIndex(tensor));
  }
  Value getBufferAt(int64_t index);
  void setBufferAt(int64_t index, Value buffer) { values[index] = buffer; }
  /// Lets a tensor that nothing writes lie within another's buffer.
  void setBuffer(Value tensor, Value within) {
    setBufferAt(assignment.getBufferIndex(tensor), within);
  }

  const HeldWeights &getWeights() const { return weights; }
  /// Sets B of a product to rows of a tensor, and whether it is a weight.
  void setB(Gemm &gemm, Value tensor, int64_t ld);
  /// A parameter in blocks, B [k,n] in rows `ld` apart, or with `trans` [n,k].
  Value getBlocks(exec::Blocks blocks, Value parameter, int64_t k, int64_t n,
                  int64_t ld, bool trans);

  /// The buffer of the positions of a product's rows, where rows without a
  /// token may be left out; else null. `factor` is the product's first.
  Value getLive(Value factor) {
    Value positions = liveRows.get(factor);
    return positions ? getBuffer(positions) : Value();
  }

  /// True if two tensors live in one buffer.
  bool shareBuffer(Value a, Value b) const {
    return assignment.getBufferIndex(a) == assignment.getBufferIndex(b);
  }

  /// A buffer for an operation's own use, which may hold a part of a value.
  Value allocateWorkspace(int64_t extent, Type elementType, StringRef name,
                          StringRef value = "");
  Value allocateWorkspace(int64_t extent, StringRef name) {
    return allocateWorkspace(extent, builder.getF32Type(), name);
  }

  /// Elements [offset, offset + extent) of a buffer; the buffer if that is all.
  Value slice(Value buffer, int64_t offset, int64_t extent);

  /// Packs a weight before the first of its products with a gain from packing.
  /// What the target's products do not do, launches do before or after them.
  void gemm(Gemm gemm);
  void copy(Matrix src, Matrix dst, int64_t rows, int64_t cols);
  void copy(Value src, Value dst);
  /// Copies floats to those of another element type.
  void convert(Value src, Value dst);
  /// Starts a collective and waits for it; packs and unpacks its rows where the
  /// target cannot move them as they lie.
  void collective(const Collective &collective) { finish(pack(collective)); }
  /// The first half: copies the source if it must be packed.
  Movement pack(const Collective &collective);
  /// The second half.
  void finish(const Movement &movement);
  /// Whether copies come before a collective, or after it.
  bool packs(const Collective &collective) const;
  bool unpacks(const Collective &collective) const;
  /// Launches a kernel on a buffer for each of its operands, in any order.
  void launch(const Kernel &kernel, ArrayRef<NamedBuffer> buffers,
              ArrayRef<Value> scalars = {});
  /// Launches one whose operands are those of `op` and then its results, or the
  /// first of them.
  void launch(const Kernel &kernel, Operation *op,
              ArrayRef<Value> scalars = {});

  Value createConstant(int64_t value);
  /// The number of real elements in a dimension of this rank's part.
  Value createRealExtent(Type type, int64_t dim);
  /// The first element of a dimension that this rank's part holds, times
  /// `stride`.
  Value createPartOffset(Type type, int64_t dim, int64_t stride = 1);

private:
  /// A weight that was packed: [k,n] with rows `ld` apart, or [n,k].
  struct PackedWeight {
    int64_t n, k, ld;
    bool trans;
    exec::Blocks blocks;
    Value packed;
  };

  /// A buffer whose elements the target lets a product add to `result`: that
  /// one, or a copy.
  Value matchElements(Value buffer, Value result, StringRef name);
  void createGemm(const Gemm &gemm);
  /// B in the target's layout, or null where it is to be read as it lies.
  Value getPacked(const Gemm &gemm);
  /// The packed form of a weight, of this type.
  Value pack(const PackedWeight &weight, Value buffer, MemRefType type);
  Value allocate(MemRefType type, StringRef category, StringAttr name,
                 ArrayAttr values);
  /// Moves matrices as they lie.
  void moveStrided(const Collective &collective);
  ArrayAttr getAxes(Type type, int64_t dim);

  MeshOp mesh;
  const Target &target;
  const Processor &processor;
  AttentionChoice attention;
  KernelDeclarations &declarations;
  const BufferAssignment &assignment;
  LiveRows liveRows;
  HeldWeights weights;
  SmallVector<Value> values;
  llvm::DenseMap<Value, SmallVector<PackedWeight, 1>> packedWeights;
};

/// Whether a tensor is a parameter. Its buffer is updated after its last use,
/// so that within the function it never changes before.
bool isParameter(Value tensor);

/// The number of elements of a tensor.
int64_t getNumElements(Value tensor);
/// The last dimension of a tensor, and the product of the others.
int64_t getLastDim(Value tensor);
int64_t getNumRows(Value tensor);

/// Lowers products ccl.matmul and the sums optimus.add of their results, panel
/// by panel together: see --optimus-group-products. Fails with an error on an
/// operation.
LogicalResult expandPanels(ArrayRef<Operation *> group, Lowering &lowering);
/// Whether the writes of one member of a group lie apart from the reads of
/// others.
bool canExpandTogether(ArrayRef<Operation *> group, const Lowering &lowering);

} // namespace mlir::optimus

#endif // OPTIMUS_LIB_CONVERSION_TOEXEC_LOWERING_H
