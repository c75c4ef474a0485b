//===- Files.cpp - Files of the compiler's tools ----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Tool/Files.h"

#include "optimus-support/InputFile.h"
#include "optimus-support/Nesting.h"

#include "llvm/Support/Process.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;
using namespace mlir::optimus;
using namespace optimus_support;

StatusOr<std::unique_ptr<llvm::MemoryBuffer>>
mlir::optimus::readProgram(const std::string &path) {
  constexpr size_t kMostBytes = size_t(1) << 30;
  // Who forgot to name a file would wait for nothing.
  if (path == "-" && llvm::sys::Process::StandardInIsUserInput())
    llvm::errs() << "reading the program from standard input; it ends with "
                    "Ctrl-D\n";
  OPTRT_ASSIGN_OR_RETURN(std::string text, readInput(path, kMostBytes));
  return wrapProgram(text, path);
}

StatusOr<std::unique_ptr<llvm::MemoryBuffer>>
mlir::optimus::wrapProgram(const std::string &text, const std::string &path) {
  // Bytecode begins so, and may hold any bytes.
  if (!StringRef(text).starts_with("ML\xefR")) {
    // Where a binary file is given by mistake, a diagnostic would quote it.
    if (text.find('\0') != std::string::npos)
      return invalidArgument("'" + path +
                             "' is a binary file; expected a program in MLIR");
    OPTRT_RETURN_IF_ERROR(checkNesting(text, path));
  }
  return llvm::MemoryBuffer::getMemBufferCopy(text,
                                              path == "-" ? "<stdin>" : path);
}

Status mlir::optimus::readProgram(const std::string &path,
                                  llvm::SourceMgr &sources) {
  OPTRT_ASSIGN_OR_RETURN(std::unique_ptr<llvm::MemoryBuffer> text,
                         readProgram(path));
  sources.AddNewSourceBuffer(std::move(text), llvm::SMLoc());
  quoteBriefly(sources);
  return okStatus();
}

Status mlir::optimus::addProgram(const std::string &text,
                                 const std::string &path,
                                 llvm::SourceMgr &sources) {
  OPTRT_ASSIGN_OR_RETURN(std::unique_ptr<llvm::MemoryBuffer> wrapped,
                         wrapProgram(text, path));
  sources.AddNewSourceBuffer(std::move(wrapped), llvm::SMLoc());
  quoteBriefly(sources);
  return okStatus();
}

StatusOr<std::unique_ptr<OutputStream>>
OutputStream::open(const std::string &path, OutputFileOptions options) {
  OPTRT_ASSIGN_OR_RETURN(OutputFile file, OutputFile::open(path, options));
  return std::unique_ptr<OutputStream>(new OutputStream(std::move(file)));
}

OutputStream::~OutputStream() { flush(); }

void OutputStream::write_impl(const char *data, size_t bytes) {
  written += bytes;
  if (failure.ok())
    failure = file.append({data, bytes});
}

Status OutputStream::commit() {
  flush();
  return failure.ok() ? file.commit() : failure;
}
