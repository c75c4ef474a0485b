//===- Dataset.cpp - Tokens of a training or evaluation file --------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-runtime/Dataset.h"

#include "TokenFile.h"
#include "TokenStore.h"
#include "optimus-support/Hash.h"
#include "optimus-support/Permutation.h"
#include "optimus-support/Philox.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <filesystem>
#include <mutex>
#include <vector>

using namespace optrt;

using WindowOrder = std::vector<uint64_t>;

/// From so many windows on their order is computed where it is needed: it would
/// take 128 MiB, once an epoch.
static constexpr int64_t kMostKeptWindows = (int64_t(1) << 24) - 1;

struct Dataset::Impl {
  std::unique_ptr<TokenSource> source;
  int64_t sequence = 0;
  int64_t windows = 0;
  DataOrder order = DataOrder::Shuffled;
  uint64_t seed = 0;
  int64_t vocabulary = 0;
  std::optional<MaskedObjective> masked;

  // A batch may reach from one epoch into the next, and ranks may be a step
  // apart: the permutations of two epochs are kept.
  std::mutex mutex;
  std::shared_ptr<const WindowOrder> epochOrders[2];
  int64_t epochs[2] = {-1, -1};

  std::shared_ptr<const WindowOrder> orderOf(int64_t epoch);
  /// Room for a window and its last target.
  struct Scratch {
    std::vector<uint8_t> bytes;
    std::vector<uint32_t> values;
  };
  /// The window's tokens and targets. What is hidden is drawn at `step` for
  /// the sequence's `position`.
  Status fillRow(int64_t window, uint64_t step, int64_t position,
                 Scratch &scratch, int32_t *tokens, int32_t *targets) const;
  void hide(uint64_t step, int64_t position, int32_t *tokens,
            int32_t *targets) const;
  void fillPadding(int32_t *tokens, int32_t *targets) const;
};

std::shared_ptr<const WindowOrder> Dataset::Impl::orderOf(int64_t epoch) {
  std::lock_guard<std::mutex> lock(mutex);
  int slot = epoch % 2;
  if (epochs[slot] != epoch) {
    epochOrders[slot] = std::make_shared<const WindowOrder>(
        optimus_support::permutation(windows, seed, epoch));
    epochs[slot] = epoch;
  }
  return epochOrders[slot];
}

/// Training draws at step 1, evaluation at step 0.
static constexpr uint64_t kTraining = 1, kEvaluation = 0;

void Dataset::Impl::hide(uint64_t step, int64_t position, int32_t *tokens,
                         int32_t *targets) const {
  // 15 % of the tokens are chosen; of these 80 % are hidden, 10 % become any
  // token, and 10 % stay what they are.
  constexpr uint32_t chosen = 0.15 * 0x1p32, hidden = 0.8 * 0x1p32,
                     changed = 0.9 * 0x1p32;
  for (int64_t i = 0; i < sequence; ++i) {
    targets[i] = -1;
    std::array<uint64_t, 2> words = optimus_support::philoxBlock(
        seed, optimus_support::kMaskStream, step,
        uint64_t(position) * uint64_t(sequence) + uint64_t(i));
    if (uint32_t(words[0]) >= chosen || tokens[i] == masked->padToken)
      continue;
    targets[i] = tokens[i];
    uint32_t kind = words[0] >> 32;
    if (kind < hidden)
      tokens[i] = masked->maskToken;
    else if (kind < changed)
      tokens[i] = uint32_t(words[1]) * uint64_t(vocabulary) >> 32;
  }
}

Status Dataset::Impl::fillRow(int64_t window, uint64_t step, int64_t position,
                              Scratch &scratch, int32_t *tokens,
                              int32_t *targets) const {
  auto &[bytes, values] = scratch;
  OPTRT_RETURN_IF_ERROR(source->read(window * sequence, sequence + 1, bytes));
  values.resize(sequence + 1);
  source->decode(bytes, values);
  // It was so when the data were opened; a kernel does not look again.
  const uint32_t largest = *std::max_element(values.begin(), values.end());
  if (largest >= vocabulary)
    return source->unexpectedToken(largest, vocabulary);
  std::copy_n(values.begin(), sequence, tokens);
  if (masked) {
    hide(step, position, tokens, targets);
    return okStatus();
  }
  std::copy_n(values.begin() + 1, sequence, targets);
  return okStatus();
}

void Dataset::Impl::fillPadding(int32_t *tokens, int32_t *targets) const {
  std::fill_n(tokens, sequence, 0);
  std::fill_n(targets, sequence, -1);
}

static uint64_t hashOf(std::span<const uint8_t> bytes) {
  return optimus_support::hash64(bytes.data(), bytes.size());
}

