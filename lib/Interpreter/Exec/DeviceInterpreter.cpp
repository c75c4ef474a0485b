//===- DeviceInterpreter.cpp - Executes device programs ---------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Interpreter/DeviceInterpreter.h"

#include "Devices.h"
#include "KernelFrame.h"

#include "optimus/Dialect/Optimus/IR/Buffers.h"
#include "optimus/Dialect/Optimus/IR/ElementBytes.h"
#include "optimus/Interpreter/Interpreter.h"

#include "optimus-support/ResourceLimits.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::exec;
using optimus::NamedTensor;
using optimus::Tensor;

namespace mlir::exec {
#include "optimus/Interpreter/DeviceInterfaces.cpp.inc"
} // namespace mlir::exec

void mlir::exec::registerDeviceInterpreterModels(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, ExecDialect *) {
    attachComputeCommands(*context);
    attachAttentionCommands(*context);
    attachCommunicationCommands(*context);
    attachLaunch(*context);
  });
  registry.addExtension(+[](MLIRContext *context, arith::ArithDialect *) {
    attachKernelArithmetic(*context);
  });
  registry.addExtension(+[](MLIRContext *context, math::MathDialect *) {
    attachKernelMath(*context);
  });
  registry.addExtension(+[](MLIRContext *context, scf::SCFDialect *) {
    attachKernelLoops(*context);
  });
  registry.addExtension(+[](MLIRContext *context, memref::MemRefDialect *) {
    attachKernelMemory(*context);
  });
  registry.addExtension(+[](MLIRContext *context, vector::VectorDialect *) {
    attachKernelVectors(*context);
  });
}

//===----------------------------------------------------------------------===//
// What a function takes and gives
//===----------------------------------------------------------------------===//

bool mlir::exec::isDeviceProgram(func::FuncOp function) {
  return llvm::any_of(function.getArgumentTypes(),
                      [](Type type) { return isa<MemRefType>(type); });
}

static bool isArena(Type type) {
  auto buffer = dyn_cast<MemRefType>(type);
  return buffer && buffer.getElementType().isInteger(8);
}

static StringRef getAccess(func::FuncOp function, unsigned argument) {
  auto access =
      function.getArgAttrOfType<StringAttr>(argument, ExecDialect::kAccess);
  return access ? access.getValue() : StringRef();
}

/// The tensor in an argument's buffer, null if unknown.
static RankedTensorType getTensorType(func::FuncOp function,
                                      unsigned argument) {
  auto type =
      function.getArgAttrOfType<TypeAttr>(argument, ExecDialect::kLocalType);
  return type ? dyn_cast<RankedTensorType>(type.getValue())
              : RankedTensorType();
}

RankedTensorType mlir::exec::getInputType(func::FuncOp function,
                                          unsigned argument) {
  return getAccess(function, argument) == ExecDialect::kAccessWrite
             ? RankedTensorType()
             : getTensorType(function, argument);
}

/// The arguments in which a function leaves results.
static SmallVector<unsigned> getResultArguments(func::FuncOp function) {
  SmallVector<unsigned> arguments;
  for (unsigned number = 0; number < function.getNumArguments(); ++number) {
    StringRef access = getAccess(function, number);
    if (!access.empty() && access != ExecDialect::kAccessRead)
      arguments.push_back(number);
  }
  return arguments;
}

SmallVector<std::string> mlir::exec::getResultNames(func::FuncOp function) {
  SmallVector<std::string> names;
  for (unsigned number : getResultArguments(function)) {
    optimus::BufferAttr buffer = optimus::getArgumentBuffer(function, number);
    names.push_back(buffer ? buffer.getName()
                           : optimus::getArgumentName(function, number));
  }
  return names;
}

