//===- Diagnostics.cpp - What is wrong with a line of IR ------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Tool/Files.h"

#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/VirtualFileSystem.h"
#include "llvm/Support/WithColor.h"

#include <algorithm>

using namespace mlir;
using namespace mlir::optimus;

static raw_ostream &printKind(llvm::SourceMgr::DiagKind kind) {
  switch (kind) {
  case llvm::SourceMgr::DK_Error:
    return llvm::WithColor::error(llvm::errs());
  case llvm::SourceMgr::DK_Warning:
    return llvm::WithColor::warning(llvm::errs());
  case llvm::SourceMgr::DK_Note:
    return llvm::WithColor::note(llvm::errs());
  case llvm::SourceMgr::DK_Remark:
    return llvm::WithColor::remark(llvm::errs());
  }
  llvm_unreachable("unknown kind of diagnostic");
}

/// As LLVM prints it, but of a long line only what lies about the place.
void mlir::optimus::printBriefly(const llvm::SMDiagnostic &diagnostic) {
  constexpr size_t kMost = 200, kBefore = 60, kShown = 120;
  StringRef line = diagnostic.getLineContents();
  if (line.size() <= kMost || diagnostic.getColumnNo() < 0)
    return diagnostic.print(nullptr, llvm::errs());
  size_t column = std::min(size_t(diagnostic.getColumnNo()), line.size());
  size_t begin = column > kBefore ? column - kBefore : 0;
  std::string shown = line.substr(begin, kShown).str();
  std::replace(shown.begin(), shown.end(), '\t', ' ');
  bool isFirst = begin == 0, isLast = begin + kShown >= line.size();
  llvm::errs() << diagnostic.getFilename() << ':' << diagnostic.getLineNo()
               << ':' << column + 1 << ": ";
  printKind(diagnostic.getKind()) << diagnostic.getMessage() << '\n';
  llvm::errs() << (isFirst ? "" : "...") << shown << (isLast ? "" : "...")
               << '\n';
  llvm::errs().indent((isFirst ? 0 : 3) + column - begin) << "^\n";
}

void mlir::optimus::quoteBriefly(llvm::SourceMgr &sources) {
  sources.setDiagHandler([](const llvm::SMDiagnostic &diagnostic, void *) {
    printBriefly(diagnostic);
  });
  // A location names a file that was never checked, and may be a device. Only
  // what the tool has read itself is quoted.
  sources.setVirtualFileSystem(
      llvm::makeIntrusiveRefCnt<llvm::vfs::InMemoryFileSystem>());
}
