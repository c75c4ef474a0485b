//===- Invocation.h - A compilation as a function ---------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// The compiler as a library: optimus-compile, tests and tools of others call
// it. Nothing of a compilation is global beside MLIR's own flags, where a tool
// has them: several can be under way in a process.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_COMPILER_INVOCATION_H
#define OPTIMUS_COMPILER_INVOCATION_H

#include "optimus/Compiler/Settings.h"

#include "mlir/IR/DialectRegistry.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Support/Timing.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/raw_ostream.h"

#include <functional>
#include <optional>
#include <string>

namespace mlir {
class PassManager;
} // namespace mlir

namespace mlir::optimus {

/// What a compilation says on its way.
struct CompileMessage {
  enum class Kind {
    Error,
    Fault, ///< an error that is ours
    Warning,
    Note,
    Remark,
    Progress, ///< a sign of life of what takes long
  };
  Kind kind;
  /// A sentence without name of a tool or a place.
  StringRef text;
  /// Where in the program; null where it is about no line of it. Valid during
  /// the call, as the text.
  const llvm::SMDiagnostic *place = nullptr;
};

/// What MLIR's own flags ask for, where a tool has them.
struct MlirSettings {
  /// Prepares a pass manager, and counts its time as the scope's.
  std::function<LogicalResult(PassManager &, TimingScope &)> preparePasses = {};
  /// Where a crash or failure of passes is kept; empty for nowhere.
  std::string reproducer = {};
  /// Whether diagnostics print the operation too.
  bool printsOperations = false;
  /// Phases are counted below; null for not at all.
  TimingScope *timing = nullptr;
};

/// One compilation. Several may be compiled at once on threads of their own,
/// with outputs of their own; each gives the bytes that it gives alone.
struct Invocation {
  CompileSettings settings;
  /// The program itself; else the file `settings.input` is read.
  std::optional<std::string> program = {};
  /// Dialects beside ours, or null.
  const DialectRegistry *extensions = nullptr;
  /// Hears all that is said, one message at a time, also from other threads
  /// than the caller's. Empty: nobody does.
  std::function<void(const CompileMessage &)> listener = {};
  /// Takes the report and the table of layouts; null for nobody.
  llvm::raw_ostream *report = nullptr;
  /// Whether the report's times are of this machine where no other one is
  /// named; the first such report has it measured, see Prices/OwnMachine.h.
  bool reportsOwnMachine = false;
  MlirSettings mlir = {};
  /// Whether the process ends with it: then the program's memory is left to the
  /// system, as Clang's -disable-free does.
  bool endsProcess = false;
};

/// Compiles, and writes what the settings ask for: whole files or none. A
/// failure was said to the listener before it is returned: InvalidArgument is
/// the program's or the user's, Unavailable the machine's, Internal ours. The
/// caller's stack must hold the parser's recursion: 8 MiB, as for every
/// program.
optimus_support::Status compile(const Invocation &invocation);

} // namespace mlir::optimus

#endif // OPTIMUS_COMPILER_INVOCATION_H
