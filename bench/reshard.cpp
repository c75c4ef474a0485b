//===- reshard.cpp - The memory of loading and saving ---------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Takes a model library's parameters and moments from a checkpoint, or draws
// them, writes a checkpoint, and prints as JSON what each process held before,
// at the peak and after. `bench/run reshard` drives it, also under mpirun.
//
//   optimus-bench-reshard MODEL.so [--load DIR] [--save DIR] [--seed S]
//                         [--rounds R] [--steps R] [--read]
//
// With --read it first reads the files of --load and nothing more, each process
// its share, and then makes f32 of as many bf16: `bench/run folder`.
//
// With --rounds it saves so often by the root's process alone, on one thread,
// and so often by all processes and threads side by side, in turn; then so
// often behind steps; and prints seconds: `bench/run saving`. With --steps it
// takes so many pairs of steps: one alone, and one with a checkpoint written
// behind it. Ranks may meet over TCP (OPTIMUS_RANK, OPTIMUS_RANKS,
// OPTIMUS_RENDEZVOUS).
//
// Linux keeps the peak of a process's resident memory (VmHWM) and sets it back
// when "5" is written to /proc/self/clear_refs: so each phase has its own.
//
//===----------------------------------------------------------------------===//

#include "checkpoint/WeightTypes.h"
#include "optimus-runtime/Checkpoint.h"
#include "optimus-runtime/ModelLibrary.h"
#include "optimus-runtime/Session.h"
#include "optimus-runtime/World.h"
#include "optimus-support/InputFile.h"
#include "optimus-support/NewFile.h"
#include "tooling/StepScalars.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <thread>
#include <vector>

using namespace optrt;
using nlohmann::json;
using Clock = std::chrono::steady_clock;

namespace {

/// The fields of /proc/self/status in bytes: VmHWM, RssAnon, ...
json residentMemory() {
  std::ifstream status("/proc/self/status");
  json fields;
  for (std::string line; std::getline(status, line);)
    for (const char *name :
         {"VmHWM", "VmRSS", "RssAnon", "RssFile", "RssShmem"})
      if (line.starts_with(std::string(name) + ":"))
        fields[name] = 1024 * std::atoll(line.c_str() + line.find(':') + 1);
  return fields;
}

/// The bytes that this process has read from files so far; messages do not
/// count.
int64_t bytesRead() {
  std::ifstream counters("/proc/self/io");
  int64_t bytes = 0;
  for (std::string name; counters >> name >> bytes;)
    if (name == "rchar:")
      break;
  return bytes;
}

/// A slab of bf16.
constexpr size_t kSlabBytes = 128 << 10;

struct Arguments {
  std::string library, load, save;
  uint64_t seed = 1;
  int rounds = 0, steps = 0;
  bool reads = false;
};

StatusOr<Arguments> parse(int argc, char **argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    std::string argument = argv[i];
    bool hasValue = i + 1 < argc;
    if (argument == "--load" && hasValue)
      arguments.load = argv[++i];
    else if (argument == "--save" && hasValue)
      arguments.save = argv[++i];
    else if (argument == "--seed" && hasValue)
      arguments.seed = std::strtoull(argv[++i], nullptr, 10);
    else if (argument == "--rounds" && hasValue)
      arguments.rounds = std::atoi(argv[++i]);
    else if (argument == "--steps" && hasValue)
      arguments.steps = std::atoi(argv[++i]);
    else if (argument == "--read")
      arguments.reads = true;
    else if (arguments.library.empty() && argument[0] != '-')
      arguments.library = argument;
    else
      return invalidArgument("unknown argument " + argument);
  }
  if (arguments.library.empty())
    return invalidArgument("expected a model library");
  return arguments;
}

/// Runs one phase and writes down what it took.
Status measure(json &phases, const char *name,
               const std::function<Status()> &phase) {
  std::ofstream("/proc/self/clear_refs") << "5";
  json before = residentMemory();
  const int64_t read = bytesRead();
  Clock::time_point start = Clock::now();
  OPTRT_RETURN_IF_ERROR(phase());
  double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  json after = residentMemory();
  phases[name] = {{"before", before},
                  {"after", after},
                  {"peak", after["VmHWM"]},
                  {"read", bytesRead() - read},
                  {"seconds", seconds}};
  return okStatus();
}

