//===- Rank.cpp - The execution state of one rank -------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-runtime/Rank.h"

#include "BoundProgram.h"
#include "HostStaging.h"

#include "optimus-support/ElementType.h"

#include <algorithm>
#include <numeric>

using namespace optrt;
using optimus_support::CheckedSize;
using optimus_support::ElementType;
using optimus_support::kMaxBytes;
using optimus_support::kMaxElements;
using optimus_support::matrixExtent;
using Clock = Communicator::Clock;

Rank::Rank(const Mesh &mesh, World &world, int rank,
           std::unique_ptr<Device> device)
    : mesh(mesh), rank(rank), device(std::move(device)),
      traffic(mesh.numAxes()), activity(world.control->activity(rank)),
      exposed(mesh.numAxes()) {
  for (int axis = 0; axis != mesh.numAxes() && !world.collectives->needsGpus();
       ++axis)
    communicators.push_back(&world.collectives->communicator(rank, axis));
}

Rank::~Rank() = default;

void Rank::resetCounters() {
  std::fill(traffic.begin(), traffic.end(), Traffic());
  std::fill(exposed.begin(), exposed.end(), Clock::duration());
  intervals.clear();
  countsSince = Clock::now();
}

void Rank::beginCall(std::span<const PlannedCollective> newPlanned) {
  if (staging)
    staging->restart();
  if (!queued)
    return;
  // What is replayed is not submitted.
  planned = newPlanned;
  for (const PlannedCollective &one : planned)
    count(*one.desc);
  queued->beginCall(function, planned);
}

Status Rank::endCall() {
  Status status = device->synchronize();
  // The queues' errors about a failed collective are consequences.
  if (Status communicated = queued ? queued->endCall() : okStatus();
      !communicated.ok())
    return communicated;
  if (queued && status.ok() && areQueuedTimed())
    noteQueuedTimes();
  return program ? program->locate(*this, status) : status;
}

void Rank::abandonCall() {
  if (queued)
    (void)queued->endCall();
}

void Rank::noteQueuedTimes() {
  auto at = [](int64_t nanoseconds) {
    return Clock::time_point(std::chrono::nanoseconds(nanoseconds));
  };
  std::vector<Interval> waits;
  for (const PlannedCollective &one : planned) {
    const int32_t axis = one.desc->axis;
    const auto &[inFlight, reached] = queuedTimes[{one.command, function}];
    intervals.push_back({axis, at(inFlight.begin), at(inFlight.end)});
    // The host that waits for each command lets nothing overlap.
    waits.push_back(
        {axis, at(isEager ? inFlight.begin : reached), at(inFlight.end)});
    if (observer)
      observer->transferred(one.command, at(inFlight.begin), at(inFlight.end));
  }
  // A queue stands still for one at a time; clocks of GPUs are rounded.
  std::sort(waits.begin(), waits.end(),
            [](const auto &a, const auto &b) { return a.begin < b.begin; });
  Clock::time_point waited;
  for (Interval &one : waits) {
    one.begin = std::max(one.begin, waited);
    if (one.end <= one.begin)
      continue;
    waited = one.end;
    exposed[one.axis] += one.end - one.begin;
    intervals.push_back(one);
  }
}

std::vector<CommunicationTime> Rank::communicationTimes() const {
  const int all = mesh.numAxes();
  // In ticks, so that a fully exposed time is equal to the last bit.
  std::vector<Clock::duration> inFlight(all + 1), waited = exposed;
  waited.push_back(
      std::accumulate(exposed.begin(), exposed.end(), Clock::duration()));
  std::vector<Interval> sorted = intervals;
  std::sort(sorted.begin(), sorted.end(),
            [](const auto &a, const auto &b) { return a.begin < b.begin; });
  // Where intervals overlap, only what goes beyond the earlier ones counts.
  std::vector<Clock::time_point> covered(all + 1);
  for (const Interval &one : sorted)
    for (int slot : {static_cast<int>(one.axis), all}) {
      Clock::time_point from = std::max(one.begin, covered[slot]);
      if (one.end <= from)
        continue;
      inFlight[slot] += one.end - from;
      covered[slot] = one.end;
    }
  auto seconds = [](Clock::duration time) {
    return std::chrono::duration<double>(time).count();
  };
  std::vector<CommunicationTime> times;
  for (int slot = 0; slot <= all; ++slot)
    times.push_back({seconds(inFlight[slot]), seconds(waited[slot])});
  return times;
}

