//===- MergeLaunches.h - One launch instead of several ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The driver of passes that merge launches. A pass lists the candidate
// launches, in order, and decides whether launches fit together; the driver
// takes in one after the other as long as they fit:
//
//   a, b, c, d    where c does not fit {a, b}    ->    {a, b}, {c, d}
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_TARGET_MERGELAUNCHES_H
#define OPTIMUS_LIB_TARGET_MERGELAUNCHES_H

#include "optimus/Kernels/KernelFunctions.h"

#include "mlir/IR/PatternMatch.h"

namespace mlir::optimus {

/// A launch and the kernel that its function is to compute: one for all
/// launches of it.
struct KernelLaunch {
  const DeclaredKernel *declared;
  exec::LaunchOp launch;

  const Kernel &getKernel() const { return declared->kernel; }
  const KernelDescription &getDescription() const {
    return declared->description;
  }
  const IterationSpace &getSpace() const { return getDescription().getSpace(); }
  /// The kernel's operands, each with the buffer that it is given.
  auto getOperands() const {
    return llvm::zip_equal(getDescription().getOperands(),
                           exec::LaunchOp(launch).getBuffers());
  }
};
using KernelLaunches = std::vector<KernelLaunch>;

/// Launches that are to become one.
class LaunchGroup {
public:
  /// `rewriter` creates, moves and erases launches.
  explicit LaunchGroup(RewriterBase &rewriter) : rewriter(rewriter) {}
  virtual ~LaunchGroup() = default;

  /// Takes in a launch that fits; it may move launches for that.
  bool add(const KernelLaunch &launch);
  /// Writes one launch for all where there are several that it is worth for.
  bool write(KernelDeclarations &kernels);

protected:
  virtual bool join(const KernelLaunch &launch) = 0;
  virtual bool isWorthOne() const { return true; }
  virtual void writeOne(KernelDeclarations &kernels) = 0;

  auto getLaunches() const {
    return llvm::map_range(members, [](const KernelLaunch &member) {
      return exec::LaunchOp(member.launch);
    });
  }

  RewriterBase &rewriter;
  KernelLaunches members;
};

/// What a pass merges in one function, beside others.
class LaunchMerging {
public:
  virtual ~LaunchMerging() = default;

  /// Lists launches of the function that may become one, in order. `read` gives
  /// a launch its kernel, or nothing where the function of that says none.
  using ReadFn =
      function_ref<std::optional<KernelLaunch>(exec::LaunchOp launch)>;
  virtual SmallVector<KernelLaunches> list(func::FuncOp function,
                                           ReadFn read) = 0;
  virtual std::unique_ptr<LaunchGroup> createGroup() = 0;
};
/// How many launches became how many.
struct MergedCount {
  int64_t launches = 0, groups = 0;
};

/// Merges the launches of all functions of a module that have one block; each
/// has a merging of its own. Fails with an error on the function of a kernel.
FailureOr<MergedCount>
mergeLaunches(ModuleOp module,
              function_ref<std::unique_ptr<LaunchMerging>()> create);

} // namespace mlir::optimus

#endif // OPTIMUS_LIB_TARGET_MERGELAUNCHES_H
