//===- Target.h - What lowering asks of a machine ---------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A target is a kind of device that programs are compiled for. What a pass must
// know of it stands here and nowhere else: --optimus-to-exec and
// --optimus-build-kernels find it by name.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TARGET_TARGET_H
#define OPTIMUS_TARGET_TARGET_H

#include "optimus/Dialect/Exec/IR/Exec.h"
#include "optimus/Kernels/KernelSchedule.h"

#include "llvm/Support/Error.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mlir::optimus {

/// A processor that code is for, as far as lowering asks.
struct Processor {
  /// The features of its instruction set, by LLVM's names and sorted.
  std::vector<std::string> features;

  bool has(StringRef feature) const {
    return llvm::binary_search(features, feature);
  }
};

/// A product C[m,n] = op(A)[m,k]·op(B)[k,n], as far as a target asks.
struct GemmShape {
  int64_t m, n, k;
  bool transA, transB;
  /// Whether a bias or a matrix is added before C is stored.
  bool adds;
  /// Whether the rows of A and those of C lie one after the other.
  bool isDense;
};

/// An attention or its gradient, as far as a library is asked for it.
struct LibraryAttention {
  int64_t batch, seq, heads, kvHeads, headDim;
  Type elements;
  bool isGradient, isDeterministic, hasPositions, hasWindow;
};

/// A kernel as a device finds and launches it that runs blocks of threads.
struct DeviceKernel {
  std::string name;   ///< in the device's code
  int64_t threads;    ///< of a block
  int64_t iterations; ///< that a block does at a time
};

class Target {
public:
  virtual ~Target() = default;

  /// The name by which it is found.
  virtual StringRef getName() const = 0;

  /// What the addresses of buffers in the device's memory are multiples of, in
  /// bytes: a power of two, exec::kLeastAlignment at least.
  virtual int64_t getBufferAlignment() const = 0;

  /// Of how many tokens the logits of a head are made at a time. The program
  /// asks for `asked` and has `vocab` logits a token. Sums over tokens are made
  /// chunk by chunk, so the bits of their gradients depend on it.
  virtual int64_t getLossChunk(int64_t asked, int64_t vocab) const = 0;

  /// How logits, and their gradients in their place, lie in memory.
  struct LogitsForm {
    Type elements;
    int64_t stride; ///< elements from the logits of a token to the next one's
  };
  /// Of a head with `vocab` logits a token whose factors have these elements.
  virtual LogitsForm getLogitsForm(int64_t vocab, Type factors) const {
    return {Float32Type::get(factors.getContext()), vocab};
  }

  /// Whether collectives of this kind move rows that lie apart. Where they do
  /// not, rows are packed before and unpacked after.
  virtual bool movesStrided(exec::CollectiveKind kind) const = 0;

  /// The processor of a name that --mcpu takes, or why there is none.
  virtual llvm::Expected<Processor> getProcessor(StringRef name) const = 0;

  /// If a prepacked weight B makes such a product faster, even with one packing
  /// a call: how many elements the packed B takes at most. Nothing elsewhere.
  virtual std::optional<int64_t>
  getPackedElements(const GemmShape &shape,
                    const Processor &processor) const = 0;

  /// Whether products read a B in blocks.
  virtual bool readsBlocks() const { return false; }

  /// Whether products have such an epilogue; a launch follows them where they
  /// do not.
  virtual bool hasEpilogue(exec::Epilogue epilogue) const = 0;

  /// Whether the bias of a product, and what its epilogue reads, may have other
  /// elements than its result.
  virtual bool mixesElements() const = 0;

  /// Whether attention is a command; it is launches of kernels elsewhere.
  virtual bool hasAttention() const = 0;

  /// The library that may compute attention in place of kernels, as --attention
  /// names it; none by default.
  virtual StringRef getAttentionLibrary() const { return ""; }

  /// How many bytes of workspace that library takes for an attention at most,
  /// or why it does not compute it.
  virtual llvm::Expected<int64_t>
  getAttentionWorkspace(const LibraryAttention &) const {
    return llvm::createStringError("this device has no library for attention");
  }

  /// Whether the gradient of an embedding goes by the table's rows, not by
  /// columns, of which there are few for a GPU.
  virtual bool addsEmbeddingsByRows() const { return false; }

  /// Whether ranks with a common such device add their parts by a kernel; on
  /// others the host adds.
  virtual bool reducesByKernels() const { return false; }

  /// Whether rows that lie apart are copied within the device's memory by a
  /// kernel, in place of the device's own copies.
  virtual bool copiesRowsByKernels() const { return false; }

  /// How a kernel of a name with such iterations is launched. Nothing where the
  /// host calls kernels.
  virtual std::optional<DeviceKernel>
  getDeviceKernel(StringRef name, const IterationSpace &space) const = 0;

  /// How its kernels are divided; their bodies are the same for all targets.
  virtual const KernelSchedule &getKernelSchedule() const = 0;
};

/// Makes a target known. Its name is not taken.
void registerTarget(std::unique_ptr<Target> target);

/// The target of that name, or null. It lives as long as the process.
const Target *findTarget(StringRef name);

/// The names of all targets, sorted.
SmallVector<StringRef> getTargetNames();

/// Fails if no target has this name, with an error that lists the known names.
LogicalResult checkTarget(MLIRContext *context, StringRef name);

} // namespace mlir::optimus

#endif // OPTIMUS_TARGET_TARGET_H
