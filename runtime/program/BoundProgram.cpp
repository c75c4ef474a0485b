//===- BoundProgram.cpp - A function's commands on one rank ---------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BoundProgram.h"

#include "base/Nvtx.h"

#include <algorithm>
#include <utility>

using namespace optimus_support::program;

namespace optrt {

std::string BoundProgram::describe(uint32_t command) const {
  return optimus_support::program::describe(*target, *table, *described,
                                            command);
}

Workload BoundProgram::workload() const {
  Workload result{gemms, packs, {}, {}, {}, {}};
  for (const Launch &launch : launches)
    result.kernels.push_back(launch.kernel);
  for (const optrt_gemm_desc &gemm : gemms)
    if (gemm.row_sum_kernel)
      result.kernels.push_back(gemm.row_sum_kernel);
  for (const optimus_kernel *kernel : reductions)
    if (kernel)
      result.kernels.push_back(kernel);
  for (uint32_t number = 0; number != commands.size(); ++number) {
    const Bound &command = commands[number];
    if (command.action == Action::Attention)
      result.attentions.push_back(
          {attentions[command.descriptor], describe(number)});
    if (command.action == Action::AttentionGrad)
      result.attentionGrads.push_back(
          {attentions[command.descriptor], describe(number)});
  }
  return result;
}

std::vector<ProductCall> BoundProgram::products() const {
  std::vector<ProductCall> result;
  for (const Bound &command : commands) {
    if (command.action != Action::Gemm)
      continue;
    void *const *p = pointers.data() + command.pointers;
    result.push_back({gemms[command.descriptor], p[0], p[1], p[2], p[3], p[4]});
  }
  return result;
}

/// Of what a wait waits for.
static bool isStart(Action action) {
  return action == Action::Collective || action == Action::Send ||
         action == Action::Receive;
}

void BoundProgram::visitCollectives(
    const std::function<void(CollectiveNumber, const optrt_collective_desc &)>
        &start,
    const std::function<void(CollectiveNumber)> &wait) const {
  for (uint32_t number = 0; number != commands.size(); ++number) {
    const Bound &command = commands[number];
    if (isStart(command.action))
      start({number, command.carried}, collectives[command.descriptor]);
    else if (command.action == Action::Wait)
      wait({command.descriptor, command.carried});
  }
}

/// What tools call a command by: its path alone, so that they add up a path's
/// forward and backward.
const char *BoundProgram::rangeOf(uint32_t command) const {
  const CommandT &named = *described->commands[command];
  return named.path == kNone ? actionName(named.action.type).data()
                             : table->texts[named.path].c_str();
}

Status BoundProgram::run(Rank &rank, LaneRange range) {
  rank.program = this;
  lanes = range;
  const NvtxRange named(rank.ranges, described->name.c_str());
  numSubmitted = 0;
  done.clear();
  rank.beginCall(planned);
  const bool usesHost = dynamic || (!collectives.empty() && !rank.queued);
  bool records =
      !usesHost && !rank.observer && !rank.isEager && rank.device->canRecord();
  if (rank.queued) {
    OPTRT_ASSIGN_OR_RETURN(records, rank.queued->agreeToRecord(records));
  }
  return records ? submitOrReplay(rank) : submitAll(rank);
}

Status BoundProgram::submitOrReplay(Rank &rank) {
  // The first time devices find out how they do each command best.
  if (!std::exchange(hasRun, true))
    return submitAll(rank);
  Recorder &recorder =
      rank.queued ? rank.queued->recorder(*rank.device) : *rank.device;
  auto known = recordings.find(lanes);
  if (known == recordings.end()) {
    OPTRT_RETURN_IF_ERROR(locate(rank, recorder.beginRecording()));
    if (Status status = submitAll(rank); !status.ok()) {
      recorder.abandonRecording();
      return status;
    }
    StatusOr<uint32_t> ended = recorder.endRecording();
    if (!ended.ok())
      return locate(rank, ended.status());
    known = recordings.emplace(lanes, *ended).first;
  }
  numSubmitted = uint32_t(commands.size());
  return locate(rank, recorder.replay(known->second));
}

/// Lane by lane: a command finds the results of the one before in a cache, and
/// lanes can share arenas.
Status BoundProgram::submitAll(Rank &rank) {
  Status status;
  for (lane = lanes.first; lane != lanes.end && status.ok(); ++lane)
    for (uint32_t number = 0; number != commands.size() && status.ok();
         ++number)
      status = dynamic ? executePlaced(rank, number) : execute(rank, number);
  return status;
}

Status BoundProgram::executePlaced(Rank &rank, uint32_t number) {
  Status status = dynamic->begin(number, rank.observer);
  if (!status.ok())
    return status.withContext(
        concat("rank ", rank.rank, ", ", describe(number)));
  status = execute(rank, number);
  if (status.ok())
    dynamic->end(number, rank.observer);
  return status;
}

/// A failure here is of an earlier command; from then on what fails on a queue
/// may be this one.
Status BoundProgram::awaitOthers(Rank &rank, Site site) {
  const Bound &command = commands[site.number];
  Status status = command.action == Action::Wait
                      ? rank.reachWait(site, command.descriptor)
                      : okStatus();
  for (uint32_t i = command.firstAwaited;
       i != command.lastAwaited && status.ok(); ++i)
    status = rank.device->await(command.queue, events[awaited[i]]);
  if (!status.ok())
    return locate(rank, status);
  numSubmitted = std::max(numSubmitted, site.number + 1);
  return okStatus();
}

Status BoundProgram::submitInTurn(Rank &rank, Site site) {
  OPTRT_RETURN_IF_ERROR(awaitOthers(rank, site));
  return submit(rank, site);
}

Status BoundProgram::submitObserved(Rank &rank, Site site) {
  // What a command comes after is no part of it; a wait is nothing else.
  const bool isWait = commands[site.number].action == Action::Wait;
  if (isWait)
    rank.observer->begin(*this, site);
  OPTRT_RETURN_IF_ERROR(awaitOthers(rank, site));
  if (!isWait)
    rank.observer->begin(*this, site);
  Status status = submit(rank, site);
  rank.observer->end(*this, site);
  return status;
}

Status BoundProgram::execute(Rank &rank, uint32_t number) {
  const Bound &command = commands[number];
  const NvtxRange range(rank.ranges, rank.ranges ? rangeOf(number) : "");
  const Site site(number, command.queue);
  Status status =
      rank.observer ? submitObserved(rank, site) : submitInTurn(rank, site);
  if (rank.isEager && status.ok()) [[unlikely]]
    status = rank.finish(site);
  const bool isHosts = !rank.queued && (command.action == Action::Wait ||
                                        isStart(command.action));
  if (isHosts && status.ok())
    noteWait(number);
  // What starts together, others come after together.
  if (command.lastOfGroup == number)
    for (uint32_t i = command.firstOfGroup; i <= number; ++i)
      if (commands[i].lastOfGroup == number && commands[i].isAwaited)
        events[i] = rank.device->record(command.queue);
  return status;
}

Status BoundProgram::start(Rank &rank, Site site) {
  auto operandsOf = [this](uint32_t number) -> QueuedCollective {
    const Bound &one = commands[number];
    return {number, &collectives[one.descriptor], pointers[one.pointers],
            pointers[one.pointers + 1], reductions[one.descriptor]};
  };
  const Bound &command = commands[site.number];
  // Hosts start one by one what starts together; others come after all of it.
  if (!rank.queued) {
    const QueuedCollective one = operandsOf(site.number);
    return rank.startCollective(site, *one.desc, one.src, one.dst,
                                command.carried);
  }
  if (command.lastOfGroup != site.number)
    return okStatus();
  std::vector<QueuedCollective> together;
  for (uint32_t i = command.firstOfGroup; i <= site.number; ++i)
    if (commands[i].lastOfGroup == site.number)
      together.push_back(operandsOf(i));
  return rank.startTogether(site.queue, together);
}

AttentionOperands BoundProgram::operandsOf(Action action, void *const *p) {
  auto integers = [p](int i) { return static_cast<const int32_t *>(p[i]); };
  auto lse = [p](int i) { return static_cast<float *>(p[i]); };
  if (action == Action::Attention)
    return {.q = p[0],
            .k = p[1],
            .v = p[2],
            .lengths = integers(3),
            .out = p[5],
            .lse = lse(6),
            .workspace = p[7],
            .positions = integers(4),
            .pages = integers(8)};
  return {.q = p[1],
          .k = p[2],
          .v = p[3],
          .lengths = integers(4),
          .out = p[6],
          .lse = lse(7),
          .workspace = p[11],
          .dout = p[0],
          .dq = p[8],
          .dk = p[9],
          .dv = p[10],
          .positions = integers(5)};
}

Status BoundProgram::submit(Rank &rank, Site site) {
  const Bound &command = commands[site.number];
  void *const *p =
      pointers.data() + lane * std::ssize(strides) + command.pointers;
  auto f = [p](int i) { return static_cast<float *>(p[i]); };
  switch (command.action) {
  case Action::Gemm: {
    optrt_gemm_desc desc = gemms[command.descriptor];
    desc.live = static_cast<const int32_t *>(p[5]);
    return rank.gemm(site, desc, f(0), f(1), f(2), f(3), f(4));
  }
  case Action::PackMatrix:
    return rank.pack(site, packs[command.descriptor], f(0), f(1));
  case Action::Launch: {
    const Launch &launch = launches[command.descriptor];
    return rank.launch(site, launch.desc, *launch.kernel, p);
  }
  case Action::Copy:
    return rank.copy(site, copies[command.descriptor], f(0), f(1));
  case Action::Fill:
    return rank.copy(site, copies[command.descriptor], nullptr, f(0));
  case Action::Attention:
    return rank.attention(site, attentions[command.descriptor],
                          operandsOf(command.action, p));
  case Action::AttentionGrad:
    return rank.attentionGrad(site, attentions[command.descriptor],
                              operandsOf(command.action, p));
  case Action::Collective:
  case Action::Send:
  case Action::Receive:
    return start(rank, site);
  case Action::Wait:
    return command.carried != 0
               ? rank.waitForCarried(site, command.carried)
               : rank.waitForCollective(site, command.descriptor);
  default:
    return internal(concat(describe(site.number), " cannot be executed"));
  }
}

} // namespace optrt
