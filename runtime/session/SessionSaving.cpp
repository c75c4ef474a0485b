//===- SessionSaving.cpp - Saving a session -------------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SessionSaving.h"

#include "LocalRank.h"
#include "ShardExchange.h"
#include "SlabFlow.h"
#include "base/Thread.h"
#include "optimus-runtime/Exception.h"
#include "optimus-runtime/RankTeam.h"
#include "optimus-support/ResourceLimits.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>
#include <string_view>
#include <sys/resource.h>
#include <unistd.h>
#include <unordered_map>
#include <utility>

namespace optrt {

//===----------------------------------------------------------------------===//
// A checkpoint that is being written
//===----------------------------------------------------------------------===//

Session::Saving::~Saving() {
  mustStop = true;
  hurry();
  (void)join();
}

std::optional<Session::Saving::Piece> Session::Saving::takePiece() {
  std::lock_guard guard(mutex);
  if (numTaken == ownPieces().size())
    return std::nullopt;
  const std::size_t piece = ownPieces()[numTaken++];
  const std::size_t count = writer->pieces()[piece].numElements();
  const Piece taken{piece, snapshot.first(count)};
  snapshot = snapshot.subspan(count);
  return taken;
}

Status Session::Saving::write() {
  WritingPace::Turn turn(*pace);
  while (std::optional<Piece> taken = takePiece()) {
    PieceWriter piece(*writer, taken->piece);
    for (std::span<const float> left = taken->elements; !left.empty();) {
      turn.wait();
      if (mustStop)
        return unavailable("the checkpoint was given up");
      const std::size_t count =
          std::min(left.size(), std::size_t(kSlabElements));
      OPTRT_RETURN_IF_ERROR(piece.append(left.first(count)));
      left = left.subspan(count);
    }
    if (++numWritten == ownPieces().size())
      return writer->sync();
  }
  return okStatus();
}

Status Session::Saving::start(std::size_t count, std::function<Status()> work) {
  running = count;
  auto body = [this, work = std::move(work)] {
    // Beside steps, whoever has to compute goes first. Between them another
    // process's rank may want this core while it waits for this process.
    constexpr int kNicer = 10;
    if (isBeside)
      setpriority(PRIO_PROCESS, gettid(),
                  getpriority(PRIO_PROCESS, 0) + kNicer);
    Status status;
    try {
      status = work();
    } catch (...) {
      status = statusOfException();
    }
    keep(std::move(status));
    --running;
  };
  while (threads.size() != count) {
    StatusOr<std::thread> thread =
        startThread("a thread that writes checkpoints", body);
    if (!thread.ok()) {
      running -= count - threads.size();
      return thread.status();
    }
    threads.push_back(std::move(*thread));
  }
  return okStatus();
}

void Session::Saving::keep(Status status) {
  std::lock_guard guard(mutex);
  keepFirst(outcome, std::move(status));
  mustStop = mustStop || !outcome.ok();
}

Status Session::Saving::join() {
  for (std::thread &thread : threads)
    thread.join();
  threads.clear();
  return std::exchange(outcome, okStatus());
}

void Session::Saving::writeBehind(int most, bool beside) {
  const std::size_t count = std::min(std::size_t(most), ownPieces().size());
  isBeside = beside;
  pace.emplace(count, isBeside);
  lastStep = Clock::now();
  keep(start(count, [this] { return write(); }));
}

/// Of the root. It deletes the old checkpoint, too.
Status Session::Saving::startCommit() {
  pace.emplace(/*threads=*/1, isBeside);
  Status started = start(1, [this] {
    WritingPace::Turn turn(*pace);
    return commit();
  });
  if (started.ok())
    giveTime();
  return started;
}

/// Gives threads the cores for a share of a step's time: of the shortest until
/// now, since another one may have had an evaluation beside it.
void Session::Saving::giveTime() {
  constexpr double kShare = 0.06;
  pace->give(
      std::chrono::duration_cast<WritingPace::Duration>(kShare * shortestStep));
}

/// Tells the root the checksums of the pieces that others have written.
void Session::Saving::gatherChecksums() {
  std::string own;
  if (!control.isRoot())
    for (std::size_t piece : ownPieces()) {
      const uint64_t checksum = writer->checksum(piece);
      own.append(reinterpret_cast<const char *>(&checksum), sizeof(checksum));
    }
  const std::vector<std::string> all = control.allGather(own);
  if (!control.isRoot())
    return;
  for (std::size_t process = 1; process != all.size(); ++process)
    for (std::size_t i = 0; i != lists[process].size(); ++i) {
      uint64_t checksum = 0;
      std::memcpy(&checksum, &all[process][i * sizeof(checksum)],
                  sizeof(checksum));
      writer->setChecksum(lists[process][i], checksum);
    }
}

StatusOr<bool> Session::Saving::poll() {
  shortestStep = std::min(shortestStep, Clock::now() - lastStep);
  StatusOr<bool> over = goOn();
  lastStep = Clock::now();
  return over;
}

StatusOr<bool> Session::Saving::goOn() {
  // As of the step: the commit deletes the old checkpoint, and so comes after
  // another step than the last writing.
  const char own = running > 0 ? 'w' : outcome.ok() ? 'd' : 'f';
  if (running > 0 && !isCommitting)
    giveTime();
  bool allDone = true, someFailed = false;
  for (const std::string &one : control.allGather(std::string(1, own))) {
    allDone &= one == "d";
    someFailed |= one == "f";
  }
  if (someFailed) {
    mustStop = true;
    OPTRT_RETURN_IF_ERROR(finish());
    return true;
  }
  if (!allDone)
    return false;
  if (isCommitting)
    return true;
  gatherChecksums();
  isCommitting = true;
  OPTRT_RETURN_IF_ERROR(join());
  Status started = control.isRoot() ? startCommit() : okStatus();
  OPTRT_RETURN_IF_ERROR(control.agree(started));
  return false;
}

Status Session::Saving::finish(Status written) {
  hurry();
  keepFirst(written, join());
  OPTRT_RETURN_IF_ERROR(control.agree(written));
  if (isCommitting)
    return okStatus();
  gatherChecksums();
  return control.agree(commit());
}

//===----------------------------------------------------------------------===//
// What a session saves
//===----------------------------------------------------------------------===//

/// The processes that see the root's hidden folder: they have its files open.
/// The failure of a process with no writer prepared, in all of them.
/// Collective.
static StatusOr<std::vector<int>>
findWriters(ControlPlane &control, const std::string &dir, bool isAlone,
            const Status &prepared, CheckpointWriter &writer) {
  // Ranks stand still meanwhile, so that one round tells both.
  std::string own = ControlPlane::encode(prepared);
  if (control.isRoot() && prepared.ok())
    own = writer.folder();
  const std::vector<std::string> told = control.allGather(own);
  const std::string &folder = told[0];
  // The name of a hidden folder begins with a dot, a failure with its code.
  for (const std::string &text : told)
    if (!text.starts_with('.'))
      OPTRT_RETURN_IF_ERROR(ControlPlane::decode(text));
  const bool sees = control.isRoot() || (!isAlone && writer.join(dir, folder));
  std::vector<int> writers;
  const std::vector<std::string> all = control.allGather(sees ? "sees" : "");
  for (std::size_t process = 0; process != all.size(); ++process)
    if (!all[process].empty())
      writers.push_back(static_cast<int>(process));
  return writers;
}

PieceSlabs Session::slabsOf(const CheckpointPieces &pieces) const {
  return PieceSlabs(pieces, membersOf(manifest(), pieces, [&](int64_t index) {
                      return isHeld(index);
                    }));
}

/// Whether a checkpoint in `dir` leaves out what lies in the base. Collective.
bool Session::savesAdaptersAlone(const std::string &dir) {
  const std::vector<std::string> trained = manifest().trainedParameters();
  if (manifest().adapter.empty() || trained.empty() ||
      !std::ranges::all_of(trained, isAdapterTensor))
    return false;
  std::error_code error;
  const bool keepsBase =
      saveFormat.base &&
      !std::filesystem::equivalent(saveFormat.base->folder, dir, error);
  return !control.allGather(keepsBase ? "alone" : "")[0].empty();
}

/// Of the root's process.
Status Session::addCompanions(CheckpointWriter &writer, const std::string &dir,
                              bool adaptersAlone) const {
  const std::string &config = manifest().config;
  const std::string base = adaptersAlone ? saveFormat.base->folder : dir;
  if (!config.empty() && !adaptersAlone)
    OPTRT_RETURN_IF_ERROR(writer.addFile({kConfigFile, config}));
  auto isBeside = [&](const std::string &name) {
    std::error_code error;
    return adaptersAlone && std::filesystem::exists(base + "/" + name, error);
  };
  for (const CompanionFile &file : saveFormat.companions)
    if (file.name != kAdapterConfigFile && !isBeside(file.name) &&
        (file.name != kConfigFile || config.empty()))
      OPTRT_RETURN_IF_ERROR(writer.addFile(file));
  const std::string &adapter = manifest().adapter;
  if (adapter.empty())
    return okStatus();
  return writer.addFile({kAdapterConfigFile, withBaseModel(adapter, base)});
}

/// Those of which the chosen functions use something.
Status Session::addTensors(CheckpointWriter &writer, bool adaptersAlone) const {
  std::set<std::string_view> used;
  for (std::size_t i = 0; i != manifest().buffers.size(); ++i) {
    const Buffer &buffer = manifest().buffers[i];
    if (!buffer.saved)
      continue;
    if (isHeld(static_cast<int64_t>(i)))
      used.insert(buffer.saved->name);
    else if (buffer.saved->file == CheckpointFile::Model)
      return internal(concat("the chosen functions do not use ", buffer.name,
                             ", which a checkpoint must have"));
  }
  for (CheckpointFile file : {CheckpointFile::Model, CheckpointFile::Optimizer})
    for (const TensorInfo &tensor : manifest().savedTensors(file))
      if (used.contains(tensor.name) &&
          !(adaptersAlone && file == CheckpointFile::Model &&
            !isAdapterTensor(tensor.name)))
        OPTRT_RETURN_IF_ERROR(
            writer.addTensor(file, tensor.name, tensor.shape));
  return okStatus();
}

/// Declares the tensors, and shares their pieces out over the processes that
/// see the folder.
StatusOr<std::unique_ptr<Session::Saving>>
Session::prepareSave(const std::string &dir, TrainingState state,
                     SaveOptions options) {
  OPTRT_RETURN_IF_ERROR(checkIdle("a checkpoint was saved"));
  OPTRT_RETURN_IF_ERROR(finishCarried());
  state.modelHash = manifest().modelHash;
  state.model = manifest().record();
  state.trained = manifest().trainedParameters();
  CheckpointWriterOptions format;
  format.modelType = saveFormat.modelType;
  format.shardLimitBytes = saveFormat.shardLimitBytes;
  auto writer = std::make_unique<CheckpointWriter>(format);
  const bool adaptersAlone = savesAdaptersAlone(dir);
  // The root's is written.
  if (adaptersAlone && control.isRoot())
    state.base = saveFormat.base->hash;
  auto prepare = [&]() -> Status {
    if (control.isRoot()) {
      OPTRT_ASSIGN_OR_RETURN(writer, CheckpointWriter::create(dir, format));
      OPTRT_RETURN_IF_ERROR(addCompanions(*writer, dir, adaptersAlone));
    }
    OPTRT_RETURN_IF_ERROR(addTensors(*writer, adaptersAlone));
    return control.isRoot() ? writer->begin() : writer->layOut();
  };
  // It may make another writer: compilers evaluate arguments in any order.
  const Status prepared = prepare();
  OPTRT_ASSIGN_OR_RETURN(
      const std::vector<int> writers,
      findWriters(control, dir, options.isAlone, prepared, *writer));
  ShardExchange exchange = exchangeOfShards();
  std::vector<PieceList> lists(exchange.numProcesses());
  shareOut(exchange, slabsOf(writer->pieces()), writers,
           allPieces(writer->pieces()), lists);
  spreadOut(lists, options.isAlone ? 1 : control.numLocalRanks());
  return std::make_unique<Saving>(control, std::move(writer), std::move(lists),
                                  std::move(state));
}

/// Written by this process alone, whose ranks are threads.
static Status writeHere(const PieceList &pieces, const PieceSlabs &slabs,
                        ShardExchange &exchange, CheckpointWriter &file,
                        RankTeam *team) {
  auto write = [&](std::size_t piece) {
    PieceWriter writer(file, piece);
    return slabs.forEach(
        piece, [&](const Slab &slab, std::span<float> elements) {
          OPTRT_RETURN_IF_ERROR(exchange.collectHere(slab, elements));
          return writer.append(elements);
        });
  };
  if (team)
    return onEachPiece(*team, /*threadsOfRank=*/1, pieces, write);
  for (std::size_t piece : pieces)
    OPTRT_RETURN_IF_ERROR(write(piece));
  return okStatus();
}

/// Written by several processes. Collective.
static Status writeTogether(const std::vector<PieceList> &lists,
                            const PieceSlabs &slabs, ShardExchange &exchange,
                            CheckpointWriter &file, ControlPlane &control) {
  constexpr SlabFlow::Keeps kKeeps = SlabFlow::Keeps::SomeSlabs;
  OPTRT_ASSIGN_OR_RETURN(
      std::unique_ptr<SharedRegions> regions,
      SharedRegions::create(
          control, SlabFlow::regionBytes(file.pieces(), lists, kKeeps)));
  std::optional<PieceWriter> writer;
  return SlabFlow(exchange, slabs, lists, *regions, kKeeps)
      .run([&](std::size_t piece, std::span<const float> slab) {
        if (!writer || writer->numLeft() == 0)
          writer.emplace(file, piece);
        return writer->append(slab);
      });
}

Status Session::save(const std::string &dir, TrainingState state,
                     SaveOptions options) {
  OPTRT_RETURN_IF_ERROR(finishSave());
  OPTRT_ASSIGN_OR_RETURN(std::unique_ptr<Saving> made,
                         prepareSave(dir, std::move(state), options));
  ShardExchange exchange = exchangeOfShards();
  const PieceSlabs slabs = slabsOf(made->file().pieces());
  Status written =
      exchange.numProcesses() == 1
          ? writeHere(made->ownPieces(), slabs, exchange, made->file(),
                      options.isAlone ? nullptr : team.get())
          : writeTogether(made->pieces(), slabs, exchange, made->file(),
                          control);
  if (written.ok() && !made->ownPieces().empty())
    written = made->file().sync();
  return made->finish(written);
}

//===----------------------------------------------------------------------===//
// Behind steps
//===----------------------------------------------------------------------===//

/// Puts this process's pieces, and those of the others with them, into its
/// memory. Collective.
Status Session::takeSnapshot(Saving &made) {
  constexpr SlabFlow::Keeps kKeeps = SlabFlow::Keeps::All;
  const CheckpointPieces &pieces = made.file().pieces();
  const std::vector<std::size_t> bytes =
      SlabFlow::regionBytes(pieces, made.pieces(), kKeeps);
  // Who sees the folder may have changed.
  if (!snapshot || !std::ranges::equal(bytes, snapshot->sizes(),
                                       std::ranges::less_equal())) {
    OPTRT_ASSIGN_OR_RETURN(snapshot, SharedRegions::create(control, bytes));
  }
  ShardExchange exchange = exchangeOfShards();
  exchange.fillForLater();
  const PieceSlabs slabs = slabsOf(pieces);
  SlabFlow flow(exchange, slabs, made.pieces(), *snapshot, kKeeps);
  made.readFrom(flow.kept());
  if (exchange.numProcesses() > 1)
    return flow.run();
  std::unordered_map<std::size_t, std::span<float>> memory;
  std::span<float> rest = flow.kept();
  for (std::size_t piece : made.ownPieces()) {
    const std::size_t count = pieces[piece].numElements();
    memory[piece] = rest.first(count);
    rest = rest.subspan(count);
  }
  return onEachPiece(
      *team, /*threadsOfRank=*/1, made.ownPieces(), [&](std::size_t piece) {
        return slabs.forEach(piece, memory.at(piece),
                             [&](const Slab &slab, std::span<float> elements) {
                               return exchange.collectHere(slab, elements);
                             });
      });
}

StatusOr<bool> Session::reserveSnapshot(const std::string &dir, bool mustFit) {
  OPTRT_ASSIGN_OR_RETURN(std::unique_ptr<Saving> probe,
                         prepareSave(dir, {}, {}));
  const std::size_t elements =
      numElements(probe->file().pieces(), probe->ownPieces());
  // Of all processes that share this one's memory.
  const optimus_support::ResourceLimits &limits =
      optimus_support::resourceLimits();
  const int64_t held = largestRankMemory().total() * control.numLocalRanks();
  const int64_t needed = int64_t(elements * sizeof(float));
  int64_t all = 0;
  const std::string card = concat(limits.machine, " ");
  for (const std::string &one : control.allGather(concat(card, held + needed)))
    if (one.starts_with(card))
      all += std::atoll(one.c_str() + card.size());
  // The rest is for what else a process needs, and the files in the page cache.
  constexpr double kMost = 0.8;
  bool fits = double(all) <= kMost * double(limits.memoryBytes);
  for (const std::string &one : control.allGather(fits ? "fits" : ""))
    fits &= !one.empty();
  if (!fits && !mustFit)
    return false;
  // Rehearsed, so that all pages are there and mapped: memory runs short before
  // the first step, and not in the middle of the run, and a snapshot takes no
  // longer than its copy.
  if (Status taken = control.agree(takeSnapshot(*probe)); !taken.ok())
    return std::move(taken).withContext("the snapshot of a checkpoint");
  snapshotBytes = needed;
  return true;
}

Status Session::beginSave(const std::string &dir, TrainingState state) {
  OPTRT_RETURN_IF_ERROR(finishSave());
  OPTRT_ASSIGN_OR_RETURN(std::unique_ptr<Saving> made,
                         prepareSave(dir, std::move(state), {}));
  OPTRT_RETURN_IF_ERROR(control.agree(takeSnapshot(*made)));
  // No process writes while another one still copies.
  const bool leavesCores =
      manifest().target != "cpu" || cores.ranks * threads < cores.cores;
  made->writeBehind(control.numLocalRanks() * (leavesCores ? 1 : threads),
                    leavesCores);
  saving = std::move(made);
  return okStatus();
}

StatusOr<bool> Session::pollSave() {
  if (!saving)
    return true;
  StatusOr<bool> over = saving->poll();
  if (!over.ok() || *over)
    saving.reset();
  return over;
}

Status Session::finishSave() {
  if (!saving)
    return okStatus();
  std::unique_ptr<Saving> last = std::move(saving);
  return last->finish();
}

} // namespace optrt
