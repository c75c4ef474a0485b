//===- RecomputeChoice.cpp - What to recompute within a budget --*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Planning/RecomputeChoice.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

using namespace mlir::optimus;
using ProgramOp = RecomputeProgram::Op;

namespace {
constexpr int64_t kNever = -1;
/// For so many operations an offloaded value is there after a use and before
/// the next one, while it is copied.
constexpr int64_t kCopied = 2;
/// What is worth a copy of its own: a page of a file.
constexpr int64_t kLeastOffloaded = 4096;
/// The share of computing time that copies can count on.
constexpr double kHidden = 0.8;
/// The least memory is looked for in steps of such a part of it.
constexpr int64_t kLeastSteps = 128;
constexpr unsigned kNobody = std::numeric_limits<unsigned>::max();

bool has(const std::vector<bool> &flags, unsigned value) {
  return value < flags.size() && flags[value];
}

/// What is copied in one direction.
struct Copies {
  int64_t count = 0, bytes = 0;

  Copies with(int64_t more) const { return {count + 1, bytes + more}; }
};

/// A program with its clones, in the order in which it runs. Values are
/// numbered as in the program, those that clones make from `bytes.size()` on.
class Run {
public:
  Run(const RecomputeProgram &program, const ValueChoice &choice)
      : program(program), repeated(choice.repeated),
        offloaded(choice.offloaded), numValues(program.bytes.size()),
        maker(numValues, kNobody), isCloned(program.ops.size()),
        first(2 * numValues, kNever), last(2 * numValues, kNever),
        lastForward(numValues, kNever), firstBackward(numValues, kNever) {
    for (unsigned op = 0; op < program.ops.size(); ++op)
      for (unsigned result : program.ops[op].results)
        maker[result] = op;
    for (unsigned op = 0; op < program.ops.size(); ++op)
      runInPlace(op);
    countBytes();
  }

  int64_t getPeak() const { return alive[peakTime]; }
  int64_t getPeakTime() const { return peakTime; }
  double getSeconds() const { return seconds + getExposedSeconds(getCopies()); }
  Copies getCopies() const {
    Copies copies;
    for (unsigned value = 0; value < numValues; ++value)
      if (offloaded[value])
        copies = copies.with(program.bytes[value]);
    return copies;
  }
  /// Of copies in each direction, what computation does not hide.
  double getExposedSeconds(const Copies &copies) const {
    if (copies.count == 0)
      return 0;
    double forward = 0, backward = 0;
    for (unsigned op = 0; op < program.ops.size(); ++op)
      (op < program.numForward ? forward : backward) += program.ops[op].seconds;
    auto getExposed = [&](double rate, double computed) {
      return std::max(0.0, copies.count * program.copySeconds +
                               copies.bytes / rate - kHidden * computed);
    };
    return getExposed(program.storeRate, forward) +
           getExposed(program.fetchRate, backward);
  }
  unsigned getMaker(unsigned value) const { return maker[value]; }
  bool isAlive(unsigned value, int64_t time) const {
    return first[value] != kNever && first[value] <= time &&
           time <= last[value];
  }
  /// Whether a value is alive at a time only since the backward needs it later.
  bool isWaiting(unsigned value, int64_t time) const {
    return isAlive(value, time) && !offloaded[value] &&
           lastForward[value] < time && firstBackward[value] > time;
  }
  /// Whether it would not be there at a time if it were offloaded.
  bool isFar(unsigned value, int64_t time) const {
    return lastForward[value] != kNever &&
           lastForward[value] + kCopied < time &&
           firstBackward[value] - kCopied > time;
  }

private:
  void runInPlace(unsigned op) {
    std::vector<unsigned> operands = program.ops[op].operands;
    if (op > program.numForward)
      for (unsigned &operand : operands)
        operand = materialize(operand);
    emit(op, operands, /*offset=*/0);
  }

  bool isMadeAgain(unsigned value) const {
    return repeated[value] || has(program.refetched, value);
  }

  unsigned materialize(unsigned value) {
    if (!isMadeAgain(value))
      return value;
    unsigned op = maker[value];
    if (!isCloned[op]) {
      isCloned[op] = true;
      std::vector<unsigned> operands = program.ops[op].operands;
      for (unsigned &operand : operands)
        operand = materialize(operand);
      emit(op, operands, numValues);
      seconds += program.ops[op].seconds;
    }
    return numValues + value;
  }

