//===- ManifestFunctions.cpp - The functions of a library -----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ManifestReader.h"

#include "optimus-support/CachePages.h"

#include <cmath>
#include <tuple>

using namespace optrt;

static std::vector<Arg> readArgs(const JsonCursor &cursor,
                                 const Manifest &manifest) {
  std::vector<Arg> args;
  // A buffer handed over twice would be written under the model's feet.
  std::set<int64_t> seen;
  for (const JsonCursor &entry : cursor.elements()) {
    Arg arg;
    arg.buffer =
        entry["buffer"].integer(0, int64_t(manifest.buffers.size()) - 1);
    arg.access = Access(readEnum(entry["access"], kAccessNames));
    if (JsonCursor rounding = entry.find("rounding")) {
      double units = rounding.number();
      if (!std::isfinite(units) || units < 0)
        rounding.fail(concat("expected a finite number from 0, found ", units));
      arg.rounding = units;
    }
    if (!seen.insert(arg.buffer).second)
      entry.fail("the same buffer as an earlier argument");
    // After a mistake there may be none.
    if (arg.buffer < int64_t(manifest.buffers.size())) {
      const Buffer &buffer = manifest.buffers[arg.buffer];
      if (arg.access != Access::Read && buffer.filledBy != FilledBy::Program)
        entry["access"].fail(
            concat("the buffer \"", buffer.name, "\" is filled by the ",
                   toString(buffer.filledBy), "; expected read, found ",
                   toString(arg.access)));
    }
    args.push_back(arg);
  }
  return args;
}

/// Checks the outputs needed by callers of each kind of function.
static void checkOutputs(const JsonCursor &cursor, const Manifest &manifest,
                         const Function &function) {
  static constexpr struct {
    EntryKind kind;
    std::string_view output;
  } kOutputs[] = {
      {EntryKind::Train, "loss_sum"},
      {EntryKind::Train, "real_count"},
      {EntryKind::Train, "grad_norm"},
      {EntryKind::Eval, "loss_sum"},
      {EntryKind::Eval, "real_count"},
      {EntryKind::Grad, "loss_sum"},
      {EntryKind::Grad, "real_count"},
      {EntryKind::Accumulate, "loss_sum"},
      {EntryKind::Accumulate, "real_count"},
      {EntryKind::Update, "grad_norm"},
  };
  /// The buffer of an output; null where the function does not write it.
  auto findOutput = [&](std::string_view output) -> const Buffer * {
    std::optional<int64_t> buffer = manifest.findRole(output);
    const Arg *arg = buffer ? function.findArg(*buffer) : nullptr;
    return arg && arg->access != Access::Read ? &manifest.buffers[*buffer]
                                              : nullptr;
  };
  for (const auto &[kind, output] : kOutputs) {
    if (kind != function.kind)
      continue;
    const Buffer *buffer = findOutput(output);
    if (!buffer || !buffer->isNumber())
      cursor.fail(concat("no output \"", output, "\", one f32, which ",
                         function.name, " must have"));
  }
  if (function.kind == EntryKind::Decode && !findOutput("next_logits"))
    cursor.fail(concat("no output \"next_logits\", which ", function.name,
                       " must have"));
  if (function.kind == EntryKind::Forward &&
      !manifest.findForwardOutput(function))
    cursor.fail(concat("no output \"logits\" or \"hidden_states\", one of "
                       "which ",
                       function.name, " must have"));
}

/// Checks inputs and outputs of a function for generation: a token of each
/// slot, or a chunk of one, as Session::fillSlots() fills them, and what there
/// is behind these.
static void checkSlots(const JsonCursor &cursor, const Manifest &manifest,
                       const Function &function) {
  if (!generates(function.kind))
    return;
  // After a mistake there may be no buffer.
  for (const Arg &arg : function.args)
    if (arg.buffer < 0 || arg.buffer >= std::ssize(manifest.buffers))
      return;
  const bool decodes = function.kind == EntryKind::Decode;
  std::optional<CacheExtents> cache = manifest.cacheOf(function);
  if (!cache || (decodes && cache->slots != function.batch) ||
      (decodes ? function.sequence : function.batch) != 1 ||
      cache->context < function.sequence || cache->context > INT32_MAX)
    return cursor["args"].fail(
        concat("expected caches of one shape [slots, context, ...], ",
               decodes ? "a token of each slot" : "tokens of one slot",
               " in the entry of ", function.name, ", which has a batch of ",
               function.batch, ", and a context of at least its ",
               function.sequence, " tokens"));
  auto check = [&](const std::string &name, ElementType type, FilledBy filledBy,
                   std::span<const int64_t> shape) {
    std::optional<int64_t> index = manifest.findBuffer(name);
    const Buffer *buffer = index ? &manifest.buffers[*index] : nullptr;
    if (!buffer || !function.findArg(*index) || buffer->type != type ||
        buffer->filledBy != filledBy ||
        !std::equal(shape.begin(), shape.end(), buffer->layout.shape.begin(),
                    buffer->layout.shape.begin() +
                        std::min(shape.size(), buffer->layout.shape.size())))
      cursor["args"].fail(concat(
          "expected ", name, " among them, ", toString(type),
          filledBy == FilledBy::Host ? " that the host fills, of" : " of",
          " shape ",
          optimus_support::shapeToString({shape.begin(), shape.end()}), ", as ",
          function.name, " needs"));
  };
  const int64_t tokens = function.batch * function.sequence;
  const int64_t all[] = {tokens, 1}, one[] = {1, 1};
  const int64_t table[] = {cache->slots,
                           cache->context / optimus_support::kPageTokens};
  const std::string kind(toString(function.kind));
  auto checkInput = [&](const std::string &name,
                        std::span<const int64_t> shape) {
    check(name, ElementType::I32, FilledBy::Host, shape);
  };
  if (cache->pages != 0)
    checkInput(kPageTable, table);
  checkInput(kind + "_tokens", all);
  checkInput(kind + "_positions", all);
  if (decodes) {
    checkInput("lengths", std::span(all).first(1));
    return check("next_logits", ElementType::F32, FilledBy::Program, all);
  }
  checkInput(kind + "_places", all);
  for (const char *number : {"_slot", "_length"})
    checkInput(kind + number, std::span(one).first(1));
  if (function.kind == EntryKind::Score) {
    checkInput(kind + "_targets", all);
    check("scored_logits", ElementType::F32, FilledBy::Program, all);
    return check("log_probabilities", ElementType::F32, FilledBy::Program, all);
  }
  checkInput(kind + "_last", std::span(one).first(1));
  check("prompt_logits", ElementType::F32, FilledBy::Program, one);
}