/// Visits this process's share of the bytes of a folder's tensor files, some at
/// a time.
Status readShare(const std::string &folder, const ControlPlane &control,
                 const std::function<void(std::span<const std::byte>)> &visit) {
  const size_t processes = control.size() / control.numLocalRanks();
  const size_t process = control.firstRank() / control.numLocalRanks();
  std::vector<std::byte> stored(kSlabBytes);
  for (const auto &entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".safetensors")
      continue;
    OPTRT_ASSIGN_OR_RETURN(optimus_support::InputFile file,
                           optimus_support::InputFile::open(
                               entry.path(), StatusCode::InvalidArgument));
    const size_t share = file.size() / processes, end = (process + 1) * share;
    for (size_t at = process * share; at < end; at += stored.size()) {
      const size_t count = std::min(stored.size(), end - at);
      OPTRT_RETURN_IF_ERROR(file.read(at, stored.data(), count));
      visit(std::span(stored).first(count));
    }
  }
  return okStatus();
}

/// What reading alone takes, and widening with nothing to read.
Status measureParts(const Arguments &arguments, ControlPlane &control,
                    json &phases) {
  if (!arguments.reads)
    return okStatus();
  size_t bytes = 0;
  auto count = [&](std::span<const std::byte> stored) {
    bytes += stored.size();
  };
  // The files may not be in memory yet.
  OPTRT_RETURN_IF_ERROR(
      control.agree(readShare(arguments.load, control, count)));
  OPTRT_RETURN_IF_ERROR(measure(phases, "read", [&] {
    return control.agree(readShare(arguments.load, control, count));
  }));
  return measure(phases, "widen", [&] {
    const std::vector<std::byte> stored(kSlabBytes);
    std::vector<float> elements(kSlabBytes / 2);
    for (size_t done = 0; done < bytes / 2; done += stored.size())
      widen(optimus_support::ElementType::BF16, stored, elements);
    return control.agree(okStatus());
  });
}

TrainingState stateOf(const Arguments &arguments) {
  TrainingState state;
  state.seed = arguments.seed;
  state.order = "sequential";
  return state;
}

/// Copies bytes on as many threads as this process has ranks.
void copy(const std::vector<char> &from, std::vector<char> &to, int threads) {
  std::vector<std::thread> copiers;
  const size_t share = from.size() / threads;
  for (int i = 0; i != threads; ++i)
    copiers.emplace_back([&, i] {
      std::memcpy(to.data() + i * share, from.data() + i * share, share);
    });
  for (std::thread &copier : copiers)
    copier.join();
}

/// Reserves and writes the pieces of as large files as a checkpoint's, and
/// nothing more: the most that any way of saving could do. Of `writers` this is
/// number `writer`, with a share in one stretch.
Status writePieces(const std::vector<std::pair<std::string, size_t>> &files,
                   int writer, int writers) {
  constexpr size_t kPiece = 4 << 20, kSlab = 256 << 10;
  const std::vector<char> slab(kSlab, 1);
  std::vector<std::pair<size_t, size_t>> pieces;
  std::vector<optimus_support::NewFile> opened;
  for (const auto &[path, bytes] : files) {
    OPTRT_ASSIGN_OR_RETURN(opened.emplace_back(),
                           optimus_support::NewFile::join(path));
    for (size_t begin = 0; begin < bytes; begin += kPiece)
      pieces.push_back({opened.size() - 1, begin});
  }
  const size_t end = pieces.size() * (writer + 1) / writers;
  for (size_t i = pieces.size() * writer / writers; i != end; ++i) {
    const auto &[file, begin] = pieces[i];
    const size_t bytes = std::min(kPiece, files[file].second - begin);
    OPTRT_RETURN_IF_ERROR(opened[file].reserve(begin, bytes));
    for (size_t at = 0; at < bytes; at += kSlab)
      OPTRT_RETURN_IF_ERROR(opened[file].write(begin + at, slab.data(),
                                               std::min(kSlab, bytes - at)));
  }
  return okStatus();
}

