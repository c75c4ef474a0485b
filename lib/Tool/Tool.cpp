//===- Tool.cpp - What every tool of the compiler does ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Tool/Tool.h"

#include "optimus-support/OutOfMemory.h"
#include "optimus-support/Process.h"
#include "optimus-support/TemporaryPath.h"

#include "llvm/Config/llvm-config.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/PrettyStackTrace.h"
#include "llvm/Support/WithColor.h"
#include "llvm/Support/raw_ostream.h"

#include <csignal>
#include <exception>
#include <unistd.h>

using namespace mlir;
using namespace mlir::optimus;

static constexpr StringLiteral kPleaseReport =
    "This is a fault of Optimus; please report it.\n";

/// Of the tool that runs.
static std::string toolName = "optimus";

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

int mlir::optimus::fail(const Twine &message, ExitCode code) {
  llvm::outs().flush();
  if (code != kOurFault) {
    llvm::WithColor::error(llvm::errs(), toolName) << message << "\n";
    return code;
  }
  llvm::errs() << toolName << ": internal error: " << message << "\n"
               << kPleaseReport;
  return code;
}

int mlir::optimus::fail(const optimus_support::Status &status) {
  if (status.code() != optimus_support::StatusCode::Internal)
    return fail(Twine(status.message()));
  return fail(Twine(status.message()) + " [" + StringRef(status.file()) + ":" +
                  Twine(status.line()) + "]",
              kOurFault);
}

int mlir::optimus::fail(llvm::Error error) {
  return fail(Twine(llvm::toString(std::move(error))));
}

std::string mlir::optimus::describeVersion(StringRef tool) {
  return (tool + " " OPTIMUS_VERSION " (LLVM " LLVM_VERSION_STRING ")").str();
}

//===----------------------------------------------------------------------===//
// The end without return
//===----------------------------------------------------------------------===//

[[noreturn]] static void endFatally(int code) {
  // Nothing is flushed: a flush may have been the failure.
  optimus_support::removeTemporaries();
  _exit(code);
}

static void endWithoutMemory(void *, const char *, bool) {
  // Of what malloc() did not have to say already, nobody knows the size.
  optimus_support::exitOutOfMemory(0);
}

/// What LLVM says before it would abort.
static void endByLLVM(void *, const char *reason, bool isInternal) {
  // Streams that nobody asked for errors, and limits on threads, are the
  // machine's or the user's.
  StringRef text = reason;
  bool isLimit = text.contains("pthread_create failed");
  bool isOutput = text.contains("IO failure on output stream");
  if (isLimit)
    fail("cannot start a thread: " + text +
         "; `ulimit -v` or `ulimit -u` may be too low");
  else
    fail("LLVM: " + text, isInternal && !isOutput ? kOurFault : kBadInput);
  endFatally(isInternal && !isOutput && !isLimit ? kOurFault : kBadInput);
}

//===----------------------------------------------------------------------===//
// The process
//===----------------------------------------------------------------------===//

namespace {
/// Puts back, after LLVM has set its handlers, what somebody else sends: the
/// signals that the caller ignores stay ignored, and others end the process.
/// LLVM takes some of them for crashes, and prints a stack; the printing may
/// wait for ever for a lock of the interrupted code.
class CallersSignals {
public:
  CallersSignals() {
    for (auto [index, signal] : llvm::enumerate(kSignals)) {
      struct sigaction action;
      isIgnored[index] = sigaction(signal, nullptr, &action) == 0 &&
                         action.sa_handler == SIG_IGN;
    }
  }
  void restore() const {
    for (auto [index, signal] : llvm::enumerate(kSignals))
      std::signal(signal, isIgnored[index] ? SIG_IGN : SIG_DFL);
  }

private:
  static constexpr int kSignals[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGTERM,
                                     SIGUSR1, SIGUSR2, SIGXCPU};
  bool isIgnored[std::size(kSignals)];
};
} // namespace

/// Whether all that was printed has arrived.
static optimus_support::Status finishOutput() {
  llvm::raw_fd_ostream &out = llvm::outs();
  out.flush();
  std::error_code error = out.error();
  out.clear_error();
  // A message that nobody can read is no reason to abort.
  llvm::errs().clear_error();
  optimus_support::Status rest = optimus_support::finishStandardOutput();
  if (error)
    return optimus_support::unavailable("cannot write to standard output: " +
                                        error.message());
  return rest;
}

int mlir::optimus::runTool(StringRef name, int argc, char **argv,
                           llvm::function_ref<int()> body) {
  toolName = name.str();
  CallersSignals signals;
  // Without its handler of SIGPIPE: the system's ends the process as quietly as
  // those of other programs.
  llvm::InitLLVM init(argc, argv, /*InstallPipeSignalExitHandler=*/false);
  signals.restore();
  static std::string bugReport =
      toolName + ": internal error: it crashed. " + kPleaseReport.str();
  llvm::setBugReportMsg(bugReport.c_str());
  llvm::install_bad_alloc_error_handler(endWithoutMemory);
  llvm::install_fatal_error_handler(endByLLVM);
  optimus_support::startProcess();
  // Nothing of ours throws; the standard library may.
  auto ran = optimus_support::runOnLargeStack([&] {
    try {
      return body();
    } catch (const std::exception &error) {
      return fail(Twine("unexpected exception: ") + error.what(), kOurFault);
    }
  });
  int code = ran.ok() ? *ran : fail(ran.status());
  optimus_support::Status end = finishOutput();
  return code == kDone && !end.ok() ? fail(end) : code;
}
