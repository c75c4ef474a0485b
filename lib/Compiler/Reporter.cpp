//===- Reporter.cpp - What a compilation says -------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Reporter.h"

using namespace mlir;
using namespace mlir::optimus;
using optimus_support::invalidArgument;
using optimus_support::Status;
using optimus_support::StatusCode;
using Kind = CompileMessage::Kind;

static Kind getKind(llvm::SourceMgr::DiagKind kind) {
  switch (kind) {
  case llvm::SourceMgr::DK_Error:
    return Kind::Error;
  case llvm::SourceMgr::DK_Warning:
    return Kind::Warning;
  case llvm::SourceMgr::DK_Note:
    return Kind::Note;
  case llvm::SourceMgr::DK_Remark:
    return Kind::Remark;
  }
  llvm_unreachable("unknown kind of diagnostic");
}

void Reporter::say(const CompileMessage &message) {
  if (listener)
    listener(message);
}

Status Reporter::fail(Status status) {
  const bool isFault = status.code() == StatusCode::Internal;
  std::string text = status.message();
  if (isFault)
    text +=
        optimus_support::concat(" [", status.file(), ":", status.line(), "]");
  say({isFault ? Kind::Fault : Kind::Error, text});
  return status;
}

Status Reporter::diagnosed() const {
  return invalidArgument(firstError.empty() ? "the program is not valid"
                                            : firstError);
}

void Reporter::sayProgress(StringRef line) { say({Kind::Progress, line}); }

void Reporter::listenTo(llvm::SourceMgr &sources) {
  sources.setDiagHandler(
      [](const llvm::SMDiagnostic &diagnostic, void *context) {
        auto &reporter = *static_cast<Reporter *>(context);
        const Kind kind = getKind(diagnostic.getKind());
        if (kind == Kind::Error && reporter.firstError.empty())
          reporter.firstError = diagnostic.getMessage().str();
        reporter.say({kind, diagnostic.getMessage(), &diagnostic});
      },
      this);
}
