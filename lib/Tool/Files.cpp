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

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/SourceMgr.h"

#include <algorithm>
#include <functional>

using namespace mlir;
using namespace mlir::optimus;
using namespace optimus_support;

/// The text from its first line that is not empty and no comment.
static StringRef skipComments(StringRef text) {
  while (true) {
    text = text.ltrim();
    if (!text.starts_with("//"))
      return text;
    text = text.drop_until([](char c) { return c == '\n'; });
  }
}

static bool isOfName(char c) {
  return llvm::isAlnum(c) || StringRef("_$.-").contains(c);
}

/// Whether a text begins as MLIR may: with an operation, an alias of an
/// attribute or a type, a value, or resources; or has nothing in it.
static bool beginsAsProgram(StringRef text) {
  text = skipComments(text);
  if (text.empty() || text.starts_with("{-#") || text.starts_with("%"))
    return true;
  if (text.consume_front("#") || text.consume_front("!")) {
    StringRef name = text.take_while(isOfName);
    return !name.empty() &&
           text.drop_front(name.size()).ltrim().starts_with("=");
  }
  if (text.consume_front("\"")) {
    StringRef name = text.take_while(isOfName);
    text = text.drop_front(name.size());
    return !name.empty() && text.consume_front("\"") &&
           text.ltrim().starts_with("(");
  }
  StringRef name = text.take_while(isOfName);
  auto [dialect, operation] = name.split('.');
  const bool isBuiltin =
      name == "module" || name == "unrealized_conversion_cast";
  return isBuiltin || (!dialect.empty() && !operation.empty());
}

/// Refuses what is no program: the parser would say of a Markdown file that an
/// attribute's name is wrong.
static Status checkBegin(StringRef text, const std::string &path) {
  static constexpr StringLiteral kExpected =
      "expected a program in MLIR, as python3 -m optimus.models writes it";
  if (text.contains('\0'))
    return invalidArgument(
        concat("'", path, "' is a binary file; ", kExpected.str()));
  if (beginsAsProgram(text))
    return okStatus();
  StringRef rest = skipComments(text);
  const size_t line = text.drop_back(rest.size()).count('\n') + 1;
  constexpr size_t kMostQuoted = 40;
  StringRef whole = rest.take_until([](char c) { return c == '\n'; }).rtrim();
  std::string quoted = whole.take_front(kMostQuoted).str();
  std::replace_if(quoted.begin(), quoted.end(), std::not_fn(llvm::isPrint),
                  '?');
  return invalidArgument(concat(
      kExpected.str(), ", which begins with an operation, such as `module`, ",
      "or an alias; found `", quoted,
      whole.size() > kMostQuoted ? "` and more" : "`", " in line ", line,
      " of '", path, "'"));
}

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
    OPTRT_RETURN_IF_ERROR(checkBegin(text, path));
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