  void emit(unsigned op, const std::vector<unsigned> &operands,
            unsigned offset) {
    auto now = static_cast<int64_t>(steps.size());
    steps.push_back({op, offset});
    bool isForward = op <= program.numForward && offset == 0;
    for (unsigned operand : operands) {
      last[operand] = now;
      if (operand >= numValues)
        continue;
      if (isForward)
        lastForward[operand] = now;
      else if (firstBackward[operand] == kNever)
        firstBackward[operand] = now;
    }
    for (unsigned result : program.ops[op].results)
      first[offset + result] = last[offset + result] = now;
  }

  int64_t getBytes(unsigned value) const {
    return program.bytes[value % numValues];
  }

  /// The value that `operand` is for a step: its own number or its clone's.
  unsigned resolve(const std::pair<unsigned, unsigned> &step,
                   unsigned operand) const {
    bool isAgain = step.second > 0 || step.first > program.numForward;
    return isAgain && isMadeAgain(operand) ? numValues + operand : operand;
  }

  void countBytes() {
    std::vector<int64_t> changes(steps.size() + 1);
    // Where a result takes over an operand's place, its bytes count once.
    for (size_t now = 0; now < steps.size(); ++now) {
      const ProgramOp &op = program.ops[steps[now].first];
      std::vector<unsigned> taken;
      for (unsigned result : op.results) {
        unsigned made = steps[now].second + result;
        changes[now] += getBytes(made);
        changes[last[made] + 1] -= getBytes(made);
        for (auto [placed, operand] : op.places) {
          unsigned place = resolve(steps[now], operand);
          if (placed != result || last[place] != static_cast<int64_t>(now) ||
              first[place] == kNever || getBytes(place) != getBytes(made) ||
              std::find(taken.begin(), taken.end(), place) != taken.end())
            continue;
          taken.push_back(place);
          changes[now] -= getBytes(made);
          changes[now + 1] += getBytes(made);
          break;
        }
      }
    }
    for (unsigned value = 0; value < numValues; ++value) {
      int64_t from = lastForward[value] + kCopied + 1,
              to = firstBackward[value] - kCopied;
      if (!offloaded[value] || lastForward[value] == kNever || from >= to)
        continue;
      changes[from] -= getBytes(value);
      changes[to] += getBytes(value);
    }
    alive.resize(steps.size());
    int64_t sum = 0, others = 0;
    for (size_t now = 0; now < steps.size(); ++now) {
      auto [number, offset] = steps[now];
      const ProgramOp &op = program.ops[number];
      others = offset == 0 ? op.others : std::max(others, op.others);
      sum += changes[now];
      alive[now] = sum + others;
    }
    peakTime = std::max_element(alive.begin(), alive.end()) - alive.begin();
  }

  const RecomputeProgram &program;
  const RepeatedValues &repeated, &offloaded;
  unsigned numValues;
  std::vector<unsigned> maker;
  std::vector<bool> isCloned;
  /// Each operation that runs, and the offset of its results' numbers.
  std::vector<std::pair<unsigned, unsigned>> steps;
  /// By value: the steps with its definition, its last use in the forward and
  /// its first use in the backward.
  std::vector<int64_t> first, last, lastForward, firstBackward;
  std::vector<int64_t> alive;
  int64_t peakTime = 0;
  double seconds = 0;
};

/// Values recomputed together, or offloaded, the bytes they save at the peak,
/// and their cost.
struct Move {
  std::vector<unsigned> values;
  bool isOffload = false;
  int64_t saved = 0;
  double seconds = 0;

  double getRatio() const { return saved / (seconds + 1e-9); }
};

class Chooser {
public:
  Chooser(const RecomputeProgram &program, int64_t budget, ValueChoice start)
      : program(program), budget(budget), choice(std::move(start)) {
    choice.offloaded.resize(program.bytes.size());
  }

  std::optional<ValueChoice> run() {
    // Each round takes more away, so there are not many.
    while (true) {
      Run now(program, choice);
      if (now.getPeak() <= budget)
        break;
      if (!reduce(now))
        return std::nullopt;
    }
    keepWhatFits();
    return std::move(choice);
  }

