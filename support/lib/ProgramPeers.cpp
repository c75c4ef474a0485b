//===- ProgramPeers.cpp - What ranks agree on -----------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ProgramCheck.h"
#include "ProgramMeetings.h"

#include <algorithm>
#include <set>

namespace optimus_support::program {

std::string nameWithNumber(const TargetT &target, const ProgramTableT &table,
                           const FunctionT &function, uint32_t command) {
  std::string text = describe(target, table, function, command);
  return function.commands[command]->path == kNone
             ? text
             : concat(text, ", command ", command);
}

std::string describeCollective(const TargetT &target, const CommandT &command) {
  const CollectiveT &one = *command.action.AsCollective();
  std::string what = concat(describeAction(target, command),
                            one.reduction == Reduction::Max ? " of maxima" : "",
                            " of ", one.outer, "x", one.inner, " ",
                            toString(command.operands[0]->type));
  if (one.root != 0)
    what += concat(" from or to ", one.root);
  return what;
}

std::string axesName(const Mesh &mesh, std::span<const uint32_t> axes) {
  std::string text;
  for (uint32_t axis : axes)
    text += (text.empty() ? "" : "+") + mesh.axes()[axis].name;
  return text;
}

CollectiveOrder orderOfCollectives(const TargetT &target,
                                   const ProgramTableT &table,
                                   const FunctionT &function) {
  CollectiveOrder order;
  for (uint32_t number = 0; number != function.commands.size(); ++number) {
    const CommandT &command = *function.commands[number];
    const CollectiveT *one = command.action.AsCollective();
    if (!one)
      continue;
    order[one->axes].push_back({nameWithNumber(target, table, function, number),
                                describeCollective(target, command)});
  }
  return order;
}

Status compareStarts(const std::string &function, const std::string &axes,
                     const Starts &one, const Starts &other) {
  auto differ = [&](size_t i) {
    return i >= one.list.size() || i >= other.list.size() ||
           one.list[i].what != other.list[i].what;
  };
  const size_t count = std::max(one.list.size(), other.list.size());
  for (size_t i = 0; i != count; ++i) {
    if (!differ(i))
      continue;
    auto say = [i](const Starts &starts) {
      return i < starts.list.size()
                 ? concat(starts.list[i].name, ", ", starts.list[i].what)
                 : std::string("none");
    };
    return wrong(concat("ranks ", one.rank, " and ", other.rank,
                        " start different collectives: number ", i + 1, " of ",
                        function, " on mesh axis ", axes, " is ", say(one),
                        ", on rank ", one.rank, ", and ", say(other),
                        ", on rank ", other.rank));
  }
  return okStatus();
}

/// Whether a function starts something for a later call, or waits for what an
/// earlier one has started.
static bool isOpen(const FunctionT &function) {
  return std::any_of(function.commands.begin(), function.commands.end(),
                     [](const std::unique_ptr<CommandT> &command) {
                       const WaitT *wait = command->action.AsWait();
                       return carriedOf(*command) != 0 ||
                              (wait && wait->command == kNone);
                     });
}

/// Checks a function that all tables have, called alone.
static Status checkAlone(Meetings &meetings, const TargetT &target,
                         const std::string &name) {
  CallT call;
  call.function = name;
  for (const std::unique_ptr<ProgramTableT> &table : target.tables)
    if (const FunctionT *function = findFunction(*table, name);
        !function || isOpen(*function))
      return okStatus();
  SequencePart part;
  part.once = {{.call = &call}};
  const std::vector<Parts> parts(target.tables.size(), Parts{part});
  return meetings.run(parts).withContext("function " + name);
}

/// Turns each loop of the caller's number of turns before calls equal to its
/// body: forward twice and then n times is forward n times and then twice.
/// Ranks with these in different orders then come to the loop together. False
/// where nothing changes.
static bool turnEarly(Parts &parts) {
  auto isSame = [](const SequencedCall &one, const SequencedCall &other) {
    return one.call->function == other.call->function;
  };
  bool changes = false;
  for (size_t i = 0; i != parts.size(); ++i) {
    const std::vector<SequencedCall> body = parts[i].repeated;
    std::vector<SequencedCall> before = std::move(parts[i].once), behind;
    while (!body.empty() && before.size() >= body.size() &&
           std::equal(body.begin(), body.end(), before.end() - body.size(),
                      isSame)) {
      behind.insert(behind.begin(), before.end() - body.size(), before.end());
      before.resize(before.size() - body.size());
    }
    parts[i].once = std::move(before);
    if (behind.empty())
      continue;
    changes = true;
    if (i + 1 == parts.size())
      parts.emplace_back();
    std::vector<SequencedCall> &next = parts[i + 1].once;
    next.insert(next.begin(), behind.begin(), behind.end());
  }
  return changes;
}

/// Checks that ranks come to the end of a sequence together.
static Status checkTogether(const TargetT &target, const Mesh &mesh,
                            std::vector<Parts> parts) {
  Status status = Meetings(target, mesh).run(parts);
  bool changes = false;
  for (size_t i = 0; i != parts.size() && !status.ok(); ++i)
    changes |= turnEarly(parts[i]);
  return changes && Meetings(target, mesh).run(parts).ok() ? okStatus()
                                                           : status;
}

Status checkMeetings(const TargetT &target, const Mesh &mesh) {
  if (!Meetings(target, mesh).canDiffer())
    return okStatus();
  const ProgramTableT &first = *target.tables.front();
  for (const std::unique_ptr<FunctionT> &function : first.functions) {
    Meetings meetings(target, mesh);
    OPTRT_RETURN_IF_ERROR(checkAlone(meetings, target, function->name));
  }
  for (const std::unique_ptr<SequenceT> &sequence : first.sequences) {
    std::vector<Parts> parts;
    for (const std::unique_ptr<ProgramTableT> &table : target.tables)
      parts.push_back(partsOf(*findSequence(*table, sequence->name)));
    OPTRT_RETURN_IF_ERROR(checkTogether(target, mesh, std::move(parts))
                              .withContext("sequence " + sequence->name));
  }
  return okStatus();
}

} // namespace optimus_support::program
