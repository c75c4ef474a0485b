//===- Phases.h - The phases of a compilation -------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What optimus-compile and --optimus-pipeline run, in order.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_PIPELINES_PHASES_H
#define OPTIMUS_PIPELINES_PHASES_H

#include "optimus/Conversion/ExecToLLVM/DeviceImage.h"
#include "optimus/Conversion/ExecToLLVM/TableCheck.h"
#include "optimus/Dialect/Optimus/Transforms/MeshOption.h"

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/SmallVector.h"

#include <memory>
#include <string>

namespace mlir {
class OpPassManager;
} // namespace mlir

namespace mlir::ccl {
struct SerialProgram;
} // namespace mlir::ccl

namespace mlir::optimus {
class MeasuredCosts;

inline constexpr StringLiteral kNextSync = "sync(next)";

struct PhaseOptions {
  MeshOption mesh;
  std::string strategy;
  /// As the option of --optimus-shard is: "decode=stationary".
  std::string entryStrategies;
  /// Both, as they were given.
  std::string describeStrategies() const {
    return entryStrategies.empty() ? strategy
                                   : strategy + "," + entryStrategies;
  }
  std::string optimizer = "adamw";
  /// As the options of --optimus-differentiate and --optimus-add-adapters are.
  std::string train, lora;
  /// As the option of --optimus-mixed-precision is.
  std::string precision = "f32";
  /// f32: as the option of --optimus-partition. As `precision`: gradients of
  /// weights are narrow, too.
  std::string reducePrecision;
  /// Whether @accumulate and @update are made too.
  bool accumulate = false;
  bool pad = true;
  /// As the options of --optimus-schedule are.
  std::string schedule = "time";
  std::string extraWorkspace = "10%";
  /// kNextSync where the next step waits for what a step gathers, else "sync".
  std::string sync = "sync";
  std::string machineProfile;
  /// A profile written by optimus-run train --profile, and its contents; empty
  /// and null without.
  std::string profile;
  std::shared_ptr<const MeasuredCosts> measured;
  /// As the options of --optimus-offload are; it does not run where the first,
  /// entries with commas between them, is empty.
  std::string offload, offloadTo = "file", offloadBandwidth;
  int64_t offloadWindow = 0;
  /// As the option of --optimus-tune-products is, where one was given, and
  /// whether it runs otherwise: without it, if there is a machine profile or a
  /// measured run.
  std::string move;
  std::optional<bool> tuneProducts;
  /// As its option is.
  int64_t panels = 0;
  /// As the option of --optimus-shard is.
  std::string layouts;
  /// As the option of --optimus-prepare-weights is.
  int64_t prepareBudget = 0;
  /// As the option count of --optimus-lanes is.
  int64_t lanes = 1;
  /// As the option of --optimus-recompute is.
  std::string recompute = "none";
  /// The device, as the option of --optimus-to-exec is.
  std::string target = "cpu";
  bool isForGpu() const { return target == "cuda"; }
  /// As its options of those names are.
  std::string attention = "auto";
  bool deterministic = false;
  std::string weights = "activations";
  /// As the option mcpu of --optimus-build-manifest is.
  std::string cpu = "native";
  /// Of a device with code of its own, that code for the phase "llvm"; null
  /// without.
  std::shared_ptr<const DeviceImages> images;
  /// Where the phase "llvm" leaves the check of its tables to its caller; null
  /// where it waits for it.
  std::shared_ptr<TableCheck> tableCheck;
  /// As the option of --optimus-exec-to-llvm is.
  bool kernelsApart = false;
  /// As the options of that name of --optimus-build-manifest and
  /// --optimus-exec-to-llvm are.
  bool isPlan = false;
  /// The part of the mesh on a node, one extent an axis, or how many ranks that
  /// follow each other; as the options tile and node-ranks of
  /// --optimus-build-manifest are.
  SmallVector<int64_t> tile;
  int64_t nodeRanks = 0;
  /// The phase of the program read; empty for "input".
  std::string from;
  /// As the option of --optimus-verify-partition is.
  std::string serial;
  /// The reference for the compiled program, unless null.
  std::shared_ptr<ccl::SerialProgram> serialProgram;

  /// The option of --optimus-tune-products; it does not run if empty.
  StringRef getMove() const;

  /// What was measured, if it was on this mesh with this strategy.
  std::shared_ptr<const MeasuredCosts> getMeasured() const;
};

/// One step that --compile-to can stop after.
struct Phase {
  StringLiteral name;
  /// Adds its passes, to a pass manager of modules; none where these options
  /// leave nothing to do.
  void (*addPasses)(OpPassManager &passes, const PhaseOptions &options);
  /// Whether a failure means that the program cannot be compiled as asked, as
  /// opposed to a fault of the compiler.
  bool checksInput;
  /// Whether the phase behind it keeps all of its operations, or makes the
  /// tables of a library from them: what verifies those verifies this phase,
  /// too.
  bool isVerifiedLater = false;
};

/// Whether a phase may fail by what the user gave and not only by a fault of
/// ours; `recompute` is as it was given; it may name values that do not exist,
/// and so may the choice of offloading. A profile may be of another program,
/// and a library that is to compute all attention may not know a model's.
bool checksInput(const Phase &phase, StringRef recompute,
                 const PhaseOptions &options);

/// How often a program is verified on its way through a phase.
enum class Verification {
  Never,    ///< the same operations are verified later, or tables of them
  AtEnd,    ///< once, after the last pass
  EachPass, ///< after every pass: costs a tenth of a compilation more
};

/// Runs the passes of a phase and verifies what they leave. Builds with
/// assertions verify after each pass.
LogicalResult runPasses(PassManager &passes, ModuleOp module,
                        Verification verification = Verification::AtEnd);

/// All phases, from "differentiate" to "llvm".
ArrayRef<Phase> getPhases();

/// "input" and the names of all phases.
SmallVector<StringRef> getPhaseNames();

/// Where a name stands among these; behind all of them if it is none.
size_t getPhaseNumber(StringRef phase);

/// Whether a compilation from one phase to another compares values with those
/// of the serial program and has to be given it, since it starts later.
bool readsSerialProgram(StringRef from, StringRef to);

} // namespace mlir::optimus

#endif // OPTIMUS_PIPELINES_PHASES_H