int64_t optrt::collectiveBytes(const optrt_collective_desc &desc, int64_t n) {
  int64_t blockBytes =
      desc.outer * desc.inner *
      optimus_support::elementBytes(optimus_support::ElementType(desc.type));
  switch (desc.kind) {
  case OPTRT_ALL_REDUCE:
    return 2 * (n - 1) * blockBytes;
  case OPTRT_ALL_GATHER:
  case OPTRT_REDUCE_SCATTER:
  case OPTRT_ALL_TO_ALL:
    return (n - 1) * n * blockBytes;
  case OPTRT_SEND:
    return blockBytes;
  case OPTRT_RECEIVE:
    return 0;
  default:
    return (n - 1) * blockBytes;
  }
}

// Of a command that was put on a queue before.
bool Rank::isLate(const Status &status) const {
  return !status.ok() && program && !device->adviceOnLateFailure().empty();
}

Status Rank::report(uint32_t command, const char *what, Status status) const {
  if (status.ok())
    return status;
  if (isLate(status))
    return program->locate(*this, status);
  StatusCode code = status.code() == StatusCode::InvalidArgument
                        ? StatusCode::Internal
                        : status.code();
  std::string name = program ? program->describe(command)
                             : concat("command ", command, " (", what, ")");
  return Status(code,
                concat("rank ", rank, ", ", name, ": ", status.message()));
}

void Rank::beginLocal(uint32_t command) {
  // Queues are far behind: their collectives say where the rank is.
  if (queued)
    return;
  activity.command.store({command, function}, std::memory_order_relaxed);
  if (!startedCollectives.empty())
    communicators[startedCollectives[0].axis]->overlap();
}

/// While it lives, the rank is in a collective's start or wait.
class Rank::InCollective {
public:
  InCollective(Rank &rank, CommandId command, int32_t axis, uint64_t sequence,
               int32_t peer)
      : rank(rank), axis(axis), begin(Clock::now()) {
    RankActivity &activity = rank.activity;
    activity.command.store(command, std::memory_order_relaxed);
    activity.waitingCommand.store(command, std::memory_order_relaxed);
    activity.waitingAxis.store(axis, std::memory_order_relaxed);
    activity.waitingSequence.store(sequence, std::memory_order_relaxed);
    activity.waitingPeer.store(peer, std::memory_order_relaxed);
    activity.since.store(begin.time_since_epoch().count(),
                         std::memory_order_release);
  }
  ~InCollective() {
    Clock::time_point end = Clock::now();
    rank.exposed[axis] += end - begin;
    // A rank that wakes up late has the data late.
    rank.intervals.push_back({axis, begin, end});
    rank.activity.since.store(0, std::memory_order_relaxed);
  }
  InCollective(const InCollective &) = delete;
  InCollective &operator=(const InCollective &) = delete;

  Clock::time_point entered() const { return begin; }

private:
  Rank &rank;
  const int32_t axis;
  const Clock::time_point begin;
};

Status Rank::gemm(Site site, const optrt_gemm_desc &desc, const void *a,
                  const void *b, void *c, const void *bias, const void *extra) {
  beginLocal(site.number);
  return report(site.number, "gemm",
                device->gemm(site.queue, desc, a, b, c, bias, extra));
}

Status Rank::pack(Site site, const optrt_pack_desc &desc, const float *src,
                  float *dst) {
  beginLocal(site.number);
  return report(site.number, "pack", device->pack(site.queue, desc, src, dst));
}

Status Rank::launch(Site site, const optrt_launch_desc &desc,
                    const optimus_kernel &kernel, void *const *args) {
  beginLocal(site.number);
  return report(site.number, desc.name ? desc.name : "launch",
                device->launch(site.queue, desc, kernel, args));
}

Status Rank::copy(Site site, const optrt_copy_desc &desc, const void *src,
                  void *dst) {
  beginLocal(site.number);
  return report(site.number, "copy", device->copy(site.queue, desc, src, dst));
}

Status Rank::attention(Site site, const optrt_attention_desc &desc,
                       const AttentionOperands &operands) {
  beginLocal(site.number);
  return report(site.number, "attention",
                device->attention(site.queue, desc, operands));
}

Status Rank::attentionGrad(Site site, const optrt_attention_desc &desc,
                           const AttentionOperands &operands) {
  beginLocal(site.number);
  return report(site.number, "attention_grad",
                device->attentionGrad(site.queue, desc, operands));
}

