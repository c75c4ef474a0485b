//===- PrintCommands.cpp - Tables of commands for people ------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Conversion/ExecToProgram/ExecToProgram.h"
#include "optimus/Conversion/ExecToProgram/Passes.h"

#include "optimus-support/ProgramPrinter.h"

#include "llvm/Support/raw_ostream.h"

#include "llvm/Support/DebugLog.h"

#define DEBUG_TYPE "optimus-print-commands"

namespace mlir::optimus {
#define GEN_PASS_DEF_PRINTCOMMANDSPASS
#include "optimus/Conversion/ExecToProgram/Passes.h.inc"
} // namespace mlir::optimus

using namespace mlir;
using namespace mlir::optimus;
namespace program = optimus_support::program;

namespace {
class PrintCommandsPass
    : public optimus::impl::PrintCommandsPassBase<PrintCommandsPass> {
public:
  using PrintCommandsPassBase::PrintCommandsPassBase;

  void runOnOperation() override {
    markAllAnalysesPreserved();
    FailureOr<program::ProgramsT> programs =
        buildPrograms(getOperation(), target);
    if (failed(programs) ||
        failed(verifyPrograms(getOperation(), program::check(*programs))))
      return signalPassFailure();
    program::PrintOptions options;
    const int64_t ranks = program::meshOf(*programs).numRanks();
    if (rank >= ranks) {
      getOperation().emitError("has no rank ")
          << rank << "; its mesh has " << ranks;
      return signalPassFailure();
    }
    if (rank >= 0)
      options.rank = rank;
    LDBG() << programs->targets.size() << " targets for " << ranks << " ranks";
    const program::TargetT &code = *programs->targets.front();
    const program::ProgramTableT &table =
        program::tableOf(code, options.rank.value_or(0));
    for (const std::unique_ptr<program::FunctionT> &function : table.functions)
      llvm::outs() << program::print(*programs, code, table, *function,
                                     options);
    for (const std::unique_ptr<program::SequenceT> &sequence : table.sequences)
      llvm::outs() << program::print(*sequence);
  }
};
} // namespace
