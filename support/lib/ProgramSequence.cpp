//===- ProgramSequence.cpp - Calls, loops and what they are passed --------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/ProgramSequence.h"

#include "ProgramCheck.h"

#include "optimus-support/Sizes.h"

#include <set>

namespace optimus_support::program {

namespace {

using Steps = std::vector<std::unique_ptr<StepT>>;

/// Loops in each other.
constexpr size_t kMaxLoops = 8;

/// Unrolls loops.
class Unroller {
public:
  std::vector<SequencePart> run(const SequenceT &sequence) {
    for (const std::unique_ptr<StepT> &step : sequence.steps) {
      const LoopT *loop = step->kind.AsLoop();
      if (!loop || loop->times != 0) {
        visit(*step, parts.back().once);
        continue;
      }
      for (const std::unique_ptr<StepT> &inner : loop->steps)
        visit(*inner, parts.back().repeated);
      parts.emplace_back();
    }
    if (parts.size() > 1 && parts.back().once.empty())
      parts.pop_back();
    return std::move(parts);
  }

private:
  void visit(const StepT &step, std::vector<SequencedCall> &calls) {
    if (const CallT *call = step.kind.AsCall()) {
      calls.push_back({call, number++, counters});
      return;
    }
    const LoopT &loop = *step.kind.AsLoop();
    const uint32_t first = number;
    counters.push_back(0);
    for (uint32_t turn = 0; turn != loop.times; ++turn) {
      number = first;
      counters.back() = turn;
      for (const std::unique_ptr<StepT> &inner : loop.steps)
        visit(*inner, calls);
    }
    counters.pop_back();
  }

  std::vector<SequencePart> parts = std::vector<SequencePart>(1);
  std::vector<uint32_t> counters;
  uint32_t number = 0;
};

/// Checks the form of a sequence.
class StepChecker {
public:
  explicit StepChecker(const ProgramTableT &table) : table(table) {}

  Status run(const SequenceT &sequence) {
    return check(sequence.steps, CheckedSize(1));
  }

private:
  /// Steps that are done so often.
  Status check(const Steps &steps, CheckedSize times) {
    if (steps.empty())
      return wrong(loops.empty() ? "calls nothing" : "has an empty loop");
    for (const std::unique_ptr<StepT> &step : steps) {
      if (!step->kind.value || !isKnown(step->kind.type, StepKind::Loop))
        return wrong("expected a call or a loop at each step");
      if (const LoopT *loop = step->kind.AsLoop()) {
        OPTRT_RETURN_IF_ERROR(check(*loop, times));
        continue;
      }
      numCalls = numCalls + times;
      if (!numCalls.isAtMost(kMaxCalls))
        return wrong(concat("makes more than ", kMaxCalls, " calls"));
      OPTRT_RETURN_IF_ERROR(checkCall(*step->kind.AsCall()));
    }
    return okStatus();
  }

  Status check(const LoopT &loop, CheckedSize times) {
    if (loop.times == 0 && !loops.empty())
      return wrong("has a loop that the caller counts within another loop");
    if (loops.size() == kMaxLoops)
      return wrong(concat("has more than ", kMaxLoops, " loops in each other"));
    loops.push_back(&loop);
    OPTRT_RETURN_IF_ERROR(
        check(loop.steps, times * std::max<int64_t>(1, loop.times)));
    loops.pop_back();
    return okStatus();
  }

  Status checkCall(const CallT &call) const {
    const FunctionT *function = findFunction(table, call.function);
    if (!function)
      return wrong(concat("calls \"", printable(call.function),
                          "\", which there is not"));
    std::set<uint32_t> bound;
    for (const std::unique_ptr<BindingT> &binding : call.bindings) {
      if (binding->argument >= function->arguments.size() ||
          !bound.insert(binding->argument).second || binding->buffers.empty())
        return wrong(concat("binds argument ", binding->argument, " of ",
                            call.function, "; expected one of ",
                            function->arguments.size(),
                            " arguments, each once, and a buffer"));
      for (const std::string &buffer : binding->buffers)
        if (buffer.empty())
          return wrong(concat("binds argument ", binding->argument, " of ",
                              call.function,
                              " to \"\"; expected the name of a buffer"));
      OPTRT_RETURN_IF_ERROR(checkIndex(*binding).withContext(
          concat("argument ", binding->argument, " of ", call.function)));
    }
    return okStatus();
  }

