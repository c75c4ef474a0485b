//===- MemoryCategory.h - What a buffer counts as ---------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_SUPPORT_MEMORYCATEGORY_H
#define OPTIMUS_SUPPORT_MEMORYCATEGORY_H

namespace optimus_support {

/// What memory is for.
enum class MemoryCategory { Parameters, State, Gradients, Inputs };

/// That of a buffer, from its lifetime as the compiler or the manifest has it,
/// and whether it belongs to a parameter. Prepared of a parameter, it is
/// another form of it.
template <typename Lifetime>
constexpr MemoryCategory memoryCategory(Lifetime lifetime, bool hasOwner,
                                        bool isPrepared) {
  if (lifetime == Lifetime::Parameter || isPrepared)
    return MemoryCategory::Parameters;
  if (lifetime == Lifetime::State)
    return MemoryCategory::State;
  return hasOwner ? MemoryCategory::Gradients : MemoryCategory::Inputs;
}

/// The entry for it of four in the order of the categories.
template <typename T>
constexpr const T &entryOf(MemoryCategory category, const T (&entries)[4]) {
  return entries[static_cast<int>(category)];
}

} // namespace optimus_support

#endif // OPTIMUS_SUPPORT_MEMORYCATEGORY_H
