//===- PathUse.h - Outputs that are not inputs ------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_SUPPORT_PATHUSE_H
#define OPTIMUS_SUPPORT_PATHUSE_H

#include "optimus-support/Status.h"

#include <span>
#include <string>

namespace optimus_support {

/// A file or folder named by the user, and its purpose.
struct PathUse {
  std::string what; ///< for messages: "--data", "the program"
  std::string path; ///< "-": a standard stream; empty: not given
  /// A folder that is read or replaced with everything in it.
  bool isWhole = false;
};

/// InvalidArgument if an output is an input (by device and inode, whatever the
/// names), lies in a whole folder that is an input or output, or is another
/// output. To be called before anything is opened for writing. Devices and
/// terminals may be both, and so may folders.
Status checkOutputsApart(std::span<const PathUse> inputs,
                         std::span<const PathUse> outputs);

} // namespace optimus_support

#endif // OPTIMUS_SUPPORT_PATHUSE_H
