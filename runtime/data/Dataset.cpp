//===- Dataset.cpp - Tokens of a training or evaluation file --------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-runtime/Dataset.h"

#include "optimus-support/InputFile.h"
#include "optimus-support/Permutation.h"
#include "optimus-support/Philox.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <mutex>
#include <vector>

using namespace optrt;

using WindowOrder = std::vector<uint64_t>;

/// From so many windows on their order is computed where it is needed: it would
/// take 128 MiB, once an epoch.
static constexpr int64_t kMostKeptWindows = (int64_t(1) << 24) - 1;

struct Dataset::Impl {
  std::string path;
  optimus_support::InputFile file;
  int64_t tokenBytes = 1; ///< 1 in .txt, 2 in .bin
  int64_t tokens = 0;
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

  /// The bytes of tokens [begin, begin + count).
  Status read(int64_t begin, int64_t count, std::vector<uint8_t> &bytes) const {
    bytes.resize(count * tokenBytes);
    return file.read(begin * tokenBytes, bytes.data(), bytes.size());
  }
  int32_t token(const std::vector<uint8_t> &bytes, int64_t index) const {
    const uint8_t *at = bytes.data() + index * tokenBytes;
    return tokenBytes == 1 ? at[0] : at[0] | at[1] << 8;
  }
  Status checkVocabulary() const;
  std::shared_ptr<const WindowOrder> orderOf(int64_t epoch);
  /// The window's tokens and targets. What is hidden is drawn at `step` for
  /// the sequence's `position`.
  Status fillRow(int64_t window, uint64_t step, int64_t position,
                 std::vector<uint8_t> &bytes, int32_t *tokens,
                 int32_t *targets) const;
  void hide(uint64_t step, int64_t position, int32_t *tokens,
            int32_t *targets) const;
  void fillPadding(int32_t *tokens, int32_t *targets) const;
};

/// Finds a token that is at or above the vocabulary.
Status Dataset::Impl::checkVocabulary() const {
  if (vocabulary >= int64_t(1) << (8 * tokenBytes))
    return okStatus();
  constexpr int64_t chunk = 1 << 18;
  std::vector<uint8_t> bytes;
  for (int64_t begin = 0; begin < tokens; begin += chunk) {
    int64_t count = std::min(chunk, tokens - begin);
    OPTRT_RETURN_IF_ERROR(read(begin, count, bytes));
    // Almost always no token is too large: a maximum without branches first.
    int32_t largest = 0;
    for (int64_t i = 0; i < count; ++i)
      largest = std::max(largest, token(bytes, i));
    if (largest < vocabulary)
      continue;
    int64_t bad = 0;
    while (token(bytes, bad) < vocabulary)
      ++bad;
    return invalidArgument(concat(
        "the data file ", path, " has token ", token(bytes, bad), " at offset ",
        begin + bad, " (byte ", (begin + bad) * tokenBytes,
        "), but the model's vocabulary has ", vocabulary,
        " tokens; compile the model for a larger vocabulary or convert "
        "the file"));
  }
  return okStatus();
}

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
                              std::vector<uint8_t> &bytes, int32_t *tokens,
                              int32_t *targets) const {
  OPTRT_RETURN_IF_ERROR(read(window * sequence, sequence + 1, bytes));
  for (int64_t i = 0; i < sequence; ++i)
    tokens[i] = token(bytes, i);
  const int32_t last = token(bytes, sequence);
  // It was so when the file was opened; a kernel does not look again.
  int32_t largest =
      std::max(last, *std::max_element(tokens, tokens + sequence));
  if (largest >= vocabulary)
    return dataLoss(concat(
        "the data file ", path, " changed while it was read: it has token ",
        largest, " now, and the model's vocabulary ", vocabulary, " tokens"));
  if (masked) {
    hide(step, position, tokens, targets);
    return okStatus();
  }
  std::copy(tokens + 1, tokens + sequence, targets);
  targets[sequence - 1] = last;
  return okStatus();
}

