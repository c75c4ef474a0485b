//===- DenseAttention.cpp - Attention, part by part -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Interpreter/DenseAttention.h"

#include <cmath>
#include <limits>

using namespace mlir::optimus;

/// A query of one head, and where its keys begin.
struct DenseAttention::Query {
  const DenseAttention &all;
  int64_t row;   ///< the element of lse
  int64_t place; ///< the first element of q and of the result
  int64_t keys;  ///< the first element of k and v at token 0
  optimus_support::KeyRange seen;

  /// The first element of a key and its value.
  int64_t at(int64_t token) const {
    return keys + token * all.kvHeads * all.headDim;
  }
  double getScore(int64_t token) const {
    return dot(all.q, place, all.k, at(token)) /
           std::sqrt(static_cast<double>(all.headDim));
  }
  double dot(const std::vector<double> &a, int64_t atA,
             const std::vector<double> &b, int64_t atB) const {
    double sum = 0;
    for (int64_t i = 0; i < all.headDim; ++i)
      sum += a[atA + i] * b[atB + i];
    return sum;
  }
  /// to += scale * from, of a head's elements.
  void add(std::vector<double> &to, int64_t atTo, double scale,
           const std::vector<double> &from, int64_t atFrom) const {
    for (int64_t i = 0; i < all.headDim; ++i)
      to[atTo + i] += scale * from[atFrom + i];
  }
};

optimus_support::KeyRange DenseAttention::getSeenKeys(int64_t sequence,
                                                      int64_t token) const {
  const int64_t length = lengths.empty() ? seq : lengths[sequence];
  const int64_t position =
      positions.empty() ? token : positions[sequence * seq + token];
  return capacity != 0
             ? optimus_support::seenCachedKeys(position, length, window)
             : optimus_support::seenKeys(token, position, length, causal,
                                         window);
}

template <typename Fn>
void DenseAttention::forEachQuery(Fn &&fn) const {
  for (int64_t sequence = 0; sequence < batch; ++sequence)
    for (int64_t head = 0; head < heads; ++head)
      for (int64_t token = 0; token < seq; ++token) {
        const int64_t number = sequence * seq + token;
        const int64_t group = head / (heads / kvHeads);
        fn(Query{*this, (sequence * heads + head) * seq + token,
                 (number * heads + head) * headDim,
                 (sequence * getNumKeys() * kvHeads + group) * headDim,
                 getSeenKeys(sequence, token)});
      }
}

DenseAttention::Result DenseAttention::attend() const {
  Result result{std::vector<double>(q.size()),
                std::vector<double>(batch * heads * seq)};
  forEachQuery([&](const Query &query) {
    if (query.seen.size() == 0)
      return;
    std::vector<double> scores;
    double max = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t key = query.seen.first; key < query.seen.end; ++key) {
      scores.push_back(query.getScore(key));
      max = std::max(max, scores.back());
    }
    for (double score : scores)
      sum += std::exp(score - max);
    for (int64_t key = query.seen.first; key < query.seen.end; ++key)
      query.add(result.out, query.place,
                std::exp(scores[key - query.seen.first] - max) / sum, v,
                query.at(key));
    result.lse[query.row] = max + std::log(sum);
  });
  return result;
}

DenseAttention::Gradients
DenseAttention::differentiate(const std::vector<double> &dout,
                              const Result &result) const {
  Gradients gradients{std::vector<double>(q.size()),
                      std::vector<double>(k.size()),
                      std::vector<double>(v.size())};
  const double scale = 1 / std::sqrt(static_cast<double>(headDim));
  forEachQuery([&](const Query &query) {
    // Σ over keys of p·dp, which is dout·out.
    const double mean = query.dot(dout, query.place, result.out, query.place);
    for (int64_t key = query.seen.first; key < query.seen.end; ++key) {
      const int64_t at = query.at(key);
      const double p = std::exp(query.getScore(key) - result.lse[query.row]);
      const double dp = query.dot(dout, query.place, v, at);
      const double dscore = p * (dp - mean) * scale;
      query.add(gradients.dq, query.place, dscore, k, at);
      query.add(gradients.dk, at, dscore, q, query.place);
      query.add(gradients.dv, at, p, dout, query.place);
    }
  });
  return gradients;
}
