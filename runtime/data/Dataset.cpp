//===- Dataset.cpp - Tokens of a training or evaluation file --------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-runtime/Dataset.h"

#include "Mixture.h"
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
  /// A file or a store.
  class Part {
  public:
    Part(std::unique_ptr<TokenSource> source, int64_t sequence)
        : source(std::move(source)), sequence(sequence),
          windows((this->source->numTokens() - 1) / sequence) {}

    /// The window at a position of the part's own epochs.
    int64_t windowAt(int64_t position, DataOrder order, uint64_t seed,
                     int64_t mostKept);

    const std::unique_ptr<TokenSource> source;
    const int64_t sequence, windows;

  private:
    std::shared_ptr<const WindowOrder> orderOf(int64_t epoch, uint64_t seed);

    // A batch may reach from one epoch into the next, and ranks may be a step
    // apart: the permutations of two epochs are kept.
    std::mutex mutex;
    std::shared_ptr<const WindowOrder> epochOrders[2];
    int64_t epochs[2] = {-1, -1};
  };

  /// Room for a window and its last target.
  struct Scratch {
    std::vector<uint8_t> bytes;
    std::vector<uint8_t> labels; ///< empty where all tokens are
    std::vector<uint32_t> values;

    Status read(const Part &part, int64_t window);
    bool isLabel(int64_t token) const {
      return labels.empty() || labels[token] != 0;
    }
    uint64_t hash() const;
  };

  std::string path;
  std::vector<std::unique_ptr<Part>> parts;
  std::vector<int64_t> begins = {
      0}; ///< first windows of the parts, and the end
  Mixture mixture;
  int64_t sequence = 0;
  DataOrder order = DataOrder::Shuffled;
  uint64_t seed = 0;
  int64_t vocabulary = 0;
  std::optional<MaskedObjective> masked;

  Status add(const std::string &path, std::optional<TokenType> tokenType,
             StoreSplit split);
  Status checkAlike(const TokenSource &other) const;
  /// A window of all parts is one of a part.
  struct Place {
    const Part &part;
    int64_t window;
  };
  Place find(int64_t window) const;
  /// The window's tokens and targets. What is hidden is drawn at `step` for
  /// the sequence's `position`.
  Status fillRow(int64_t window, uint64_t step, int64_t position,
                 Scratch &scratch, int32_t *tokens, int32_t *targets) const;
  void hide(uint64_t step, int64_t position, const Scratch &scratch,
            int32_t *tokens, int32_t *targets) const;
  void fillPadding(int32_t *tokens, int32_t *targets) const;
};

std::shared_ptr<const WindowOrder> Dataset::Impl::Part::orderOf(int64_t epoch,
                                                                uint64_t seed) {
  std::lock_guard<std::mutex> lock(mutex);
  int slot = epoch % 2;
  if (epochs[slot] != epoch) {
    epochOrders[slot] = std::make_shared<const WindowOrder>(
        optimus_support::permutation(windows, seed, epoch));
    epochs[slot] = epoch;
  }
  return epochOrders[slot];
}

int64_t Dataset::Impl::Part::windowAt(int64_t position, DataOrder order,
                                      uint64_t seed, int64_t mostKept) {
  const int64_t within = position % windows;
  if (order == DataOrder::Sequential)
    return within;
  const int64_t epoch = position / windows;
  if (windows > mostKept)
    return optimus_support::permuted(within, windows, seed, epoch);
  return (*orderOf(epoch, seed))[within];
}

Status Dataset::Impl::Scratch::read(const Part &part, int64_t window) {
  const int64_t begin = window * part.sequence, count = part.sequence + 1;
  OPTRT_RETURN_IF_ERROR(part.source->read(begin, count, bytes));
  labels.resize(part.source->hasLabels() ? count : 0);
  return labels.empty() ? okStatus() : part.source->readLabels(begin, labels);
}

