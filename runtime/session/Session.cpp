//===- Session.cpp - A model in memory, ready to run ----------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-runtime/Session.h"

#include "LocalRank.h"
#include "PlannedMemory.h"
#include "SessionSaving.h"
#include "SharedRegions.h"
#include "base/Nvtx.h"
#include "optimus-runtime/RankTeam.h"
#include "optimus-support/Hash.h"
#include "program/CollectiveAgreement.h"
#include "program/CommunicatorScratch.h"
#include "program/GpuChoice.h"

#include <algorithm>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

using optimus_support::program::findFunction;
using optimus_support::program::ProgramTableT;
using optimus_support::program::tableOf;

namespace optrt {

Session::Session(const ModelLibrary &library, World &world)
    : library(library), world(world), control(*world.control) {}

/// Names commands by the tables of a library, as long as it is there. Watchers
/// of ranks do not end with a session.
class Session::CommandNamer {
public:
  explicit CommandNamer(const ModelLibrary &library) : library(&library) {}

  std::string nameOf(int rank, CommandId command) const {
    std::lock_guard lock(mutex);
    // What another process says may be anything.
    if (library && command.function < library->manifest().functions.size()) {
      const auto &table = tableOf(library->target(), rank);
      const auto *function = findFunction(
          table, library->manifest().functions[command.function].name);
      if (function && command.number < function->commands.size())
        return optimus_support::program::describe(library->target(), table,
                                                  *function, command.number);
    }
    return concat("command ", command.number);
  }
  void forget() {
    std::lock_guard lock(mutex);
    library = nullptr;
  }

private:
  mutable std::mutex mutex;
  const ModelLibrary *library;
};

Session::~Session() {
  // What is under way touches buffers of ranks.
  if (team && !team->isBusy())
    (void)finishCarried();
  // Those that share communicators end together.
  if (team && world.collectives->isQueued(manifest().target))
    (void)team->run([this](int i) {
      if (!ranks[i])
        return okStatus();
      // What was aborted has ended before its memory is given back.
      ranks[i]->context.queued.reset();
      ranks[i].reset();
      return okStatus();
    });
  if (names)
    names->forget();
}

StatusOr<std::unique_ptr<Session>> Session::create(const ModelLibrary &library,
                                                   World &world,
                                                   SessionOptions options) {
  std::unique_ptr<Session> session(new Session(library, world));
  OPTRT_RETURN_IF_ERROR(world.control->agree(session->build(options)));
  if (options.tuning)
    OPTRT_RETURN_IF_ERROR(session->tune(*options.tuning));
  return session;
}

static Status checkDevice(const std::string &chosen,
                          const ModelLibrary &library,
                          const Collectives &collectives) {
  const std::string &target = library.manifest().target;
  if (collectives.needsGpus() && target != "cuda")
    return invalidArgument(concat(
        "expected a library for GPUs, between which --backend ",
        collectives.name(), " moves tensors; found `", library.path(),
        "`, which was compiled for ", target,
        ". Compile the model with --target cuda, or use another --backend"));
  if (chosen.empty() || chosen == target)
    return okStatus();
  return invalidArgument(concat("expected the device ", target, ", which `",
                                library.path(), "` was compiled for; found ",
                                chosen, ". Compile the model with --target ",
                                chosen));
}

Status Session::build(const SessionOptions &options) {
  const Manifest &manifest = library.manifest();

  std::vector<std::string> hashes = control.allGather(manifest.sourceHash);
  std::vector<std::string> layouts = control.allGather(
      concat(manifest.strategy, " on ", manifest.mesh.toString()));
  for (std::size_t r = 0; r != hashes.size(); ++r)
    if (hashes[r] != hashes[0])
      return invalidArgument(
          concat("rank ", r,
                 " has opened another model library than rank 0: ", layouts[r],
                 " with source hash ", hashes[r], ", and ", layouts[0],
                 " with ", hashes[0], "; copy the same file to every host"));
  const Setting same[] = {
      {"--backend", std::string(world.collectives->name())}};
  OPTRT_RETURN_IF_ERROR(control.checkSame(same));

  OPTRT_RETURN_IF_ERROR(
      control.agree(checkDevice(options.device, library, *world.collectives)));
  OPTRT_RETURN_IF_ERROR(control.agree(checkLanes(options)));
  OPTRT_RETURN_IF_ERROR(world.layOut(manifest.mesh));
  const Setting computing[] = {
      {"--tf32", concat(options.computing.tf32)},
      {"--flush-subnormals", concat(options.computing.flushesSubnormals)}};
  OPTRT_RETURN_IF_ERROR(control.checkSame(computing));
  OPTRT_RETURN_IF_ERROR(control.agree(chooseCalls(options)));
  std::vector<std::string> called;
  for (std::size_t i = 0; i != callables.size(); ++i)
    if (std::ranges::all_of(plans, [&](const RankPlan &plan) {
          return findFunction(*plan.table, callables[i].function->name);
        }))
      called.push_back(callables[i].function->name);
  OPTRT_RETURN_IF_ERROR(
      agreeOnCollectives(control, library.target(), manifest.mesh, called));
  names = std::make_shared<CommandNamer>(library);
  control.nameCommands([names = names](int rank, CommandId command) {
    return names->nameOf(rank, command);
  });
  control.tellEndsBy(options.onStall);
  WatchOptions watch;
  watch.timeoutSeconds = options.timeoutSeconds;
  watch.onStall = options.onStall;
  OPTRT_RETURN_IF_ERROR(control.watch(std::move(watch)));

  documentEnd = options.documentEnd;
  placement = options.placement;
  lanes.resize(options.lanes);
  sources = findSources();
  chooseBuffers(options.placement);
  OPTRT_RETURN_IF_ERROR(checkHolders());
  OPTRT_RETURN_IF_ERROR(agreeOnTables());
  OPTRT_ASSIGN_OR_RETURN(cores, shareCores(control));
  const Nvtx *ranges = nullptr;
  if (options.nvtx) {
    OPTRT_ASSIGN_OR_RETURN(ranges, Nvtx::open());
  }
  StatusOr<DeviceFactory> devices = DeviceFactory::open(manifest.target);
  OPTRT_RETURN_IF_ERROR(control.agreeInTime(devices.status()));
  const DeviceEnvironment &environment = devices->environment();
  threads = options.threadsPerRank > 0
                ? options.threadsPerRank
                : std::min(cores.coresPerRank(), environment.mostThreads);
  world.collectives->expectThreads(threads, cores.coresPerRank());
  refused = environment.refused;
  compareArithmetic(control.allGather(environment.arithmetic));
  // Lanes have the threads of a rank between them.
  const int parts = lanes.size() == 1
                        ? control.numLocalRanks()
                        : std::clamp(std::min(threads, environment.mostThreads),
                                     1, static_cast<int>(lanes.size()));
  std::vector<int> gpus(control.numLocalRanks());
  if (world.collectives->needsGpus()) {
    OPTRT_ASSIGN_OR_RETURN(gpus, chooseGpus(control, devices->gpus()));
  }
  OPTRT_ASSIGN_OR_RETURN(team,
                         RankTeam::create(parts, [this](const Status &reason) {
                           world.collectives->abort(reason);
                         }));
  ranks.resize(parts);
  auto makeRank = [&](int i) -> Status {
    const int number = lanes.size() == 1 ? i : 0;
    StatusOr<std::unique_ptr<Device>> device = devices->create(
        lanes.size() == 1 ? threads : threads / parts, gpus[number]);
    const int rank = control.firstRank() + number;
    OPTRT_RETURN_IF_ERROR(device.status().withContext(concat("rank ", rank)));
    OPTRT_RETURN_IF_ERROR(
        (*device)->configure(options.computing).withContext(library.path()));
    ranks[i] = std::make_unique<LocalRank>(manifest.mesh, world, rank,
                                           std::move(*device), planOf(rank));
    ranks[i]->context.isEager = options.eager;
    ranks[i]->context.timesQueued = options.timesCommunication;
    ranks[i]->context.ranges = ranges;
    if (options.observe)
      ranks[i]->observer = options.observe(ranks[i]->context);
    return okStatus();
  };
  // Where ranks join each other, nobody waits for one that has no device.
  OPTRT_RETURN_IF_ERROR(control.agreeInTime(team->run(makeRank)));
  placeLanes();
  return team->run([&](int i) { return buildRank(*ranks[i], options); });
}

void Session::chooseBuffers(Placement placement) {
  std::set<int64_t> all;
  for (RankPlan &plan : plans) {
    chooseBuffers(placement, plan);
    all.insert(plan.held.begin(), plan.held.end());
  }
  held.assign(all.begin(), all.end());
  random = findWords("random", optimus_support::kNumRandomWords);
  isFilled.resize(manifest().buffers.size());
}

Status Session::checkHolders() const {
  const Mesh &mesh = manifest().mesh;
  for (int64_t index : held) {
    const Buffer &buffer = manifest().buffers[index];
    std::vector<int> axes;
    for (const std::vector<int> &some : buffer.layout.axes)
      axes.insert(axes.end(), some.begin(), some.end());
    for (int64_t rank = 0; plans.size() > 1 && rank != mesh.numRanks();
         ++rank) {
      const int64_t first = mesh.firstOfGroup(rank, axes);
      if (planOf(rank).holds(index) != planOf(first).holds(index))
        return invalidArgument(
            concat("of ranks ", first, " and ", rank, " of `", library.path(),
                   "`, which hold one \"", buffer.name,
                   "\" together, only one has it among its functions'"));
    }
  }
  return okStatus();
}

/// Whether a command of the table sends something to one rank.
static bool hasMessages(const ProgramTableT &table) {
  for (const auto &function : table.functions)
    for (const auto &command : function->commands)
      if (command->action.AsSend())
        return true;
  return false;
}

Status Session::agreeOnTables() const {
  // What each process has loaded was checked by itself.
  if (plans.size() == 1 && !hasMessages(*plans.front().table))
    return okStatus();
  optimus_support::program::ProgramsT copy(library.programs());
  const Setting same[] = {
      {"the tables of the model library",
       concat("a checksum of ",
              optimus_support::hash64(optimus_support::program::pack(copy)))}};
  return control.checkSame(same);
}

void Session::chooseBuffers(Placement placement, RankPlan &plan) {
  const Manifest &manifest = library.manifest();
  std::set<int64_t> used, written;
  int64_t arenaBytes = 0;
  for (std::size_t number = 0; number != callables.size(); ++number) {
    if (!plan.calls[number])
      continue;
    const Callable &callable = callables[number];
    // Placed dynamically, buffers take what is alive at once.
    arenaBytes = std::max(arenaBytes, placement == Placement::Planned
                                          ? callable.function->arenaBytes
                                          : callable.function->lowerBoundBytes);
    for (std::size_t i = 0; i != callable.buffers.size(); ++i) {
      used.insert(callable.buffers[i]);
      if (callable.function->args[i].access != Access::Read)
        written.insert(callable.buffers[i]);
    }
  }
  std::ranges::set_difference(used, sources, std::back_inserter(plan.held));
  for (int64_t buffer : written)
    if (manifest.buffers[buffer].isNumber())
      plan.numbers.push_back(buffer);
  for (int64_t buffer : plan.held)
    plan.resets[static_cast<std::size_t>(manifest.buffers[buffer].reset)]
        .push_back(buffer);

  RankMemory &memory = plan.memory;
  const std::vector<MemorySpace> spaces = spacesOf(manifest, *plan.table);
  for (int64_t index : plan.held) {
    const Buffer &buffer = manifest.buffers[index];
    int64_t &bytes = spaces[index] == MemorySpace::File
                         ? memory.offloaded
                         : memory.*categoryOf(buffer);
    bytes += alignedSize(buffer.numBytes());
    paging |= spaces[index] != MemorySpace::Device;
  }
  const std::array<int64_t, 3> arenas = arenaBytesOf(plan);
  paging |= arenas[1] + arenas[2] > 0;
  for (const Turn &turn : makeTurns(sources))
    memory.staging = std::max(memory.staging, bytesOf(turn));
  memory.arena = alignedSize(arenaBytes) + arenas[1];
  memory.offloaded += arenas[2];
}

/// Parameters all of whose readers prepare nothing else, where other functions
/// are called besides. Ranks with tables of their own have none.
std::vector<int64_t> Session::findSources() const {
  if (plans.size() > 1)
    return {};
  auto isParameter = [&](int64_t buffer) {
    return manifest().buffers[buffer].lifetime == Lifetime::Parameter;
  };
  std::set<int64_t> prepared, others;
  for (const Callable &call : callables) {
    const bool isPreparer =
        call.function->kind == EntryKind::Prepare &&
        std::ranges::count_if(call.buffers, isParameter) == 1;
    (isPreparer ? prepared : others)
        .insert(call.buffers.begin(), call.buffers.end());
  }
  std::vector<int64_t> found;
  for (int64_t buffer : prepared)
    if (!others.empty() && !others.contains(buffer) && isParameter(buffer))
      found.push_back(buffer);
  return found;
}

int64_t Session::bytesOf(const Turn &turn) const {
  int64_t bytes = 0;
  for (int64_t source : turn.sources)
    bytes += alignedSize(manifest().buffers[source].numBytes());
  return bytes;
}

/// As many at a time as the largest has room for.
std::vector<Session::Turn>
Session::makeTurns(std::span<const int64_t> chosen) const {
  std::vector<Turn> turns;
  int64_t most = 0;
  for (int64_t source : chosen) {
    Turn turn{{source}, {}};
    for (std::size_t i = 0; i != callables.size(); ++i)
      if (callables[i].function->kind == EntryKind::Prepare &&
          std::ranges::count(callables[i].buffers, source))
        turn.calls.push_back(i);
    turns.push_back(std::move(turn));
    most = std::max(most, bytesOf(turns.back()));
  }
  std::vector<Turn> shared;
  for (Turn &turn : turns) {
    if (shared.empty() || bytesOf(shared.back()) + bytesOf(turn) > most) {
      shared.push_back(std::move(turn));
      continue;
    }
    shared.back().sources.push_back(turn.sources.front());
    std::ranges::copy(turn.calls, std::back_inserter(shared.back().calls));
  }
  return shared;
}

/// The bytes that functions need in each space, where all share them.
std::array<int64_t, 3> Session::arenaBytesOf(const RankPlan &plan) const {
  std::array<int64_t, 3> bytes = {};
  for (std::size_t i = 0; i != callables.size(); ++i) {
    if (!plan.calls[i])
      continue;
    for (const auto &arena :
         findFunction(*plan.table, callables[i].function->name)->arenas) {
      int64_t &most = bytes[static_cast<size_t>(arena->space)];
      most = std::max(most, arena->bytes);
    }
  }
  return bytes;
}

void Session::compareArithmetic(const std::vector<std::string> &all) {
  for (std::size_t rank = 1; rank != all.size(); ++rank)
    if (all[rank] != all[0]) {
      mixture = concat(
          "ranks compute differently: rank 0 by ", all[0], ", rank ", rank,
          " by ", all[rank],
          "; copies of a value on several ranks drift apart in their last "
          "bits. Use the same libraries and processors, or the lesser "
          "instruction set everywhere (DNNL_MAX_CPU_ISA)");
      return;
    }
}

std::string Session::oversubscription() const {
  // A rank has one core at least, which several may have.
  if (cores.ranks * threads <= cores.cores)
    return "";
  auto some = [](int count, const char *what) {
    return concat(count, " ", what, count == 1 ? "" : "s");
  };
  return concat(some(cores.ranks, "rank"), " with ", some(threads, "thread"),
                cores.ranks == 1 ? " shares " : " each share ",
                some(cores.cores, "core"),
                cores.file.empty() ? "" : concat(" (", cores.file, ")"));
}

std::string Session::slowPrecision() const {
  return ranks.front()->context.device->slowPrecision(
      static_cast<int32_t>(manifest().precision));
}

Status Session::buildRank(LocalRank &rank, const SessionOptions &options) {
  const Manifest &manifest = library.manifest();
  const bool isPlanned = placement == Placement::Planned;
  Device &device = *rank.context.device;
  if (world.collectives->isQueued(manifest.target)) {
    OPTRT_ASSIGN_OR_RETURN(rank.context.queued,
                           world.collectives->connect(rank.context.rank, device,
                                                      options.timeoutSeconds));
  }
  char probe;
  if (!isPlanned && (paging || device.hostAddress(&probe) != &probe))
    return unavailable("dynamic placement allocates memory of the host, which "
                       "this device does not compute on, or the library has "
                       "buffers elsewhere; use planned placement");
  const RankPlan &plan = rank.plan;
  const std::vector<MemorySpace> spaces = spacesOf(manifest, *plan.table);
  const std::array<int64_t, 3> bytes = arenaBytesOf(plan);
  const int64_t ownLanes = std::ssize(rank.lanes);
  device.plan(describePlan(
      ofLanes(memoryOnDevice(manifest, plan.held, spaces, bytes[0]),
              std::ssize(lanes), lanes.size() == 1 ? 1 : std::ssize(ranks)),
      control.numLocalRanks()));
  OPTRT_ASSIGN_OR_RETURN(rank.buffers,
                         RankBuffers::create(manifest, rank.context.rank,
                                             plan.held, device, spaces,
                                             options.scratchFolder, ownLanes));
  for (MemorySpace space :
       {MemorySpace::Device, MemorySpace::Host, MemorySpace::File}) {
    const auto number = static_cast<size_t>(space);
    OPTRT_ASSIGN_OR_RETURN(
        rank.arenas[number],
        allocateIn(device, space, isPlanned ? alignedSize(bytes[number]) : 0,
                   "the arena of a rank", options.scratchFolder));
  }
  rank.batchParts = partsOfBatch(rank.context.rank);
  rank.programs.resize(callables.size());
  // What reads sources is bound when these have memory.
  auto isHere = [&](int64_t buffer) { return rank.buffers.holds(buffer); };
  for (std::size_t number = 0; number != callables.size(); ++number)
    if (plan.calls[number] &&
        std::ranges::all_of(callables[number].buffers, isHere))
      OPTRT_RETURN_IF_ERROR(bindCall(rank, number));
  // Programs of several lanes do not communicate.
  if (rank.context.queued || lanes.size() > 1)
    return okStatus();
  CommunicatorScratch buffers(rank.context.communicators);
  for (const std::optional<BoundProgram> &program : rank.programs)
    if (program)
      buffers.add(*program);
  rank.communicationBytes = buffers.bytes();
  return okStatus();
}

Status Session::bindCall(LocalRank &rank, std::size_t call) {
  Device &device = *rank.context.device;
  const Callable &callable = callables[call];
  const std::string &name = callable.function->name;
  std::vector<void *> args;
  for (int64_t buffer : callable.buffers)
    args.push_back(rank.buffers.argument(buffer));
  // Every function has its arenas in those that all share.
  std::vector<char *> arenas;
  for (const auto &arena : findFunction(*rank.plan.table, name)->arenas)
    arenas.push_back(rank.arenas[static_cast<size_t>(arena->space)].data());
  OPTRT_ASSIGN_OR_RETURN(
      BoundProgram program,
      BoundProgram::bind(library.target(), library.kernels(), name,
                         manifest().mesh, rank.context.rank, device, arenas,
                         args, placement, rank.context.queued != nullptr,
                         std::ssize(rank.lanes)));
  Workload workload = program.workload();
  workload.images = library.images();
  Status prepared = device.prepare(workload);
  // No rank starts a collective before all have built what they have.
  if (prepared.ok() && world.collectives->needsGpus())
    prepared = program.rehearse(device);
  if (!prepared.ok())
    return prepared.withContext(name);
  rank.programs[call] = std::move(program);
  return okStatus();
}

} // namespace optrt
