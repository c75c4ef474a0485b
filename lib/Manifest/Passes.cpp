//===- Passes.cpp - What model libraries say of themselves ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Manifest/Passes.h"

#include "optimus/Manifest/Manifest.h"
#include "optimus/Manifest/ModelFunction.h"

#include "llvm/Support/DebugLog.h"

#define DEBUG_TYPE "optimus-build-manifest"

namespace mlir::optimus {
#define GEN_PASS_DEF_RECORDFUNCTIONPASS
#define GEN_PASS_DEF_RECORDLAYOUTSPASS
#define GEN_PASS_DEF_BUILDMANIFESTPASS
#include "optimus/Manifest/Passes.h.inc"
} // namespace mlir::optimus

using namespace mlir;

namespace {
class RecordFunctionPass
    : public optimus::impl::RecordFunctionPassBase<RecordFunctionPass> {
  void runOnOperation() override { optimus::recordFunction(getOperation()); }
};

class RecordLayoutsPass
    : public optimus::impl::RecordLayoutsPassBase<RecordLayoutsPass> {
  void runOnOperation() override { optimus::recordProgram(getOperation()); }
};

class BuildManifestPass
    : public optimus::impl::BuildManifestPassBase<BuildManifestPass> {
public:
  using BuildManifestPassBase::BuildManifestPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto processor = optimus::CpuTarget::get(cpu);
    if (!processor) {
      module.emitError("mcpu: ") << llvm::toString(processor.takeError());
      return signalPassFailure();
    }
    FailureOr<std::string> manifest = optimus::buildManifest(
        module, *processor,
        {target, strategy, optimizer, precision, isPlan,
         SmallVector<int64_t>(tile.begin(), tile.end()), nodeRanks});
    if (failed(manifest)) {
      module.emitError("the manifest cannot be written");
      return signalPassFailure();
    }
    LDBG() << manifest->size() << " bytes for " << target << " on " << cpu;
    module->setAttr(exec::ExecDialect::kManifest,
                    StringAttr::get(&getContext(), *manifest));
  }
};
} // namespace