uint64_t Dataset::Impl::Scratch::hash() const {
  optimus_support::Hash64 hash;
  hash.update(bytes.data(), bytes.size());
  hash.update(labels.data(), labels.size());
  return hash.digest();
}

Dataset::Impl::Place Dataset::Impl::find(int64_t window) const {
  const std::size_t part =
      std::upper_bound(begins.begin(), begins.end(), window) - begins.begin() -
      1;
  return {*parts[part], window - begins[part]};
}

/// Training draws at step 1, evaluation at step 0.
static constexpr uint64_t kTraining = 1, kEvaluation = 0;

void Dataset::Impl::hide(uint64_t step, int64_t position,
                         const Scratch &scratch, int32_t *tokens,
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
    if (uint32_t(words[0]) >= chosen || tokens[i] == masked->padToken ||
        !scratch.isLabel(i))
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
  const auto [part, own] = find(window);
  OPTRT_RETURN_IF_ERROR(scratch.read(part, own));
  std::vector<uint32_t> &values = scratch.values;
  values.resize(sequence + 1);
  part.source->decode(scratch.bytes, values);
  // It was so when the data were opened; a kernel does not look again.
  const uint32_t largest = *std::max_element(values.begin(), values.end());
  if (largest >= vocabulary)
    return part.source->unexpectedToken(largest, vocabulary);
  std::copy_n(values.begin(), sequence, tokens);
  if (masked) {
    hide(step, position, scratch, tokens, targets);
    return okStatus();
  }
  for (int64_t i = 0; i != sequence; ++i)
    targets[i] = scratch.isLabel(i + 1) ? int32_t(values[i + 1]) : -1;
  return okStatus();
}

void Dataset::Impl::fillPadding(int32_t *tokens, int32_t *targets) const {
  std::fill_n(tokens, sequence, 0);
  std::fill_n(targets, sequence, -1);
}

