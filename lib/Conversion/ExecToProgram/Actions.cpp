//===- Actions.cpp - What each command is in a table ----------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FunctionBuilder.h"

#include "optimus/Conversion/ExecToProgram/ProgramActionOpInterface.h"
#include "optimus/Dialect/Exec/IR/Commands.h"
#include "optimus/Dialect/Exec/IR/WeightBlocks.h"
#include "optimus/Dialect/Optimus/IR/ElementBytes.h"

using namespace mlir;
using namespace mlir::optimus;

#include "optimus/Conversion/ExecToProgram/ProgramActionOpInterface.cpp.inc"

// Enumerations of the two sides have the same values.
static_assert(int(exec::Epilogue::BiasGrad) ==
                  int(program::Epilogue::BiasGrad) &&
              int(exec::Reduction::Max) == int(program::Reduction::Max) &&
              int(exec::CollectiveKind::ReduceScatter) ==
                  int(program::CollectiveKind::ReduceScatter) &&
              int(exec::MemorySpace::File) == int(program::MemorySpace::File) &&
              int(exec::LaunchOp::Update) == int(program::Access::Update));

static LogicalResult setAction(exec::GemmOp op, FunctionBuilder &builder,
                               program::CommandT &command) {
  program::GemmT gemm;
  gemm.m = op.getM();
  gemm.n = op.getN();
  gemm.k = op.getK();
  gemm.lda = op.getLda();
  gemm.ldb = op.getLdb();
  gemm.ldc = op.getLdc();
  gemm.ld_extra = op.getLdExtra();
  gemm.trans_a = op.getTransA();
  gemm.trans_b = op.getTransB();
  gemm.accumulate = op.getAccumulate();
  gemm.epilogue = static_cast<program::Epilogue>(op.getEpilogue());
  gemm.packed_b = op.getPackedB();
  gemm.blocks = exec::getWeightBlocks(op.getBlocks());
  if (std::optional<StringRef> kernel = op.getKernel())
    gemm.kernel = builder.getKernel(*kernel);
  return builder.setAction(command, std::move(gemm),
                           {op.getA(), op.getB(), op.getC(), op.getBias(),
                            op.getExtra(), op.getLive()});
}

static LogicalResult setAction(exec::PackOp op, FunctionBuilder &builder,
                               program::CommandT &command) {
  program::PackMatrixT pack;
  pack.rows = op.getRows();
  pack.cols = op.getCols();
  pack.ld = op.getLd();
  pack.trans = op.getTrans();
  pack.blocks = exec::getWeightBlocks(op.getBlocks());
  pack.elements = cast<MemRefType>(op.getDst().getType()).getNumElements();
  return builder.setAction(command, std::move(pack),
                           {op.getSrc(), op.getDst()});
}

/// A kernel touches what it is given: operands say so, no shape does.
static LogicalResult setAction(exec::LaunchOp op, FunctionBuilder &builder,
                               program::CommandT &command) {
  if (!op.getExtent())
    return op.emitOpError("has no extent; run --optimus-build-kernels first");
  program::LaunchT launch;
  launch.kernel = builder.getKernel(op);
  launch.extent = *op.getExtent();
  launch.grain = *op.getGrain();
  // Attention is priced by its shape.
  if (!builder.getWorks().getAttention(op)) {
    const KernelWork work = builder.getWorks().get(op);
    launch.vector_ops = work.vectorOps;
    launch.divisions = work.divisions;
    launch.scalar_ops = work.scalarOps;
  }
  for (Value scalar : op.getScalars()) {
    FailureOr<uint32_t> number = builder.getAddresses().getScalar(scalar);
    if (failed(number))
      return failure();
    launch.scalars.push_back(*number);
  }
  for (auto [buffer, access] :
       llvm::zip_equal(op.getBuffers(), op.getAccess())) {
    FailureOr<uint32_t> address = builder.getAddresses().getAddress(buffer);
    if (failed(address))
      return failure();
    auto operand = std::make_unique<program::OperandT>();
    operand->address = *address;
    operand->type = getElementType(buffer);
    operand->access = static_cast<program::Access>(access);
    operand->row_bytes = cast<MemRefType>(buffer.getType()).getNumElements() *
                         program::elementBytes(operand->type);
    command.operands.push_back(std::move(operand));
  }
  command.action.Set(std::move(launch));
  return success();
}

static LogicalResult setAction(exec::CopyOp op, FunctionBuilder &builder,
                               program::CommandT &command) {
  if (!op.getSrc()) {
    program::FillT fill;
    fill.rows = op.getRows();
    fill.cols = op.getCols();
    fill.ld = op.getDstLd();
    return builder.setAction(command, std::move(fill), {op.getDst()});
  }
  program::CopyT copy;
  copy.rows = op.getRows();
  copy.cols = op.getCols();
  copy.src_ld = op.getSrcLd();
  copy.dst_ld = op.getDstLd();
  if (std::optional<StringRef> kernel = op.getKernel())
    copy.kernel = builder.getKernel(*kernel);
  return builder.setAction(command, std::move(copy),
                           {op.getSrc(), op.getDst()});
}

