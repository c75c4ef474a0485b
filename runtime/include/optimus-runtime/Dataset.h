//===- Dataset.h - Tokens of a training or evaluation file ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Window w of a file, with sequences of length s, has tokens [w*s, w*s + s) as
// inputs and the same shifted by one as targets; a tail too short for a window
// and its last target is dropped. With a masked objective
// (docs/masked-tokens.md) some inputs are hidden instead, and only these have
// targets, the tokens themselves. A token that a store says is no label is
// never a target: -1 stands there.
//
// A mixture, as a=0.7,b=0.3, has the windows of all its parts, one part after
// the other. Positions are shared out among the parts by their weights, exactly
// and in an order of the seed, and each part has its own epochs.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_DATASET_H
#define OPTIMUS_RUNTIME_DATASET_H

#include "optimus-runtime/DataIdentity.h"
#include "optimus-runtime/Status.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace optrt {

/// Training to tell hidden tokens.
struct MaskedObjective {
  int32_t maskToken = 0; ///< stands for a hidden token
  int32_t padToken = -1; ///< is never hidden; -1 for none

  bool operator==(const MaskedObjective &) const = default;
};

enum class DataOrder {
  Sequential, ///< windows as they lie, wrapping at the end
  /// Permuted each epoch: optimus_support::permutation(), and from 2^24 windows
  /// on optimus_support::permuted(), which takes no memory.
  Shuffled,
};

/// What a store says of whoever made its tokens.
struct TokenOrigin {
  std::string tokenizer;              ///< hash, of hexadecimal digits
  std::string tokenizerFile;          ///< tokenizer.json; empty for bytes
  std::optional<int64_t> documentEnd; ///< the token after each document

  bool operator==(const TokenOrigin &) const = default;
};

/// Bytes of a cache of data.
struct CacheUse {
  int64_t kept = 0;             ///< in it, for all processes of the machine
  int64_t hits = 0, misses = 0; ///< of this process's reading
};

/// Which documents of a store.
enum class StoreSplit { Train, HeldOut };

/// An open, checked file or store of tokens, or a mixture of them, read window
/// by window. All functions may be called from several threads at once. Where
/// somebody writes to the file meanwhile, what is read is checked again: see
/// fillBatch().
class Dataset {
public:
  /// Opens FILE.txt (one token a byte) or FILE.bin (little-endian, of
  /// `tokenType`, where that is absent as the file's header or FILE.bin.json
  /// says, else u16) and checks every token against `vocabulary`; or a store
  /// (docs/data.md), of which the vocabulary in its index is checked, and
  /// `split` is read where the path names none; or a mixture of such,
  /// PATH=WEIGHT,…. `seed` decides the order and what is hidden.
  ///
  /// Errors: InvalidArgument for a missing or unreadable file, another
  /// extension, another format, a wrong or contradicted width, fewer than
  /// sequence + 1 tokens, a token at or above `vocabulary`, a store with other
  /// files than its index says, weights that are none, and parts of two widths,
  /// tokenizers or ends of documents.
  static StatusOr<std::unique_ptr<Dataset>>
  open(const std::string &path, int64_t sequence, int64_t vocabulary,
       DataOrder order = DataOrder::Shuffled, uint64_t seed = 0,
       std::optional<MaskedObjective> masked = std::nullopt,
       std::optional<TokenType> tokenType = std::nullopt,
       StoreSplit split = StoreSplit::Train);
  ~Dataset();
  Dataset(const Dataset &) = delete;
  Dataset &operator=(const Dataset &) = delete;

  const std::string &path() const;
  int64_t sequence() const;
  int64_t numTokens() const;
  int64_t numWindows() const;

  /// Which tokens these are, as far as is known: of many their hash is absent
  /// at first. hashInBackground() has it computed on a thread that steps do not
  /// feel; Unavailable where the system gives no thread.
  DataIdentity identity() const;
  Status hashInBackground();

  /// Who made the tokens, of a store.
  std::optional<TokenOrigin> origin() const;
  /// Whether a path leads to a store, or to a split of one; of a mixture,
  /// whether all paths do.
  static bool isStore(const std::string &path);
  /// The paths of a mixture, or `path` alone.
  static std::vector<std::string> pathsIn(const std::string &path);