Status Rank::finish(Site site) {
  Status status = device->call(site.queue, [] { return okStatus(); });
  // The queue's error about a failed collective is a consequence.
  if (queued)
    OPTRT_RETURN_IF_ERROR(queued->check());
  return report(site.number, "command", std::move(status));
}

Status Rank::checkCollective(const optrt_collective_desc &desc, const void *src,
                             const void *dst) const {
  if (desc.kind < OPTRT_BROADCAST || desc.kind > OPTRT_RECEIVE)
    return internal(concat("unknown kind of collective ", desc.kind));
  if (desc.reduction != OPTRT_SUM && desc.reduction != OPTRT_MAX)
    return internal(concat("unknown reduction ", desc.reduction));
  if (desc.type < 0 || desc.type > int32_t(ElementType::MAX))
    return internal(concat("elements of an unknown type ", desc.type));
  if (addsUp(desc.kind) && desc.type != OPTRT_F32 && desc.type != OPTRT_BF16 &&
      desc.type != OPTRT_F16)
    return internal(concat("adds elements of ",
                           toString(ElementType(desc.type)),
                           "; expected f32, bf16 or f16"));
  if (desc.axis < 0 ||
      desc.axis >= std::min(mesh.numAxes(), RankActivity::kMaxAxes))
    return internal(concat("mesh axis ", desc.axis, " of a mesh with ",
                           mesh.numAxes(), " axes"));
  int64_t n = mesh.axisSize(desc.axis);
  if (desc.root < 0 || desc.root >= n)
    return internal(concat("root ", desc.root, " on an axis of ", n));
  if (desc.outer < 0 || desc.inner < 0)
    return internal(concat("negative size ", desc.outer, "x", desc.inner));
  bool isRoot = mesh.coordinate(rank, desc.axis) == desc.root;
  if (isMessage(desc.kind) && isRoot)
    return internal("is to or from this rank itself");
  const bool reads = hasSource(desc.kind, isRoot),
             writes = hasDestination(desc.kind, isRoot);
  // Traffic is counted in bytes of whole tensors, of each rank.
  const CheckedSize whole = CheckedSize(n) * desc.inner;
  const CheckedSize counted =
      whole * desc.outer * n *
      optimus_support::elementBytes(ElementType(desc.type));
  if (!counted.isAtMost(kMaxBytes))
    return internal(concat("moves ", desc.outer, "x", desc.inner, " among ", n,
                           " ranks, ", counted.toString(),
                           " bytes together; expected at most ", kMaxBytes));
  const int64_t srcColumns =
                    readsBlocks(desc.kind) ? n * desc.inner : desc.inner,
                dstColumns =
                    writesBlocks(desc.kind) ? n * desc.inner : desc.inner;
  for (auto [columns, ld] : {std::pair(srcColumns, desc.src_ld),
                             std::pair(dstColumns, desc.dst_ld)})
    if (CheckedSize extent = matrixExtent(desc.outer, columns, ld);
        desc.outer > 1 && !extent.isAtMost(kMaxElements))
      return internal(concat("has rows ", ld, " elements apart, so that ",
                             desc.outer, " end after ", extent.toString(),
                             " elements; expected at most ", kMaxElements));
  if (reads && (!src || desc.src_ld < srcColumns))
    return internal(concat("source is null or its leading dimension ",
                           desc.src_ld, " is below ", srcColumns));
  if (writes && (!dst || desc.dst_ld < dstColumns))
    return internal(concat("destination is null or its leading dimension ",
                           desc.dst_ld, " is below ", dstColumns));
  return okStatus();
}

/// Collectives of threads and MPI move what host code can address.
StatusOr<Rank::Moved>
Rank::addressesForCollective(Site site, const optrt_collective_desc &desc,
                             const void *src, void *dst) {
  void *from = device->addressInCall(const_cast<void *>(src));
  void *to = device->addressInCall(dst);
  if ((!src || from) && (!dst || to))
    return Moved{&desc, from, to};
  if (!staging)
    staging = std::make_unique<HostStaging>(*device);
  const bool isRoot = mesh.coordinate(rank, desc.axis) == desc.root;
  OPTRT_ASSIGN_OR_RETURN(
      const HostStaging::Staged *staged,
      staging->begin(site.queue, {site.number, function}, desc,
                     {mesh.axisSize(desc.axis), isRoot}, src, dst));
  return Moved{&staged->desc, staged->from, staged->to};
}

