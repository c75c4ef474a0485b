//===- ScratchCosts.cpp - What copies to a scratch file take --------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ScratchCosts.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/mman.h>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace optrt {
namespace {

/// As a large tensor; so many of them, a direction, in a round.
constexpr size_t kPiece = size_t(4) << 20;
constexpr int kPieces = 12;

double processorSeconds() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  auto toSeconds = [](const timeval &time) {
    return double(time.tv_sec) + 1e-6 * double(time.tv_usec);
  };
  return toSeconds(usage.ru_utime) + toSeconds(usage.ru_stime);
}

/// Memory in huge pages, and a file without a name, of two regions.
class Scratch {
public:
  ~Scratch() {
    if (file >= 0)
      close(file);
    for (char *one : memory)
      if (one)
        munmap(one, kPiece);
  }

  Status open(const std::string &folder) {
    auto fail = [&](int error) {
      return unavailable(concat("cannot time a scratch file in '", folder,
                                "': ", std::strerror(error)));
    };
    std::string path = folder + "/optimus-scratch-XXXXXX";
    file = mkostemp(path.data(), O_CLOEXEC);
    if (file < 0)
      return fail(errno);
    unlink(path.c_str());
    if (int error = posix_fallocate(file, 0, 2 * kPieces * kPiece))
      return fail(error);
    // A file system that knows no direct access goes through its cache.
    fcntl(file, F_SETFL, fcntl(file, F_GETFL) | O_DIRECT);
    for (char *&one : memory) {
      void *got = mmap(nullptr, kPiece, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (got == MAP_FAILED)
        return fail(errno);
      one = static_cast<char *>(got);
      madvise(one, kPiece, MADV_HUGEPAGE);
      for (size_t at = 0; at != kPiece; ++at)
        one[at] = static_cast<char>(at * 2654435761u >> 16);
    }
    return okStatus();
  }

  /// All pieces of a region; nothing where the disk fails.
  ScratchCost move(bool writes, int region) const {
    const double before = processorSeconds();
    const auto begin = std::chrono::steady_clock::now();
    char *own = memory[writes];
    for (int piece = 0; piece != kPieces; ++piece) {
      const off_t at = off_t(region * kPieces + piece) * off_t(kPiece);
      const ssize_t done =
          writes ? pwrite(file, own, kPiece, at) : pread(file, own, kPiece, at);
      if (done != ssize_t(kPiece))
        return {};
    }
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
            .count();
    constexpr double kBytes = double(kPieces) * double(kPiece);
    return {kBytes / seconds, (processorSeconds() - before) / kBytes};
  }

private:
  int file = -1;
  char *memory[2] = {nullptr, nullptr};
};

/// Of each figure.
ScratchCost medianOf(const std::vector<ScratchCost> &costs) {
  auto middle = [&](double ScratchCost::*figure) {
    std::vector<double> values;
    for (const ScratchCost &one : costs)
      values.push_back(one.*figure);
    std::nth_element(values.begin(), values.begin() + values.size() / 2,
                     values.end());
    return values[values.size() / 2];
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
  Scratch scratch;
  OPTRT_RETURN_IF_ERROR(scratch.open(folder));
  // What was never written reads as zeros, and is written more slowly.
  for (int region : {0, 1})
    scratch.move(/*writes=*/true, region);
  std::vector<ScratchCost> in, out;
  for (int round = 0; round != std::max(1, rounds); ++round) {
    ScratchCost read;
    std::thread reader([&] { read = scratch.move(/*writes=*/false, 0); });
    out.push_back(scratch.move(/*writes=*/true, 1));
    reader.join();
    in.push_back(read);
    if (in.back().bytesPerSecond <= 0 || out.back().bytesPerSecond <= 0)
      return unavailable(concat("cannot time a scratch file in '", folder,
                                "': the disk fails"));
  }
  return ScratchCosts{medianOf(in), medianOf(out)};
}

} // namespace optrt
