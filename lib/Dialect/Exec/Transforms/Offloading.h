//===- Offloading.h - What rests outside the device -------------- -*- C++
//-*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_DIALECT_EXEC_TRANSFORMS_OFFLOADING_H
#define OPTIMUS_LIB_DIALECT_EXEC_TRANSFORMS_OFFLOADING_H

#include "OffloadRewriter.h"

#include "optimus/Analysis/CostModel.h"
#include "optimus/Analysis/MachineProfile.h"
#include "optimus/Dialect/Exec/Transforms/OffloadChoice.h"

namespace mlir::optimus {
class BufferAttr;
} // namespace mlir::optimus

namespace mlir::exec {

/// As flags say it: kinds and patterns of values, file or host, bytes a second,
/// bytes fetched ahead, and the bytes below which a buffer stays.
struct OffloadRequest {
  SmallVector<StringRef> values;
  StringRef space, bandwidth;
  int64_t window = 0, least = 0;
};

/// What is offloaded of functions, where to and how fast. Nothing, unless it
/// was read.
class Offloading {
public:
  Offloading() = default;

  /// Reads a request, whose text must live as long. An error says what was
  /// expected and found.
  static llvm::Expected<Offloading>
  read(const OffloadRequest &request, const optimus::MachineProfile &machine);

  bool isEmpty() const { return !any; }
  MemorySpace getSpace() const { return space; }
  const Bandwidth &getRates() const { return rates; }
  int64_t getWindow() const { return window; }

  /// The first pattern that no value of a function matches, or nothing.
  std::optional<StringRef> findUnknown(func::FuncOp function) const;

  /// Chooses of the state that a function has, where it is not all of it: the
  /// smallest tensors first, since the largest need the most memory when they
  /// are fetched.
  void chooseState(func::FuncOp function);

  /// Moves commands that only sum up an offloaded buffer to its last write;
  /// returns how many.
  unsigned hoistSums(func::FuncOp function) const;

  /// Whether a buffer is offloaded.
  bool takes(Value base) const;

private:
  bool takes(optimus::BufferAttr buffer, unsigned argument) const;
  bool takes(AllocOp allocation) const;
  bool sumsUp(CommandOpInterface command) const;

  bool any = false;
  OffloadChoice asked;
  /// The arguments that chooseState() took.
  llvm::SmallDenseSet<unsigned> chosen;
  MemorySpace space = MemorySpace::File;
  Bandwidth rates;
  int64_t window = 0, least = 0;
};

/// The copies that offload a function's buffers, in the order of commands as it
/// is.
class OffloadPlan {
public:
  OffloadPlan(func::FuncOp function, const Offloading &offloading,
              const optimus::CostModel &costs);
  OffloadPlan(const OffloadPlan &) = delete;

  ArrayRef<CommandOpInterface> getCommands() const { return commands; }
  const TransferPlan &getTransfers() const { return transfers; }
  OffloadRewriter &getRewriter() { return rewriter; }

private:
  SmallVector<CommandOpInterface> commands;
  TransferPlan transfers;
  OffloadRewriter rewriter;
};

} // namespace mlir::exec

#endif // OPTIMUS_LIB_DIALECT_EXEC_TRANSFORMS_OFFLOADING_H
