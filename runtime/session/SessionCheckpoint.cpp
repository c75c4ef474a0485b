//===- SessionCheckpoint.cpp - Loading and saving a session ---------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LocalRank.h"
#include "PieceShares.h"
#include "ShardExchange.h"
#include "optimus-runtime/RankTeam.h"
#include "optimus-support/InputFile.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
#include <unordered_map>

namespace optrt {

namespace {

/// For each process, the first that has opened the same files: once a machine,
/// whether they are shared or copies. Collective.
std::vector<int> readersOf(ControlPlane &control,
                           const Checkpoint &checkpoint) {
  const std::vector<std::string> all = control.allGather(
      concat(optimus_support::machineIdentity(), " ", checkpoint.identity()));
  std::vector<int> first;
  for (const std::string &one : all)
    first.push_back(
        static_cast<int>(std::ranges::find(all, one) - all.begin()));
  return first;
}

} // namespace

ExpectedModel expectedModel(const Manifest &manifest) {
  return {manifest.modelHash,
          manifest.savedTensors(CheckpointFile::Model),
          manifest.savedTensors(CheckpointFile::Optimizer),
          manifest.record(),
          manifest.config,
          manifest.adapter};
}

StatusOr<std::unique_ptr<Checkpoint>> openCheckpoint(ControlPlane &control,
                                                     const std::string &dir,
                                                     const std::string &base,
                                                     std::string_view flag) {
  std::unique_ptr<Checkpoint> checkpoint;
  auto openFiles = [&]() -> Status {
    if (dir.empty() && !base.empty())
      return invalidArgument(concat("--base ", base,
                                    ": there are no adapters beside it; name "
                                    "their folder with ",
                                    flag));
    if (dir.empty())
      return okStatus();
    CheckpointReaderOptions options;
    options.base = base;
    OPTRT_ASSIGN_OR_RETURN(checkpoint, Checkpoint::openFiles(dir, options));
    return okStatus();
  };
  OPTRT_RETURN_IF_ERROR(control.agreeOnFiles(openFiles()));
  std::string found = "none";
  if (checkpoint)
    found = checkpoint->hasWeightsAlone()
                ? concat("weights with headers of checksum ",
                         checkpoint->fingerprint())
                : concat("step ", checkpoint->state().step,
                         " with state.json of checksum ",
                         checkpoint->fingerprint());
  const Setting same[] = {{concat("the checkpoint of ", flag), found}};
  OPTRT_RETURN_IF_ERROR(control.checkSame(same));
  if (!checkpoint)
    return checkpoint;

  // The first of the processes with the same open files reads the files
  // verified whole.
  const std::vector<int> readers = readersOf(control, *checkpoint);
  const int process = control.firstRank() / control.numLocalRanks();
  Status verified =
      readers[process] == process ? checkpoint->verifyFiles() : okStatus();
  OPTRT_RETURN_IF_ERROR(control.agreeOnFiles(verified));
  OPTRT_RETURN_IF_ERROR(control.agree(checkpoint->readHeaders()));
  return checkpoint;
}

Status Session::load(const Checkpoint &checkpoint) {
  if (checkpoint.hasWeightsAlone())
    return invalidArgument(concat(checkpoint.path(),
                                  " has weights and no optimizer state: "
                                  "loadParameters() takes them"));
  return loadFiles(checkpoint,
                   {CheckpointFile::Model, CheckpointFile::Optimizer},
                   checkpoint.state().seed);
}

Status Session::loadParameters(const Checkpoint &checkpoint, uint64_t seed) {
  return loadFiles(checkpoint, {CheckpointFile::Model}, seed);
}

Status Session::loadFiles(const Checkpoint &checkpoint,
                          std::initializer_list<CheckpointFile> files,
                          uint64_t seed) {
  if (!checkpoint.knowsParameters())
    return invalidArgument(concat("the weights in ", checkpoint.path(),
                                  " are not yet those of a model: call "
                                  "findParameters() first"));
  OPTRT_RETURN_IF_ERROR(finishCarried());
  return setInTurns([&](std::span<const int64_t> buffers) {
    return loadBuffers(checkpoint, files, seed, buffers);
  });
}

Status Session::loadBuffers(const Checkpoint &checkpoint,
                            std::initializer_list<CheckpointFile> files,
                            uint64_t seed, std::span<const int64_t> chosen) {
  auto isLoaded = [&](int64_t index) {
    const Buffer &buffer = manifest().buffers[index];
    return std::ranges::binary_search(chosen, index) && buffer.saved &&
           std::ranges::find(files, buffer.saved->file) != files.end() &&
           checkpoint.has(buffer.saved->name);
  };
  // Whatever fails here, the others wait for what this process reads.
  Status failure = onRanks([&](LocalRank &rank) -> Status {
    RankBuffers &buffers = rank.buffers;
    for (int64_t index : chosen) {
      if (!buffers.holds(index))
        continue;
      const Buffer &buffer = manifest().buffers[index];
      if (isLoaded(index) && buffer.layout.hasPadding(manifest().mesh))
        OPTRT_RETURN_IF_ERROR(buffers.clear(index));
      else if (!isLoaded(index) && buffer.init)
        OPTRT_RETURN_IF_ERROR(buffers.initialize(index, seed));
    }
    return okStatus();
  });

  ShardExchange exchange = exchangeOfShards();
  const CheckpointPieces &pieces = checkpoint.pieces();
  const PieceSlabs slabs(pieces, membersOf(manifest(), pieces, isLoaded));
  const std::vector<int> readers = readersOf(control, checkpoint);
  std::vector<PieceList> lists(exchange.numProcesses());
  for (int first = 0; first != exchange.numProcesses(); ++first)
    if (readers[first] == first)
      shareOutReading(exchange, slabs, readers, first, lists);

  const int here = exchange.process();
  Status read;
  if (exchange.numProcesses() == 1)
    keepFirst(read,
              onEachPiece(*team, threads, lists[here], [&](std::size_t piece) {
                PieceReader reader(checkpoint, piece);
                return slabs.forEach(
                    piece, [&](const Slab &slab, std::span<float> elements) {
                      // Of a piece that has parameters of several turns, some.
                      if (std::ranges::all_of(slab, [](const BufferPart &part) {
                            return part.buffer == BufferPart::kNoBuffer;
                          }))
                        return reader.skip(elements);
                      OPTRT_RETURN_IF_ERROR(reader.read(elements));
                      return exchange.distributeHere(slab, elements);
                    });
              }));
  std::optional<PieceReader> reader;
  SlabRounds rounds(slabs, lists);
  std::vector<float> own;
  for (; exchange.numProcesses() > 1 && !rounds.done(); rounds.advance()) {
    own.resize(rounds.countOf(here));
    if (rounds.beginsPiece(here))
      reader.emplace(checkpoint, rounds.pieceOf(here));
    if (!own.empty())
      keepFirst(read, reader->read(own));
    keepFirst(failure,
              exchange.distribute(rounds.slabs(), own, [&](int from, int to) {
                return readers[from] == readers[to];
              }));
  }
  // A copy on another machine than the root's is named by its first rank.
  if (readers[here] != readers[0])
    read = std::move(read).withContext(
        concat("rank ", readers[here] * control.numLocalRanks()));
  keepFirst(failure, std::move(read));
  keepFirst(failure, checkpoint.checkUnchanged());
  return failure;
}

} // namespace optrt
