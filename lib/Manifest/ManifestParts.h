//===- ManifestParts.h - The parts of a manifest ----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What Manifest.cpp puts together: layouts, buffers and functions.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_TARGET_CPU_MANIFESTPARTS_H
#define OPTIMUS_LIB_TARGET_CPU_MANIFESTPARTS_H

#include "optimus/Dialect/Optimus/IR/Buffers.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/JSON.h"

namespace mlir::optimus {

/// Whether the manifest has the roundings of a function's results: of what is
/// compared between libraries, gradients and logits.
bool saysRoundings(func::FuncOp function);
/// Adds what rounding does to each result of a function, by its buffer's name.
/// Names that are there stay.
void addRoundings(func::FuncOp function, NamedAttrList &roundings);

llvm::json::Array toJson(ArrayRef<int64_t> values);
llvm::json::Array toJson(ArrayRef<StringRef> values);

/// Describes how buffers lie on the mesh, and notes their dimensions.
class LayoutWriter {
public:
  explicit LayoutWriter(MeshOp mesh) : mesh(mesh) {}

  /// Element type, shape, local shape and sharding of the tensor in an
  /// argument's buffer.
  FailureOr<llvm::json::Object> describe(func::FuncOp function,
                                         unsigned argument);
  /// The classes of sharded or padded dimensions, of all tensors described.
  llvm::json::Array getDimensions();

private:
  void note(StringRef name, int64_t size, int64_t padded,
            ArrayRef<StringRef> axes);

  struct Dimension {
    std::string name;
    int64_t size, padded;
    llvm::SetVector<StringRef> axes;
  };

  MeshOp mesh;
  SmallVector<Dimension> dimensions;
};

/// The buffers that functions name, each once: first the parameters, then what
/// belongs to each of them, then the rest.
class BufferTable {
public:
  /// Adds those of a function of commands. Functions agree on what they share:
  /// checkModelDescription() has seen to it.
  LogicalResult add(func::FuncOp function);
  /// Gives each its place in the list, once all are there.
  LogicalResult finish();

  int64_t getIndex(BufferAttr buffer) const;
  FailureOr<llvm::json::Array> toJson(LayoutWriter &layouts) const;
  /// What identifies the model: names and shapes of what it saves as such.
  std::string getIdentity() const;

private:
  /// A buffer, and the first argument bound to it.
  struct Entry {
    BufferAttr buffer;
    func::FuncOp function;
    unsigned argument;

    bool isParameter() const {
      return buffer.getLifetime() == Lifetime::Parameter;
    }
    std::string getName() const;
    /// Its shape in checkpoints.
    SmallVector<int64_t> getSavedShape() const;
    /// Where checkpoints have it with others; null where it is alone.
    PackedAttr getPacked() const;
    /// The tensor that it is, or lies in.
    std::string getSavedName() const;
  };
  LogicalResult checkPacked() const;
  FailureOr<llvm::json::Object> toJson(const Entry &entry,
                                       LayoutWriter &layouts) const;

  SmallVector<Entry> entries;
  llvm::StringMap<int64_t> indices; ///< by BufferAttr::getName()
  llvm::StringMap<int64_t> params;  ///< by their own names
};

/// What the manifest says of a function of commands; `attentionLibrary` is the
/// target's, empty where it has none.
FailureOr<llvm::json::Object> describeFunction(func::FuncOp function,
                                               const BufferTable &buffers,
                                               StringRef attentionLibrary);

} // namespace mlir::optimus

#endif // OPTIMUS_LIB_TARGET_CPU_MANIFESTPARTS_H
