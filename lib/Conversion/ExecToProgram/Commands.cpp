//===- Commands.cpp - Commands as entries of a table ----------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FunctionBuilder.h"

#include "optimus-support/ProgramRegions.h"

#include "optimus/Dialect/Optimus/IR/Provenance.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace mlir::optimus;

// Enumerations of the two sides have the same values.
static_assert(int(exec::Epilogue::Mul) == int(program::Epilogue::Mul) &&
              int(exec::Weight::B) == int(program::Weight::B) &&
              int(exec::Reduction::Max) == int(program::Reduction::Max) &&
              int(exec::CollectiveKind::ReduceScatter) ==
                  int(program::CollectiveKind::ReduceScatter) &&
              int(exec::MemorySpace::File) == int(program::MemorySpace::File) &&
              int(exec::LaunchOp::Update) == int(program::Access::Update));

LogicalResult FunctionBuilder::build() {
  if (!function.getBody().hasOneBlock())
    return function.emitOpError("expected straight-line commands, found "
                                "control flow");
  if (function.getNumResults() != 0)
    return function.emitOpError("expected no results on a function of "
                                "commands; run --optimus-to-exec first");
  result.name = function.getSymName();
  if (failed(addMemory()))
    return failure();
  for (Operation &op : function.getBody().front())
    if (failed(addCommand(&op)))
      return failure();
  program::setArgumentAccess(result, ranks);
  return success();
}

LogicalResult FunctionBuilder::addMemory() {
  for (auto [index, type] : llvm::enumerate(function.getArgumentTypes())) {
    auto buffer = dyn_cast<MemRefType>(type);
    if (!buffer)
      return function.emitOpError("expected buffers as arguments, found ")
             << type << "; run --optimus-to-exec first";
    if (buffer.getElementType().isInteger(8)) {
      auto arena = std::make_unique<program::ArenaT>();
      arena->space = static_cast<program::MemorySpace>(
          exec::getMemorySpace(function.getArgument(index)));
      arena->bytes = buffer.getNumElements();
      result.arenas.push_back(std::move(arena));
      continue;
    }
    auto argument = std::make_unique<program::ArgumentT>();
    argument->type = buffer.getElementType().isF64()
                         ? program::ElementType::F64
                     : buffer.getElementType().isInteger(32)
                         ? program::ElementType::I32
                         : program::ElementType::F32;
    argument->bytes =
        buffer.getNumElements() * program::elementBytes(argument->type);
    result.arguments.push_back(std::move(argument));
  }
  function.walk([&](exec::ArenaSlotOp slot) {
    auto buffer = std::make_unique<program::BufferT>();
    buffer->arena = cast<BlockArgument>(slot.getArena()).getArgNumber();
    buffer->offset = slot.getOffset();
    buffer->bytes = cast<MemRefType>(slot.getBuffer().getType())
                        .getNumElements() *
                    program::elementBytes(getElementType(slot.getBuffer()));
    buffer->category = texts.getNumber(slot.getCategory());
    if (ArrayAttr values = slot.getValuesAttr())
      for (StringRef value : values.getAsValueRange<StringAttr>())
        buffer->values.push_back(texts.getNumber(value));
    result.buffers.push_back(std::move(buffer));
  });
  return success();
}

FailureOr<uint32_t>
FunctionBuilder::getQueue(exec::CommandOpInterface command) {
  std::optional<StringRef> name = command.getCommandQueue();
  if (!name)
    return command.emitOpError(
        "has no queue; run --optimus-order-commands first");
  auto [entry, isNew] = queues.try_emplace(*name, result.queues.size());
  if (!isNew)
    return entry->second;
  auto queue = std::make_unique<program::QueueT>();
  if (*name == exec::kCopyQueue) {
    queue->kind = program::QueueKind::Copies;
  } else if (*name != exec::kComputeQueue) {
    FailureOr<uint32_t> axis = addresses.getAxis(command, *name);
    if (failed(axis))
      return failure();
    queue->kind = program::QueueKind::Communication;
    queue->axes.push_back(*axis);
  }
  result.queues.push_back(std::move(queue));
  return entry->second;
}

void FunctionBuilder::addSource(Location location,
                                program::CommandT &command) {
  if (StringRef path = getPath(location); !path.empty()) {
    std::string name = path.str();
    if (ProgramPhase phase = getPhase(location);
        phase != ProgramPhase::Forward)
      name += (" " + stringifyProgramPhase(phase)).str();
    command.path = texts.getNumber(name);
  }
  if (FileLineColLoc file = getFileLine(location))
    command.source = texts.getNumber(
        (llvm::sys::path::filename(file.getFilename().getValue()) + ":" +
         Twine(file.getLine()))
            .str());
}

template <typename ActionT>
LogicalResult FunctionBuilder::addAction(program::CommandT &command,
                                         ActionT action,
                                         ArrayRef<Value> buffers) {
  command.action.Set(std::move(action));
  auto shapes = program::shapesOf(command.action, ranks);
  // Only of operands that verifiers would have refused.
  if (!shapes)
    return function.emitOpError("has a command whose sizes do not fit");
  for (auto [buffer, shape] : llvm::zip(buffers, *shapes)) {
    auto operand = std::make_unique<program::OperandT>();
    if (buffer) {
      FailureOr<uint32_t> address = addresses.getAddress(buffer);
      if (failed(address))
        return failure();
      *operand = program::makeOperand(shape, getElementType(buffer), *address);
    }
    command.operands.push_back(std::move(operand));
  }
  return success();
}