Dataset::Dataset(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
Dataset::~Dataset() = default;

Status Dataset::Impl::checkAlike(const TokenSource &other) const {
  const TokenSource &first = *parts.front()->source;
  auto differ = [&](const std::string &what, const std::string &one,
                    const std::string &another) {
    return invalidArgument(
        concat("the data ", path, ": ", first.path(), " has ", what, " ", one,
               ", and ", other.path(), " ", another, "; a mixture has one"));
  };
  if (first.type() != other.type())
    return differ("tokens of type", toString(first.type()),
                  toString(other.type()));
  const std::optional<TokenOrigin> one = first.origin(),
                                   another = other.origin();
  if (!one || !another)
    return okStatus();
  if (one->tokenizer != another->tokenizer)
    return differ("the tokenizer with hash", one->tokenizer,
                  another->tokenizer);
  auto end = [](const TokenOrigin &origin) {
    return origin.documentEnd ? concat(*origin.documentEnd) : "none";
  };
  if (one->documentEnd != another->documentEnd)
    return differ("the document end", end(*one), end(*another));
  return okStatus();
}

/// Opens a file or a store.
static StatusOr<std::unique_ptr<TokenSource>>
openSource(const std::string &path, int64_t vocabulary,
           std::optional<TokenType> tokenType, StoreSplit split) {
  std::unique_ptr<TokenSource> source;
  if (TokenStore::isAt(path)) {
    OPTRT_ASSIGN_OR_RETURN(
        source, TokenStore::open(path, split, vocabulary, tokenType));
  } else if (std::error_code error;
             std::filesystem::is_directory(path, error)) {
    return invalidArgument(
        concat("the data ", path,
               " is a folder without an index.json; "
               "expected a FILE.txt, a FILE.bin, or a store that python3 -m "
               "optimus.data prepare wrote"));
  } else {
    OPTRT_ASSIGN_OR_RETURN(source,
                           TokenFile::open(path, vocabulary, tokenType));
  }
  return source;
}

Status Dataset::Impl::add(const std::string &path,
                          std::optional<TokenType> tokenType,
                          StoreSplit split) {
  OPTRT_ASSIGN_OR_RETURN(std::unique_ptr<TokenSource> source,
                         openSource(path, vocabulary, tokenType, split));
  const int64_t tokens = source->numTokens();
  // sequence + 1 would overflow for the largest sequence.
  if (tokens - 1 < sequence)
    return invalidArgument(concat(
        "the data file ", path, " has ", tokens, " tokens; one sequence of ",
        sequence, " and its last target need ", uint64_t(sequence) + 1));
  if (!parts.empty())
    OPTRT_RETURN_IF_ERROR(checkAlike(*source));
  parts.push_back(std::make_unique<Part>(std::move(source), sequence));
  begins.push_back(begins.back() + parts.back()->windows);
  return okStatus();
}

StatusOr<std::unique_ptr<Dataset>>
Dataset::open(const std::string &path, int64_t sequence, int64_t vocabulary,
              DataOrder order, uint64_t seed,
              std::optional<MaskedObjective> masked,
              std::optional<TokenType> tokenType, StoreSplit split) {
  if (sequence < 1 || vocabulary < 1)
    return internal(concat("a data set needs a positive sequence length and "
                           "vocabulary, not ",
                           sequence, " and ", vocabulary));
  OPTRT_ASSIGN_OR_RETURN(const std::vector<MixturePart> parts,
                         parseMixture(path));
  auto impl = std::make_unique<Impl>();
  impl->path = path;
  impl->sequence = sequence;
  impl->order = order;
  impl->seed = seed;
  impl->vocabulary = vocabulary;
  impl->masked = masked;
  for (const MixturePart &part : parts)
    OPTRT_RETURN_IF_ERROR(impl->add(part.path, tokenType, split));
  impl->mixture =
      Mixture(parts, order == DataOrder::Shuffled ? &seed : nullptr);
  return std::unique_ptr<Dataset>(new Dataset(std::move(impl)));
}

const std::string &Dataset::path() const { return impl->path; }
int64_t Dataset::sequence() const { return impl->sequence; }
int64_t Dataset::numWindows() const { return impl->begins.back(); }

int64_t Dataset::numTokens() const {
  int64_t tokens = 0;
  for (const std::unique_ptr<Impl::Part> &part : impl->parts)
    tokens += part->source->numTokens();
  return tokens;
}

/// Of a mixture the hashes are those of its parts' hashes and weights.
DataIdentity Dataset::identity() const {
  const std::vector<std::unique_ptr<Impl::Part>> &parts = impl->parts;
  if (parts.size() == 1)
    return parts.front()->source->identity();
  DataIdentity all{parts.front()->source->type(), numTokens(), 0, std::nullopt};
  optimus_support::Hash64 sample, contents;
  bool isKnown = true;
  for (std::size_t i = 0; i != parts.size(); ++i) {
    const DataIdentity one = parts[i]->source->identity();
    auto add = [&](optimus_support::Hash64 &hash, uint64_t value) {
      const int64_t words[] = {impl->mixture.shareOf(i), one.tokens,
                               static_cast<int64_t>(value)};
      hash.update(words, sizeof(words));
    };
    add(sample, one.sample);
    add(contents, one.contents.value_or(0));
    isKnown &= one.contents.has_value();
  }
  all.sample = sample.digest();
  if (isKnown)
    all.contents = contents.digest();
  return all;
}

std::optional<TokenOrigin> Dataset::origin() const {
  for (const std::unique_ptr<Impl::Part> &part : impl->parts)
    if (std::optional<TokenOrigin> origin = part->source->origin())
      return origin;
  return std::nullopt;
}

std::vector<std::string> Dataset::pathsIn(const std::string &path) {
  StatusOr<std::vector<MixturePart>> parts = parseMixture(path);
  if (!parts.ok())
    return {path};
  std::vector<std::string> paths;
  for (MixturePart &part : *parts)
    paths.push_back(std::move(part.path));
  return paths;
}

bool Dataset::isStore(const std::string &path) {
  return std::ranges::all_of(pathsIn(path), TokenStore::isAt);
}

Status Dataset::hashInBackground() {
  for (const std::unique_ptr<Impl::Part> &part : impl->parts)
    OPTRT_RETURN_IF_ERROR(part->source->hashInBackground());
  return okStatus();
}

int64_t Dataset::windowAt(int64_t position) const {
  assert(position >= 0);
  const auto [part, own] = impl->mixture.at(position);
  const int64_t mostKept = kMostKeptWindows / int64_t(impl->parts.size());
  return impl->begins[part] +
         impl->parts[part]->windowAt(own, impl->order, impl->seed, mostKept);
}

std::string Dataset::describeWindow(int64_t window) const {
  const auto [part, own] = impl->find(window);
  const int64_t sequence = impl->sequence;
  return concat("window ", own, " (tokens ", own * sequence, " to ",
                (own + 1) * sequence, ")",
                impl->parts.size() > 1 ? " of " + part.source->path() : "");
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
      *hashes++ = window != kPadding ? scratch.hash() : 0;
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
  Impl::Scratch scratch;
  for (int64_t window : windows) {
    if (window == kPadding) {
      *hashes++ = 0;
      continue;
    }
    const auto [part, own] = impl->find(window);
    OPTRT_RETURN_IF_ERROR(scratch.read(part, own));
    *hashes++ = scratch.hash();
  }
  return okStatus();
}

bool Dataset::hasEnds() const {
  return std::ranges::all_of(impl->parts,
                             [](const std::unique_ptr<Impl::Part> &part) {
                               return part->source->hasEnds();
                             });
}

Status Dataset::findEnds(int64_t window, std::span<uint8_t> ends) const {
  if (window == kPadding) {
    std::ranges::fill(ends, uint8_t(0));
    return okStatus();
  }
  const auto [part, own] = impl->find(window);
  return part.source->readEnds(own * impl->sequence, ends);
}

Status Dataset::fetchRows(int64_t position, int64_t globalBatch,
                          int64_t rowsBegin, int64_t rowsCount) const {
  Impl::Scratch scratch;
  for (int64_t row = rowsBegin; row != rowsBegin + rowsCount; ++row) {
    const int64_t window = windowOfRow(position, globalBatch, row);
    if (window == kPadding)
      continue;
    const auto [part, own] = impl->find(window);
    OPTRT_RETURN_IF_ERROR(scratch.read(part, own));
  }
  return okStatus();
}

Status Dataset::dropFromMemory() const {
  for (const std::unique_ptr<Impl::Part> &part : impl->parts)
    OPTRT_RETURN_IF_ERROR(part->source->dropFromMemory());
  return okStatus();
}

Status Dataset::keepInMemory(int64_t bytes, const std::string &folder) {
  // A product of two large numbers is beyond 64 bits.
  const double share = double(bytes) / double(numTokens());
  for (const std::unique_ptr<Impl::Part> &part : impl->parts)
    OPTRT_RETURN_IF_ERROR(part->source->keepInMemory(
        folder, int64_t(share * double(part->source->numTokens()))));
  return okStatus();
}

CacheUse Dataset::cacheUse() const {
  CacheUse all;
  for (const std::unique_ptr<Impl::Part> &part : impl->parts) {
    const CacheUse one = part->source->cacheUse();
    all.kept += one.kept;
    all.hits += one.hits;
    all.misses += one.misses;
  }
  return all;
}

std::string Dataset::place() const {
  std::string place = optimus_support::machineIdentity();
  for (const std::unique_ptr<Impl::Part> &part : impl->parts)
    place += " " + part->source->place();
  return place;
}

bool Dataset::wasWrittenTo() const {
  return std::ranges::any_of(impl->parts,
                             [](const std::unique_ptr<Impl::Part> &part) {
                               return part->source->wasWrittenTo();
                             });
}
