//===- ProgramRegions.cpp - Which memory commands of a table touch --------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/ProgramRegions.h"

#include <algorithm>

namespace optimus_support::program {

std::optional<Range> rangeOf(const IntegerT &integer, const Mesh &mesh) {
  if (integer.terms.empty() && integer.least <= integer.most) {
    const int64_t only =
        std::clamp(integer.constant, integer.least, integer.most);
    return Range{only, only};
  }
  CheckedSize least = integer.constant, most = integer.constant;
  auto add = [&](CheckedSize a, CheckedSize b) {
    if (!a.get() || !b.get())
      least = most = CheckedSize(INT64_MAX) + 1;
    else {
      least = least + std::min(*a.get(), *b.get());
      most = most + std::max(*a.get(), *b.get());
    }
  };
  for (const Term &term : integer.terms)
    add(0, CheckedSize(term.scale()) *
               (mesh.axisSize(static_cast<int>(term.axis())) - 1));
  if (!least.get() || !most.get() || integer.least > integer.most)
    return std::nullopt;
  return Range{std::clamp(*least.get(), integer.least, integer.most),
               std::clamp(*most.get(), integer.least, integer.most)};
}

int64_t evaluate(const IntegerT &integer,
                 std::span<const int64_t> coordinates) {
  int64_t value = integer.constant;
  for (const Term &term : integer.terms)
    value += term.scale() * coordinates[term.axis()];
  return std::clamp(value, integer.least, integer.most);
}

const PlaceT &placeOf(const FunctionT &function, uint32_t address,
                      std::span<const int64_t> coordinates) {
  const LocationUnion *location = &function.addresses[address]->location;
  while (const ChoiceT *choice = location->AsChoice()) {
    const bool isMine = coordinates[choice->axis] == choice->coordinate;
    location =
        &function.addresses[isMine ? choice->mine : choice->other]->location;
  }
  return *location->AsPlace();
}

/// Visits the spans of an address, one a choice.
template <typename Fn>
static void forEachSpan(const FunctionT &function, uint32_t address,
                        const Mesh &mesh, const Fn &fn) {
  const LocationUnion &location = function.addresses[address]->location;
  if (const ChoiceT *choice = location.AsChoice()) {
    forEachSpan(function, choice->mine, mesh, fn);
    return forEachSpan(function, choice->other, mesh, fn);
  }
  const PlaceT &place = *location.AsPlace();
  fn(Span{place.base, place.index,
          rangeOf(*place.bytes, mesh).value_or(Range())});
}

std::vector<Span> spansOf(const FunctionT &function, uint32_t address,
                          const Mesh &mesh) {
  std::vector<Span> spans;
  forEachSpan(function, address, mesh,
              [&](const Span &span) { spans.push_back(span); });
  return spans;
}

bool Region::mayOverlap(const Region &other) const {
  if (base != other.base || index != other.index || begin >= other.end() ||
      other.begin >= end())
    return false;
  const int64_t length = rows > 1 ? pitch : other.pitch;
  if ((rows == 1 && other.rows == 1) ||
      (rows > 1 && other.rows > 1 && pitch != other.pitch))
    return true;
  // Columns of rows of one length: [0, rowBytes) against those of the other,
  // which may end in the next row.
  const int64_t distance = ((other.begin - begin) % length + length) % length;
  return distance < rowBytes || distance + other.rowBytes > length;
}

bool Region::contains(const Region &other) const {
  if (base != other.base || index != other.index)
    return false;
  if (rows == 1 || rowBytes == pitch)
    return begin <= other.begin && other.end() <= end();
  return begin == other.begin && pitch == other.pitch &&
         rowBytes >= other.rowBytes && rows >= other.rows && other.rows > 1;
}

std::vector<Access> argumentAccess(const FunctionT &function,
                                   const Mesh &mesh) {
  std::vector<unsigned> accesses(function.arguments.size());
  for (const std::unique_ptr<CommandT> &command : function.commands)
    for (size_t i = 0; i != command->operands.size(); ++i)
      if (command->operands[i]->address != kNone)
        forEachSpan(function, writtenAddress(function, *command, i), mesh,
                    [&](const Span &span) {
                      if (span.base == Base::Argument)
                        accesses[span.index] |=
                            static_cast<unsigned>(command->operands[i]->access);
                    });
  std::vector<Access> result;
  for (unsigned access : accesses)
    result.push_back(access == 0 ? Access::Read : static_cast<Access>(access));
  return result;
}

void setArgumentAccess(FunctionT &function, const Mesh &mesh) {
  const std::vector<Access> accesses = argumentAccess(function, mesh);
  for (size_t i = 0; i != accesses.size(); ++i)
    function.arguments[i]->access = accesses[i];
}

std::optional<uint32_t> workspaceOf(const CommandT &command) {
  if (command.action.type == Action::Attention)
    return 7;
  if (command.action.type == Action::AttentionGrad)
    return 11;
  return std::nullopt;
}

bool isAsynchronous(const CommandT &command) {
  switch (command.action.type) {
  case Action::Collective:
  case Action::Send:
  case Action::Receive:
    return true;
  default:
    return false;
  }
}

uint32_t writtenAddress(const FunctionT &function,
                               const CommandT &command, size_t operand) {
  const uint32_t address = command.operands[operand]->address;
  const CollectiveT *collective = command.action.AsCollective();
  if (!collective || operand != 1 ||
      collective->kind != CollectiveKind::Broadcast ||
      collective->axes.size() != 1)
    return address;
  const ChoiceT *choice = function.addresses[address]->location.AsChoice();
  if (choice && choice->axis == collective->axes[0] &&
      choice->coordinate == collective->root &&
      choice->mine == command.operands[0]->address)
    return choice->other;
  return address;
}

std::vector<Touch> touchesOf(const FunctionT &function, const CommandT &command,
                             const Mesh &mesh) {
  std::vector<Touch> touches;
  touches.reserve(command.operands.size());
  appendTouches(function, command, mesh, touches);
  return touches;
}

void appendTouches(const FunctionT &function, const CommandT &command,
                   const Mesh &mesh, std::vector<Touch> &touches) {
  for (size_t i = 0; i != command.operands.size(); ++i) {
    const OperandT &operand = *command.operands[i];
    if (operand.address == kNone)
      continue;
    const bool writes = uint8_t(operand.access) & uint8_t(Access::Write);
    auto add = [&](const Span &span) {
      Region region{span.base,    span.index,       span.begin.least,
                    operand.rows, operand.row_bytes, operand.pitch};
      if (region.rows == 1 || region.rowBytes == region.pitch ||
          span.begin.least != span.begin.most) {
        region.rowBytes = (operand.rows - 1) * operand.pitch +
                          operand.row_bytes +
                          (span.begin.most - span.begin.least);
        region.rows = 1;
        region.pitch = region.rowBytes;
      }
      touches.push_back({region, writes, static_cast<uint32_t>(i)});
    };
    forEachSpan(function, writtenAddress(function, command, i), mesh, add);
  }
}

} // namespace optimus_support::program