LogicalResult FunctionBuilder::addLaunch(exec::LaunchOp op,
                                         program::CommandT &command) {
  program::LaunchT launch;
  launch.kernel = kernels.getNumber(op.getKernel());
  launch.extent = op.getExtent();
  launch.grain = op.getGrain();
  for (Value scalar : op.getScalars()) {
    FailureOr<uint32_t> number = addresses.getScalar(scalar);
    if (failed(number))
      return failure();
    launch.scalars.push_back(*number);
  }
  for (auto [buffer, access] :
       llvm::zip_equal(op.getBuffers(), op.getAccess())) {
    FailureOr<uint32_t> address = addresses.getAddress(buffer);
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
  return shape;
}

LogicalResult FunctionBuilder::addCommand(Operation *op) {
  // Flattened where they are used.
  if (isa<exec::ArenaSlotOp, exec::SliceOp, exec::SliceRankOp,
          exec::SelectRankOp, exec::RealExtentOp, exec::PartOffsetOp,
          arith::ConstantOp, func::ReturnOp>(op))
    return success();
  if (isa<exec::AllocOp>(op))
    return op->emitOpError("has no place in the arena; run "
                           "--optimus-place-buffers first");
  auto described = dyn_cast<exec::CommandOpInterface>(op);
  if (!described)
    return op->emitOpError("is no command of the device program; run "
                           "--optimus-to-exec first");
  if (!described.getCommandId())
    return op->emitOpError("has no number; run --optimus-to-exec first");
  if (*described.getCommandId() != result.commands.size())
    return op->emitOpError("expected number ")
           << result.commands.size() << ", found "
           << *described.getCommandId();
  FailureOr<uint32_t> queue = getQueue(described);
  if (failed(queue))
    return failure();
  auto command = std::make_unique<program::CommandT>();
  command->queue = *queue;
  for (int32_t earlier : described.getCommandsBefore())
    command->after.push_back(earlier);
  addSource(op->getLoc(), *command);

  LogicalResult added =
      TypeSwitch<Operation *, LogicalResult>(op)
          .Case([&](exec::GemmOp op) {
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
            gemm.weight = static_cast<program::Weight>(op.getWeight());
            return addAction(*command, std::move(gemm),
                             {op.getA(), op.getB(), op.getC(), op.getBias(),
                              op.getExtra()});
          })
          .Case([&](exec::LaunchOp op) { return addLaunch(op, *command); })
          .Case([&](exec::CopyOp op) {
            if (!op.getSrc()) {
              program::FillT fill;
              fill.rows = op.getRows();
              fill.cols = op.getCols();
              fill.ld = op.getDstLd();
              return addAction(*command, std::move(fill), {op.getDst()});
            }
            program::CopyT copy;
            copy.rows = op.getRows();
            copy.cols = op.getCols();
            copy.src_ld = op.getSrcLd();
            copy.dst_ld = op.getDstLd();
            return addAction(*command, std::move(copy),
                             {op.getSrc(), op.getDst()});
          })
          .Case([&](exec::AttentionOp op) {
            program::AttentionT attention;
            attention.shape = getShape(op);
            return addAction(*command, std::move(attention),
                             {op.getQ(), op.getK(), op.getV(), op.getLengths(),
                              op.getOut(), op.getLse()});
          })
          .Case([&](exec::AttentionGradOp op) {
            program::AttentionGradT attention;
            attention.shape = getShape(op);
            return addAction(*command, std::move(attention),
                             {op.getDout(), op.getQ(), op.getK(), op.getV(),
                              op.getLengths(), op.getOut(), op.getLse(),
                              op.getDq(), op.getDk(), op.getDv()});
          })
          .Case([&](exec::CollectiveStartOp op) -> LogicalResult {
            FailureOr<uint32_t> axis = addresses.getAxis(op, op.getAxis());
            if (failed(axis))
              return failure();
            program::CollectiveT collective;
            collective.kind =
                static_cast<program::CollectiveKind>(op.getKind());
            collective.reduction =
                static_cast<program::Reduction>(op.getReduction());
            collective.axes.push_back(*axis);
            collective.root = op.getRoot();
            collective.outer = op.getOuter();
            collective.inner = op.getInner();
            collective.src_ld = op.getSrcLd();
            collective.dst_ld = op.getDstLd();
            return addAction(*command, std::move(collective),
                             {op.getSrc(), op.getDst()});
          })
          .Case([&](exec::WaitOp op) {
            program::WaitT wait;
            wait.command = *op.getStart().getId();
            command->action.Set(std::move(wait));
            return success();
          })
          .Default([&](Operation *op) -> LogicalResult {
            return op->emitOpError("has no place in a table of commands");
          });
  result.commands.push_back(std::move(command));
  return added;
}
