//===- OneCollective.cpp - A program that is one collective -----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Simulation/OneCollective.h"

#include "optimus-support/ElementType.h"

using namespace optimus_support::program;

namespace optimus_simulation {

/// An arena of its own, and the operand that is all of it.
static std::unique_ptr<OperandT> addOperand(FunctionT &function,
                                            int64_t elements, Access access) {
  auto operand = std::make_unique<OperandT>();
  operand->type = optimus_support::ElementType::F32;
  operand->access = access;
  operand->row_bytes = elements * optimus_support::elementBytes(operand->type);
  operand->address = static_cast<uint32_t>(function.addresses.size());
  auto arena = std::make_unique<ArenaT>();
  arena->bytes = operand->row_bytes;
  PlaceT place;
  place.base = Base::Arena;
  place.index = static_cast<uint32_t>(function.arenas.size());
  place.bytes = std::make_unique<IntegerT>();
  auto address = std::make_unique<AddressT>();
  address->location.Set(std::move(place));
  function.arenas.push_back(std::move(arena));
  function.addresses.push_back(std::move(address));
  return operand;
}

static std::unique_ptr<CommandT> makeStart(FunctionT &function,
                                           CollectiveKind kind, int64_t ranks,
                                           int64_t bytes) {
  const bool isBlock = kind == CollectiveKind::AllGather ||
                       kind == CollectiveKind::ReduceScatter ||
                       kind == CollectiveKind::AllToAll;
  const int64_t parts = isBlock ? ranks : 1;
  CollectiveT one;
  one.kind = kind;
  one.axes = {0};
  one.outer = 1;
  one.inner = (bytes + 4 * parts - 1) / (4 * parts);
  const bool gathers = isBlock && kind != CollectiveKind::ReduceScatter;
  const bool scatters = isBlock && kind != CollectiveKind::AllGather;
  one.src_ld = one.inner * (scatters ? parts : 1);
  one.dst_ld = one.inner * (gathers ? parts : 1);
  auto start = std::make_unique<CommandT>();
  start->queue = 1;
  start->operands.push_back(addOperand(function, one.src_ld, Access::Read));
  start->operands.push_back(addOperand(function, one.dst_ld, Access::Write));
  start->action.Set(std::move(one));
  return start;
}

ProgramsT makeOneCollective(CollectiveKind kind, int64_t ranks, int64_t bytes) {
  auto function = std::make_unique<FunctionT>();
  function->name = kOneCollective;
  function->queues.push_back(std::make_unique<QueueT>());
  function->queues.push_back(std::make_unique<QueueT>());
  function->queues.back()->kind = QueueKind::Communication;
  function->queues.back()->axes = {0};
  function->commands.push_back(makeStart(*function, kind, ranks, bytes));
  auto wait = std::make_unique<CommandT>();
  WaitT awaited;
  awaited.command = 0;
  wait->action.Set(std::move(awaited));
  function->commands.push_back(std::move(wait));
  auto table = std::make_unique<ProgramTableT>();
  table->functions.push_back(std::move(function));
  auto target = std::make_unique<TargetT>();
  target->ranks.emplace_back(0, static_cast<uint32_t>(ranks), 0);
  target->tables.push_back(std::move(table));
  ProgramsT programs;
  programs.mesh.push_back(std::make_unique<MeshAxisT>());
  programs.mesh.back()->name = "ranks";
  programs.mesh.back()->size = ranks;
  programs.targets.push_back(std::move(target));
  return programs;
}

} // namespace optimus_simulation
