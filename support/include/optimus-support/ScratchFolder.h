//===- ScratchFolder.h - Temporary files of one process ---------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_SUPPORT_SCRATCHFOLDER_H
#define OPTIMUS_SUPPORT_SCRATCHFOLDER_H

#include "optimus-support/Status.h"
#include "optimus-support/TemporaryPath.h"

#include <memory>
#include <string>
#include <vector>

namespace optimus_support {

/// A private folder in $TMPDIR, or /tmp, that is removed with its files when
/// this is destroyed or a signal ends the process. What a SIGKILL left of an
/// earlier one of the same name is removed when one is made.
class ScratchFolder {
public:
  /// `tool` begins its name. InvalidArgument, naming TMPDIR, if none can be
  /// made.
  static StatusOr<std::unique_ptr<ScratchFolder>>
  create(const std::string &tool);
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder &) = delete;
  ScratchFolder &operator=(const ScratchFolder &) = delete;

  /// The path of a file in it, which is removed with it.
  std::string file(const std::string &name);

private:
  ScratchFolder() = default;

  TemporaryPath folder;
  std::vector<TemporaryPath> files; ///< destroyed first
  int lock = -1;
};

} // namespace optimus_support

#endif // OPTIMUS_SUPPORT_SCRATCHFOLDER_H
