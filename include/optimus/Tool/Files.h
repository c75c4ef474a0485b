//===- Files.h - Files of the compiler's tools ------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What optimus-support does with files, for LLVM's buffers and streams.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOL_FILES_H
#define OPTIMUS_TOOL_FILES_H

#include "optimus-support/OutputFile.h"
#include "optimus-support/Status.h"

#include "mlir/Support/LLVM.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

#include <memory>
#include <string>

namespace llvm {
class SMDiagnostic;
class SourceMgr;
} // namespace llvm

namespace mlir::optimus {

/// Reads a program as readInput() does, up to 1 GiB. A program nested too deep
/// for the stack of a parser is refused.
optimus_support::StatusOr<std::unique_ptr<llvm::MemoryBuffer>>
readProgram(const std::string &path);

/// The same for a program in memory that messages call `path`.
optimus_support::StatusOr<std::unique_ptr<llvm::MemoryBuffer>>
wrapProgram(const std::string &text, const std::string &path);

/// Makes diagnostics quote briefly. Of a long line, such as the signature of a
/// function of thousands of parameters, they quote only the surroundings of the
/// place. Of files named by locations but not read by the tool, they quote
/// nothing.
void quoteBriefly(llvm::SourceMgr &sources);

/// Prints a diagnostic on standard error, and quotes briefly.
void printBriefly(const llvm::SMDiagnostic &diagnostic);

/// Reads a program for a parser, with diagnostics that quote briefly.
optimus_support::Status readProgram(const std::string &path,
                                    llvm::SourceMgr &sources);
/// The same for a program in memory.
optimus_support::Status addProgram(const std::string &text,
                                   const std::string &path,
                                   llvm::SourceMgr &sources);

/// One output file as a stream: nothing is at its place before commit().
class OutputStream : public llvm::raw_ostream {
public:
  static optimus_support::StatusOr<std::unique_ptr<OutputStream>>
  open(const std::string &path,
       optimus_support::OutputFileOptions options = {});
  ~OutputStream() override;

  /// Puts the file in place. The first failure of a write, if there was one.
  optimus_support::Status commit();

private:
  explicit OutputStream(optimus_support::OutputFile opened)
      : file(std::move(opened)) {}

  void write_impl(const char *data, size_t bytes) override;
  uint64_t current_pos() const override { return written; }

  optimus_support::OutputFile file;
  optimus_support::Status failure;
  uint64_t written = 0;
};

} // namespace mlir::optimus

#endif // OPTIMUS_TOOL_FILES_H
