//===- Devices.h - The memory of all ranks ----------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_INTERPRETER_EXEC_DEVICES_H
#define OPTIMUS_LIB_INTERPRETER_EXEC_DEVICES_H

#include "HappensBefore.h"

#include "optimus/Dialect/Exec/IR/Exec.h"
#include "optimus/Interpreter/DeviceInterfaces.h"
#include "optimus/Interpreter/Ranks.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::exec {

/// Two bytes of memory: their known writer and readers. Every element type has
/// a multiple of that.
struct Cell {
  static constexpr int32_t kNobody = -1, kCaller = -2;
  int32_t writer = kNobody; ///< a command
  int32_t buffer = kNobody; ///< as which it wrote
  /// Commands that have read it since: the last of those that are done in
  /// order, and the others.
  int32_t reader = kNobody;
  SmallVector<int32_t, 0> otherReaders;
};

/// What one rank holds of an argument, an allocation or an arena.
struct Memory {
  static constexpr int64_t kCellBytes = 2;
  explicit Memory(int64_t numBytes)
      : bytes(numBytes, '\xff'), cells((numBytes + 1) / kCellBytes) {}
  std::vector<char> bytes;
  std::vector<Cell> cells;
};

/// Where a buffer lies on one rank.
struct Place {
  Memory *memory;
  int64_t offset; ///< of its first byte
  int64_t extent; ///< its number of elements
  Type elementType;
  int32_t buffer; ///< the number of the buffer that it is a part of
};

/// An operand of the command at hand, on one rank. What is wrong with touching
/// an element, the devices tell of.
class Operand {
public:
  Operand(Devices &devices, const Access &access, int64_t rank);

  double read(int64_t element) const;
  /// Rounds to the type of the elements.
  void write(int64_t element, double value) const;
  /// `rows` rows of `cols` elements that begin `ld` apart, or their transpose.
  std::vector<double> readMatrix(int64_t rows, int64_t cols, int64_t ld,
                                 bool isTransposed = false) const;
  void writeMatrix(int64_t rows, int64_t cols, int64_t ld,
                   ArrayRef<double> values) const;

  int64_t getExtent() const { return place.extent; }
  int64_t getRank() const { return rank; }
  bool isAt(const Operand &other) const;

private:
  friend class Devices;
  bool isDeclared(int64_t element) const;

  Devices *devices;
  Access access;
  int64_t rank;
  Place place;
};

/// The memory of all ranks while a function of commands is executed.
class Devices {
public:
  Devices(func::FuncOp function, const optimus::Ranks &ranks);

  const optimus::Ranks &getRanks() const { return ranks; }

  /// What the caller puts into an argument before, and finds there at the end:
  /// failure after an error on the function.
  void setArgument(unsigned argument, int64_t rank, ArrayRef<double> values);
  FailureOr<std::vector<double>> getArgument(unsigned argument, int64_t rank);

  LogicalResult execute(CommandOpInterface command);

  // -- For the command at hand ------------------------------------------------

  Operand getOperand(OpOperand &operand, int64_t rank);
  /// An operand that may be missing.
  std::optional<Operand> getOperand(MutableOperandRange range, int64_t rank);
  /// An integer that follows from a rank's place on the mesh.
  int64_t evaluate(const RankNumber &number, int64_t rank) const;

private:
  friend class Operand;

  Place getPlace(Value buffer, int64_t rank);
  Memory &getMemory(Value base, int64_t rank);
  int32_t getBufferNumber(Value buffer);
  bool mayWrite(Value buffer);

  void noteRead(const Operand &operand, int64_t element);
  void noteWrite(const Operand &operand, int64_t element);
  /// Reports a mistake of the command at hand, and none after it.
  void tell(const Operand &operand, StringRef verb, int64_t element,
            const Twine &what, int32_t other = Cell::kNobody);

  std::string describeCommand(int32_t number) const;
  std::string describeBuffer(int32_t number) const;

  func::FuncOp function;
  const optimus::Ranks &ranks;
  HappensBefore order;
  llvm::DenseMap<Value, std::vector<Memory>> memories;
  SmallVector<Value> buffers;
  llvm::DenseMap<Value, int32_t> bufferNumbers;
  int32_t current = Cell::kNobody;
  SmallVector<Access> accesses;
  bool hasFailed = false;
};

/// Calls `run(rank)` for each.
template <typename Fn>
LogicalResult forEachRank(const Devices &devices, Fn &&run) {
  for (int64_t rank = 0; rank < devices.getRanks().getNumRanks(); ++rank)
    run(rank);
  return success();
}

/// The model of a command.
template <typename Op, LogicalResult (*executeCommand)(Op, Devices &)>
struct CommandModel : InterpretableCommandOpInterface::ExternalModel<
                          CommandModel<Op, executeCommand>, Op> {
  LogicalResult execute(Operation *op, Devices &devices) const {
    return executeCommand(cast<Op>(op), devices);
  }

  static void attach(MLIRContext &context) {
    Op::template attachInterface<CommandModel>(context);
  }
};

// Each attaches the models of some operations.
void attachComputeCommands(MLIRContext &context);
void attachAttentionCommands(MLIRContext &context);
void attachCommunicationCommands(MLIRContext &context);
void attachLaunch(MLIRContext &context);

} // namespace mlir::exec

#endif // OPTIMUS_LIB_INTERPRETER_EXEC_DEVICES_H