/// The kind of a function, and the batch that it reads.
static void readEntry(const JsonCursor &cursor, const Manifest &manifest,
                      Function &function) {
  function.kind = EntryKind(readEnum(cursor["kind"], kEntryKindNames));
  bool readsBatch = false;
  for (const Arg &arg : function.args)
    readsBatch |= arg.buffer < int64_t(manifest.buffers.size()) &&
                  manifest.buffers[arg.buffer].filledBy == FilledBy::Data;
  for (auto [name, number, expected] :
       {std::tuple("batch", &function.batch, manifest.batch),
        {"sequence", &function.sequence, manifest.sequence}}) {
    // Others may say nothing: they read what all of the library do.
    const bool isNeeded = generates(function.kind) ||
                          (readsBatch && function.kind != EntryKind::Other);
    if (readsBatch)
      *number = expected;
    if (JsonCursor found = isNeeded ? cursor[name] : cursor.find(name)) {
      *number = found.integer(1, INT32_MAX);
      if (readsBatch && *number != expected)
        found.fail(concat("expected ", expected, ", as of the tokens that ",
                          function.name, " reads, found ", *number));
    }
  }
  if (JsonCursor found = cursor.find("window"))
    function.window = found.integer(1, INT32_MAX);
}

static Schedule readSchedule(const JsonCursor &cursor) {
  auto readMs = [&](const char *name) {
    double ms = cursor[name].number();
    if (!std::isfinite(ms) || ms < 0)
      cursor[name].fail(concat("expected a finite number from 0, found ", ms));
    return ms;
  };
  Schedule schedule;
  schedule.stepMs = readMs("predicted_step_ms");
  schedule.commMs = readMs("predicted_comm_ms");
  schedule.exposedMs = readMs("predicted_exposed_ms");
  schedule.extraWorkspaceBytes =
      cursor["extra_workspace_bytes"].integer(0, kMaxBytes);
  schedule.notOverlapped = cursor["not_overlapped"].integer(0, UINT32_MAX);
  schedule.outOfWorkspace =
      cursor["out_of_workspace"].integer(0, schedule.notOverlapped);
  return schedule;
}

static Function readFunction(const JsonCursor &cursor, const Manifest &manifest,
                             std::set<std::string> &taken) {
  Function function;
  function.name = readName(cursor["name"], taken);

  function.args = readArgs(cursor["args"], manifest);
  readEntry(cursor["entry"], manifest, function);
  checkOutputs(cursor["args"], manifest, function);
  checkSlots(cursor, manifest, function);

  function.commands = cursor["commands"].integer(0, UINT32_MAX);
  function.arenaBytes = cursor["arena_bytes"].integer(0, kMaxBytes);
  if (JsonCursor bound = cursor.find("lower_bound_bytes"))
    function.lowerBoundBytes = bound.integer(0, kMaxBytes);
  if (JsonCursor peaks = cursor.find("peak_bytes"))
    for (const auto &[category, bytes] : peaks.members())
      function.peakBytes[category] = bytes.integer(0, kMaxBytes);
  if (JsonCursor communication = cursor.find("communication"))
    for (const JsonCursor &entry : communication.elements()) {
      AxisTraffic traffic;
      traffic.axis = readAxis(entry["axis"], manifest.mesh).value_or(0);
      traffic.bytes = entry["bytes"].integer(0, INT64_MAX);
      traffic.messages = entry["messages"].integer(0, INT64_MAX);
      for (const AxisTraffic &other : function.communication)
        if (other.axis == traffic.axis)
          entry["axis"].fail("the same axis as an earlier entry");
      function.communication.push_back(traffic);
    }
  if (JsonCursor schedule = cursor.find("schedule"))
    function.schedule = readSchedule(schedule);
  if (JsonCursor attention = cursor.find("attention"))
    for (const auto &[who, names] : attention.members())
      for (const JsonCursor &name : names.elements())
        function.attention[who].push_back(name.string());
  return function;
}

void optrt::readFunctions(const JsonCursor &cursor, Manifest &manifest) {
  std::set<std::string> taken;
  for (const JsonCursor &entry : cursor.elements())
    manifest.functions.push_back(readFunction(entry, manifest, taken));
}