  ValueChoice runToTheEnd() {
    ValueChoice least = choice;
    int64_t peak = Run(program, choice).getPeak();
    while (true) {
      Run now(program, choice);
      if (now.getPeak() < peak) {
        peak = now.getPeak();
        least = choice;
      }
      // A little a round: what is chosen at once is chosen for one peak.
      budget = now.getPeak() - 1 - now.getPeak() / kLeastSteps;
      if (!reduce(now))
        break;
    }
    choice = std::move(least);
    budget = peak;
    keepWhatFits();
    return std::move(choice);
  }

private:
  /// The results of an operation that are worth while: statistics of rows are
  /// less to keep than the rest is.
  std::vector<unsigned> getLargeResults(unsigned op) const {
    std::vector<unsigned> large;
    for (unsigned result : program.ops[op].results)
      if (program.bytes[result] > 0 && !has(program.statistics, result))
        large.push_back(result);
    return large;
  }

  bool isRepeated(unsigned op) const {
    const std::vector<unsigned> &results = program.ops[op].results;
    return std::any_of(results.begin(), results.end(),
                       [&](unsigned result) { return repeated[result]; });
  }

  /// What is offloaded is kept.
  bool isChosen(unsigned value) const {
    return repeated[value] || offloaded[value];
  }

  /// Adds an operation to the move, and the producers of operands, up to
  /// `depth`, that would have to be kept over the peak for it.
  void add(unsigned op, unsigned depth, const Run &now, Move &move) const {
    int64_t peak = now.getPeakTime();
    if (!isRepeated(op))
      move.seconds += program.ops[op].seconds;
    for (unsigned value : getLargeResults(op)) {
      if (isChosen(value))
        continue;
      move.values.push_back(value);
      if (now.isWaiting(value, peak))
        move.saved += program.bytes[value];
    }
    for (unsigned operand : program.ops[op].operands) {
      unsigned from = now.getMaker(operand);
      bool isThere = from >= program.numForward || isChosen(operand) ||
                     now.isAlive(operand, peak) ||
                     std::find(move.values.begin(), move.values.end(),
                               operand) != move.values.end();
      if (isThere)
        continue;
      if (depth > 0 && program.ops[from].isRepeatable)
        add(from, depth - 1, now, move);
      else
        move.saved -= program.bytes[operand];
    }
  }

  /// The best move for an operation, alone or with the producers of its
  /// operands.
  Move getBestMove(unsigned op, const Run &now) const {
    Move best;
    for (unsigned depth : {0u, 1u, 2u, 3u, 4u, 6u, 8u, 12u, 16u}) {
      Move move;
      add(op, depth, now, move);
      if (move.saved > 0 &&
          (best.saved <= 0 || move.getRatio() > best.getRatio()))
        best = std::move(move);
    }
    return best;
  }

  /// Offloads of single values, in the order in which they are made. One that
  /// takes memory when it is fetched saves none.
  void addOffloads(const Run &now, std::vector<Move> &moves) const {
    if (!program.canOffload())
      return;
    int64_t peak = now.getPeakTime();
    Copies moved = now.getCopies();
    double exposed = now.getExposedSeconds(moved);
    for (unsigned op = 0; op < program.numForward; ++op)
      for (unsigned value : program.ops[op].results) {
        int64_t bytes = program.bytes[value];
        if (isChosen(value) || bytes < kLeastOffloaded ||
            !now.isWaiting(value, peak) || !now.isFar(value, peak))
          continue;
        moves.push_back({{value},
                         /*isOffload=*/true,
                         bytes,
                         now.getExposedSeconds(moved.with(bytes)) - exposed});
      }
  }

