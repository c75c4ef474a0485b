//===- SessionData.h - What calls are given and have written ----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_SESSIONDATA_H
#define OPTIMUS_RUNTIME_SESSIONDATA_H

#include "optimus-support/Dropout.h"
#include "optimus-support/ElementType.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace optrt {

/// In place of a page, whose tokens none of a call sees.
inline constexpr int32_t kNoPage = -1;

/// What a call puts into a slot of a cache: tokens of one text, behind each
/// other.
struct SlotTokens {
  int64_t slot = 0;
  int64_t position = 0; ///< of the first
  std::span<const int32_t> tokens;
  /// Of the kind score: the token behind each whose log-probability is asked
  /// for, negative for none.
  std::span<const int32_t> targets = {};
  /// Of the kind prefill: whether the logits behind the last token are read.
  /// Where they are not, processors do not compute them.
  bool wantsLogits = true;
  /// Of a cache with pages: those of the text, for each 64 tokens from its
  /// first one on, as CacheExtents::poolOf() counts them.
  std::span<const int32_t> pages = {};
};

/// The numbers that functions have written, of the global batch, by role:
/// "loss_sum", "real_count", "grad_norm" (of the mean loss, before clipping).
struct StepOutputs {
  std::map<std::string, float, std::less<>> numbers;

  /// 0 where no chosen function writes it.
  float get(std::string_view role) const {
    auto found = numbers.find(role);
    return found == numbers.end() ? 0 : found->second;
  }
  float lossSum() const { return get("loss_sum"); }
  float realCount() const { return get("real_count"); }
  float gradNorm() const { return get("grad_norm"); }
  /// 0 where no token is real.
  double meanLoss() const {
    return double(lossSum()) / std::max(double(realCount()), 1.0);
  }
};

/// A tensor in host memory, row-major, as its buffer has it.
struct HostTensor {
  ElementType type = ElementType::F32;
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;
};

/// What this process's ranks have of a batch, in its own memory.
class HostBatch {
private:
  friend class Session;
  /// Rows of the global batch from `begin` on; each is a sequence.
  struct Rows {
    int64_t begin = 0;
    std::vector<int32_t> tokens, targets;
    std::vector<int32_t> positions; ///< empty where no program asks for them
  };
  std::vector<Rows> parts;
  std::size_t numParts = 0; ///< the others have memory for a later batch

  const Rows *find(int64_t begin, int64_t words) const;
};

/// What a call of a sequence is given before it runs, if it reads a batch.
struct CallInputs {
  HostBatch batch;
  /// What its draws depend on, see Session::setRandom().
  std::array<int32_t, optimus_support::kNumRandomWords> random{};
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_SESSIONDATA_H