Dataset::Dataset(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
Dataset::~Dataset() = default;

StatusOr<std::unique_ptr<Dataset>>
Dataset::open(const std::string &path, int64_t sequence, int64_t vocabulary,
              DataOrder order, uint64_t seed,
              std::optional<MaskedObjective> masked,
              std::optional<TokenType> tokenType, StoreSplit split) {
  if (sequence < 1 || vocabulary < 1)
    return internal(concat("a data set needs a positive sequence length and "
                           "vocabulary, not ",
                           sequence, " and ", vocabulary));
  auto impl = std::make_unique<Impl>();
  impl->sequence = sequence;
  impl->order = order;
  impl->seed = seed;
  impl->vocabulary = vocabulary;
  impl->masked = masked;
  if (TokenStore::isAt(path)) {
    OPTRT_ASSIGN_OR_RETURN(
        impl->source, TokenStore::open(path, split, vocabulary, tokenType));
  } else if (std::error_code error;
             std::filesystem::is_directory(path, error)) {
    return invalidArgument(
        concat("the data ", path,
               " is a folder without an index.json; "
               "expected a FILE.txt, a FILE.bin, or a store that python3 -m "
               "optimus.data prepare wrote"));
  } else {
    OPTRT_ASSIGN_OR_RETURN(impl->source,
                           TokenFile::open(path, vocabulary, tokenType));
  }
  const int64_t tokens = impl->source->numTokens();
  // sequence + 1 would overflow for the largest sequence.
  if (tokens - 1 < sequence)
    return invalidArgument(concat(
        "the data file ", path, " has ", tokens, " tokens; one sequence of ",
        sequence, " and its last target need ", uint64_t(sequence) + 1));
  impl->windows = (tokens - 1) / sequence;
  return std::unique_ptr<Dataset>(new Dataset(std::move(impl)));
}

const std::string &Dataset::path() const { return impl->source->path(); }
int64_t Dataset::sequence() const { return impl->sequence; }
int64_t Dataset::numTokens() const { return impl->source->numTokens(); }
int64_t Dataset::numWindows() const { return impl->windows; }
DataIdentity Dataset::identity() const { return impl->source->identity(); }
std::optional<TokenOrigin> Dataset::origin() const {
  return impl->source->origin();
}
bool Dataset::isStore(const std::string &path) {
  return TokenStore::isAt(path);
}
Status Dataset::hashInBackground() { return impl->source->hashInBackground(); }

int64_t Dataset::windowAt(int64_t position) const {
  assert(position >= 0);
  int64_t within = position % impl->windows;
  if (impl->order == DataOrder::Sequential)
    return within;
  const int64_t epoch = position / impl->windows;
  if (impl->windows > kMostKeptWindows)
    return optimus_support::permuted(within, impl->windows, impl->seed, epoch);
  return (*impl->orderOf(epoch))[within];
}

template <typename WindowOfRow>
Status Dataset::fillRows(int64_t rowsBegin, int64_t rowsCount, uint64_t step,
                         int64_t position, WindowOfRow windowOfRow,
                         int32_t *tokens, int32_t *targets,
                         uint64_t *hashes) const {
  Impl::Scratch scratch;
  for (int64_t row = rowsBegin; row < rowsBegin + rowsCount; ++row) {
    const int64_t window = windowOfRow(row);
    if (window != kPadding)
      OPTRT_RETURN_IF_ERROR(impl->fillRow(window, step, position + row, scratch,
                                          tokens, targets));
    else
      impl->fillPadding(tokens, targets);
    if (hashes)
      *hashes++ = window != kPadding ? hashOf(scratch.bytes) : 0;
    tokens += impl->sequence;
    targets += impl->sequence;
  }
  return okStatus();
}

Status Dataset::fillBatch(int64_t position, int64_t globalBatch,
                          int64_t rowsBegin, int64_t rowsCount, int32_t *tokens,
                          int32_t *targets, uint64_t *hashes) const {
  return fillRows(
      rowsBegin, rowsCount, kTraining, position,
      [&](int64_t row) { return windowOfRow(position, globalBatch, row); },
      tokens, targets, hashes);
}

Status Dataset::fillEvalBatch(int64_t index, int64_t globalBatch,
                              int64_t rowsBegin, int64_t rowsCount,
                              int32_t *tokens, int32_t *targets,
                              uint64_t *hashes) const {
  return fillRows(
      rowsBegin, rowsCount, kEvaluation, index * globalBatch,
      [&](int64_t row) { return windowOfEvalRow(index, globalBatch, row); },
      tokens, targets, hashes);
}

Status Dataset::hashWindows(std::span<const int64_t> windows,
                            uint64_t *hashes) const {
  std::vector<uint8_t> bytes;
  for (int64_t window : windows) {
    if (window != kPadding)
      OPTRT_RETURN_IF_ERROR(impl->source->read(window * impl->sequence,
                                               impl->sequence + 1, bytes));
    *hashes++ = window != kPadding ? hashOf(bytes) : 0;
  }
  return okStatus();
}

std::string Dataset::place() const {
  return concat(optimus_support::machineIdentity(), " ", impl->source->place());
}

bool Dataset::wasWrittenTo() const { return impl->source->wasWrittenTo(); }
