//===- ArmFeatures.h - What code for ARM may draw on ------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_SUPPORT_ARMFEATURES_H
#define OPTIMUS_SUPPORT_ARMFEATURES_H

#include <string_view>

namespace optimus_support {

/// A feature of 64-bit ARM whose instructions LLVM emits by itself.
struct ArmFeature {
  /// Its name in LLVM.
  std::string_view name;
  /// The word for it in the Features of /proc/cpuinfo.
  std::string_view linuxName;
};

inline constexpr ArmFeature kArmFeatures[] = {
    {"bf16", "bf16"},
    {"complxnum", "fcma"},
    {"cssc", "cssc"},
    {"dotprod", "asimddp"},
    {"faminmax", "faminmax"},
    {"fp16fml", "asimdfhm"},
    {"fullfp16", "asimdhp"},
    {"i8mm", "i8mm"},
    {"lse", "atomics"},
    {"mops", "mops"},
    {"neon", "asimd"},
    {"rcpc", "lrcpc"},
    {"rdm", "asimdrdm"},
    {"sve", "sve"},
    {"sve-b16b16", "sveb16b16"},
    {"sve2", "sve2"},
    {"sve2p1", "sve2p1"},
};

} // namespace optimus_support

#endif // OPTIMUS_SUPPORT_ARMFEATURES_H