/// How long that takes by the root's process alone, on one thread, and by all
/// ranks.
Status compareBareWriters(const Arguments &arguments, World &world,
                          json &report) {
  ControlPlane &control = *world.control;
  std::vector<std::pair<std::string, size_t>> files;
  for (const auto &entry : std::filesystem::directory_iterator(arguments.save))
    if (entry.path().extension() == ".safetensors")
      files.push_back({arguments.save + "-" + entry.path().filename().string(),
                       entry.file_size()});
  std::ranges::sort(files);
  for (bool isAlone : {true, false}) {
    if (control.isRoot())
      for (const auto &[path, bytes] : files) {
        OPTRT_ASSIGN_OR_RETURN(optimus_support::NewFile file,
                               optimus_support::NewFile::create(path, 0));
        OPTRT_RETURN_IF_ERROR(file.resize(bytes));
      }
    OPTRT_RETURN_IF_ERROR(control.agree(okStatus()));
    const Clock::time_point start = Clock::now();
    std::vector<Status> written(isAlone ? 1 : control.numLocalRanks());
    std::vector<std::thread> threads;
    for (int i = 0; i != int(written.size()); ++i)
      if (!isAlone || control.isRoot())
        threads.emplace_back([&, i] {
          written[i] = isAlone ? writePieces(files, 0, 1)
                               : writePieces(files, control.firstRank() + i,
                                             control.size());
        });
    for (std::thread &thread : threads)
      thread.join();
    Status failure;
    for (Status &status : written)
      if (failure.ok())
        failure = std::move(status);
    OPTRT_RETURN_IF_ERROR(control.agree(failure));
    report[isAlone ? "bare alone" : "bare together"].push_back(
        std::chrono::duration<double>(Clock::now() - start).count());
    if (control.isRoot())
      for (const auto &[path, bytes] : files)
        std::filesystem::remove(path);
  }
  return okStatus();
}

/// How long saves take by one writer and by all, and writing alone; for how
/// long ranks stop for one that is written behind steps, and how long its bytes
/// take to be copied.
Status compareWriters(const Arguments &arguments, World &world,
                      Session &session, json &report) {
  for (int round = 0; round != arguments.rounds; ++round) {
    for (bool isAlone : {true, false}) {
      Clock::time_point start = Clock::now();
      OPTRT_RETURN_IF_ERROR(session.save(arguments.save, stateOf(arguments),
                                         {.isAlone = isAlone}));
      report[isAlone ? "alone" : "together"].push_back(
          std::chrono::duration<double>(Clock::now() - start).count());
    }
    OPTRT_RETURN_IF_ERROR(compareBareWriters(arguments, world, report));
  }
  if (arguments.rounds == 0)
    return okStatus();
  OPTRT_RETURN_IF_ERROR(
      session.reserveSnapshot(arguments.save, /*mustFit=*/true).status());
  const RankMemory memory = session.largestRankMemory();
  std::vector<char> from(memory.snapshot, 1), to(memory.snapshot, 2);
  for (int round = 0; round != arguments.rounds; ++round) {
    OPTRT_RETURN_IF_ERROR(world.control->agree(okStatus()));
    Clock::time_point start = Clock::now();
    OPTRT_RETURN_IF_ERROR(
        session.beginSave(arguments.save, stateOf(arguments)));
    report["stop"].push_back(
        std::chrono::duration<double>(Clock::now() - start).count());
    OPTRT_RETURN_IF_ERROR(session.finishSave());
    // As the stop, until the last process is done.
    OPTRT_RETURN_IF_ERROR(world.control->agree(okStatus()));
    start = Clock::now();
    copy(from, to, world.control->numLocalRanks());
    OPTRT_RETURN_IF_ERROR(world.control->agree(okStatus()));
    report["copy"].push_back(
        std::chrono::duration<double>(Clock::now() - start).count());
  }
  return okStatus();
}

