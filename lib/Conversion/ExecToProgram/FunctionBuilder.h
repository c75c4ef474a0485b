//===- FunctionBuilder.h - The table of one function ------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_CONVERSION_EXECTOPROGRAM_FUNCTIONBUILDER_H
#define OPTIMUS_LIB_CONVERSION_EXECTOPROGRAM_FUNCTIONBUILDER_H

#include "optimus-support/Program.h"
#include "optimus-support/ProgramShapes.h"
#include "optimus/Analysis/KernelWork.h"
#include "optimus/Dialect/Exec/IR/Exec.h"
#include "optimus/Dialect/Optimus/IR/Optimus.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"

#include <map>

namespace mlir::optimus {

namespace program = optimus_support::program;

/// Numbers names in the order in which they are first asked for.
class NameTable {
public:
  uint32_t getNumber(StringRef name) {
    auto [entry, isNew] = numbers.try_emplace(name, names.size());
    if (isNew)
      names.push_back(name.str());
    return entry->second;
  }

  std::vector<std::string> names;

private:
  llvm::StringMap<uint32_t> numbers;
};

/// Flattens the views of buffers into addresses, each distinct one once.
class AddressTable {
public:
  AddressTable(func::FuncOp function, MeshOp mesh,
               program::FunctionT &result)
      : function(function), mesh(mesh), result(result) {}

  /// The address of a buffer.
  FailureOr<uint32_t> getAddress(Value buffer);
  /// The number of a launch's operand.
  FailureOr<uint32_t> getScalar(Value value);
  FailureOr<uint32_t> getAxis(Operation *op, StringRef axis);

private:
  /// What views add to a place: bytes, and bytes by index on an axis.
  struct Offset {
    int64_t bytes = 0;
    std::map<uint32_t, int64_t> scales;
  };

  FailureOr<uint32_t> getAddress(Value buffer, Offset offset);
  uint32_t getPlace(program::Base base, uint32_t index, const Offset &offset);
  /// An address that ranks choose between two.
  FailureOr<uint32_t> getChoice(Operation *op, const exec::RankChoice &choice,
                                uint32_t mine, uint32_t other);
  FailureOr<program::IntegerT> getInteger(exec::RankNumberOpInterface op);
  /// Adds what of a number depends on the rank.
  LogicalResult addIndex(Operation *op, const exec::RankNumber &number,
                         std::map<uint32_t, int64_t> &scales);
  static void addTerms(const std::map<uint32_t, int64_t> &scales,
                       program::IntegerT &integer);

  func::FuncOp function;
  MeshOp mesh;
  program::FunctionT &result;
  std::map<std::tuple<program::Base, uint32_t, int64_t,
                      std::map<uint32_t, int64_t>>,
           uint32_t>
      places;
  std::map<std::tuple<uint32_t, int64_t, uint32_t, uint32_t>, uint32_t> choices;
  llvm::DenseMap<Value, uint32_t> scalars;
};

/// Writes the commands of a function.
class FunctionBuilder {
public:
  /// `ranks` is what `mesh` describes, and outlives the builder.
  FunctionBuilder(func::FuncOp function, MeshOp mesh,
                  const optimus_support::Mesh &ranks,
                  program::FunctionT &result, NameTable &kernels,
                  NameTable &texts)
      : function(function), ranks(ranks), result(result), kernels(kernels),
        texts(texts), addresses(function, mesh, result) {}

  LogicalResult build();
  /// The first launch of each kernel, in their order.
  SmallVector<exec::LaunchOp> takeLaunches() { return std::move(launches); }

  // What models of ProgramActionOpInterface write a command with.

  AddressTable &getAddresses() { return addresses; }
  KernelWorks &getWorks() { return works; }
  uint32_t getKernel(StringRef name) { return kernels.getNumber(name); }
  uint32_t getKernel(exec::LaunchOp launch) {
    if (launched.insert(launch.getKernelAttr()).second)
      launches.push_back(launch);
    return getKernel(launch.getKernel());
  }
  /// Writes an action and what it touches, in the order of shapesOf(); null
  /// stands for no buffer.
  template <typename ActionT>
  LogicalResult setAction(program::CommandT &command, ActionT action,
                          ArrayRef<Value> buffers) {
    command.action.Set(std::move(action));
    return addOperands(command, buffers);
  }

private:
  LogicalResult addMemory();
  LogicalResult addCommand(Operation *op);
  LogicalResult addOperands(program::CommandT &command,
                            ArrayRef<Value> buffers);
  FailureOr<uint32_t> getQueue(exec::CommandOpInterface command);
  void addBuffers();
  /// The texts that say where something belongs and is written.
  struct Source {
    uint32_t path = program::kNone, line = program::kNone;
  };
  Source describeSource(Location location);
  /// As describeSource() says, which is asked once for each location.
  Source getSource(Location location);

  func::FuncOp function;
  const optimus_support::Mesh &ranks;
  program::FunctionT &result;
  NameTable &kernels, &texts;
  AddressTable addresses;
  KernelWorks works;
  SmallVector<exec::LaunchOp> launches;
  llvm::DenseSet<Attribute> launched;
  llvm::StringMap<uint32_t> queues;
  llvm::DenseMap<Location, Source> sources;
};

/// The element type of a buffer, and how tables name one.
program::ElementType getElementType(Value buffer);
program::ElementType getElementType(Type type);

} // namespace mlir::optimus

#endif // OPTIMUS_LIB_CONVERSION_EXECTOPROGRAM_FUNCTIONBUILDER_H
