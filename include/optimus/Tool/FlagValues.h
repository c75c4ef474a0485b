//===- FlagValues.h - Values of flags and options ---------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOL_FLAGVALUES_H
#define OPTIMUS_TOOL_FLAGVALUES_H

#include "optimus-support/Status.h"

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <string>

namespace mlir::optimus {

/// "--strategy: unknown strategy 'sumo'; known are serial, summa; did you mean
/// 'summa'?"
std::string unknownName(llvm::StringRef flag, llvm::StringRef what,
                        llvm::StringRef name,
                        llvm::ArrayRef<llvm::StringRef> known);

/// Reads a whole number in [least, most]; the error begins with the flag.
optimus_support::StatusOr<uint64_t> readCount(llvm::StringRef flag,
                                              llvm::StringRef text,
                                              uint64_t least,
                                              uint64_t most = INT64_MAX);

} // namespace mlir::optimus

#endif // OPTIMUS_TOOL_FLAGVALUES_H
