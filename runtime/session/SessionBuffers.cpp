//===- SessionBuffers.cpp - What a session fills and reads ----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LocalRank.h"
#include "ShardExchange.h"
#include "optimus-runtime/RankTeam.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <sstream>

namespace optrt {

Status Session::initialize(uint64_t seed) {
  return setInTurns([&](std::span<const int64_t> buffers) {
    return onRanks([&](LocalRank &rank) -> Status {
      for (int64_t buffer : buffers)
        if (rank.buffers.holds(buffer) && manifest().buffers[buffer].init)
          OPTRT_RETURN_IF_ERROR(rank.buffers.initialize(buffer, seed));
      return okStatus();
    });
  });
}

StatusOr<int64_t> Session::perturb(uint64_t seed, int precision) {
  std::vector<int64_t> parameters =
      manifest().buffersOfLifetime(Lifetime::Parameter);
  if (!sources.empty())
    return invalidArgument(
        concat("expected all parameters to be held, found \"",
               manifest().buffers[sources.front()].name, "\" prepared alone"));
  forgetPrepared();
  std::vector<std::atomic<bool>> moved(parameters.size());
  OPTRT_RETURN_IF_ERROR(onRanks([&](LocalRank &rank) -> Status {
    for (std::size_t p = 0; p != parameters.size(); ++p) {
      if (!rank.plan.holds(parameters[p]))
        continue;
      OPTRT_ASSIGN_OR_RETURN(
          bool some, rank.buffers.perturb(parameters[p], seed,
                                          static_cast<uint32_t>(p), precision));
      if (some)
        moved[p] = true;
    }
    return okStatus();
  }));
  return std::count(moved.begin(), moved.end(), true);
}

bool Session::isHeld(int64_t buffer) const {
  return std::binary_search(held.begin(), held.end(), buffer);
}

std::optional<int64_t> Session::findHostFilled(std::string_view name) const {
  std::optional<int64_t> buffer = manifest().findBuffer(name);
  if (!buffer || !isHeld(*buffer) ||
      manifest().buffers[*buffer].filledBy != FilledBy::Host)
    return std::nullopt;
  return buffer;
}

/// The rows of the batch that a rank has in a buffer.
Session::RowRange Session::rowsOf(int rank, const Buffer &buffer) const {
  const int64_t rows = buffer.layout.localShape[0];
  return {rows * manifest().mesh.combinedIndex(rank, buffer.layout.axes[0]),
          rows};
}

std::vector<Session::BatchPart> Session::partsOfBatch(int rank) const {
  using Rows = HostBatch::Rows;
  std::vector<BatchPart> parts;
  for (int64_t index : planOf(rank).held) {
    const Buffer &buffer = manifest().buffers[index];
    if (buffer.filledBy != FilledBy::Data)
      continue;
    const bool isTargets = buffer.role == "targets";
    parts.push_back({BatchRows(manifest(), index, rank),
                     buffer.role == "tokens" ? &Rows::tokens
                     : isTargets             ? &Rows::targets
                                             : &Rows::positions,
                     isTargets ? -1 : 0});
  }
  return parts;
}

std::vector<Session::RowRange> Session::rowsOfBatch(int rank) const {
  std::vector<RowRange> ranges;
  for (const BatchPart &part : partsOfBatch(rank)) {
    const RowRange range(part.begin, part.count);
    if (std::find(ranges.begin(), ranges.end(), range) == ranges.end())
      ranges.push_back(range);
  }
  return ranges;
}

void Session::setScalar(std::string_view name, float value) {
  std::optional<int64_t> buffer = findHostFilled(name);
  if (!buffer || !manifest().buffers[*buffer].isNumber())
    return;
  isFilled[*buffer] = true;
  if (failedToSet.ok())
    failedToSet = checkIdle("a number was set");
  for (const std::unique_ptr<LocalRank> &rank : ranksOfLane())
    if (failedToSet.ok() && rank->plan.holds(*buffer))
      failedToSet = rank->buffers.setNumber(*buffer, value);
}

std::optional<int64_t> Session::findWords(std::string_view name,
                                          std::size_t count) const {
  std::optional<int64_t> buffer = findHostFilled(name);
  if (!buffer)
    return std::nullopt;
  const Buffer &described = manifest().buffers[*buffer];
  if (described.type != ElementType::I32 ||
      described.layout.numElements() != static_cast<int64_t>(count))
    return std::nullopt;
  return buffer;
}

void Session::setWords(std::string_view name, std::span<const int32_t> words,
                       int32_t padding) {
  std::optional<int64_t> buffer = findWords(name, words.size());
  if (!buffer)
    return;
  const Buffer &described = manifest().buffers[*buffer];
  isFilled[*buffer] = true;
  if (failedToSet.ok())
    failedToSet = checkIdle("words were set");
  if (described.layout.localShape == described.layout.shape) {
    for (const std::unique_ptr<LocalRank> &rank : ranksOfLane())
      if (failedToSet.ok() && rank->plan.holds(*buffer))
        failedToSet = rank->buffers.setWords(*buffer, words);
    return;
  }
  // Of the first dimension each rank has a part.
  const int64_t count = described.layout.numLocalElements();
  const int64_t width = count / described.layout.localShape[0];
  for (const std::unique_ptr<LocalRank> &rank : ranksOfLane()) {
    if (!rank->plan.holds(*buffer))
      continue;
    const int64_t first = rowsOf(rank->context.rank, described).first * width;
    const int64_t real =
        std::clamp<int64_t>(std::ssize(words) - first, 0, count);
    std::vector<int32_t> part(count, padding);
    std::copy_n(words.begin() + (real ? first : 0), real, part.begin());
    if (failedToSet.ok())
      failedToSet = rank->buffers.setWords(*buffer, part);
  }
}

void Session::setRandom(uint64_t seed, int64_t step, uint32_t microbatch) {
  if (random)
    setWords(manifest().buffers[*random].name,
             optimus_support::randomWords(seed, step, microbatch));
}

Status Session::reset(LocalRank &rank, Reset when) {
  for (int64_t buffer : rank.plan.resets[static_cast<std::size_t>(when)])
    OPTRT_RETURN_IF_ERROR(rank.buffers.initialize(buffer, /*seed=*/0));
  return okStatus();
}

Status Session::reset(Reset when) {
  auto isEmpty = [&](const RankPlan &plan) {
    return plan.resets[static_cast<std::size_t>(when)].empty();
  };
  if (std::ranges::all_of(plans, isEmpty))
    return okStatus();
  return onRanks([&](LocalRank &rank) { return reset(rank, when); });
}

const HostBatch::Rows *HostBatch::find(int64_t begin, int64_t words) const {
  for (std::size_t i = 0; i != numParts; ++i)
    if (parts[i].begin == begin &&
        static_cast<int64_t>(parts[i].tokens.size()) == words)
      return &parts[i];
  return nullptr;
}

/// Where each token stands in its document.
static void findPositions(std::span<const uint8_t> ends, int64_t sequence,
                          std::vector<int32_t> &positions) {
  positions.resize(ends.size());
  for (std::size_t i = 0; i != ends.size(); ++i) {
    const bool begins =
        static_cast<int64_t>(i) % sequence == 0 || ends[i - 1] != 0;
    positions[i] = begins ? 0 : positions[i - 1] + 1;
  }
}

Status Session::read(const FillRows &fill, HostBatch &batch,
                     const FindEnds &findEnds) const {
  batch.numParts = 0;
  std::vector<uint8_t> ends;
  auto readPart = [&](int64_t begin, int64_t rows) -> Status {
    const int64_t words = rows * manifest().sequence;
    // Tokens and targets of a rank have the same rows, and often ranks do.
    if (batch.find(begin, words))
      return okStatus();
    if (batch.numParts == batch.parts.size())
      batch.parts.emplace_back();
    HostBatch::Rows &part = batch.parts[batch.numParts];
    part.begin = begin;
    part.tokens.resize(words);
    part.targets.resize(words);
    OPTRT_RETURN_IF_ERROR(
        fill(begin, rows, part.tokens.data(), part.targets.data()));
    if (manifest().findRole("positions")) {
      ends.assign(words, 0);
      if (documentEnd)
        std::ranges::transform(part.tokens, ends.begin(), [&](int32_t token) {
          return token == *documentEnd;
        });
      else if (findEnds)
        OPTRT_RETURN_IF_ERROR(findEnds(begin, rows, ends.data()));
      findPositions(ends, manifest().sequence, part.positions);
    }
    ++batch.numParts;
    return okStatus();
  };
  for (const std::unique_ptr<LocalRank> &rank : ranksOfLane())
    for (const BatchPart &one : rank->batchParts)
      OPTRT_RETURN_IF_ERROR(readPart(one.begin, one.count));
  return okStatus();
}

Status Session::checkRead(const HostBatch &batch) const {
  for (const std::unique_ptr<LocalRank> &rank : ranksOfLane())
    for (const BatchPart &part : rank->batchParts)
      if (!batch.find(part.begin, part.count * part.sequence))
        return internal(concat("the batch has no ", part.count, " rows from ",
                               part.begin, " on: it was not read"));
  return okStatus();
}

/// Of a batch that was checked.
Status Session::fill(LocalRank &rank, const HostBatch &batch) {
  for (const BatchPart &part : rank.batchParts) {
    const HostBatch::Rows &rows =
        *batch.find(part.begin, part.count * part.sequence);
    OPTRT_RETURN_IF_ERROR(
        rank.buffers.setRows(part, (rows.*part.words).data(), part.padding));
  }
  return okStatus();
}

Status Session::fill(const HostBatch &batch) {
  OPTRT_RETURN_IF_ERROR(checkIdle("inputs were filled"));
  OPTRT_RETURN_IF_ERROR(checkRead(batch));
  for (const std::unique_ptr<LocalRank> &rank : ranksOfLane())
    OPTRT_RETURN_IF_ERROR(fill(*rank, batch));
  for (int64_t buffer : held)
    if (manifest().buffers[buffer].filledBy == FilledBy::Data)
      isFilled[buffer] = true;
  return okStatus();
}

Status Session::fill(const FillRows &rows) {
  OPTRT_RETURN_IF_ERROR(read(rows, ownBatch));
  return fill(ownBatch);
}

StatusOr<StepOutputs> Session::outputs() const {
  StepOutputs outputs;
  // Ranks with one table have written the same.
  std::set<const RankPlan *> seen;
  for (const std::unique_ptr<LocalRank> &rank : ranksOfLane()) {
    if (!seen.insert(&rank->plan).second)
      continue;
    for (int64_t index : rank->plan.numbers) {
      OPTRT_ASSIGN_OR_RETURN(float number, rank->buffers.number(index));
      outputs.numbers.emplace(manifest().buffers[index].role, number);
    }
  }
  return outputs;
}

Status Session::addOutputs(StepOutputs &outputs) const {
  std::string own;
  for (const auto &[role, number] : outputs.numbers)
    own += concat(role, ' ', std::bit_cast<uint32_t>(number), '\n');
  for (const std::string &text : control.allGather(own)) {
    std::istringstream lines(text);
    std::string role;
    for (uint32_t bits; lines >> role >> bits;)
      outputs.numbers.emplace(role, std::bit_cast<float>(bits));
  }
  return okStatus();
}

StatusOr<int64_t> Session::findHeld(std::string_view name) const {
  std::optional<int64_t> index = manifest().findBuffer(name);
  if (index && isHeld(*index))
    return *index;
  if (index && std::ranges::binary_search(sources, *index))
    return invalidArgument(
        concat("of the parameter \"", name,
               "\" the prepared form is held alone, for generation; a session "
               "that evaluates or trains, too, holds it whole"));
  return invalidArgument(concat("no chosen function of `", library.path(),
                                "` has the buffer \"", name, "\""));
}

StatusOr<int64_t> Session::findWhole(std::string_view name) const {
  OPTRT_ASSIGN_OR_RETURN(int64_t index, findHeld(name));
  const Buffer &buffer = manifest().buffers[index];
  if (buffer.isFloat() && buffer.unreduced.empty())
    return index;
  return invalidArgument(
      concat("the buffer \"", name,
             "\" cannot be gathered: expected floats that are "
             "complete, found ",
             buffer.unreduced.empty() ? "" : "partial sums of ",
             toString(buffer.type)));
}

StatusOr<std::vector<float>> Session::gather(std::string_view name) {
  OPTRT_RETURN_IF_ERROR(checkIdle("a buffer was gathered"));
  OPTRT_RETURN_IF_ERROR(finishCarried());
  OPTRT_ASSIGN_OR_RETURN(int64_t index, findWhole(name));
  std::vector<float> whole(
      control.isRoot() ? manifest().buffers[index].layout.numElements() : 0);
  OPTRT_RETURN_IF_ERROR(gatherWhole(index, std::span(whole)));
  return whole;
}

Status Session::assign(std::string_view name, std::span<const float> whole) {
  OPTRT_RETURN_IF_ERROR(checkIdle("a buffer was assigned to"));
  OPTRT_RETURN_IF_ERROR(finishCarried());
  const std::optional<int64_t> found = manifest().findBuffer(name);
  const bool isSource = found && std::ranges::binary_search(sources, *found);
  int64_t index = isSource ? *found : 0;
  if (!isSource) {
    OPTRT_ASSIGN_OR_RETURN(index, findWhole(name));
  }
  const int64_t size = manifest().buffers[index].layout.numElements();
  if (std::ssize(whole) != size)
    return invalidArgument(concat("the buffer \"", name, "\" expects ", size,
                                  " elements, found ", whole.size()));
  auto set = [&](std::span<const int64_t>) -> Status {
    ShardExchange exchange = exchangeOfShards();
    for (int64_t begin = 0; begin < size; begin += kSlabElements) {
      const int64_t count = std::min(size - begin, kSlabElements);
      OPTRT_RETURN_IF_ERROR(exchange.distributeHere(
          {{index, begin, count}}, whole.subspan(begin, count)));
    }
    return okStatus();
  };
  for (RankPlan &plan : plans)
    std::erase_if(plan.fresh, [&](int64_t prepared) {
      return manifest().buffers[prepared].of == index;
    });
  return isSource ? takeTurns(makeTurns({&index, 1}), set) : set({});
}

template <typename Word, typename Place, typename Take>
Status Session::gatherSlabs(int64_t buffer, Place place, Take take) {
  const int64_t size = manifest().buffers[buffer].layout.numElements();
  ShardExchange exchange = exchangeOfShards();
  std::vector<Slab> slabs(exchange.numProcesses());
  Status failure;
  for (int64_t begin = 0; begin < size; begin += kSlabElements) {
    const int64_t count = std::min(size - begin, kSlabElements);
    slabs[0] = {{buffer, begin, count}};
    const std::span<Word> own =
        control.isRoot() ? place(begin, count) : std::span<Word>();
    keepFirst(failure, exchange.collect(slabs, own));
    if (failure.ok() && control.isRoot())
      failure = take(own);
  }
  return failure;
}

template <typename Word>
Status Session::gatherWhole(int64_t buffer, std::span<Word> whole) {
  return gatherSlabs<Word>(
      buffer,
      [&](int64_t begin, int64_t count) { return whole.subspan(begin, count); },
      [](std::span<Word>) { return okStatus(); });
}

StatusOr<int64_t> Session::findOutput(std::string_view function,
                                      std::string_view name) const {
  OPTRT_RETURN_IF_ERROR(checkIdle("an output was read"));
  for (const Callable &callable : callables)
    if (callable.function->name == function)
      return manifest().findOutput(library.path(), *callable.function, name);
  return internal(concat("the function ", function, " was not chosen"));
}

StatusOr<int64_t> Session::findComplete(std::string_view function,
                                        std::string_view name) {
  OPTRT_ASSIGN_OR_RETURN(int64_t index, findOutput(function, name));
  OPTRT_RETURN_IF_ERROR(finishCarried());
  if (!manifest().buffers[index].unreduced.empty())
    return invalidArgument(concat("the output \"", name,
                                  "\" cannot be gathered: expected a complete "
                                  "tensor, found partial sums"));
  return index;
}

/// Calls fn with a word as wide as a type's elements, which are moved, whatever
/// they are.
static Status onWords(optimus_support::ElementType type, const auto &fn) {
  const int64_t width = optimus_support::elementBytes(type);
  return width == 1   ? fn(uint8_t())
         : width == 2 ? fn(uint16_t())
         : width == 4 ? fn(float())
                      : fn(uint64_t());
}

StatusOr<HostTensor> Session::output(std::string_view function,
                                     std::string_view name) {
  OPTRT_ASSIGN_OR_RETURN(int64_t index, findComplete(function, name));
  const Buffer &buffer = manifest().buffers[index];
  HostTensor tensor{buffer.type, buffer.layout.shape, {}};
  if (control.isRoot())
    tensor.bytes.resize(buffer.layout.numElements() *
                        optimus_support::elementBytes(buffer.type));
  OPTRT_RETURN_IF_ERROR(
      onWords(buffer.type, [&]<typename Word>(Word) -> Status {
        return gatherWhole(
            index, std::span(reinterpret_cast<Word *>(tensor.bytes.data()),
                             tensor.bytes.size() / sizeof(Word)));
      }));
  return tensor;
}

Status Session::streamOutput(std::string_view function, std::string_view name,
                             const TakePiece &take) {
  OPTRT_ASSIGN_OR_RETURN(int64_t index, findComplete(function, name));
  const Buffer &buffer = manifest().buffers[index];
  return onWords(buffer.type, [&]<typename Word>(Word) -> Status {
    std::vector<Word> piece;
    return gatherSlabs<Word>(
        index,
        [&](int64_t, int64_t count) {
          piece.resize(count);
          return std::span(piece);
        },
        [&](std::span<Word> slab) { return take(std::as_bytes(slab)); });
  });
}

StatusOr<HostTensor> Session::outputOfRank(std::string_view function,
                                           std::string_view name, int rank) {
  OPTRT_ASSIGN_OR_RETURN(int64_t index, findOutput(function, name));
  OPTRT_RETURN_IF_ERROR(finishCarried());
  const Buffer &buffer = manifest().buffers[index];
  std::vector<uint8_t> copy;
  OPTRT_ASSIGN_OR_RETURN(std::span<const std::byte> bytes,
                         readShard(index, rank, copy));
  return HostTensor{
      buffer.type, buffer.layout.localShape, {bytes.begin(), bytes.end()}};
}

StatusOr<std::span<const std::byte>>
Session::shardOf(std::string_view name, int rank, std::vector<uint8_t> &copy) {
  OPTRT_RETURN_IF_ERROR(checkIdle("a shard was read"));
  OPTRT_RETURN_IF_ERROR(finishCarried());
  OPTRT_ASSIGN_OR_RETURN(int64_t index, findHeld(name));
  return readShard(index, rank, copy);
}

StatusOr<std::span<const std::byte>>
Session::readShard(int64_t buffer, int rank, std::vector<uint8_t> &copy) {
  const auto own = ranksOfLane();
  const int local = rank - control.firstRank();
  if (local < 0 || local >= std::ssize(own))
    return invalidArgument(concat(
        "expected a rank of this process, from ", control.firstRank(), " to ",
        control.firstRank() + std::ssize(own) - 1, ", found ", rank));
  const int64_t size = manifest().buffers[buffer].numBytes();
  if (!own[local]->plan.holds(buffer))
    return invalidArgument(concat("rank ", rank, " does not hold the buffer \"",
                                  manifest().buffers[buffer].name, "\""));
  OPTRT_ASSIGN_OR_RETURN(
      const uint8_t *bytes,
      own[local]->buffers.read<uint8_t>(buffer, 0, size, copy));
  return std::as_bytes(std::span(bytes, size));
}

ShardExchange Session::exchangeOfShards() {
  std::vector<RankBuffers *> buffers;
  for (const std::unique_ptr<LocalRank> &rank : ranksOfLane())
    buffers.push_back(&rank->buffers);
  ShardExchange::Holds holds;
  if (plans.size() > 1)
    holds = [this](int64_t buffer, int64_t rank) {
      return planOf(rank).holds(buffer);
    };
  return ShardExchange(control, manifest(), std::move(buffers),
                       std::move(holds));
}

} // namespace optrt