  /// Recomputes or offloads what brings the peak down, as far as it stays where
  /// it is.
  bool reduce(const Run &now) {
    int64_t peak = now.getPeakTime();
    std::vector<Move> moves;
    addOffloads(now, moves);
    for (unsigned op = 0; op < program.numForward; ++op) {
      bool isWaiting = false;
      for (unsigned value : getLargeResults(op))
        isWaiting |= !isChosen(value) && now.isWaiting(value, peak);
      if (!isWaiting || !program.ops[op].isRepeatable)
        continue;
      if (Move move = getBestMove(op, now); move.saved > 0)
        moves.push_back(std::move(move));
    }
    // Of moves that are alike the first comes first: what it saves is needed
    // last.
    std::stable_sort(moves.begin(), moves.end(),
                     [](const Move &a, const Move &b) {
                       return a.getRatio() > b.getRatio();
                     });
    int64_t excess = now.getPeak() - budget;
    Copies moved = now.getCopies();
    bool isReduced = false;
    for (const Move &move : moves) {
      if (excess <= 0)
        break;
      // Of many copies each costs more than it would alone.
      if (move.isOffload && isReduced &&
          now.getExposedSeconds(moved.with(move.saved)) >
              now.getExposedSeconds(moved) + 1.01 * move.seconds)
        break;
      // The effects of others just chosen are for the next round.
      bool isLikeBest = move.getRatio() > 0.99 * moves.front().getRatio();
      bool isApart =
          std::none_of(move.values.begin(), move.values.end(),
                       [&](unsigned value) { return isChosen(value); });
      if (!isLikeBest || !isApart)
        continue;
      for (unsigned value : move.values)
        (move.isOffload ? offloaded : repeated)[value] = true;
      if (move.isOffload)
        moved = moved.with(move.saved);
      excess -= move.saved;
      isReduced = true;
    }
    return isReduced;
  }

  /// Of alike members, lets `set` keep as many from the first on as fit: finds
  /// out with few looks at the program, since what fits does so with less.
  template <typename Set>
  void keepMost(const std::vector<unsigned> &members, Set set) {
    size_t fitting = 0, over = members.size() + 1, tried = members.size();
    while (over - fitting > 1) {
      ValueChoice less = choice;
      for (size_t i = 0; i < tried; ++i)
        set(less, members[i]);
      (Run(program, less).getPeak() <= budget ? fitting : over) = tried;
      tried = fitting + (over - fitting) / 2;
    }
    for (size_t i = 0; i < fitting; ++i)
      set(choice, members[i]);
  }

  void keepWhatFits() {
    // What the backward needs first, at the end of the forward, saves least.
    std::vector<std::vector<unsigned>> kinds;
    std::map<unsigned, size_t> known;
    for (unsigned op = program.numForward; op-- > 0;) {
      if (!isRepeated(op))
        continue;
      size_t at = kinds.size();
      if (program.ops[op].kind)
        at = known.try_emplace(*program.ops[op].kind, at).first->second;
      if (at == kinds.size())
        kinds.emplace_back();
      kinds[at].push_back(op);
    }
    auto getSeconds = [&](const std::vector<unsigned> &kind) {
      return program.ops[kind.front()].seconds;
    };
    std::stable_sort(kinds.begin(), kinds.end(),
                     [&](const auto &a, const auto &b) {
                       return getSeconds(a) > getSeconds(b);
                     });
    for (const std::vector<unsigned> &kind : kinds)
      keepMost(kind, [&](ValueChoice &less, unsigned op) {
        for (unsigned result : program.ops[op].results)
          less.repeated[result] = false;
      });
    for (unsigned value = 0; value < program.bytes.size(); ++value) {
      if (!offloaded[value])
        continue;
      offloaded[value] = false;
      if (Run(program, choice).getPeak() > budget)
        offloaded[value] = true;
    }
  }

  const RecomputeProgram &program;
  int64_t budget;
  ValueChoice choice;
  RepeatedValues &repeated = choice.repeated, &offloaded = choice.offloaded;
};
} // namespace

RecomputeCost mlir::optimus::getCost(const RecomputeProgram &program,
                                     ValueChoice choice) {
  choice.offloaded.resize(program.bytes.size());
  Run run(program, choice);
  return {run.getPeak(), run.getSeconds()};
}

std::optional<ValueChoice>
mlir::optimus::chooseValues(const RecomputeProgram &program, int64_t budget,
                            ValueChoice start) {
  return Chooser(program, budget, std::move(start)).run();
}

ValueChoice mlir::optimus::chooseLeast(const RecomputeProgram &program,
                                       ValueChoice start) {
  return Chooser(program, /*budget=*/0, std::move(start)).runToTheEnd();
}
