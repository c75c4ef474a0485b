//===- Session.cpp - A model in memory, ready to run ----------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-runtime/Session.h"

#include "LocalRank.h"
#include "optimus-runtime/RankTeam.h"
#include "optimus-support/Perturb.h"

#include <algorithm>
#include <atomic>
#include <sstream>
#include <thread>
#include <unistd.h>

namespace optrt {

namespace {

/// The ranks that share the cores of usableCores().
int ranksOnTheseCores(const World &world) {
  // mpirun may have bound each process to cores of its own.
  if (world.numLocalRanks() == 1 && world.ranksOnThisHost() > 1 &&
      usableCores() < sysconf(_SC_NPROCESSORS_ONLN))
    return 1;
  return world.ranksOnThisHost();
}

} // namespace

Session::Session(const ModelLibrary &library, World &world)
    : library(library), world(world) {}

Session::~Session() = default;

StatusOr<std::unique_ptr<Session>> Session::create(const ModelLibrary &library,
                                                   World &world,
                                                   SessionOptions options) {
  std::unique_ptr<Session> session(new Session(library, world));
  OPTRT_RETURN_IF_ERROR(world.agree(session->build(std::move(options))));
  return session;
}

Status Session::build(SessionOptions options) {
  const Manifest &manifest = library.manifest();

  std::vector<std::string> hashes = world.allGather(manifest.sourceHash);
  std::vector<std::string> layouts = world.allGather(
      concat(manifest.strategy, " on ", manifest.mesh.toString()));
  for (std::size_t r = 0; r != hashes.size(); ++r)
    if (hashes[r] != hashes[0])
      return invalidArgument(
          concat("rank ", r,
                 " has opened another model library than rank 0: ", layouts[r],
                 " with source hash ", hashes[r], ", and ", layouts[0],
                 " with ", hashes[0], "; copy the same file to every host"));

  std::vector<int64_t> sizes;
  for (const optimus_support::MeshAxis &axis : manifest.mesh.axes())
    sizes.push_back(axis.size);
  OPTRT_RETURN_IF_ERROR(world.agree(world.configure(sizes)));
  WatchOptions watch;
  watch.timeoutSeconds = options.timeoutSeconds;
  watch.onStall = options.onStall;
  for (const optimus_support::MeshAxis &axis : manifest.mesh.axes())
    watch.axisNames.push_back(axis.name);
  OPTRT_RETURN_IF_ERROR(world.watch(std::move(watch)));

  for (const std::string &name : options.functions) {
    const Function *function = manifest.findFunction(name);
    if (!function)
      return invalidArgument("model library `" + library.path() +
                             "` has no function " + name);
    for (const Arg &arg : function->args)
      keepsStates |= isOptimizerState(arg.kind);
  }
  threads = options.threadsPerRank > 0
                ? options.threadsPerRank
                : std::max(1, usableCores() / ranksOnTheseCores(world));
  world.expectThreads(threads);
  OPTRT_ASSIGN_OR_RETURN(DeviceFactory devices,
                         DeviceFactory::open(options.device));
  OPTRT_ASSIGN_OR_RETURN(
      team, RankTeam::create(world.numLocalRanks(), [this] { world.abort(); }));
  ranks.resize(world.numLocalRanks());
  return team->run([&](int i) -> Status {
    OPTRT_ASSIGN_OR_RETURN(std::unique_ptr<Device> device,
                           devices.create(threads));
    ranks[i] = std::make_unique<LocalRank>(
        manifest.mesh, world, world.firstRank() + i, std::move(device));
    if (options.observe)
      ranks[i]->context.observer = options.observe(ranks[i]->context.rank);
    return buildRank(*ranks[i], options);
  });
}

std::string Session::oversubscription() const {
  int sharing = ranksOnTheseCores(world), cores = usableCores();
  if (sharing * threads <= cores)
    return "";
  auto some = [](int count, const char *what) {
    return concat(count, " ", what, count == 1 ? "" : "s");
  };
  return concat(some(sharing, "rank"), " with ", some(threads, "thread"),
                sharing == 1 ? " shares " : " each share ",
                some(cores, "core"));
}

Status Session::buildRank(LocalRank &rank, const SessionOptions &options) {
  const Manifest &manifest = library.manifest();
  bool keepsGradients = false;
  int64_t arenaBytes = 0;
  for (const std::string &name : options.functions) {
    const Function &function = *manifest.findFunction(name);
    arenaBytes = std::max(arenaBytes, function.arenaBytes);
    for (const Arg &arg : function.args)
      keepsGradients |= arg.kind == ArgKind::Grad;
  }

  RankMemory &memory = rank.memory;
  int64_t paramBytes = 0, stateBytes = 0;
  for (const Param &param : manifest.params) {
    paramBytes += alignedSize(param.layout.numLocalElements() * 4);
    stateBytes += alignedSize(param.state.numLocalElements() * 4);
  }
  memory.parameters = paramBytes;
  int64_t numStates = keepsStates ? manifest.optimizerState.size() : 0;
  memory.moments = numStates * stateBytes;
  memory.gradients = keepsGradients ? paramBytes : 0;
  int64_t tokenBytes = alignedSize(manifest.tokens.numLocalElements() * 4);
  int64_t targetBytes = alignedSize(manifest.targets.numLocalElements() * 4);
  memory.inputs = tokenBytes + targetBytes;

  OPTRT_ASSIGN_OR_RETURN(
      rank.storage,
      HostMemory::create(memory.total(), "the parameters of a rank"));
  memory.arena = alignedSize(arenaBytes);
  OPTRT_ASSIGN_OR_RETURN(
      rank.arena, HostMemory::create(memory.arena, "the arena of a rank"));

  char *next = rank.storage.data();
  auto take = [&](int64_t bytes) {
    char *here = next;
    next += alignedSize(bytes);
    return here;
  };
  auto takeTensors = [&](ShardLayout Param::*layout,
                         std::vector<float *> &tensors) {
    for (const Param &param : manifest.params)
      tensors.push_back(reinterpret_cast<float *>(
          take((param.*layout).numLocalElements() * 4)));
  };
  takeTensors(&Param::layout, rank.params);
  if (keepsStates)
    for (ArgKind state : manifest.optimizerState)
      takeTensors(&Param::state, rank.states[state]);
  if (keepsGradients)
    takeTensors(&Param::layout, rank.grads);
  rank.tokens = reinterpret_cast<int32_t *>(take(tokenBytes));
  rank.targets = reinterpret_cast<int32_t *>(take(targetBytes));

  for (const std::string &name : options.functions) {
    std::vector<void *> args;
    for (const Arg &arg : manifest.findFunction(name)->args) {
      switch (arg.kind) {
      case ArgKind::Param:
        args.push_back(rank.params[arg.index]);
        break;
      case ArgKind::ExpAvg:
      case ArgKind::ExpAvgSq:
      case ArgKind::MomentumBuffer:
        args.push_back(rank.states[arg.kind][arg.index]);
        break;
      case ArgKind::Tokens:
        args.push_back(rank.tokens);
        break;
      case ArgKind::Targets:
        args.push_back(rank.targets);
        break;
      case ArgKind::Random:
        args.push_back(rank.random.data());
        break;
      case ArgKind::Scalar:
        args.push_back(&rank.scalars[static_cast<int>(arg.scalar)]);
        break;
      case ArgKind::Grad:
        args.push_back(rank.grads[arg.index]);
        break;
      case ArgKind::Output:
        args.push_back(&rank.outputs[static_cast<int>(arg.output)]);
        break;
      }
    }
    // Every function has its one arena in the one that all share.
    char *const arenas[] = {rank.arena.data()};
    OPTRT_ASSIGN_OR_RETURN(
        BoundProgram program,
        BoundProgram::bind(library.target(), library.kernels(), name,
                           manifest.mesh, rank.context.rank,
                           *rank.context.device, arenas, args));
    rank.programs.emplace(name, std::move(program));
  }
  return okStatus();
}

void Session::parametersChanged(LocalRank &rank) {
  rank.context.device->setParameterVersion(parameterVersion);
}

Status Session::initialize(uint64_t seed) {
  const Manifest &manifest = library.manifest();
  ++parameterVersion;
  return team->run([&](int i) {
    LocalRank &rank = *ranks[i];
    for (std::size_t p = 0; p != manifest.params.size(); ++p) {
      const Param &param = manifest.params[p];
      optimus_support::initializeShard(param.init, seed, param.layout,
                                       manifest.mesh, rank.context.rank,
                                       rank.params[p]);
      for (auto &[kind, tensors] : rank.states)
        std::fill_n(tensors[p], param.state.numLocalElements(), 0.0f);
    }
    parametersChanged(rank);
    return okStatus();
  });
}

StatusOr<int64_t> Session::perturb(uint64_t seed) {
  const Manifest &manifest = library.manifest();
  ++parameterVersion;
  std::vector<std::atomic<bool>> moved(manifest.params.size());
  OPTRT_RETURN_IF_ERROR(team->run([&](int i) {
    LocalRank &rank = *ranks[i];
    for (std::size_t p = 0; p != manifest.params.size(); ++p)
      if (optimus_support::perturbShard(
              seed, static_cast<uint32_t>(p), manifest.params[p].layout,
              manifest.mesh, rank.context.rank, rank.params[p]))
        moved[p] = true;
    parametersChanged(rank);
    return okStatus();
  }));
  return std::count(moved.begin(), moved.end(), true);
}

void Session::setScalar(Scalar scalar, float value) {
  for (const std::unique_ptr<LocalRank> &rank : ranks)
    rank->scalars[static_cast<int>(scalar)] = value;
}

void Session::setRandom(uint64_t seed, int64_t step, uint32_t microbatch) {
  for (const std::unique_ptr<LocalRank> &rank : ranks)
    rank->random = optimus_support::randomWords(seed, step, microbatch);
}

void Session::clearSums() {
  const std::vector<Param> &params = library.manifest().params;
  for (const std::unique_ptr<LocalRank> &rank : ranks) {
    rank->outputs = {};
    for (std::size_t p = 0; p != rank->grads.size(); ++p)
      std::fill_n(rank->grads[p], params[p].layout.numLocalElements(), 0.0f);
  }
}

Status Session::fill(const FillRows &fill) {
  const Manifest &manifest = library.manifest();
  const int64_t sequence = manifest.sequence;
  // Ranks that follow one another often have the same rows, and so do tokens
  // and targets of a rank.
  int64_t readBegin = 0, readRows = 0;
  auto cut = [&](int64_t rank, const ShardLayout &layout,
                 const std::vector<int32_t> &from, int32_t padding,
                 int32_t *to) -> Status {
    auto begin = [&](int dim) {
      return manifest.mesh.combinedIndex(rank, layout.axes[dim]) *
             layout.localShape[dim];
    };
    const int64_t rows = layout.localShape[0], columns = layout.localShape[1];
    if (begin(0) != readBegin || rows != readRows) {
      rowTokens.resize(rows * sequence);
      rowTargets.resize(rows * sequence);
      readRows = 0;
      OPTRT_RETURN_IF_ERROR(
          fill(begin(0), rows, rowTokens.data(), rowTargets.data()));
      readBegin = begin(0);
      readRows = rows;
    }
    int64_t first = begin(1);
    int64_t real = std::clamp<int64_t>(sequence - first, 0, columns);
    for (int64_t row = 0; row != rows; ++row) {
      std::copy_n(from.data() + row * sequence + (real ? first : 0), real,
                  to + row * columns);
      std::fill_n(to + row * columns + real, columns - real, padding);
    }
    return okStatus();
  };
  for (const std::unique_ptr<LocalRank> &rank : ranks) {
    int64_t r = rank->context.rank;
    OPTRT_RETURN_IF_ERROR(
        cut(r, manifest.tokens, rowTokens, /*padding=*/0, rank->tokens));
    OPTRT_RETURN_IF_ERROR(
        cut(r, manifest.targets, rowTargets, /*padding=*/-1, rank->targets));
  }
  return okStatus();
}

StatusOr<StepOutputs> Session::run(std::string_view name) {
  const Function &described = *library.manifest().findFunction(name);
  // Every optimizer has a learning rate.
  bool updates = std::any_of(
      described.args.begin(), described.args.end(), [](const Arg &arg) {
        return arg.kind == ArgKind::Scalar && arg.scalar == Scalar::Lr;
      });
  if (updates)
    ++parameterVersion;
  Status status = team->run([&](int i) -> Status {
    LocalRank &rank = *ranks[i];
    rank.context.resetCounters();
    OPTRT_RETURN_IF_ERROR(
        rank.programs.find(name)->second.run(rank.context));
    OPTRT_RETURN_IF_ERROR(rank.context.device->synchronize());
    if (updates)
      parametersChanged(rank);
    return okStatus();
  });
  broken |= !status.ok();
  OPTRT_RETURN_IF_ERROR(status);
  const std::array<float, kNumOutputs> &outputs = ranks[0]->outputs;
  return StepOutputs{outputs[static_cast<int>(Output::LossSum)],
                     outputs[static_cast<int>(Output::RealCount)],
                     outputs[static_cast<int>(Output::GradNorm)]};
}

StatusOr<std::vector<Traffic>> Session::trafficOfLastRun() {
  const Mesh &mesh = library.manifest().mesh;
  std::ostringstream own;
  for (const std::unique_ptr<LocalRank> &rank : ranks)
    for (const Traffic &traffic : rank->context.traffic)
      own << traffic.bytes << ' ' << traffic.messages << ' ';
  std::string all;
  for (const std::string &text : world.allGather(own.str()))
    all += text;
  std::istringstream numbers(all);
  std::vector<Traffic> total(mesh.numAxes());
  for (int rank = 0; rank != world.size(); ++rank)
    for (int axis = 0; axis != mesh.numAxes(); ++axis) {
      Traffic one;
      numbers >> one.bytes >> one.messages;
      total[axis].bytes += one.bytes;
      if (rank == 0)
        total[axis].messages = one.messages;
      if (one.messages != total[axis].messages)
        return internal(concat("rank ", rank, " started ", one.messages,
                               " collectives on mesh axis ",
                               mesh.axes()[axis].name, ", rank 0 started ",
                               total[axis].messages));
    }
  return total;
}

SlowestRank Session::communicationTimeOfLastRun() {
  const std::size_t entries = library.manifest().mesh.numAxes() + 1;
  std::ostringstream own;
  for (const std::unique_ptr<LocalRank> &rank : ranks)
    for (const CommunicationTime &time : rank->context.communicationTimes())
      own << time.inFlight << ' ' << time.exposed << ' ';
  std::string all;
  for (const std::string &text : world.allGather(own.str()))
    all += text;
  std::istringstream numbers(all);
  SlowestRank slowest;
  for (int rank = 0; rank != world.size(); ++rank) {
    std::vector<CommunicationTime> times(entries);
    for (CommunicationTime &time : times)
      numbers >> time.inFlight >> time.exposed;
    if (rank != 0 && times.back().exposed <= slowest.total.exposed)
      continue;
    slowest.rank = rank;
    slowest.total = times.back();
    times.pop_back();
    slowest.axes = std::move(times);
  }
  return slowest;
}

Status Session::checkTraffic(std::string_view name) {
  const Mesh &mesh = library.manifest().mesh;
  OPTRT_ASSIGN_OR_RETURN(std::vector<Traffic> counted, trafficOfLastRun());
  std::vector<Traffic> predicted(mesh.numAxes());
  for (const AxisTraffic &axis :
       library.manifest().findFunction(name)->communication)
    predicted[axis.axis] = {axis.bytes, axis.messages};
  for (int axis = 0; axis != mesh.numAxes(); ++axis) {
    // The manifest lists axes with more than one rank only.
    if (mesh.axisSize(axis) == 1)
      continue;
    if (counted[axis].bytes != predicted[axis].bytes ||
        counted[axis].messages != predicted[axis].messages)
      return internal(concat(
          name, " communicated ", counted[axis].bytes, " bytes in ",
          counted[axis].messages, " messages on mesh axis ",
          mesh.axes()[axis].name, ", but the manifest predicts ",
          predicted[axis].bytes, " bytes in ", predicted[axis].messages));
  }
  return okStatus();
}

RankMemory Session::largestRankMemory() {
  RankMemory largest;
  auto consider = [&](const RankMemory &memory) {
    if (memory.total() > largest.total())
      largest = memory;
  };
  for (const std::unique_ptr<LocalRank> &rank : ranks) {
    RankMemory memory = rank->memory;
    memory.device = static_cast<int64_t>(rank->context.device->scratchBytes());
    consider(memory);
  }
  std::ostringstream own;
  own << largest.parameters << ' ' << largest.moments << ' '
      << largest.gradients << ' ' << largest.inputs << ' ' << largest.arena
      << ' ' << largest.device;
  for (const std::string &text : world.allGather(own.str())) {
    std::istringstream numbers(text);
    RankMemory memory;
    numbers >> memory.parameters >> memory.moments >> memory.gradients >>
        memory.inputs >> memory.arena >> memory.device;
    consider(memory);
  }
  return largest;
}

} // namespace optrt
