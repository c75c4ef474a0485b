//===- SimulateLibrary.cpp - From a model library to an answer --*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SimulateLibrary.h"

#include "Changes.h"
#include "Collectives.h"
#include "Comparison.h"
#include "Interval.h"
#include "Output.h"
#include "ProfileOutput.h"
#include "Run.h"
#include "Sensitivity.h"
#include "Trials.h"

#include "optimus/Prices/OwnMachine.h"
#include "optimus/Prices/ReadMachineProfile.h"
#include "optimus/Simulation/Simulator.h"

#include "optimus-runtime/ModelLibrary.h"
#include "optimus-support/InputFile.h"
#include "optimus-support/NearestName.h"
#include "optimus-support/OutputFile.h"
#include "optimus-support/PathUse.h"
#include "optimus-support/ProgramPrinter.h"
#include "optimus-support/ProgramSequence.h"
#include "optimus-support/ScratchFolder.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <iostream>
#include <set>

using namespace optimus_simulate;
using namespace optimus_simulation;
using optimus_prices::MachineProfile;
using namespace optimus_support;
namespace program = optimus_support::program;
using nlohmann::ordered_json;
using optrt::ModelLibrary;

static bool isForGpu(const ModelLibrary &library) {
  return library.target().name == "cuda";
}

static Status checkLinks(const MachineProfile &machine, const std::string &name,
                         int64_t ranks) {
  if (!machine.tiers.empty() && machine.tiers.back().ranks < ranks)
    return invalidArgument(concat("--machine-profile: expected links for ",
                                  ranks, " ranks, found them for ",
                                  machine.tiers.back().ranks, " in '", name,
                                  "'"));
  return okStatus();
}

/// A profile as it is named; without a name and a cluster, of this machine,
/// whose file becomes the name, else the built-in one.
static StatusOr<MachineProfile> readMachine(const Arguments &arguments,
                                            std::string &name) {
  if (name.empty() && arguments.cluster.empty())
    if (auto own = optimus_prices::findOwnMachine([](const std::string &line) {
          std::cerr << "optimus-simulate: " << line << std::endl;
        })) {
      name = own->path;
      return std::move(own->profile);
    }
  auto loaded = optimus_prices::loadMachineProfile(name);
  if (!loaded.ok())
    return loaded.status().withContext("--machine-profile");
  if (name == optimus_prices::kNoProfile)
    name.clear();
  return loaded;
}

