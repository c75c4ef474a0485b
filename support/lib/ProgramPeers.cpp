//===- ProgramPeers.cpp - What ranks and calls agree on -------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ProgramCheck.h"

#include <algorithm>
#include <map>
#include <set>

namespace optimus_support::program {

namespace {

/// Messages of all ranks together that are followed.
constexpr int64_t kMaxMessages = int64_t(1) << 24;

/// A matrix on its way.
struct Message {
  int64_t rows, cols;
  ElementType type;

  bool operator==(const Message &) const = default;
  std::string toString() const {
    return concat(rows, "x", cols, " ", optimus_support::toString(type));
  }
};

/// From one rank to another over a mesh axis.
struct Route {
  int64_t from, to;
  uint32_t axis;

  auto operator<=>(const Route &) const = default;
};
using Messages = std::map<Route, std::vector<Message>>;

/// Of all ranks: the sent and the received tensors, in order.
struct Exchange {
  Messages sent, received;

  void add(const std::vector<const CommandT *> &commands, const Mesh &mesh,
           int64_t rank) {
    for (const CommandT *command : commands) {
      if (const SendT *send = command->action.AsSend())
        sent[{rank, peer(*send, mesh, rank), send->axis}].push_back(
            {send->rows, send->cols, command->operands[0]->type});
      if (const ReceiveT *receive = command->action.AsReceive())
        received[{peer(*receive, mesh, rank), rank, receive->axis}].push_back(
            {receive->rows, receive->cols, command->operands[0]->type});
    }
  }

private:
  template <typename Action>
  static int64_t peer(const Action &action, const Mesh &mesh, int64_t rank) {
    std::vector<int64_t> coordinates = mesh.coordinates(rank);
    coordinates[action.axis] = evaluate(*action.peer, coordinates);
    return mesh.rank(coordinates);
  }
};

Status compare(const Messages &sent, const Messages &received) {
  static const std::vector<Message> none;
  for (const auto &[route, list] : sent) {
    auto found = received.find(route);
    const std::vector<Message> &other =
        found == received.end() ? none : found->second;
    for (size_t i = 0; i != list.size(); ++i)
      if (i >= other.size() || !(list[i] == other[i]))
        return wrong(concat(
            "rank ", route.from, " sends ", list[i].toString(), " to rank ",
            route.to, ", which expects ",
            i < other.size() ? other[i].toString() : "nothing"));
  }
  for (const auto &[route, list] : received) {
    auto found = sent.find(route);
    if (found == sent.end() || found->second.size() < list.size())
      return wrong(concat("rank ", route.to, " expects ",
                          list.back().toString(), " from rank ", route.from,
                          ", which does not send it"));
  }
  return okStatus();
}

std::vector<const CommandT *> listExchanges(const FunctionT &function) {
  std::vector<const CommandT *> list;
  for (const std::unique_ptr<CommandT> &command : function.commands)
    if (command->action.type == Action::Send ||
        command->action.type == Action::Receive)
      list.push_back(command.get());
  return list;
}

} // namespace

Status checkMessages(const TargetT &target, const std::string &name,
                     const Mesh &mesh) {
  std::map<const ProgramTableT *, std::vector<const CommandT *>> exchanges;
  int64_t most = 0;
  for (const std::unique_ptr<ProgramTableT> &table : target.tables) {
    const auto &list = exchanges[table.get()] =
        listExchanges(*findFunction(*table, name));
    most = std::max(most, int64_t(list.size()));
  }
  if (most == 0)
    return okStatus();
  if (most > kMaxMessages / mesh.numRanks())
    return wrong(concat("its ranks send and receive more than ", kMaxMessages,
                        " times together"));
  Exchange all;
  for (int64_t rank = 0; rank != mesh.numRanks(); ++rank)
    all.add(exchanges[&tableOf(target, rank)], mesh, rank);
  return compare(all.sent, all.received);
}

Status checkCarried(const ProgramTableT &table) {
  std::set<uint32_t> started;
  for (const std::unique_ptr<FunctionT> &function : table.functions)
    for (const std::unique_ptr<CommandT> &command : function->commands)
      if (uint32_t carried = carriedOf(*command))
        started.insert(carried);
  for (const std::unique_ptr<FunctionT> &function : table.functions)
    for (uint32_t i = 0; i != function->commands.size(); ++i) {
      const WaitT *wait = function->commands[i]->action.AsWait();
      if (wait && wait->carried != 0 && !started.contains(wait->carried))
        return wrong(concat("function ", function->name, ": command ", i,
                            " waits for number ", wait->carried,
                            ", under which no call starts anything"));
    }
  return okStatus();
}

} // namespace optimus_support::program