void Rank::count(const optrt_collective_desc &desc) {
  Traffic &counted = traffic[desc.axis];
  // What goes from one rank to another is no collective: its sender counts it.
  if (isMessage(desc.kind)) {
    counted.bytes += collectiveBytes(desc, mesh.axisSize(desc.axis));
    return;
  }
  ++counted.messages;
  if (mesh.coordinate(rank, desc.axis) == 0)
    counted.bytes += collectiveBytes(desc, mesh.axisSize(desc.axis));
}

Status Rank::startCollective(Site site, const optrt_collective_desc &desc,
                             const void *src, void *dst, uint32_t later) {
  Status checked = checkCollective(desc, src, dst);
  auto start = [&]() -> Status {
    OPTRT_RETURN_IF_ERROR(checked);
    OPTRT_ASSIGN_OR_RETURN(const Moved moved,
                           addressesForCollective(site, desc, src, dst));
    count(desc);
    const uint64_t sequence = isMessage(desc.kind)
                                  ? 0
                                  : 1 + activity.started[desc.axis].fetch_add(
                                            1, std::memory_order_relaxed);
    const CommandId id{site.number, function};
    if (later != 0)
      carried[later] = id;
    return device->call(site.queue, [=, this]() -> Status {
      const int32_t axis = moved.desc->axis;
      const int32_t peer = moved.desc->root;
      InCollective here(*this, id, axis, sequence, peer);
      OPTRT_RETURN_IF_ERROR(
          communicators[axis]->start(id, *moved.desc, moved.from, moved.to));
      startedCollectives.push_back({id, axis, sequence, peer, here.entered()});
      return okStatus();
    });
  };
  return report(site.number, "collective start", start());
}

Status Rank::startTogether(Queue queue,
                           std::span<const QueuedCollective> together) {
  for (const QueuedCollective &one : together)
    OPTRT_RETURN_IF_ERROR(report(one.command, "collective start",
                                 checkCollective(*one.desc, one.src, one.dst)));
  auto note = [&](int64_t CommandTimes::*time) -> Status {
    for (const QueuedCollective &one : together)
      if (areQueuedTimed())
        OPTRT_RETURN_IF_ERROR(device->timestamp(
            queue, queuedTimes[{one.command, function}].inFlight.*time));
    return okStatus();
  };
  Status status = note(&CommandTimes::begin);
  if (status.ok())
    status = queued->enqueue(queue, together);
  if (status.ok())
    status = note(&CommandTimes::end);
  return isLate(status) ? program->locate(*this, status) : status;
}

Status Rank::reachWait(Site site, uint32_t started) {
  if (!queued || !areQueuedTimed())
    return okStatus();
  return device->timestamp(site.queue,
                           queuedTimes[{started, function}].reached);
}

Status Rank::waitForCollective(Site site, uint32_t started) {
  // The edge to what started it is enough.
  if (queued)
    return okStatus();
  return report(started, "collective wait",
                awaitStarted(site.queue, {started, function}));
}

Status Rank::waitForCarried(Site site, uint32_t number) {
  const auto found = carried.find(number);
  if (found == carried.end())
    return okStatus();
  const CommandId id = found->second;
  carried.erase(found);
  return report(site.number, "collective wait", awaitStarted(site.queue, id));
}

Status Rank::finishCarried() {
  for (const auto &[number, id] : std::exchange(carried, {}))
    OPTRT_RETURN_IF_ERROR(awaitStarted(device->queue("compute"), id));
  return device->synchronize().withContext(
      concat("rank ", rank, ", collectives carried to the next step"));
}

Status Rank::awaitStarted(Queue queue, CommandId id) {
  Status status = device->call(queue, [this, id]() -> Status {
    // Few are in flight at a time.
    for (std::size_t i = 0; i != startedCollectives.size(); ++i) {
      if (startedCollectives[i].command != id)
        continue;
      StartedCollective one = startedCollectives[i];
      startedCollectives[i] = startedCollectives.back();
      startedCollectives.pop_back();
      Communicator &communicator = *communicators[one.axis];
      Status status;
      {
        InCollective here(*this, id, one.axis, one.sequence, one.peer);
        status = communicator.wait(id);
      }
      intervals.push_back({one.axis, std::max(one.begin, countsSince),
                           communicator.completionOfLastWait()});
      // Of an earlier call, nobody sees it.
      if (observer && one.begin >= countsSince) [[unlikely]]
        observer->transferred(id.number, one.begin, intervals.back().end);
      return status;
    }
    return internal("no collective was started under this number");
  });
  if (staging && status.ok())
    status = staging->finish(queue, id);
  return status;
}
