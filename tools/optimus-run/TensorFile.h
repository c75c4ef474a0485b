//===- TensorFile.h - A file with one tensor --------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_RUN_TENSORFILE_H
#define OPTIMUS_TOOLS_OPTIMUS_RUN_TENSORFILE_H

#include "optimus-support/ElementType.h"
#include "optimus-support/OutputFile.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace optimus_run {

/// What is in it.
struct TensorDescription {
  std::string name; ///< in .safetensors
  optimus_support::ElementType type = optimus_support::ElementType::F32;
  std::vector<int64_t> shape;
};

/// A .npy or .safetensors file, written from beginning to end without being
/// held in memory, and put in place whole.
class TensorFile {
public:
  /// Checks a name, before anything is computed: InvalidArgument with another
  /// ending, or where no file can be.
  static optimus_support::Status check(const std::string &path);
  /// Opens it and writes what comes before the elements. InvalidArgument for
  /// bf16 in .npy, which has no such type.
  static optimus_support::StatusOr<TensorFile>
  open(const std::string &path, const TensorDescription &tensor);

  /// Adds elements, row-major.
  optimus_support::Status append(std::span<const std::byte> elements);
  /// After the last of them. Nothing but the destructor may follow.
  optimus_support::Status commit() { return file.commit(); }

private:
  optimus_support::OutputFile file;
};

} // namespace optimus_run

#endif // OPTIMUS_TOOLS_OPTIMUS_RUN_TENSORFILE_H