LogicalResult mlir::exec::checkDeviceMemory(func::FuncOp function) {
  optimus::MeshOp mesh = optimus::getMesh(function);
  uint64_t numRanks = mesh ? mesh.getNumRanks() : 1, all = 0;
  auto add = [&](Type type) {
    auto buffer = dyn_cast<MemRefType>(type);
    if (!buffer || !buffer.hasStaticShape())
      return;
    // Each cell, and what lies in it; whole tensors are never more.
    constexpr uint64_t kPerCell = sizeof(Cell) + 2 * Memory::kCellBytes;
    uint64_t bytes = optimus::getBytes(buffer);
    all = llvm::SaturatingMultiplyAdd(bytes / Memory::kCellBytes + 1,
                                      kPerCell * numRanks, all);
  };
  llvm::for_each(function.getArgumentTypes(), add);
  function.walk([&](AllocOp op) { add(op.getBuffer().getType()); });
  const auto &limits = optimus_support::resourceLimits();
  uint64_t machine = limits.memoryBytes;
  if (all <= machine)
    return success();
  return function.emitError("@")
         << function.getName() << ": interpreting it takes "
         << llvm::formatv("{0:f1} GiB", double(all) / 0x1p30).str()
         << " for buffers and who touched them on " << numRanks
         << " ranks, and " << limits.memoryOwner() << " has "
         << llvm::formatv("{0:f1} GiB", double(machine) / 0x1p30).str()
         << "; interpret a smaller program";
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

namespace {
/// One call of a function of commands.
class DeviceCall {
public:
  explicit DeviceCall(func::FuncOp function)
      : function(function), ranks(optimus::getMesh(function)),
        devices(function, ranks) {}

  LogicalResult setArguments(ArrayRef<Tensor> arguments) {
    for (unsigned number = 0; number < function.getNumArguments(); ++number) {
      if (isArena(function.getArgumentTypes()[number]))
        continue;
      if (!getTensorType(function, number) ||
          getAccess(function, number).empty())
        return function.emitError("@")
               << function.getName() << ": expected " << ExecDialect::kLocalType
               << " and " << ExecDialect::kAccess << " of argument " << number
               << ", its tensor and its access";
      if (failed(optimus::checkEncoding(
              function, getTensorType(function, number), ranks)))
        return failure();
      RankedTensorType type = getInputType(function, number);
      if (!type)
        continue;
      optimus::BufferAttr buffer = optimus::getArgumentBuffer(function, number);
      bool isTargets = buffer && buffer.getRole() == "targets";
      SmallVector<Tensor> parts =
          ranks.shard(arguments[number], type, isTargets ? -1 : 0);
      for (auto [rank, part] : llvm::enumerate(parts))
        devices.setArgument(number, rank, part.elements);
    }
    return success();
  }

  LogicalResult run() {
    for (Operation &op : function.getBody().front().without_terminator()) {
      auto command = dyn_cast<CommandOpInterface>(op);
      if (command && failed(devices.execute(command)))
        return failure();
      if (!command && !isPassive(&op))
        return op.emitOpError("cannot be interpreted in a device program");
    }
    return success();
  }

  FailureOr<std::vector<NamedTensor>> getResults() {
    std::vector<NamedTensor> results;
    for (auto [number, name] : llvm::zip_equal(getResultArguments(function),
                                               getResultNames(function))) {
      RankedTensorType type = getTensorType(function, number);
      SmallVector<Tensor> parts;
      for (int64_t rank = 0; rank < ranks.getNumRanks(); ++rank) {
        FailureOr<std::vector<double>> values =
            devices.getArgument(number, rank);
        if (failed(values))
          return failure();
        parts.push_back({llvm::to_vector(type.getShape()), std::move(*values)});
      }
      if (failed(checkReplicas(name, type, parts)))
        return failure();
      results.push_back({name, ranks.assemble(parts, type),
                         type.getElementType().isInteger()});
    }
    return results;
  }

private:
  /// What says where buffers lie or gives numbers, and is asked when a command
  /// needs it.
  static bool isPassive(Operation *op) {
    return op->hasTrait<OpTrait::ConstantLike>() ||
           llvm::isa<BufferOpInterface>(op) ||
           llvm::isa<BufferViewOpInterface>(op) ||
           llvm::isa<RankNumberOpInterface>(op);
  }

  /// Ranks that hold the same part of a result hold the same bits.
  LogicalResult checkReplicas(StringRef name, Type type,
                              ArrayRef<Tensor> parts) {
    for (int64_t rank = 0; rank < ranks.getNumRanks(); ++rank) {
      int64_t first = ranks.getFirstReplica(type, rank);
      double distance = optimus::getDistance(parts[rank], parts[first]);
      if (distance != 0)
        return function.emitError("@")
               << function.getName() << ": result " << name << " differs by "
               << distance << " between " << ranks.describe(first) << " and "
               << ranks.describe(rank)
               << ", which hold the same part by its type " << type;
    }
    return success();
  }

  func::FuncOp function;
  optimus::Ranks ranks;
  Devices devices;
};
} // namespace

FailureOr<std::vector<NamedTensor>>
mlir::exec::interpretDeviceProgram(func::FuncOp function,
                                   ArrayRef<Tensor> arguments) {
  if (!function.getBody().hasOneBlock())
    return function.emitError("@")
           << function.getName() << ": expected a body of one block";
  DeviceCall call(function);
  if (failed(call.setArguments(arguments)) || failed(call.run()))
    return failure();
  return call.getResults();
}
