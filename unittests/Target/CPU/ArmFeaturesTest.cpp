//===- ArmFeaturesTest.cpp - Names of what code for ARM draws on ----------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/ArmFeatures.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "gtest/gtest.h"

#include <memory>

// A name that LLVM does not have would be required of no processor.
TEST(ArmFeatures, AreNamedAsInLLVM) {
  llvm::InitializeAllTargetInfos();
  llvm::InitializeAllTargetMCs();
  llvm::Triple triple("aarch64-linux-gnu");
  std::string message;
  const llvm::Target *target =
      llvm::TargetRegistry::lookupTarget(triple, message);
  if (!target)
    GTEST_SKIP() << "this LLVM is built without AArch64: " << message;
  std::unique_ptr<llvm::MCSubtargetInfo> info(
      target->createMCSubtargetInfo(triple, "generic", ""));
  for (const optimus_support::ArmFeature &feature :
       optimus_support::kArmFeatures)
    EXPECT_TRUE(llvm::any_of(info->getAllProcessorFeatures(),
                             [&](const llvm::SubtargetFeatureKV &known) {
                               return known.Key == feature.name;
                             }))
        << feature.name;
}
