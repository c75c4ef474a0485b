//===- SlackOutput.cpp - What may be later ----------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SlackOutput.h"

#include "Format.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>

using namespace optimus_simulate;
using namespace optimus_simulation;
using nlohmann::ordered_json;
using optimus_run::format;
using optimus_run::Table;

namespace {
/// Commands of one path and kind: what they take, and the least slack of any.
struct SlackOfPath {
  std::string path, what;
  Picoseconds seconds = 0, slack = 0;
};
} // namespace

/// "h.0.mlp.up" and "gemm".
static std::pair<std::string, std::string>
nameCommand(const Answer &answer, const TimedFunction &function,
            size_t number) {
  const auto &source = *function.source->commands[number];
  const TimedCommand &command = function.commands[number];
  const bool isPart = command.kind == TimedCommand::Compute;
  const bool isMoved = command.kind != TimedCommand::Copy && !isPart;
  return {source.path == optimus_support::program::kNone
              ? ""
              : function.table->texts[source.path],
          isPart    ? answer.timed->getParts()[command.name]
          : isMoved ? answer.timed->getExposures()[command.name].kind
                    : "copy between memories"};
}

/// Calls `visit` with each command that has slack: its function and number, and
/// what it takes.
static void forEachSlack(const Answer &answer, const Slack &slack, auto visit) {
  for (size_t call = 0; call != slack.calls.size(); ++call) {
    const TimedFunction &function = answer.timed->getFunction(
        slack.rank, answer.getCalls(slack.rank)[call]);
    for (size_t number = 0; number != slack.calls[call].size(); ++number)
      if (const Picoseconds one = slack.calls[call][number]; one != kNoSlack)
        visit(call, function, number, one);
  }
}

/// Of all that may be later, the longest first.
static std::vector<SlackOfPath> listSlack(const Answer &answer) {
  std::map<std::pair<std::string, std::string>, SlackOfPath> found;
  for (const Slack &slack : answer.simulation.slack)
    forEachSlack(answer, slack,
                 [&](size_t, const TimedFunction &function, size_t number,
                     Picoseconds one) {
                   const auto name = nameCommand(answer, function, number);
                   auto [entry, isNew] = found.try_emplace(
                       name, SlackOfPath{name.first, name.second, 0, one});
                   entry->second.slack = std::min(entry->second.slack, one);
                   entry->second.seconds += function.commands[number].seconds;
                 });
  std::vector<SlackOfPath> list;
  for (const auto &[name, one] : found)
    if (one.slack > 0)
      list.push_back(one);
  std::stable_sort(list.begin(), list.end(),
                   [](const SlackOfPath &a, const SlackOfPath &b) {
                     return a.seconds > b.seconds;
                   });
  return list;
}

void optimus_simulate::printSlack(const Answer &answer, std::ostream &out) {
  constexpr size_t kMostListed = 10;
  if (answer.simulation.slack.empty())
    return;
  const std::vector<SlackOfPath> list = listSlack(answer);
  if (list.empty()) {
    out << "\nno path may be later\n";
    return;
  }
  Table table({"may be later", "by", "ms", "slack, ms"}, {1});
  for (size_t i = 0; i != std::min(kMostListed, list.size()); ++i)
    table.addRow({list[i].path, list[i].what,
                  format("%.3f", toMs(list[i].seconds)),
                  format("%.6f", toMs(list[i].slack))});
  out << "\n";
  table.print(out);
  if (list.size() > kMostListed)
    out << format("and %zu others; --json has them all\n",
                  list.size() - kMostListed);
}

ordered_json optimus_simulate::describeSlack(const Answer &answer) {
  ordered_json list = ordered_json::array();
  for (const Slack &slack : answer.simulation.slack)
    forEachSlack(
        answer, slack,
        [&](size_t call, const TimedFunction &function, size_t number,
            Picoseconds one) {
          const auto [path, what] = nameCommand(answer, function, number);
          list.push_back({{"rank", slack.rank},
                          {"call", call},
                          {"command", number},
                          {"path", path},
                          {"by", what},
                          {"ms", toMs(function.commands[number].seconds)},
                          {"slack_ms", toMs(one)}});
        });
  return list;
}
