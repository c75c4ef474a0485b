//===- OptConfig.h - What optimus-opt adds to that of MLIR ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_OPT_OPTCONFIG_H
#define OPTIMUS_TOOLS_OPTIMUS_OPT_OPTCONFIG_H

#include "optimus-support/PathUse.h"
#include "optimus-support/ScratchFolder.h"
#include "optimus-support/Status.h"

#include "mlir/Tools/mlir-opt/MlirOptMain.h"

#include <memory>
#include <string>
#include <vector>

namespace mlir::optimus {

/// The configuration by the flags, with our tools' additions to every pass
/// manager.
class OptConfig : public MlirOptMainConfig {
public:
  OptConfig();

  /// MLIR writes a requested reproducer in place; this makes it write into a
  /// folder of ours.
  optimus_support::Status redirectReproducer();

  /// Puts it where it belongs, if it was written.
  optimus_support::Status publishReproducer() const;

  /// Every file that is written, but for those below
  /// --mlir-print-ir-tree-dir.
  std::vector<optimus_support::PathUse> getOutputs() const;

private:
  /// Where the user wants what --mlir-generate-reproducer writes.
  std::string reproducer;
  std::unique_ptr<optimus_support::ScratchFolder> scratch;
};

} // namespace mlir::optimus

#endif // OPTIMUS_TOOLS_OPTIMUS_OPT_OPTCONFIG_H
