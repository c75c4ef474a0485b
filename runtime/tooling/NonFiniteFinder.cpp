//===- NonFiniteFinder.cpp - The first result not finite ------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "NonFiniteFinder.h"

#include "optimus-support/ProgramRegions.h"
#include "program/BoundProgram.h"

#include <algorithm>
#include <cstring>
#include <utility>

using namespace optimus_support::program;
using optimus_support::ElementType;

namespace optrt {
namespace {

/// Whether some exponent is all ones, as in infinities and NaNs.
template <typename Word>
bool hasNonFinite(const char *bytes, int64_t count, Word exponent) {
  for (int64_t i = 0; i != count; ++i) {
    Word word;
    std::memcpy(&word, bytes + i * static_cast<int64_t>(sizeof(Word)),
                sizeof(Word));
    if ((word & exponent) == exponent)
      return true;
  }
  return false;
}

bool hasNonFinite(ElementType type, const char *bytes, int64_t size) {
  switch (type) {
  case ElementType::F32:
    return hasNonFinite<uint32_t>(bytes, size / 4, 0x7F800000u);
  case ElementType::BF16:
    return hasNonFinite<uint16_t>(bytes, size / 2, 0x7F80u);
  default:
    return false;
  }
}

/// The command whose results are there when `number` is done, if any: a
/// collective's are when it was waited for. Some write on one rank alone.
std::optional<uint32_t> finishedBy(const FunctionT &function, uint32_t number) {
  const ActionUnion &action = function.commands[number]->action;
  if (action.AsCollective() || action.AsSend() || action.AsReceive())
    return std::nullopt;
  const WaitT *wait = action.AsWait();
  if (!wait)
    return number;
  if (wait->command >= function.commands.size())
    return std::nullopt;
  const CollectiveT *collective =
      function.commands[wait->command]->action.AsCollective();
  if (!collective || collective->kind == CollectiveKind::Reduce ||
      collective->kind == CollectiveKind::Broadcast)
    return std::nullopt;
  return wait->command;
}

} // namespace

bool NonFiniteFinder::beginCall(std::size_t number) {
  if (mode == Mode::Rest)
    return false;
  callable = number;
  ++calls;
  return true;
}

void NonFiniteFinder::end(const BoundProgram &program, Site site) {
  const FunctionT &function = program.function();
  const std::optional<uint32_t> number = finishedBy(function, site.number);
  if (!number || !isBeforeFound(*number))
    return;
  const CommandT &command = *function.commands[*number];
  const std::optional<uint32_t> workspace = workspaceOf(command);
  for (uint32_t i = 0; i != command.operands.size(); ++i) {
    const OperandT &operand = *command.operands[i];
    if (operand.address == kNone || i == workspace ||
        operand.access == optimus_support::program::Access::Read)
      continue;
    const bool outlives =
        placeOf(function, operand.address, coordinates).base != Base::Arena;
    look(program.operand(*number, i), site.queue, operand,
         [this, &program, number = *number, outlives] {
           note(program, number, outlives);
         });
  }
}

bool NonFiniteFinder::isBeforeFound(uint32_t command) const {
  return !found || (found->call == calls - 1 && command < found->command);
}

void NonFiniteFinder::note(const BoundProgram &program, uint32_t command,
                           bool outlives) {
  if (mode == Mode::Learn && !outlives)
    usual.insert({callable, command});
  else if (isBeforeFound(command) &&
           !(mode == Mode::Find && usual.contains({callable, command})))
    found = Found{
        calls - 1, command, mode,
        concat(program.describe(command), " in @", program.function().name)};
}

// What cannot be read counts as finite: the call fails by itself.
void NonFiniteFinder::look(const void *address, Queue queue,
                           const OperandT &operand,
                           std::function<void()> noteIt) {
  const auto *start = static_cast<const char *>(address);
  if (device.hostAddress(const_cast<char *>(start))) {
    for (int64_t row = 0; row != operand.rows; ++row)
      if (hasNonFinite(operand.type,
                       static_cast<const char *>(device.hostAddress(
                           const_cast<char *>(start + row * operand.pitch))),
                       operand.row_bytes))
        return noteIt();
    return;
  }
  const auto copy =
      std::make_shared<std::vector<char>>(operand.rows * operand.row_bytes);
  Status put;
  for (int64_t row = 0; row != operand.rows && put.ok(); ++row)
    put = device.read(queue, copy->data() + row * operand.row_bytes,
                      start + row * operand.pitch, operand.row_bytes);
  if (put.ok())
    put = device.call(queue, [copy, type = operand.type, noteIt] {
      if (hasNonFinite(type, copy->data(), int64_t(copy->size())))
        noteIt();
      return okStatus();
    });
  if (!put.ok())
    unfinished.push_back(copy);
}

} // namespace optrt
