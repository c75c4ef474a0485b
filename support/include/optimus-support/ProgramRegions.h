//===- ProgramRegions.h - Which memory commands of a table touch *- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_SUPPORT_PROGRAMREGIONS_H
#define OPTIMUS_SUPPORT_PROGRAMREGIONS_H

#include "optimus-support/Program.h"
#include "optimus-support/Sizes.h"

#include <optional>
#include <utility>
#include <vector>

namespace optimus_support::program {

/// The least and the greatest value of an integer, over all ranks.
struct Range {
  int64_t least = 0, most = 0;
};

/// Nothing where some value does not fit 64 bits, or none is left by the clamp.
std::optional<Range> rangeOf(const IntegerT &integer, const Mesh &mesh);

/// The value on a rank whose indices on the mesh axes are `coordinates`.
int64_t evaluate(const IntegerT &integer,
                 std::span<const int64_t> coordinates);

/// What an address is on such a rank.
const PlaceT &placeOf(const FunctionT &function, uint32_t address,
                      std::span<const int64_t> coordinates);

/// Where an address lies: the bytes [first, last] of a base at which an operand
/// may begin, on some rank.
struct Span {
  Base base;
  uint32_t index;
  Range begin;
};

/// All spans of an address, one a choice.
std::vector<Span> spansOf(const FunctionT &function, uint32_t address,
                          const Mesh &mesh);

/// Memory that a command may touch on some rank: rows as those of an operand,
/// or one row where the rank decides about where they begin.
struct Region {
  Base base;
  uint32_t index;
  int64_t begin, rows, rowBytes, pitch;

  int64_t end() const { return begin + (rows - 1) * pitch + rowBytes; }
  /// False only where the two share no byte.
  bool mayOverlap(const Region &other) const;
  /// True only where every byte of `other` is in this one.
  bool contains(const Region &other) const;
  bool operator==(const Region &) const = default;
};

struct Touch {
  Region region;
  bool writes;
  uint32_t operand;
};

/// The operand of a command that is workspace.
std::optional<uint32_t> workspaceOf(const CommandT &command);

/// Where an operand that is written lies: its address or, where a broadcast's
/// root receives its own panel in place, that of the other ranks. The root
/// writes nothing there.
uint32_t writtenAddress(const FunctionT &function, const CommandT &command,
                        size_t operand);

/// What a command touches while it is under way. The root of a broadcast that
/// receives where its panel lies writes nothing there.
std::vector<Touch> touchesOf(const FunctionT &function, const CommandT &command,
                             const Mesh &mesh);
/// The same, behind those of others.
void appendTouches(const FunctionT &function, const CommandT &command,
                   const Mesh &mesh, std::vector<Touch> &touches);

/// How a function touches its arguments: what its commands do together. One
/// that none touches counts as read.
std::vector<Access> argumentAccess(const FunctionT &function, const Mesh &mesh);
void setArgumentAccess(FunctionT &function, const Mesh &mesh);

/// Whether the command is under way until a Wait for it is done.
bool isAsynchronous(const CommandT &command);

} // namespace optimus_support::program

#endif // OPTIMUS_SUPPORT_PROGRAMREGIONS_H