void Dataset::Impl::fillPadding(int32_t *tokens, int32_t *targets) const {
  std::fill_n(tokens, sequence, 0);
  std::fill_n(targets, sequence, -1);
}

Dataset::Dataset(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
Dataset::~Dataset() = default;

StatusOr<std::unique_ptr<Dataset>>
Dataset::open(const std::string &path, int64_t sequence, int64_t vocabulary,
              DataOrder order, uint64_t seed,
              std::optional<MaskedObjective> masked) {
  if (sequence < 1 || vocabulary < 1)
    return internal(concat("a data set needs a positive sequence length and "
                           "vocabulary, not ",
                           sequence, " and ", vocabulary));
  auto impl = std::make_unique<Impl>();
  impl->path = path;
  impl->sequence = sequence;
  impl->order = order;
  impl->seed = seed;
  impl->vocabulary = vocabulary;
  impl->masked = masked;
  if (path.ends_with(".bin"))
    impl->tokenBytes = 2;
  else if (!path.ends_with(".txt"))
    return invalidArgument(
        concat("the data file ", path,
               " must end in .txt (one token a byte) or .bin (little-endian "
               "16-bit tokens)"));

  OPTRT_ASSIGN_OR_RETURN(impl->file, optimus_support::InputFile::open(
                                         path, StatusCode::InvalidArgument));
  int64_t bytes = impl->file.size();
  if (bytes % impl->tokenBytes != 0)
    return invalidArgument(
        concat("the data file ", path, " has ", bytes,
               " bytes, an odd number; a .bin file has two bytes a token"));
  impl->tokens = bytes / impl->tokenBytes;
  // sequence + 1 would overflow for the largest sequence.
  if (impl->tokens - 1 < sequence)
    return invalidArgument(concat("the data file ", path, " has ", impl->tokens,
                                  " tokens; one sequence of ", sequence,
                                  " and its last target need ",
                                  uint64_t(sequence) + 1));
  impl->windows = (impl->tokens - 1) / sequence;

  OPTRT_RETURN_IF_ERROR(impl->checkVocabulary());
  return std::unique_ptr<Dataset>(new Dataset(std::move(impl)));
}

const std::string &Dataset::path() const { return impl->path; }
int64_t Dataset::sequence() const { return impl->sequence; }
int64_t Dataset::numTokens() const { return impl->tokens; }
int64_t Dataset::numWindows() const { return impl->windows; }

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

Status Dataset::fillBatch(int64_t position, int64_t globalBatch,
                          int64_t rowsBegin, int64_t rowsCount, int32_t *tokens,
                          int32_t *targets) const {
  std::vector<uint8_t> bytes;
  for (int64_t row = rowsBegin; row < rowsBegin + rowsCount; ++row) {
    int64_t at = position + row;
    if (row < globalBatch)
      OPTRT_RETURN_IF_ERROR(
          impl->fillRow(windowAt(at), kTraining, at, bytes, tokens, targets));
    else
      impl->fillPadding(tokens, targets);
    tokens += impl->sequence;
    targets += impl->sequence;
  }
  return okStatus();
}

Status Dataset::fillEvalBatch(int64_t index, int64_t globalBatch,
                              int64_t rowsBegin, int64_t rowsCount,
                              int32_t *tokens, int32_t *targets) const {
  std::vector<uint8_t> bytes;
  for (int64_t row = rowsBegin; row < rowsBegin + rowsCount; ++row) {
    int64_t window = index * globalBatch + row;
    if (row < globalBatch && window < impl->windows)
      OPTRT_RETURN_IF_ERROR(
          impl->fillRow(window, kEvaluation, window, bytes, tokens, targets));
    else
      impl->fillPadding(tokens, targets);
    tokens += impl->sequence;
    targets += impl->sequence;
  }
  return okStatus();
}

bool Dataset::wasWrittenTo() const { return !impl->file.checkUnchanged().ok(); }