template <typename OpT>
static std::unique_ptr<program::AttentionShapeT> getShape(OpT op) {
  auto shape = std::make_unique<program::AttentionShapeT>();
  shape->batch = op.getBatch();
  shape->seq = op.getSeq();
  shape->heads = op.getHeads();
  shape->kv_heads = op.getKvHeads();
  shape->head_dim = op.getHeadDim();
  shape->q_ld = op.getQLd();
  shape->kv_ld = op.getKvLd();
  shape->causal = op.getCausal();
  shape->window = op.getWindow().value_or(0);
  const exec::AttentionKeys cached = exec::getAttentionKeys(op);
  shape->capacity = cached.capacity;
  shape->pool = cached.pool;
  return shape;
}

/// Writes an attention, whose operands end with its workspace, if it has any,
/// and the one behind.
template <typename OpT, typename ActionT>
static LogicalResult
setAttention(OpT op, ActionT attention, SmallVector<Value> operands,
             FunctionBuilder &builder, program::CommandT &command,
             Value behind = {}) {
  Value workspace = op.getWorkspace();
  const size_t place = operands.size();
  if (workspace || behind)
    operands.push_back(workspace);
  if (behind)
    operands.push_back(behind);
  if (failed(builder.setAction(command, std::move(attention), operands)))
    return failure();
  if (workspace)
    command.operands[place]->row_bytes = getBytes(workspace.getType());
  return success();
}

static LogicalResult setAction(exec::AttentionOp op, FunctionBuilder &builder,
                               program::CommandT &command) {
  program::AttentionT attention;
  attention.shape = getShape(op);
  return setAttention(op, std::move(attention),
                      {op.getQ(), op.getK(), op.getV(), op.getLengths(),
                       op.getPositions(), op.getOut(), op.getLse()},
                      builder, command, op.getPages());
}

static LogicalResult setAction(exec::AttentionGradOp op,
                               FunctionBuilder &builder,
                               program::CommandT &command) {
  program::AttentionGradT attention;
  attention.shape = getShape(op);
  attention.deterministic = op.getDeterministic();
  return setAttention(op, std::move(attention),
                      {op.getDout(), op.getQ(), op.getK(), op.getV(),
                       op.getLengths(), op.getPositions(), op.getOut(),
                       op.getLse(), op.getDq(), op.getDk(), op.getDv()},
                      builder, command);
}

static LogicalResult setAction(exec::CollectiveStartOp op,
                               FunctionBuilder &builder,
                               program::CommandT &command) {
  FailureOr<uint32_t> axis = builder.getAddresses().getAxis(op, op.getAxis());
  if (failed(axis))
    return failure();
  program::CollectiveT collective;
  collective.kind = static_cast<program::CollectiveKind>(op.getKind());
  collective.reduction = static_cast<program::Reduction>(op.getReduction());
  collective.axes.push_back(*axis);
  collective.root = op.getRoot();
  collective.outer = op.getOuter();
  collective.inner = op.getInner();
  collective.src_ld = op.getSrcLd();
  collective.dst_ld = op.getDstLd();
  collective.carried = op.getCarried().value_or(0);
  if (std::optional<StringRef> kernel = op.getKernel())
    collective.kernel = builder.getKernel(*kernel);
  return builder.setAction(command, std::move(collective),
                           {op.getSrc(), op.getDst()});
}

static LogicalResult setAction(exec::WaitOp op, FunctionBuilder &,
                               program::CommandT &command) {
  program::WaitT wait;
  wait.command = *op.getStart().getId();
  command.action.Set(std::move(wait));
  return success();
}

static LogicalResult setAction(exec::WaitCarriedOp op, FunctionBuilder &,
                               program::CommandT &command) {
  program::WaitT wait;
  wait.carried = op.getCarried();
  command.action.Set(std::move(wait));
  return success();
}

namespace {
/// Attaches the overload of `setAction` for an operation.
template <typename OpT>
struct ProgramAction
    : ProgramActionOpInterface::ExternalModel<ProgramAction<OpT>, OpT> {
  LogicalResult setAction(Operation *op, FunctionBuilder &builder,
                          program::CommandT &command) const {
    return ::setAction(cast<OpT>(op), builder, command);
  }
};
} // namespace

template <typename... OpTs>
static void attachActions(MLIRContext &context) {
  (OpTs::template attachInterface<ProgramAction<OpTs>>(context), ...);
}

void mlir::optimus::registerProgramActions(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, exec::ExecDialect *) {
    attachActions<exec::AttentionOp, exec::AttentionGradOp,
                  exec::CollectiveStartOp, exec::CopyOp, exec::GemmOp,
                  exec::LaunchOp, exec::PackOp, exec::WaitOp,
                  exec::WaitCarriedOp>(*context);
  });
}
