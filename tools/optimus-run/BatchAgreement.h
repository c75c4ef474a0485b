//===- BatchAgreement.h - That processes read the same tokens ---*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each process opens the data under its own machine's path, and a copy there
// may be stale. So processes exchange a hash of their reads of each batch, with
// the message by which they agree on it. Where ranks share the batch out,
// nobody else reads a rank's rows: then a process with another file reads and
// hashes them too.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_RUN_BATCHAGREEMENT_H
#define OPTIMUS_TOOLS_OPTIMUS_RUN_BATCHAGREEMENT_H

#include "optimus-runtime/ControlPlane.h"
#include "optimus-runtime/Dataset.h"
#include "optimus-runtime/Session.h"

#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace optimus_run {

/// The rows of one global batch, the same in every process.
struct BatchRows {
  /// As Session::FillRows, with what Dataset::hashWindows() has of each row.
  std::function<optrt::Status(int64_t begin, int64_t count, int32_t *tokens,
                              int32_t *targets, uint64_t *hashes)>
      fill;
  std::function<int64_t(int64_t row)> window; ///< or Dataset::kPadding
};

/// For Session::read(): where documents end in the rows of a batch, as `data`
/// says; nothing where it does not. `data` must outlive it.
optrt::Session::FindEnds endsOf(const optrt::Dataset &data,
                                std::function<int64_t(int64_t row)> window);

/// Which processes' rows each process reads besides its own, by where each has
/// its file: every process with a file of its own, or shared with some, has
/// one witness among those that have the next file; none where all have one
/// file.
std::vector<std::vector<int>>
chooseWitnessed(std::span<const std::string> places);

class BatchAgreement {
public:
  /// All must outlive it. Collective.
  BatchAgreement(const optrt::Session &session, optrt::ControlPlane &control,
                 const optrt::Dataset &data);

  /// Reads what this process's ranks have of a batch, and hashes it. A failure
  /// is of this process only. Also while a call is under way.
  optrt::Status read(BatchRows rows, optrt::HostBatch &batch);
  /// Reads another one, to be agreed on together with those before.
  optrt::Status readAnother(BatchRows rows, optrt::HostBatch &batch);

  /// The digests compared by the others, of the batches read: 16 digits a range
  /// of rows of each. Empty where one was not read.
  const std::string &digests() const { return own; }

  /// Compares the digests of all processes, in their order. Collective where
  /// some differ.
  ///
  /// Errors, the same in every process: InvalidArgument with two ranks, their
  /// files and the first window of a difference.
  optrt::Status compare(std::span<const std::string> all);

  /// Success if every process brings success and has read the same.
  /// Collective.
  optrt::Status agree(const optrt::Status &status);

private:
  using RowRange = optrt::Session::RowRange;
  optrt::Status difference(std::size_t one, std::size_t other,
                           std::size_t batch, const RowRange &range);

  const optrt::Session &session;
  optrt::ControlPlane &control;
  const optrt::Dataset &data;
  /// What each process reads: its own ranges, and those it witnesses. Empty
  /// for a single process.
  std::vector<std::vector<RowRange>> ranges;

  struct Batch {
    BatchRows rows;
    std::vector<std::pair<RowRange, std::vector<uint64_t>>> hashes;
  };
  optrt::Status readInto(Batch &read, optrt::HostBatch &batch);

  std::vector<Batch> batches; ///< to be agreed on
  std::string own;
};

} // namespace optimus_run

#endif // OPTIMUS_TOOLS_OPTIMUS_RUN_BATCHAGREEMENT_H