/// The longest of the steps that run until a checkpoint behind them is in
/// place, the median, how many these are, and how long until it is; the same of
/// as many that run alone.
Status compareSteps(const Arguments &arguments, World &world, Session &session,
                    json &report) {
  if (arguments.steps == 0)
    return okStatus();
  OPTRT_RETURN_IF_ERROR(session.fill(
      [&](int64_t, int64_t rows, int32_t *tokens, int32_t *targets) {
        const int64_t words = rows * session.manifest().sequence;
        std::fill_n(tokens, words, 0);
        std::fill_n(targets, words, 0);
        return okStatus();
      }));
  int64_t number = 0;
  bool isOver = true;
  // As `train` does, with what it does for a checkpoint after a step.
  auto step = [&]() -> StatusOr<double> {
    setScalars(session, Hyperparameters(), ++number, /*lr=*/1e-4);
    OPTRT_RETURN_IF_ERROR(world.control->agree(okStatus()));
    const Clock::time_point start = Clock::now();
    OPTRT_RETURN_IF_ERROR(session.run("train_step").status());
    OPTRT_ASSIGN_OR_RETURN(isOver, session.pollSave());
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  OPTRT_RETURN_IF_ERROR(step().status());
  OPTRT_RETURN_IF_ERROR(
      session.reserveSnapshot(arguments.save, /*mustFit=*/true).status());
  for (int pair = 0; pair != arguments.steps; ++pair) {
    OPTRT_RETURN_IF_ERROR(
        session.beginSave(arguments.save, stateOf(arguments)));
    const Clock::time_point start = Clock::now();
    std::vector<double> during;
    do {
      OPTRT_ASSIGN_OR_RETURN(during.emplace_back(), step());
    } while (!isOver);
    report["written"].push_back(
        std::chrono::duration<double>(Clock::now() - start).count());
    std::vector<double> alone(during.size());
    for (double &seconds : alone) {
      OPTRT_ASSIGN_OR_RETURN(seconds, step());
    }
    report["steps"].push_back(during.size());
    for (std::vector<double> *steps : {&during, &alone})
      std::ranges::sort(*steps);
    report["during"].push_back(during.back());
    report["median during"].push_back(during[during.size() / 2]);
    report["without"].push_back(alone.back());
    report["step"].push_back(alone[alone.size() / 2]);
  }
  return okStatus();
}

Status run(const Arguments &arguments, World &world) {
  OPTRT_ASSIGN_OR_RETURN(std::unique_ptr<ModelLibrary> library,
                         ModelLibrary::open(arguments.library));
  const Manifest &manifest = library->manifest();
  SessionOptions options;
  options.functions = {manifest.findFunction("train_step")
                           ? "train_step"
                           : manifest.functions.front().name};
  options.threadsPerRank = 1;
  OPTRT_ASSIGN_OR_RETURN(std::unique_ptr<Session> session,
                         Session::create(*library, world, options));
  json phases;
  OPTRT_RETURN_IF_ERROR(measureParts(arguments, *world.control, phases));
  if (arguments.load.empty())
    OPTRT_RETURN_IF_ERROR(session->initialize(arguments.seed));
  else
    OPTRT_RETURN_IF_ERROR(measure(phases, "load", [&]() -> Status {
      OPTRT_ASSIGN_OR_RETURN(std::unique_ptr<Checkpoint> checkpoint,
                             openCheckpoint(*world.control, arguments.load));
      const ExpectedModel expected = expectedModel(manifest);
      if (checkpoint->hasWeightsAlone()) {
        OPTRT_RETURN_IF_ERROR(checkpoint->findParameters(expected, {}));
        return world.control->agree(
            session->loadParameters(*checkpoint, arguments.seed));
      }
      OPTRT_RETURN_IF_ERROR(checkpoint->findModel(expected));
      return world.control->agree(session->load(*checkpoint));
    }));
  if (!arguments.save.empty())
    OPTRT_RETURN_IF_ERROR(measure(phases, "save", [&] {
      return session->save(arguments.save, stateOf(arguments));
    }));
  json writers = json::object();
  OPTRT_RETURN_IF_ERROR(compareWriters(arguments, world, *session, writers));

  json steps = json::object();
  OPTRT_RETURN_IF_ERROR(compareSteps(arguments, world, *session, steps));

  RankMemory memory = session->largestRankMemory();
  json processes = json::array();
  for (const std::string &text : world.control->allGather(phases.dump()))
    processes.push_back(json::parse(text));
  if (world.control->isRoot())
    std::cout << json{{"ranks", world.control->size()},
                      {"model_bytes", 4 * manifest.numParamElements()},
                      {"parameters", memory.parameters},
                      {"state", memory.state},
                      {"arena", memory.arena},
                      {"rank_bytes", memory.total()},
                      {"writers", writers},
                      {"steps", steps},
                      {"processes", processes}}
              << std::endl;
  return okStatus();
}

StatusOr<World> joinJob() {
  if (startedByMpirun())
    return createMpiWorld();
  OPTRT_ASSIGN_OR_RETURN(Launcher launcher, findLauncher());
  if (launcher.isAlone())
    return createLocalWorld();
  bool isSaidElsewhere = false;
  return createTcpWorld(tcpJobOf(launcher), isSaidElsewhere);
}

} // namespace

int main(int argc, char **argv) {
  auto fail = [](const Status &status) {
    std::fprintf(stderr, "optimus-bench-reshard: error: %s\n",
                 status.message().c_str());
    return status.exitCode();
  };
  StatusOr<Arguments> arguments = parse(argc, argv);
  if (!arguments.ok())
    return fail(arguments.status());
  StatusOr<World> world = joinJob();
  if (!world.ok())
    return fail(world.status());
  Status status = run(*arguments, *world);
  if (status.ok())
    return 0;
  int code = fail(status);
  world->control->exitJob(code);
}
