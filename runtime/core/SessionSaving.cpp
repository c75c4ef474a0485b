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
#include "Thread.h"
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
  if (thread.joinable())
    thread.join();
}

Status Session::Saving::write(std::span<const float> snapshot) {
  for (std::size_t piece : ownPieces()) {
    PieceWriter pieceWriter(*writer, piece);
    while (std::size_t left = pieceWriter.numLeft()) {
      const std::size_t count = std::min(left, std::size_t(kSlabElements));
      OPTRT_RETURN_IF_ERROR(pieceWriter.append(snapshot.first(count)));
      snapshot = snapshot.subspan(count);
    }
    if (mustStop)
      return unavailable("the checkpoint was given up");
  }
  return ownPieces().empty() ? okStatus() : writer->sync();
}

Status Session::Saving::start(std::function<Status()> work) {
  isDone = false;
  OPTRT_ASSIGN_OR_RETURN(
      thread, startThread("the thread that writes checkpoints",
                          [this, work = std::move(work)] {
                            // A step waits for its slowest thread. This one
                            // gets a tenth of a core beside a rank, and all of
                            // an idle one.
                            constexpr int kNice = 10;
                            setpriority(PRIO_PROCESS, gettid(), kNice);
                            try {
                              outcome = work();
                            } catch (...) {
                              outcome = statusOfException();
                            }
                            isDone = true;
                          }));
  return okStatus();
}

Status Session::Saving::join() {
  if (thread.joinable())
    thread.join();
  return std::exchange(outcome, okStatus());
}

void Session::Saving::writeBehind(std::span<const float> snapshot) {
  Status started = start([this, snapshot] { return write(snapshot); });
  if (started.ok())
    return;
  outcome = std::move(started);
  isDone = true;
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
  const bool isOver = isDone;
  const char own = !isOver ? 'w' : outcome.ok() ? 'd' : 'f';
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
  Status started =
      control.isRoot() ? start([this] { return commit(); }) : okStatus();
  OPTRT_RETURN_IF_ERROR(control.agree(started));
  return false;
}

