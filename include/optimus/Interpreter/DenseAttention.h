//===- DenseAttention.h - Attention, part by part ---------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The meaning of attention, for the interpreters of all levels.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_INTERPRETER_DENSEATTENTION_H
#define OPTIMUS_INTERPRETER_DENSEATTENTION_H

#include "optimus-support/SeenKeys.h"

#include <cstdint>
#include <vector>

namespace mlir::optimus {

/// Queries, keys and values, each a tensor without gaps. A query that sees no
/// key has the result and the lse zero.
struct DenseAttention {
  int64_t batch, seq, heads, kvHeads, headDim;
  bool causal;
  int64_t window;                 ///< 0: none
  int64_t capacity;               ///< of a cache; 0: keys of tokens
  std::vector<double> q;          ///< [batch, seq, heads, headDim]
  std::vector<double> k, v;       ///< [batch, keys, kvHeads, headDim]
  std::vector<int64_t> lengths;   ///< [batch]; empty: all of seq
  std::vector<int64_t> positions; ///< [batch, seq]; empty: the tokens' places

  /// Of a sequence.
  int64_t getNumKeys() const { return capacity != 0 ? capacity : seq; }

  struct Result {
    std::vector<double> out; ///< [batch, seq, heads, headDim]
    std::vector<double> lse; ///< [batch, heads, seq]
  };
  Result attend() const;

  /// Those of q, k and v.
  struct Gradients {
    std::vector<double> dq, dk, dv;
  };
  /// Follow the gradient of the result.
  Gradients differentiate(const std::vector<double> &dout,
                          const Result &result) const;

private:
  struct Query;
  optimus_support::KeyRange getSeenKeys(int64_t sequence, int64_t token) const;
  template <typename Fn>
  void forEachQuery(Fn &&fn) const;
};

} // namespace mlir::optimus

#endif // OPTIMUS_INTERPRETER_DENSEATTENTION_H