  /// The window at position `position` >= 0 of the endless sequence of epochs.
  /// Sequence j of step k (from 0) of a run that began at 0 with global batch b
  /// is position k*b + j.
  int64_t windowAt(int64_t position) const;

  /// Rows [rowsBegin, rowsBegin + rowsCount) of the batch of `globalBatch`
  /// sequences that begins at `position`, into row-major [rowsCount, sequence]
  /// matrices. Rows at or beyond `globalBatch` are padding: token 0, target -1.
  /// Where `hashes` is not null it gets what hashWindows() has of each row.
  ///
  /// Errors: DataLoss when the file ends early, or has a token beyond the
  /// vocabulary: it was whole when it was opened.
  Status fillBatch(int64_t position, int64_t globalBatch, int64_t rowsBegin,
                   int64_t rowsCount, int32_t *tokens, int32_t *targets,
                   uint64_t *hashes = nullptr) const;

  /// Batches of an evaluation over all windows, as they lie.
  int64_t numEvalBatches(int64_t globalBatch) const {
    return (numWindows() + globalBatch - 1) / globalBatch;
  }
  /// As fillBatch, for batch `index` < numEvalBatches: row j has window
  /// index*globalBatch + j; rows past the last window are padding too.
  Status fillEvalBatch(int64_t index, int64_t globalBatch, int64_t rowsBegin,
                       int64_t rowsCount, int32_t *tokens, int32_t *targets,
                       uint64_t *hashes = nullptr) const;

  /// For messages: "window 3 (tokens 48 to 64)", and of which part.
  std::string describeWindow(int64_t window) const;

  /// The windows of these rows; kPadding for those that are none.
  static constexpr int64_t kPadding = -1;
  int64_t windowOfRow(int64_t position, int64_t globalBatch,
                      int64_t row) const {
    return row < globalBatch ? windowAt(position + row) : kPadding;
  }
  int64_t windowOfEvalRow(int64_t index, int64_t globalBatch,
                          int64_t row) const {
    const int64_t window = index * globalBatch + row;
    return row < globalBatch && window < numWindows() ? window : kPadding;
  }

  /// Reads windows, and computes of each the XXH64 of the bytes of its tokens
  /// and last target, as they lie in the file, and of their labels, a byte
  /// each, where a store has these; 0 for padding. DataLoss when the
  /// file ends early.
  Status hashWindows(std::span<const int64_t> windows, uint64_t *hashes) const;

  /// Whether it is known of all windows where documents end, as of a store.
  bool hasEnds() const;
  /// Of each token of a window, 1 for the last of a document and 0 for any
  /// other; zeros for padding. DataLoss as fillBatch().
  Status findEnds(int64_t window, std::span<uint8_t> ends) const;

  /// Reads what fillBatch() makes tokens of, and forgets it. Errors as there.
  Status fetchRows(int64_t position, int64_t globalBatch, int64_t rowsBegin,
                   int64_t rowsCount) const;
  /// Asks the system to forget what it keeps of the data in memory. DataLoss
  /// for a shard that is gone.
  Status dropFromMemory() const;

  /// Keeps `bytes` of the data in this machine's memory for all processes that
  /// ask for the same: what is read first, and never anything else. Of a
  /// mixture each part gets its share of the tokens. Called once, before
  /// anything is read. InvalidArgument where there is no such memory.
  Status keepInMemory(int64_t bytes, const std::string &folder = "/dev/shm");
  /// All zeros without a cache.
  CacheUse cacheUse() const;

  /// Names the open file among those of all machines of a job.
  std::string place() const;

  /// Whether somebody has written to the file since it was opened. Costs a
  /// system call.
  bool wasWrittenTo() const;

private:
  struct Impl;
  /// Row r is drawn for position `position` + r.
  template <typename WindowOfRow>
  Status fillRows(int64_t rowsBegin, int64_t rowsCount, uint64_t step,
                  int64_t position, WindowOfRow windowOfRow, int32_t *tokens,
                  int32_t *targets, uint64_t *hashes) const;
  explicit Dataset(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_DATASET_H