Status Session::Saving::finish(Status written) {
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
/// Collective.
static std::vector<int> findWriters(ControlPlane &control,
                                    const std::string &dir, bool isAlone,
                                    CheckpointWriter &writer) {
  const std::string folder =
      control.allGather(control.isRoot() ? writer.folder() : "")[0];
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
  OPTRT_RETURN_IF_ERROR(control.agree(prepare()));
  const std::vector<int> writers =
      findWriters(control, dir, options.isAlone, *writer);
  ShardExchange exchange = exchangeOfShards();
  std::vector<PieceList> lists(exchange.numProcesses());
  shareOut(exchange, slabsOf(writer->pieces()), writers,
           allPieces(writer->pieces()), lists);
  spreadOut(lists, options.isAlone ? 1 : control.numLocalRanks());
  return std::make_unique<Saving>(control, std::move(writer), std::move(lists),
                                  std::move(state));
}

/// On the caller's thread.
static Status onEach(const PieceList &pieces,
                     const std::function<Status(std::size_t)> &fn) {
  for (std::size_t piece : pieces)
    OPTRT_RETURN_IF_ERROR(fn(piece));
  return okStatus();
}

/// What becomes of a piece, from its first element to its last.
class Session::PieceSink {
public:
  virtual ~PieceSink() = default;
  /// Memory for the next elements, at most kSlabElements.
  virtual std::span<float> room(std::size_t count) = 0;
  /// Takes what was put there.
  virtual Status take() = 0;
};

Status Session::collectPieces(Saving &made, bool isAlone,
                              const MakeSink &makeSink) {
  ShardExchange exchange = exchangeOfShards();
  const int here = exchange.process();
  const PieceSlabs slabs = slabsOf(made.file().pieces());
  if (exchange.numProcesses() == 1) {
    auto collect = [&](std::size_t piece) -> Status {
      const std::unique_ptr<PieceSink> sink = makeSink(piece);
      const std::size_t size = slabs.pieces()[piece].numElements();
      for (std::size_t begin = 0, count; begin < size; begin += count) {
        count = std::min(size - begin, std::size_t(kSlabElements));
        OPTRT_RETURN_IF_ERROR(exchange.collectHere(
            slabs.slab(piece, begin, count), sink->room(count)));
        OPTRT_RETURN_IF_ERROR(sink->take());
      }
      return okStatus();
    };
    return isAlone ? onEach(made.ownPieces(), collect)
                   : onEachPiece(*team, made.ownPieces(), collect);
  }
  // After a failure a process goes on exchanging, or the others would wait.
  Status failure;
  std::unique_ptr<PieceSink> sink;
  for (SlabRounds rounds(slabs, made.pieces()); !rounds.done();
       rounds.advance()) {
    if (rounds.beginsPiece(here))
      sink = makeSink(rounds.pieceOf(here));
    const std::size_t count = rounds.countOf(here);
    keepFirst(failure,
              exchange.collect(rounds.slabs(), count > 0 ? sink->room(count)
                                                         : std::span<float>()));
    if (count > 0 && failure.ok())
      failure = sink->take();
  }
  return failure;
}

Status Session::save(const std::string &dir, TrainingState state,
                     SaveOptions options) {
  class File final : public PieceSink {
  public:
    File(CheckpointWriter &writer, std::size_t piece) : writer(writer, piece) {}
    std::span<float> room(std::size_t count) override {
      slab.resize(count);
      return slab;
    }
    Status take() override { return writer.append(slab); }

  private:
    PieceWriter writer;
    std::vector<float> slab;
  };
  OPTRT_RETURN_IF_ERROR(finishSave());
  OPTRT_ASSIGN_OR_RETURN(std::unique_ptr<Saving> made,
                         prepareSave(dir, std::move(state), options));
  Status written =
      collectPieces(*made, options.isAlone, [&](std::size_t piece) {
        return std::make_unique<File>(made->file(), piece);
      });
  if (written.ok() && !made->ownPieces().empty())
    written = made->file().sync();
  return made->finish(written);
}

//===----------------------------------------------------------------------===//
// Behind steps
//===----------------------------------------------------------------------===//

/// The elements of this process's pieces.
static std::size_t numElements(const CheckpointPieces &pieces,
                               const PieceList &own) {
  std::size_t count = 0;
  for (std::size_t piece : own)
    count += pieces[piece].numElements();
  return count;
}

StatusOr<bool> Session::reserveSnapshot(const std::string &dir, bool mustFit) {
  OPTRT_ASSIGN_OR_RETURN(std::unique_ptr<Saving> probe,
                         prepareSave(dir, {}, {}));
  const std::size_t elements =
      numElements(probe->file().pieces(), probe->ownPieces());
  probe.reset();
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
  // Touched now: memory runs short before the first step, and not in the middle
  // of the run, and a snapshot takes no longer than its copy.
  auto reserve = [&]() -> Status {
    try {
      snapshot.assign(elements, 0.0f);
    } catch (...) {
      return statusOfException().withContext("the snapshot of a checkpoint");
    }
    return okStatus();
  };
  OPTRT_RETURN_IF_ERROR(control.agree(reserve()));
  snapshotBytes = needed;
  return true;
}

Status Session::beginSave(const std::string &dir, TrainingState state) {
  class Memory final : public PieceSink {
  public:
    explicit Memory(float *next) : next(next) {}
    std::span<float> room(std::size_t count) override {
      return {std::exchange(next, next + count), count};
    }
    Status take() override { return okStatus(); }

  private:
    float *next;
  };
  OPTRT_RETURN_IF_ERROR(finishSave());
  OPTRT_ASSIGN_OR_RETURN(std::unique_ptr<Saving> made,
                         prepareSave(dir, std::move(state), {}));
  const CheckpointPieces &pieces = made->file().pieces();
  // Who sees the folder may have changed.
  snapshot.resize(numElements(pieces, made->ownPieces()));
  std::unordered_map<std::size_t, float *> begins;
  float *begin = snapshot.data();
  for (std::size_t piece : made->ownPieces()) {
    begins[piece] = begin;
    begin += pieces[piece].numElements();
  }
  OPTRT_RETURN_IF_ERROR(control.agree(
      collectPieces(*made, /*isAlone=*/false, [&](std::size_t piece) {
        return std::make_unique<Memory>(begins.at(piece));
      })));
  // No process writes while another one still copies.
  made->writeBehind(snapshot);
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
