//===- Reporter.h - What a compilation says ---------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_COMPILER_REPORTER_H
#define OPTIMUS_LIB_COMPILER_REPORTER_H

#include "optimus/Compiler/Invocation.h"

namespace mlir::optimus {

/// Hands messages to the listener of an invocation. In this library a failed
/// Status was said before a function that is given a reporter returns it.
class Reporter {
public:
  explicit Reporter(const Invocation &invocation)
      : listener(invocation.listener),
        out(invocation.report ? *invocation.report : llvm::nulls()) {}

  /// Says a failure and returns it.
  optimus_support::Status fail(optimus_support::Status status);
  /// What diagnostics have said already.
  optimus_support::Status diagnosed() const;
  void sayProgress(StringRef line);

  /// Diagnostics on the program's text go on to the listener.
  void listenTo(llvm::SourceMgr &sources);

  llvm::raw_ostream &getReport() const { return out; }

private:
  void say(const CompileMessage &message);

  const std::function<void(const CompileMessage &)> &listener;
  llvm::raw_ostream &out;
  /// The first error on the program's text.
  std::string firstError;
};

} // namespace mlir::optimus

#endif // OPTIMUS_LIB_COMPILER_REPORTER_H
