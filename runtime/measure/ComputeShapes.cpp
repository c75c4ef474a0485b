//===- ComputeShapes.cpp - What of a rank's computations is timed ---------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ComputeShapes.h"

#include <algorithm>

using namespace optrt;

namespace {

/// Powers of two, and three and five times such: how the library divides a
/// matrix, and how its rows lie in a cache, differs between these.
constexpr int64_t kFeatures[] = {32,  64,  128,  192,  256,  320,  384, 512,
                                 640, 768, 1024, 1280, 1536, 2048, 3072};
constexpr int64_t kTokens[] = {32, 128, 1024};

} // namespace

/// Without gaps.
static std::vector<const GemmPoint *>
listLarge(const std::vector<GemmPoint> &points) {
  constexpr int64_t kLeast = 128;
  std::vector<const GemmPoint *> large;
  for (const GemmPoint &point : points)
    if (!point.gaps && std::min({point.m, point.n, point.k}) >= kLeast)
      large.push_back(&point);
  return large;
}

std::vector<GemmPoint> optrt::productShapes(int64_t largest) {
  struct Operation {
    bool transA, transB, bias;
  };
  std::vector<GemmPoint> points;
  for (auto [transA, transB, bias] :
       {Operation{false, false, false}, Operation{false, false, true},
        Operation{false, true, false}, Operation{true, false, false}})
    for (int64_t tokens : kTokens)
      for (std::size_t i = 0; i != std::size(kFeatures); ++i)
        for (std::size_t j = transA ? 0 : i % 2; j < std::size(kFeatures);
             j += transA ? 1 : 2) {
          if (transA && tokens == kTokens[0])
            continue;
          int64_t p = kFeatures[i], q = kFeatures[j];
          GemmPoint point{transA ? p : tokens,
                          q,
                          transA ? tokens : p,
                          transA,
                          transB,
                          bias};
          // Larger ones are as fast, and take long.
          constexpr int64_t kMostElements = 3 << 19;
          if (std::max(p, q) <= largest && p * q <= kMostElements)
            points.push_back(point);
        }
  // Some of the same with gaps.
  constexpr std::size_t kEvery = 7;
  const std::vector<const GemmPoint *> large = listLarge(points);
  std::vector<GemmPoint> apart;
  for (std::size_t i = 0; i < large.size(); i += kEvery)
    apart.emplace_back(*large[i]).gaps = true;
  points.insert(points.end(), apart.begin(), apart.end());
  return points;
}

std::vector<const GemmPoint *>
optrt::chooseForCold(const std::vector<GemmPoint> &points) {
  constexpr std::size_t kEvery = 15;
  const std::vector<const GemmPoint *> large = listLarge(points);
  std::vector<const GemmPoint *> chosen;
  for (std::size_t i = 0; i < large.size(); i += kEvery)
    chosen.push_back(large[i]);
  return chosen;
}

std::vector<PackPoint> optrt::packShapes(int64_t largest) {
  std::vector<PackPoint> points;
  for (bool trans : {false, true})
    for (std::size_t i = 0; i != std::size(kFeatures); ++i)
      for (std::size_t j = i % 2; j < std::size(kFeatures); j += 2)
        if (std::max(kFeatures[i], kFeatures[j]) <= largest)
          points.push_back({kFeatures[i], kFeatures[j], trans});
  return points;
}

std::vector<AttentionPoint> optrt::attentionShapes(int64_t largest) {
  std::vector<AttentionPoint> points;
  for (bool gradient : {false, true})
    for (bool causal : {false, true})
      for (int64_t seq : {32, 128, 512})
        for (int64_t headDim : {16, 32, 64, 128})
          if (seq <= largest)
            points.push_back({seq, headDim, causal, gradient});
  return points;
}
