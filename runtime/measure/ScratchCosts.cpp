//===- ScratchCosts.cpp - What copies to a scratch file take --------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ScratchCosts.h"

#include "Timing.h"
#include "base/ScratchFile.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sys/mman.h>
#include <thread>
#include <vector>

namespace optrt {
namespace {

/// As a large tensor; so many of them, a direction, in a round.
constexpr int64_t kPiece = int64_t(4) << 20;
constexpr int kPieces = 12;

struct Free {
  void operator()(char *memory) const { std::free(memory); }
};

/// In huge pages, of no zeros.
std::unique_ptr<char, Free> makePiece() {
  constexpr std::size_t kHugePage = std::size_t(2) << 20;
  std::unique_ptr<char, Free> piece(
      static_cast<char *>(std::aligned_alloc(kHugePage, kPiece)));
  if (!piece)
    return piece;
  madvise(piece.get(), kPiece, MADV_HUGEPAGE);
  for (int64_t at = 0; at != kPiece; ++at)
    piece.get()[at] = static_cast<char>(uint64_t(at) * 2654435761u >> 16);
  return piece;
}

/// All pieces of one of the file's two regions.
StatusOr<ScratchCost> move(ScratchFile &file, bool writes, int region,
                           char *memory) {
  const double before = getProcessorSeconds(RUSAGE_THREAD);
  const auto begin = std::chrono::steady_clock::now();
  for (int piece = 0; piece != kPieces; ++piece) {
    char *at = file.start() + (region * kPieces + piece) * kPiece;
    OPTRT_RETURN_IF_ERROR(writes ? file.write(at, memory, kPiece)
                                 : file.read(at, memory, kPiece));
  }
  const std::chrono::duration<double> seconds =
      std::chrono::steady_clock::now() - begin;
  constexpr double kBytes = double(kPieces) * double(kPiece);
  return ScratchCost{kBytes / seconds.count(),
                     (getProcessorSeconds(RUSAGE_THREAD) - before) / kBytes};
}

/// Of each figure.
ScratchCost medianOf(const std::vector<ScratchCost> &costs) {
  auto middle = [&](double ScratchCost::*figure) {
    std::vector<double> values;
    for (const ScratchCost &one : costs)
      values.push_back(one.*figure);
    return takeMedian(std::move(values));
  };
  return {middle(&ScratchCost::bytesPerSecond),
          middle(&ScratchCost::processorSeconds)};
}

} // namespace

nlohmann::ordered_json scratchEntry(const ScratchCosts &costs) {
  return {{"in_bytes_per_s", costs.in.bytesPerSecond},
          {"out_bytes_per_s", costs.out.bytesPerSecond},
          {"in_processor_s_per_byte", costs.in.processorSeconds},
          {"out_processor_s_per_byte", costs.out.processorSeconds}};
}

StatusOr<ScratchCosts> measureScratchCosts(const std::string &folder,
                                           int rounds) {
  OPTRT_ASSIGN_OR_RETURN(
      std::unique_ptr<ScratchFile> file,
      ScratchFile::create(folder, 2 * kPieces * kPiece, "measurements"));
  const auto read = makePiece(), written = makePiece();
  if (!read || !written)
    return unavailable(
        concat("cannot allocate ", kPiece, " bytes to time a scratch file"));
  // What was never written reads as zeros, and is written more slowly.
  for (int region : {0, 1})
    OPTRT_RETURN_IF_ERROR(
        move(*file, /*writes=*/true, region, written.get()).status());
  std::vector<ScratchCost> in, out;
  for (int round = 0; round != std::max(1, rounds); ++round) {
    StatusOr<ScratchCost> own = ScratchCost();
    std::thread reader(
        [&] { own = move(*file, /*writes=*/false, 0, read.get()); });
    StatusOr<ScratchCost> other =
        move(*file, /*writes=*/true, 1, written.get());
    reader.join();
    OPTRT_RETURN_IF_ERROR(own.status());
    OPTRT_RETURN_IF_ERROR(other.status());
    in.push_back(*own);
    out.push_back(*other);
  }
  return ScratchCosts{medianOf(in), medianOf(out)};
}

} // namespace optrt