/// The profile of the machine; for GPUs there is one without being asked.
static StatusOr<MachineProfile>
loadMachine(const ModelLibrary &library, const Arguments &arguments,
            const std::optional<Cluster> &cluster, std::string &name) {
  const bool isGpu = isForGpu(library);
  if (name.empty() && cluster) {
    auto found = findDevices(*cluster, isGpu);
    if (!found.ok())
      return found.status().withContext(
          concat("cluster '", cluster->name, "'"));
    name = *std::move(found);
  }
  if (isGpu && (name.empty() || name == optimus_prices::kNoProfile))
    name = optimus_prices::kDefaultGpuProfile;
  OPTRT_ASSIGN_OR_RETURN(MachineProfile loaded, readMachine(arguments, name));
  if (!name.empty() && loaded.gpu.has_value() != isGpu)
    return invalidArgument(
        concat("--machine-profile: '", name, "' is of ",
               isGpu ? "processors, expected one of GPUs, as h100x8, for '"
                     : "GPUs, expected one of processors for '",
               library.path(), "', whose target is ", library.target().name));
  OPTRT_RETURN_IF_ERROR(
      checkLinks(loaded, name, library.manifest().mesh.numRanks()));
  return loaded;
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

/// That some table has the sequence.
static Status checkSequence(const ModelLibrary &library,
                            const std::string &name) {
  std::vector<std::string> names;
  std::string list;
  for (const auto &table : library.target().tables)
    for (const auto &sequence : table->sequences) {
      if (sequence->name == name)
        return okStatus();
      if (std::find(names.begin(), names.end(), sequence->name) != names.end())
        continue;
      names.push_back(sequence->name);
      list += (list.empty() ? "" : ", ") + sequence->name;
    }
  return invalidArgument(concat("--sequence: `", library.path(),
                                "` has no sequence `", name, "`",
                                didYouMean(name, names, '`'), "; there are ",
                                list.empty() ? "none" : list));
}

/// Ranks of a table without it make no call.
static std::vector<CallList> listCalls(const ModelLibrary &library,
                                       const std::string &name,
                                       int64_t microbatches) {
  std::vector<CallList> calls;
  for (const auto &table : library.target().tables) {
    CallList &list = calls.emplace_back();
    if (const auto *sequence = program::findSequence(*table, name))
      for (const auto &call : program::callsOf(*sequence, microbatches))
        list.push_back(call.call->function);
  }
  return calls;
}

static Answer describeSequence(const ModelLibrary &library,
                               const std::string &name, int64_t microbatches) {
  Answer answer;
  answer.name = name;
  answer.calls = listCalls(library, name, microbatches);
  return answer;
}

static Answer describeFunction(const ModelLibrary &library,
                               const std::string &name) {
  Answer answer;
  answer.name = name;
  for (const auto &table : library.target().tables)
    answer.calls.push_back(program::findFunction(*table, name) ? CallList{name}
                                                               : CallList());
  return answer;
}

/// Of a library without sequences: a function of the kind `train`, else the
/// first of another kind than `prepare`.
static const std::string &chooseFunction(const ModelLibrary &library) {
  const std::vector<optrt::Function> &functions = library.manifest().functions;
  auto find = [&](auto isWanted) {
    return std::find_if(functions.begin(), functions.end(), isWanted);
  };
  auto found = find([](const optrt::Function &one) {
    return one.kind == optrt::EntryKind::Train;
  });
  if (found == functions.end())
    found = find([](const optrt::Function &one) {
      return one.kind != optrt::EntryKind::Prepare;
    });
  return found == functions.end() ? functions.front().name : found->name;
}

/// What is simulated: a call, a sequence, or a step of training.
static StatusOr<Answer> chooseCalls(const ModelLibrary &library,
                                    const Arguments &arguments) {
  if (!arguments.function.empty()) {
    auto function = library.manifest().findFunctionOrKind(library.path(),
                                                          arguments.function);
    if (!function.ok())
      return function.status().withContext("--function");
    return describeFunction(library, (*function)->name);
  }
  std::string name = arguments.sequence;
  if (name.empty())
    name = arguments.microbatches > 1 ? "train_microbatches" : "train";
  Status found = checkSequence(library, name);
  if (!found.ok() && arguments.sequence.empty() && arguments.microbatches == 1)
    return describeFunction(library, chooseFunction(library));
  OPTRT_RETURN_IF_ERROR(found);
  if (arguments.microbatches > 1 &&
      listCalls(library, name, 1) ==
          listCalls(library, name, arguments.microbatches))
    return invalidArgument(concat("--microbatches: the sequence `", name,
                                  "` repeats nothing as often as a step has "
                                  "microbatches; give --sequence alone"));
  return describeSequence(library, name, arguments.microbatches);
}

/// Tokens of the calls with a batch, whichever ranks make them.
static int64_t countTokens(const ModelLibrary &library,
                           const std::vector<CallList> &calls) {
  int64_t most = 0;
  for (const CallList &list : calls) {
    int64_t tokens = 0;
    for (const std::string &call : list)
      if (const auto *function = library.manifest().findFunction(call))
        tokens += function->batch * function->sequence;
    most = std::max(most, tokens);
  }
  return most;
}

/// What a scaling may be meant for.
static std::vector<std::string> listNames(const ModelLibrary &library) {
  std::vector<std::string> names;
  for (const auto &table : library.target().tables) {
    names.insert(names.end(), table->texts.begin(), table->texts.end());
    for (const auto &function : table->functions)
      for (const auto &command : function->commands)
        names.push_back(program::describeAction(library.target(), *command));
  }
  return names;
}

static Status checkMatches(const ModelLibrary &library,
                           const TimedProgram &timed) {
  for (const Match &match : timed.getMatches())
    if (match.count == 0)
      return invalidArgument(concat(
          match.origin, ": no ", match.needed, " of `", library.path(),
          "` with a path, kind, kernel or collective that matches '",
          match.pattern, "'", didYouMean(match.pattern, listNames(library))));
  return okStatus();
}

/// With its placement. Nothing where ranks have links of their own.
static StatusOr<std::optional<Cluster>>
readCluster(const Arguments &arguments) {
  std::optional<Cluster> cluster;
  if (!arguments.cluster.empty()) {
    auto loaded = loadCluster(arguments.cluster);
    if (!loaded.ok())
      return loaded.status().withContext("--cluster");
    cluster = *std::move(loaded);
  }
  if (arguments.placement.empty())
    return cluster;
  if (!cluster)
    return invalidArgument("--placement: expected --cluster beside it");
  auto tile = parseTile(arguments.placement);
  if (!tile.ok())
    return tile.status().withContext("--placement");
  cluster->tile = *std::move(tile);
  cluster->devices.clear();
  return cluster;
}

/// The part of the mesh on a node for which a library was laid out; empty where
/// those ranks are no part.
static Tile findTile(const optrt::Manifest &manifest) {
  const optimus_support::Mesh &mesh = manifest.mesh;
  Tile tile;
  for (const optimus_support::MeshAxis &axis : mesh.axes())
    tile.emplace_back(axis.name, 1);
  int64_t ranks = 0, inTile = 1;
  // The first node has the first rank.
  for (size_t rank = 0; rank != manifest.nodes.size(); ++rank) {
    if (manifest.nodes[rank] != 0)
      continue;
    ++ranks;
    for (int axis = 0; axis != mesh.numAxes(); ++axis)
      tile[axis].second =
          std::max(tile[axis].second, mesh.coordinate(int64_t(rank), axis) + 1);
  }
  for (const auto &[axis, extent] : tile)
    inTile *= extent;
  return ranks == inTile ? tile : Tile();
}

/// A cluster for a library, with the library's placement where nothing else is
/// said and no other part of the mesh fills a node better.
static StatusOr<std::optional<Cluster>>
readClusterOf(const optrt::Manifest &manifest, const Arguments &arguments) {
  OPTRT_ASSIGN_OR_RETURN(std::optional<Cluster> cluster,
                         readCluster(arguments));
  if (cluster && cluster->tile.empty() && cluster->devices.empty() &&
      !manifest.nodes.empty()) {
    const std::vector<Tile> tiles = listTiles(*cluster, manifest.mesh);
    if (Tile own = findTile(manifest); std::ranges::count(tiles, own))
      cluster->tile = std::move(own);
  }
  return cluster;
}

/// Nothing where no failures are asked for.
static StatusOr<std::optional<Failures>>
readFailures(const Arguments &arguments) {
  if (arguments.failures.empty())
    return std::optional<Failures>();
  auto failures = parseFailures(arguments.failures);
  if (!failures.ok())
    return failures.status().withContext("--fail");
  return std::optional(*failures);
}

/// The machine with other devices, where a change says so.
static StatusOr<MachineProfile> changeDevice(MachineProfile machine,
                                             const WhatIf &whatIf,
                                             const ModelLibrary &library) {
  if (whatIf.device.empty())
    return machine;
  auto other = optimus_prices::loadMachineProfile(whatIf.device);
  if (!other.ok())
    return other.status().withContext(whatIf.deviceOrigin);
  if (other->gpu.has_value() != isForGpu(library))
    return invalidArgument(
        concat(whatIf.deviceOrigin, ": expected a profile of ",
               isForGpu(library) ? "GPUs" : "processors", " for '",
               library.path(), "', found '", whatIf.device, "' of the other"));
  machine.computes = std::move(other->computes);
  machine.gpu = std::move(other->gpu);
  machine.hostLink = other->hostLink;
  machine.interference = std::move(other->interference);
  return machine;
}

/// The profile of a run; nothing where none is given.
static StatusOr<std::optional<optimus_prices::RunTimes>>
findRun(const Arguments &arguments, const ModelLibrary &library,
        const WhatIf &whatIf) {
  if (arguments.run.empty())
    return std::optional<optimus_prices::RunTimes>();
  if (!whatIf.device.empty())
    return invalidArgument("--run: expected no other device beside it, on "
                           "which nothing was measured");
  OPTRT_ASSIGN_OR_RETURN(auto run, readRun(arguments.run, library));
  return std::optional(std::move(run));
}

/// Of the ranks of each table one, and of those the one with the most.
static std::optional<Misfit> findMisfit(const ModelLibrary &library,
                                        const MachineProfile &machine,
                                        const Answer &answer) {
  std::optional<Misfit> worst;
  std::set<size_t> seen;
  for (int64_t rank = 0;
       machine.gpu && rank != library.manifest().mesh.numRanks(); ++rank) {
    if (!seen.insert(answer.timed->getTable(rank)).second)
      continue;
    RankMemory memory(library, answer.getCalls(rank), rank);
    const int64_t least =
        worst ? worst->memory.getTotal() : machine.gpu->getUsableBytes();
    if (memory.getTotal() > least)
      worst = Misfit{rank, machine.gpu->getUsableBytes(), std::move(memory)};
  }
  return worst;
}

/// Simulates what a library has.
static StatusOr<Answer> simulateAt(const std::string &path,
                                   const Arguments &arguments) {
  OPTRT_ASSIGN_OR_RETURN(std::unique_ptr<ModelLibrary> library,
                         ModelLibrary::open(path, ModelLibrary::Use::Inspect));
  OPTRT_ASSIGN_OR_RETURN(std::optional<Cluster> cluster,
                         readClusterOf(library->manifest(), arguments));
  std::string machineName = arguments.machineProfile;
  OPTRT_ASSIGN_OR_RETURN(
      MachineProfile machine,
      loadMachine(*library, arguments, cluster, machineName));
  if (cluster)
    takeMeasured(*cluster, machine);
  OPTRT_ASSIGN_OR_RETURN(
      WhatIf whatIf,
      readChanges(arguments, library->manifest().mesh.numRanks()));
  // By a flag or a line.
  if (arguments.slack && whatIf.overlap == Overlap::Perfect)
    return invalidArgument("--slack: expected no overlap perfect beside it, "
                           "where nothing waits for anything");
  OPTRT_ASSIGN_OR_RETURN(machine,
                         changeDevice(std::move(machine), whatIf, *library));
  OPTRT_ASSIGN_OR_RETURN(const auto run, findRun(arguments, *library, whatIf));
  const optimus_prices::RunTimes *known = run ? &*run : nullptr;
  OPTRT_ASSIGN_OR_RETURN(const std::optional<Failures> failures,
                         readFailures(arguments));
  OPTRT_ASSIGN_OR_RETURN(Answer answer, chooseCalls(*library, arguments));
  answer.timed = std::make_unique<TimedProgram>(
      library->programs(), library->target(), machine, whatIf, known);
  OPTRT_RETURN_IF_ERROR(checkMatches(*library, *answer.timed));
  OPTRT_ASSIGN_OR_RETURN(
      answer.simulation,
      simulateSteps(*answer.timed, answer.calls, whatIf,
                    {.cluster = cluster ? &*cluster : nullptr,
                     .everyMessage = arguments.messages == "every",
                     .record = !arguments.profile.empty(),
                     .slack = arguments.slack}));
  answer.library = library->path();
  answer.target = library->target().name;
  answer.machine = machineName;
  answer.cluster = arguments.cluster;
  auto resimulate = [&](const WhatIf &changed) {
    TimedProgram timed(library->programs(), library->target(), machine, changed,
                       known);
    return simulateSteps(timed, answer.calls, changed,
                         {.cluster = cluster ? &*cluster : nullptr,
                          .everyMessage = arguments.messages == "every"});
  };
  if (run) {
    answer.run = countRun(answer, arguments.run, run->getProfile());
    if (isRunOf(run->getProfile(), answer)) {
      answer.run->unchanged = answer.simulation.getStep();
      if (!whatIf.describe().empty()) {
        OPTRT_ASSIGN_OR_RETURN(const Simulation unchanged, resimulate({}));
        answer.run->unchanged = unchanged.getStep();
      }
    }
  }
  if (arguments.sensitivity) {
    OPTRT_ASSIGN_OR_RETURN(answer.gains, findGains(answer, whatIf, resimulate));
  }
  if (arguments.interval) {
    const auto residuals = optimus_prices::findResiduals(
        machine, library->manifest().mesh.numRanks());
    OPTRT_ASSIGN_OR_RETURN(answer.interval,
                           findInterval(answer, whatIf, residuals, resimulate));
  }
  answer.tokens = countTokens(*library, answer.calls);
  answer.whatIf = whatIf.describe();
  if (failures)
    answer.whatIf.push_back(failures->describe());
  answer.failures = failures;
  const int64_t slowest = answer.simulation.slowest;
  answer.memory.emplace(*library, answer.getCalls(slowest), slowest);
  answer.misfit = findMisfit(*library, machine, answer);
  answer.opened = std::move(library);
  return answer;
}

static Status checkFiles(const Arguments &arguments) {
  if (!arguments.json.empty())
    OPTRT_RETURN_IF_ERROR(checkOutput(arguments.json));
  const std::vector<PathUse> inputs{
      {arguments.trials.empty() ? "the library" : "the program",
       arguments.library},
      {"--machine-profile",
       optimus_prices::isKnownProfile(arguments.machineProfile) ||
               arguments.machineProfile == optimus_prices::kNoProfile
           ? ""
           : arguments.machineProfile},
      {"--cluster", arguments.cluster},
      {"--run", arguments.run},
      {"--what-if", arguments.whatIf}};
  if (!arguments.profile.empty())
    OPTRT_RETURN_IF_ERROR(checkOutput(arguments.profile));
  const std::vector<PathUse> outputs{{"--json", arguments.json},
                                     {"--profile", arguments.profile}};
  return checkOutputsApart(inputs, outputs);
}

static Status printKnownCluster(const std::string &name) {
  auto cluster = loadCluster(name);
  if (!cluster.ok())
    return cluster.status().withContext("--print-cluster");
  std::cout << printCluster(*std::move(cluster));
  return okStatus();
}

static Status writeJson(const Arguments &arguments, const ordered_json &json) {
  return arguments.json.empty()
             ? okStatus()
             : OutputFile::write(arguments.json, json.dump(2) + "\n");
}

static Status simulateTrials(const Arguments &arguments) {
  OPTRT_ASSIGN_OR_RETURN(std::unique_ptr<ScratchFolder> scratch,
                         ScratchFolder::create("optimus-simulate"));
  std::vector<Answer> answers;
  for (const std::string &flags : arguments.trials) {
    const std::string plan = scratch->file("program.plan");
    scratch->file("program.plan.log");
    OPTRT_RETURN_IF_ERROR(compilePlan(arguments, flags, plan));
    auto answer = simulateAt(plan, arguments);
    if (!answer.ok())
      return answer.status().withContext(concat("--try '", flags, "'"));
    answer->library = arguments.library;
    answers.push_back(*std::move(answer));
  }
  const Comparison comparison(arguments.trials, answers);
  OPTRT_RETURN_IF_ERROR(writeJson(arguments, comparison.describe()));
  if (!isStandardOutput(arguments.json))
    comparison.print(std::cout);
  return okStatus();
}

static Status simulateCollective(const Arguments &arguments) {
  std::string name = arguments.machineProfile;
  OPTRT_ASSIGN_OR_RETURN(const MachineProfile machine,
                         readMachine(arguments, name));
  OPTRT_RETURN_IF_ERROR(checkLinks(machine, name, arguments.ranks));
  OPTRT_ASSIGN_OR_RETURN(std::optional<Cluster> cluster,
                         readCluster(arguments));
  if (cluster)
    takeMeasured(*cluster, machine);
  OPTRT_ASSIGN_OR_RETURN(
      const CollectiveTimes times,
      CollectiveTimes::simulate(arguments, machine, name,
                                cluster ? &*cluster : nullptr));
  OPTRT_RETURN_IF_ERROR(writeJson(arguments, times.describe()));
  if (!isStandardOutput(arguments.json))
    times.print(std::cout);
  return okStatus();
}

Status optimus_simulate::simulateLibrary(const Arguments &arguments) {
  if (!arguments.printedCluster.empty())
    return printKnownCluster(arguments.printedCluster);
  OPTRT_RETURN_IF_ERROR(checkFiles(arguments));
  if (!arguments.collective.empty())
    return simulateCollective(arguments);
  if (!arguments.trials.empty())
    return simulateTrials(arguments);
  OPTRT_ASSIGN_OR_RETURN(const Answer answer,
                         simulateAt(arguments.library, arguments));
  if (!arguments.profile.empty())
    OPTRT_RETURN_IF_ERROR(writeProfile(answer, arguments.profile));
  OPTRT_RETURN_IF_ERROR(writeJson(arguments, describe(answer)));
  if (!isStandardOutput(arguments.json))
    print(answer, std::cout);
  return okStatus();
}