  /// That a binding chooses one of its buffers on every turn.
  Status checkIndex(const BindingT &binding) const {
    // Terms of 64 + 32 bits, and few of them.
    __int128 least = binding.constant, most = binding.constant;
    std::set<uint32_t> seen;
    for (const CounterTerm &term : binding.terms) {
      if (term.loop() >= loops.size() || !seen.insert(term.loop()).second)
        return wrong(concat("its buffer depends on loop ", term.loop(),
                            "; expected one of the ", loops.size(),
                            " around the call, each once"));
      const uint32_t times = loops[term.loop()]->times;
      if (times == 0)
        return wrong("its buffer depends on a loop that the caller counts");
      const __int128 last = __int128(term.scale()) * (times - 1);
      (last < 0 ? least : most) += last;
    }
    if (least < 0 || most >= __int128(binding.buffers.size()))
      return wrong(concat("its buffer is number ", clamped(least), " to ",
                          clamped(most), " of ", binding.buffers.size()));
    return okStatus();
  }

  static int64_t clamped(__int128 value) {
    return static_cast<int64_t>(
        std::max<__int128>(INT64_MIN, std::min<__int128>(INT64_MAX, value)));
  }

  const ProgramTableT &table;
  std::vector<const LoopT *> loops; ///< around the step, outermost first
  CheckedSize numCalls = 0;
};

std::unique_ptr<StepT> makeCall(const std::string &function) {
  CallT call;
  call.function = function;
  auto step = std::make_unique<StepT>();
  step->kind.Set(std::move(call));
  return step;
}

} // namespace

const std::string &SequencedCall::bufferOf(const BindingT &binding) const {
  int64_t index = binding.constant;
  for (const CounterTerm &term : binding.terms)
    index += term.scale() * counters[term.loop()];
  return binding.buffers[static_cast<size_t>(index)];
}

std::string SequencedCall::name() const {
  std::string text = concat("call ", number, " of ", call->function);
  const char *before = " on turn ";
  for (uint32_t counter : counters)
    text += concat(std::exchange(before, ", "), counter);
  return text;
}

std::vector<SequencePart> partsOf(const SequenceT &sequence) {
  return Unroller().run(sequence);
}

std::vector<SequencedCall> callsOf(const SequenceT &sequence, int64_t times) {
  std::vector<SequencedCall> calls;
  for (const SequencePart &part : partsOf(sequence)) {
    calls.insert(calls.end(), part.once.begin(), part.once.end());
    for (int64_t turn = 0; turn != times && !part.repeated.empty(); ++turn)
      calls.insert(calls.end(), part.repeated.begin(), part.repeated.end());
  }
  return calls;
}

SequenceT &addSequence(ProgramTableT &table, std::string name,
                       const Calls &calls) {
  auto sequence = std::make_unique<SequenceT>();
  sequence->name = std::move(name);
  for (const auto &[function, times] : calls) {
    std::unique_ptr<StepT> step = makeCall(function);
    if (times != 1) {
      LoopT loop;
      loop.times = times;
      loop.steps.push_back(std::move(step));
      step = std::make_unique<StepT>();
      step->kind.Set(std::move(loop));
    }
    sequence->steps.push_back(std::move(step));
  }
  table.sequences.push_back(std::move(sequence));
  return *table.sequences.back();
}

const SequenceT *findSequence(const ProgramTableT &table,
                              std::string_view name) {
  for (const std::unique_ptr<SequenceT> &sequence : table.sequences)
    if (sequence->name == name)
      return sequence.get();
  return nullptr;
}

Status checkSteps(const SequenceT &sequence, const ProgramTableT &table) {
  return StepChecker(table).run(sequence);
}

} // namespace optimus_support::program
