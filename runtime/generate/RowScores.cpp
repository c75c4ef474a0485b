//===- RowScores.cpp - The most probable tokens of rows -------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RowScores.h"

#include "Message.h"

#include <algorithm>
#include <cmath>

using namespace optrt;

namespace {
/// A token by its logit.
struct Ranked {
  int32_t token = 0;
  float logit = 0;

  bool operator<(const Ranked &other) const {
    return logit != other.logit ? logit > other.logit : token < other.token;
  }
};

/// A row, or a part of one.
struct RowPart {
  double most = -HUGE_VAL; ///< logit
  double sum = 0;          ///< of e^(logit − most)
  double target = -HUGE_VAL;
  std::vector<Ranked> best = {}; ///< the best first

  void add(const RowPart &other, int64_t numBest);
};
} // namespace

void RowPart::add(const RowPart &other, int64_t numBest) {
  if (other.most == -HUGE_VAL)
    return;
  const double before = most;
  most = std::max(most, other.most);
  sum = (before == -HUGE_VAL ? 0 : sum * std::exp(before - most)) +
        other.sum * std::exp(other.most - most);
  target = std::max(target, other.target);
  const std::ptrdiff_t own = std::ssize(best);
  best.insert(best.end(), other.best.begin(), other.best.end());
  std::inplace_merge(best.begin(), best.begin() + own, best.end());
  best.resize(std::min(numBest, std::ssize(best)));
}

/// Of logits behind each other, from token `begin` on.
static StatusOr<RowPart> readPart(std::span<const float> logits, int64_t begin,
                                  int64_t target, int64_t numBest) {
  RowPart part;
  // A heap, the worst first.
  std::vector<Ranked> &best = part.best;
  for (std::size_t i = 0; i != logits.size(); ++i) {
    const Ranked here{static_cast<int32_t>(begin + static_cast<int64_t>(i)),
                      logits[i]};
    if (!(here.logit < HUGE_VALF))
      return checkLogit(here.token, here.logit);
    part.most = std::max<double>(part.most, here.logit);
    if (std::ssize(best) < numBest) {
      best.push_back(here);
      std::push_heap(best.begin(), best.end());
    } else if (numBest > 0 && here < best.front()) {
      std::pop_heap(best.begin(), best.end());
      best.back() = here;
      std::push_heap(best.begin(), best.end());
    }
  }
  std::sort_heap(best.begin(), best.end());
  if (part.most != -HUGE_VAL)
    for (float logit : logits)
      part.sum += std::exp(logit - part.most);
  const int64_t at = target - begin;
  if (at >= 0 && at < std::ssize(logits))
    part.target = logits[at];
  return part;
}

/// What this process's ranks have of the rows.
static StatusOr<std::vector<RowPart>>
readOwn(Session &session, const ControlPlane &control, const std::string &name,
        int64_t first, std::span<const int32_t> targets, int64_t numBest) {
  const Manifest &manifest = session.manifest();
  std::vector<RowPart> rows(targets.size());
  const std::optional<int64_t> index = manifest.findBuffer(name);
  const Buffer *buffer = index ? &manifest.buffers[*index] : nullptr;
  if (!buffer || buffer->type != optimus_support::ElementType::F32 ||
      !buffer->unreduced.empty())
    return internal(concat("expected whole logits in f32, ", name));
  const int64_t vocabulary = buffer->layout.shape.back();
  for (int rank = control.firstRank();
       rank != control.firstRank() + control.numLocalRanks(); ++rank) {
    if (!buffer->layout.isCanonicalOwner(manifest.mesh, rank))
      continue;
    std::vector<uint8_t> copy;
    OPTRT_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes,
                           session.shardOf(name, rank, copy));
    const auto *logits = reinterpret_cast<const float *>(bytes.data());
    Status status;
    buffer->layout.forEachRun(
        manifest.mesh, rank, [&](const optimus_support::ShardRun &run) {
          // A run may have several rows.
          for (int64_t begin = 0; begin < run.count;) {
            const int64_t element = run.globalOffset + begin;
            const int64_t row = element / vocabulary - first;
            const int64_t token = element % vocabulary;
            const int64_t count =
                std::min(run.count - begin, vocabulary - token);
            if (status.ok() && row >= 0 && row < std::ssize(targets)) {
              StatusOr<RowPart> part = readPart(
                  std::span(logits + run.localOffset + begin, count), token,
                  targets[row], numBest);
              if (part.ok())
                rows[row].add(*part, numBest);
              else
                status = part.status();
            }
            begin += count;
          }
        });
    OPTRT_RETURN_IF_ERROR(std::move(status));
  }
  return rows;
}

static void write(const RowPart &part, Message &message) {
  message.add(part.most);
  message.add(part.sum);
  message.add(part.target);
  message.add(part.best.size());
  for (const Ranked &each : part.best)
    message.add(each);
}

static bool read(RowPart &part, Message &message) {
  std::size_t count = 0;
  bool isWhole = message.take(part.most) && message.take(part.sum) &&
                 message.take(part.target) && message.take(count);
  for (std::size_t i = 0; i != count && isWhole; ++i)
    isWhole = message.take(part.best.emplace_back());
  return isWhole;
}

StatusOr<std::vector<RowScore>>
optrt::scoreRows(Session &session, ControlPlane &control,
                 const std::string &logits, int64_t first,
                 std::span<const int32_t> targets, int64_t numBest) {
  StatusOr<std::vector<RowPart>> own =
      readOwn(session, control, logits, first, targets, numBest);
  OPTRT_RETURN_IF_ERROR(control.agree(own.status()));
  Message said;
  for (const RowPart &part : *own)
    write(part, said);
  const std::vector<std::string> all = control.allGather(said.text());
  std::vector<RowScore> scores;
  if (!control.isRoot())
    return scores;
  std::vector<RowPart> rows(targets.size());
  for (const std::string &text : all) {
    Message heard(text);
    for (RowPart &row : rows) {
      RowPart part;
      if (!read(part, heard))
        return internal("a process has not said what is best in its logits");
      row.add(part, numBest);
    }
  }
  for (const RowPart &row : rows) {
    const double logSum = std::log(row.sum);
    RowScore &score = scores.emplace_back();
    score.logProbability = row.target - row.most - logSum;
    for (const Ranked &each : row.best)
      score.best.push_back({each.token, each.logit - row.most - logSum});
  }
  return scores;
}
