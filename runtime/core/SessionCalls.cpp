//===- SessionCalls.cpp - Functions and sequences that are run ------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "LocalRank.h"
#include "optimus-runtime/RankTeam.h"

#include <algorithm>

namespace optrt {

std::size_t Session::addCallable(Callable callable) {
  for (std::size_t i = 0; i != callables.size(); ++i)
    if (callables[i].function == callable.function &&
        callables[i].buffers == callable.buffers)
      return i;
  for (int64_t buffer : callable.buffers)
    callable.readsBatch |=
        manifest().buffers[buffer].filledBy == FilledBy::Data;
  callables.push_back(std::move(callable));
  return callables.size() - 1;
}

Status Session::chooseCalls(const SessionOptions &options) {
  auto find = [&](const std::string &name) -> StatusOr<Callable> {
    const Function *function = manifest().findFunction(name);
    if (!function)
      return invalidArgument("model library `" + library.path() +
                             "` has no function " + name);
    Callable callable{function, {}};
    for (const Arg &arg : function->args)
      callable.buffers.push_back(arg.buffer);
    return callable;
  };
  for (const std::string &name : options.functions) {
    OPTRT_ASSIGN_OR_RETURN(Callable callable, find(name));
    addCallable(std::move(callable));
  }
  for (const std::string &name : options.sequences) {
    const optimus_support::program::SequenceT *sequence =
        optimus_support::program::findSequence(library.programs(), name);
    if (!sequence)
      return invalidArgument("model library `" + library.path() +
                             "` has no sequence " + name);
    ChosenSequence chosen{name, {}};
    for (const auto &call : sequence->calls) {
      OPTRT_ASSIGN_OR_RETURN(Callable callable, find(call->function));
      // What they name is there: checkAgreement() has seen to it.
      for (const auto &binding : call->bindings)
        callable.buffers[binding->argument] =
            *manifest().findBuffer(binding->buffer);
      chosen.calls.emplace_back(addCallable(std::move(callable)), call->times);
    }
    sequences.push_back(std::move(chosen));
  }
  return okStatus();
}

Status Session::checkIdle(const char *what) const {
  if (!team->isBusy())
    return okStatus();
  return internal(concat(what, " while a call is under way: collect() it "
                               "before"));
}

Status Session::checkFilled(const Callable &callable) const {
  for (int64_t index : callable.buffers) {
    const Buffer &buffer = manifest().buffers[index];
    if (buffer.filledBy != FilledBy::Program && !isFilled[index])
      return invalidArgument(
          concat(callable.function->name, " reads \"", buffer.name,
                 "\", which the ", toString(buffer.filledBy),
                 " must fill, and nothing has: this program knows of no such "
                 "value; use the one that came with the compiler of `",
                 library.path(), "`"));
  }
  return okStatus();
}

Status Session::submit(const Callable &callable) {
  OPTRT_RETURN_IF_ERROR(checkIdle("a call was submitted"));
  // What could not be set before the call.
  OPTRT_RETURN_IF_ERROR(std::exchange(failedToSet, okStatus()));
  OPTRT_RETURN_IF_ERROR(checkFilled(callable));
  OPTRT_RETURN_IF_ERROR(reset(Reset::Call));
  const std::size_t number = &callable - callables.data();
  auto start = [this, number](int i) -> Status {
    LocalRank &rank = *ranks[i];
    rank.context.function = static_cast<uint32_t>(callables[number].function -
                                                  manifest().functions.data());
    rank.context.resetCounters();
    rank.context.observer = rank.observer && rank.observer->beginCall(number)
                                ? rank.observer
                                : nullptr;
    Status status = rank.programs[number].run(rank.context);
    if (!status.ok())
      rank.context.abandonCall();
    return status;
  };
  auto finish = [this](int i) -> Status {
    Rank &context = ranks[i]->context;
    OPTRT_RETURN_IF_ERROR(context.endCall());
    ranks[i]->transfers = context.device->takeTransfers();
    if (context.observer)
      context.observer->endCall();
    return okStatus();
  };
  return team->submit(std::move(start), std::move(finish));
}

Status Session::submit(std::string_view name) {
  const Function *function = manifest().findFunction(name);
  for (const Callable &callable : callables)
    if (callable.function == function)
      return submit(callable);
  return internal(concat("the function ", name, " was not chosen"));
}

StatusOr<StepOutputs> Session::collect() {
  const bool hasRun = team->isBusy();
  Status status = team->collect();
  broken |= hasRun && !status.ok();
  OPTRT_RETURN_IF_ERROR(status);
  return outputs();
}

StatusOr<StepOutputs> Session::run(std::string_view function) {
  OPTRT_RETURN_IF_ERROR(submit(function));
  return collect();
}

StatusOr<StepOutputs> Session::runSequence(std::string_view name, int64_t times,
                                           SequenceHost &host) {
  auto sequence =
      std::find_if(sequences.begin(), sequences.end(),
                   [&](const ChosenSequence &one) { return one.name == name; });
  if (sequence == sequences.end())
    return internal(concat("the sequence ", name, " was not chosen"));
  OPTRT_RETURN_IF_ERROR(checkIdle("a sequence was begun"));
  if (times < 1)
    return internal(concat("the sequence ", name, " was to run ", times,
                           " calls in a row; expected at least 1"));
  OPTRT_RETURN_IF_ERROR(reset(Reset::Step));
  OPTRT_RETURN_IF_ERROR(reset(Reset::Sequence));
  StatusOr<StepOutputs> outputs = StepOutputs();
  int64_t index = 0, batch = 0;
  for (const auto &[number, inARow] : sequence->calls)
    for (int64_t time = 0; time != (inARow ? inARow : times); ++time) {
      const Callable &callable = callables[number];
      const SequenceCall call{*callable.function, index++, batch,
                              callable.readsBatch};
      batch += callable.readsBatch;
      OPTRT_RETURN_IF_ERROR(host.before(call));
      OPTRT_RETURN_IF_ERROR(submit(callable));
      host.during(call);
      outputs = collect();
      if (!outputs.ok())
        return outputs;
      OPTRT_RETURN_IF_ERROR(host.after(call));
    }
  return outputs;
}

} // namespace optrt
