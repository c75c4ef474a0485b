//===- StageSplit.cpp - A program as two stages of a pipeline -------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StageSplit.h"

#include "optimus-support/ProgramRegions.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

using namespace optimus_support::program;
using optimus_support::Mesh;
using optrt::Lifetime;
using optrt::ModelLibrary;
using optrt::StatusOr;
using Json = nlohmann::ordered_json;

namespace optimus_stages {

namespace {

/// The stages' axis, the slowest of the mesh.
constexpr uint32_t kPipe = 0;
constexpr const char *kPipeName = "pipe";

/// Whether a command belongs to the first stage, by its number.
using IsFirst = std::vector<bool>;

/// Bytes of the arena or of an argument that one stage's command has written
/// and the other stage reads.
struct Transfer {
  Region region;
  uint32_t writer; ///< a command
};

/// The blocks of layers up to the last of the first stage, and what is before
/// them.
class Blocks {
public:
  explicit Blocks(const std::string &lastOfFirst) {
    const size_t dot = lastOfFirst.rfind('.');
    list = lastOfFirst.substr(0, dot);
    last = std::atoi(lastOfFirst.c_str() + dot + 1);
  }

  bool isFirst(const std::string &path) const {
    if (path.starts_with(list + "."))
      return std::atoi(path.c_str() + list.size() + 1) <= last;
    return path.find("embed") != std::string::npos;
  }

private:
  std::string list;
  int last;
};

/// A function's commands that one stage keeps, as a function.
class Part {
public:
  Part(const FunctionT &whole, std::string name)
      : whole(whole), function(whole) {
    function.name = std::move(name);
    function.commands.clear();
    function.buffers.clear();
  }

  /// Takes a command over, as it is.
  void take(uint32_t number) {
    function.commands.push_back(
        std::make_unique<CommandT>(*whole.commands[number]));
    function.commands.back()->after.clear();
  }

  /// Sends and receives together, and waits for all. Of the arena's regions,
  /// the bytes are those of arguments, unless it is still there.
  void exchange(const std::vector<Region> &sent,
                const std::vector<Region> &received, uint32_t sentSlot = kNone,
                uint32_t receivedSlot = kNone) {
    std::vector<uint32_t> started;
    const uint32_t group = sent.size() + received.size() > 1;
    for (const Region &region : sent)
      started.push_back(message<SendT>(region, Access::Read, sentSlot, group));
    for (const Region &region : received)
      started.push_back(
          message<ReceiveT>(region, Access::Write, receivedSlot, group));
    for (uint32_t command : started) {
      WaitT wait;
      wait.command = command;
      add(std::move(wait), computeQueue(), {});
    }
  }

  /// dst[0:bytes] = src[0:bytes], of two arguments.
  void copy(uint32_t dst, int64_t dstOffset, uint32_t src, int64_t bytes) {
    CopyT copy;
    copy.rows = 1;
    copy.cols = copy.src_ld = copy.dst_ld = bytes / 4;
    add(std::move(copy), computeQueue(),
        {operand(place(Base::Argument, src, 0), bytes, Access::Read),
         operand(place(Base::Argument, dst, dstOffset), bytes, Access::Write)});
  }

  /// Sets so many bytes of the arena to zero.
  void clear(int64_t bytes) {
    FillT fill;
    fill.rows = 1;
    fill.cols = fill.ld = bytes / 4;
    add(std::move(fill), computeQueue(),
        {operand(place(Base::Arena, 0, 0), bytes, Access::Write)});
  }

  /// Makes the arena an argument, which is returned.
  uint32_t passArena(int64_t bytes, const std::string &buffer) {
    ArgumentT slot;
    slot.buffer = buffer;
    slot.type = ElementType::F32;
    slot.bytes = bytes;
    function.arguments.push_back(std::make_unique<ArgumentT>(std::move(slot)));
    const auto number = static_cast<uint32_t>(function.arguments.size() - 1);
    function.arenas.clear();
    for (const auto &address : function.addresses)
      if (PlaceT *at = address->location.AsPlace();
          at && at->base == Base::Arena) {
        at->base = Base::Argument;
        at->index = number;
      }
    return number;
  }

  /// Lets what reads an argument read another one, from an offset on.
  void redirect(uint32_t from, uint32_t to, int64_t offset) {
    for (const auto &address : function.addresses)
      if (PlaceT *at = address->location.AsPlace();
          at && at->base == Base::Argument && at->index == from) {
        at->index = to;
        at->bytes->constant += offset;
      }
  }

  uint32_t argument(const std::string &buffer) const {
    for (uint32_t i = 0; i != function.arguments.size(); ++i)
      if (function.arguments[i]->buffer == buffer)
        return i;
    return kNone;
  }

  /// The function, without what its commands do not touch.
  std::unique_ptr<FunctionT> finish(const Mesh &mesh) {
    std::set<uint32_t> used;
    for (const auto &command : function.commands)
      for (const auto &one : command->operands)
        if (one->address != kNone)
          collect(one->address, used);
    std::vector<std::unique_ptr<ArgumentT>> kept;
    std::map<uint32_t, uint32_t> numbers;
    for (uint32_t number : used) {
      numbers[number] = static_cast<uint32_t>(kept.size());
      kept.push_back(std::move(function.arguments[number]));
    }
    function.arguments = std::move(kept);
    for (const auto &address : function.addresses)
      if (PlaceT *at = address->location.AsPlace();
          at && at->base == Base::Argument) {
        // What is no longer there is an address that nothing has.
        const auto found = numbers.find(at->index);
        at->index = found == numbers.end() ? 0 : found->second;
        if (found == numbers.end())
          at->bytes = std::make_unique<IntegerT>();
      }
    auto result = std::make_unique<FunctionT>(function);
    setArgumentAccess(*result, mesh);
    return result;
  }

private:
  void collect(uint32_t address, std::set<uint32_t> &used) const {
    const LocationUnion &location = function.addresses[address]->location;
    if (const PlaceT *at = location.AsPlace(); at && at->base == Base::Argument)
      used.insert(at->index);
    if (const ChoiceT *choice = location.AsChoice()) {
      collect(choice->mine, used);
      collect(choice->other, used);
    }
  }

  uint32_t place(Base base, uint32_t index, int64_t bytes) {
    PlaceT at;
    at.base = base;
    at.index = index;
    at.bytes = std::make_unique<IntegerT>();
    at.bytes->constant = bytes;
    AddressT address;
    address.location.Set(std::move(at));
    function.addresses.push_back(
        std::make_unique<AddressT>(std::move(address)));
    return static_cast<uint32_t>(function.addresses.size() - 1);
  }

  static std::unique_ptr<OperandT> operand(uint32_t address, int64_t bytes,
                                           Access access) {
    auto result = std::make_unique<OperandT>();
    result->address = address;
    result->type = ElementType::F32;
    result->access = access;
    result->row_bytes = result->pitch = bytes;
    return result;
  }

  uint32_t computeQueue() { return queue(QueueKind::Compute, {}); }
  uint32_t queue(QueueKind kind, std::vector<uint32_t> axes) {
    for (uint32_t i = 0; i != function.queues.size(); ++i)
      if (function.queues[i]->kind == kind && function.queues[i]->axes == axes)
        return i;
    QueueT made;
    made.kind = kind;
    made.axes = std::move(axes);
    function.queues.push_back(std::make_unique<QueueT>(std::move(made)));
    return static_cast<uint32_t>(function.queues.size() - 1);
  }

  template <typename Action>
  uint32_t add(Action action, uint32_t onQueue,
               std::initializer_list<std::unique_ptr<OperandT>> operands) {
    CommandT command;
    command.action.Set(std::move(action));
    command.queue = onQueue;
    for (const auto &one : operands)
      command.operands.push_back(std::make_unique<OperandT>(*one));
    // After all that was computed.
    if (onQueue != computeQueue())
      for (uint32_t i = static_cast<uint32_t>(function.commands.size());
           i-- != 0;)
        if (function.commands[i]->queue == computeQueue()) {
          command.after = {i};
          break;
        }
    function.commands.push_back(std::make_unique<CommandT>(std::move(command)));
    return static_cast<uint32_t>(function.commands.size() - 1);
  }

  /// To or from the other stage, between the same bytes of both.
  template <typename Message>
  uint32_t message(const Region &region, Access access, uint32_t slot,
                   uint32_t group) {
    const int64_t bytes = region.end() - region.begin;
    Message one;
    one.axis = kPipe;
    one.peer = std::make_unique<IntegerT>();
    one.peer->constant = function.name.ends_with('0') ? 1 : 0;
    one.rows = 1;
    one.cols = one.ld = bytes / 4;
    one.group = group;
    const bool isInSlot = region.base == Base::Arena && function.arenas.empty();
    const uint32_t address =
        isInSlot ? place(Base::Argument, slot, region.begin)
                 : place(region.base, region.index, region.begin);
    return add(std::move(one), queue(QueueKind::Communication, {kPipe}),
               {operand(address, bytes, access)});
  }

  const FunctionT &whole;
  FunctionT function;
};

/// What commands read that commands of the other stage have written last.
std::vector<Transfer> findTransfers(const FunctionT &function, const Mesh &mesh,
                                    const IsFirst &isFirst) {
  std::vector<std::pair<Region, uint32_t>> written;
  std::vector<Transfer> transfers;
  std::set<std::pair<uint32_t, int64_t>> seen;
  for (uint32_t number = 0; number != function.commands.size(); ++number) {
    const CommandT &command = *function.commands[number];
    const std::vector<Touch> touches = touchesOf(function, command, mesh);
    for (const Touch &touch : touches) {
      const OperandT &operand = *command.operands[touch.operand];
      if (operand.access == Access::Write)
        continue;
      const auto last =
          std::find_if(written.rbegin(), written.rend(), [&](const auto &one) {
            return one.first.mayOverlap(touch.region);
          });
      if (last != written.rend() && isFirst[last->second] != isFirst[number] &&
          seen.insert({last->second, last->first.begin}).second)
        transfers.push_back({last->first, last->second});
    }
    for (const Touch &touch : touches)
      if (touch.writes)
        written.push_back({touch.region, number});
  }
  return transfers;
}

/// Splits one library.
class Splitter {
public:
  Splitter(const ModelLibrary &library, const std::string &lastOfFirst,
           uint32_t microbatches, Order order)
      : library(library), blocks(lastOfFirst), microbatches(microbatches),
        order(order), programs(library.programs()),
        manifest(Json::parse(library.manifestText())),
        table(*library.target().tables.front()), mesh(library.manifest().mesh) {
  }

  StatusOr<Stages> run() {
    const FunctionT *accumulate = findOf("accumulate"),
                    *update = findOf("update"), *prepare = findOf("prepare");
    if (!accumulate || !update || mesh.numRanks() != 1)
      return optrt::invalidArgument(
          "expected a library of one rank with functions of "
          "the kinds accumulate and update");
    if (microbatches < 2)
      return optrt::invalidArgument("expected 2 microbatches at least");
    if (prepare)
      splitPrepare(*prepare);
    OPTRT_RETURN_IF_ERROR(splitAccumulate(*accumulate));
    splitUpdate(*update);
    writePrograms(prepare != nullptr);
    writeManifest();
    return Stages{manifest.dump(), std::move(programs)};
  }

private:
  const FunctionT *findOf(const std::string &kind) const {
    for (const optrt::Function &function : library.manifest().functions)
      if (optrt::toString(function.kind) == kind)
        return findFunction(table, function.name);
    return nullptr;
  }

  bool isFirst(const CommandT &command) const {
    return blocks.isFirst(command.path == kNone ? ""
                                                : table.texts[command.path]);
  }

  void add(int stage, Part &part, const char *kind) {
    functions[stage].push_back(part.finish(mesh));
    kinds[functions[stage].back()->name] = kind;
  }

  void splitPrepare(const FunctionT &whole) {
    Part parts[] = {{whole, "prepare0"}, {whole, "prepare1"}};
    for (uint32_t i = 0; i != whole.commands.size(); ++i)
      parts[!isFirst(*whole.commands[i])].take(i);
    for (int stage : {0, 1})
      add(stage, parts[stage], "prepare");
  }

  optrt::Status splitAccumulate(const FunctionT &whole) {
    IsFirst first;
    for (const auto &command : whole.commands)
      first.push_back(isFirst(*command));
    const auto cut = static_cast<uint32_t>(
        std::find(first.begin(), first.end(), false) - first.begin());
    uint32_t backward = cut;
    while (backward != whole.commands.size() &&
           !isBackward(*whole.commands[backward]))
      ++backward;
    if (cut == 0 || backward == whole.commands.size())
      return optrt::invalidArgument(
          "expected commands with paths of both stages, and of the backward");
    const std::vector<Transfer> transfers = findTransfers(whole, mesh, first);
    // Tokens of a microbatch are kept behind its arena.
    const int64_t arenaBytes = whole.arenas[0]->bytes;
    Part forward[] = {{whole, "forward0"}, {whole, "forward1"}},
         back[] = {{whole, "backward0"}, {whole, "backward1"}};
    const uint32_t tokens = forward[0].argument("tokens");
    const int64_t tokenBytes = whole.arguments[tokens]->bytes;
    slotBytes = arenaBytes + tokenBytes;
    for (Part *part : {&forward[0], &forward[1], &back[0], &back[1]}) {
      const uint32_t slot = part->passArena(slotBytes, "slot0");
      if (part == &forward[0])
        part->copy(slot, arenaBytes, tokens, tokenBytes);
      if (part == &back[0])
        part->redirect(tokens, slot, arenaBytes);
    }
    for (uint32_t i = 0; i != whole.commands.size(); ++i) {
      const bool isForward = first[i] ? i < cut : i < backward;
      (isForward ? forward : back)[!first[i]].take(i);
    }
    for (int stage : {0, 1}) {
      add(stage, forward[stage], "other");
      add(stage, back[stage], "other");
    }
    std::vector<Region> outputs, gradients;
    for (const Transfer &one : transfers)
      (first[one.writer] ? outputs : gradients).push_back(one.region);
    addMessages(whole, 0, outputs, gradients);
    addMessages(whole, 1, gradients, outputs);
    return optrt::okStatus();
  }

  /// The functions by which a stage sends and receives, one after the other or
  /// at once.
  void addMessages(const FunctionT &whole, int stage,
                   const std::vector<Region> &sent,
                   const std::vector<Region> &received) {
    for (const char *name : {"send", "receive", "exchange"}) {
      Part part(whole, name + std::to_string(stage));
      const bool sends = name[0] != 'r', receives = name[0] != 's';
      const uint32_t from = part.passArena(slotBytes, slotName(0)),
                     to = receives && sends
                              ? part.passArena(slotBytes, slotName(1))
                              : from;
      part.exchange(sends ? sent : std::vector<Region>(),
                    receives ? received : std::vector<Region>(), from, to);
      add(stage, part, "other");
    }
  }

  bool isBackward(const CommandT &command) const {
    return command.path != kNone &&
           table.texts[command.path].find("backward") != std::string::npos;
  }

  /// A command of the optimizer belongs where its parameters are; what belongs
  /// to none, both do.
  void splitUpdate(const FunctionT &whole) {
    Part parts[] = {{whole, "update0"}, {whole, "update1"}};
    // Stages take the squares of the other's gradients for zeros.
    for (Part &part : parts)
      part.clear(whole.arenas[0]->bytes);
    const uint32_t count = parts[0].argument("real_count");
    const Region region{
        Base::Argument, count, 0, 1, whole.arguments[count]->bytes, 0};
    parts[1].exchange({region}, {});
    parts[0].exchange({}, {region});
    for (uint32_t i = 0; i != whole.commands.size(); ++i) {
      const int stage = stageOfArguments(whole, *whole.commands[i]);
      for (int one : {0, 1})
        if (stage < 0 || stage == one)
          parts[one].take(i);
    }
    for (int stage : {0, 1})
      add(stage, parts[stage], "other");
  }

  int stageOfArguments(const FunctionT &whole, const CommandT &command) const {
    for (const Touch &touch : touchesOf(whole, command, mesh)) {
      if (touch.region.base != Base::Argument)
        continue;
      const std::string &name = whole.arguments[touch.region.index]->buffer;
      const optrt::Buffer &buffer =
          library.manifest().buffers[*library.manifest().findBuffer(name)];
      if (buffer.lifetime == Lifetime::Parameter)
        return !blocks.isFirst(name);
      if (buffer.of >= 0)
        return !blocks.isFirst(library.manifest().buffers[buffer.of].name);
    }
    return -1;
  }

  //===--------------------------------------------------------------------===//
  // What is written
  //===--------------------------------------------------------------------===//

  static std::unique_ptr<StepT> call(const std::string &function) {
    auto step = std::make_unique<StepT>();
    CallT one;
    one.function = function;
    step->kind.Set(std::move(one));
    return step;
  }

  using Steps = std::vector<std::unique_ptr<StepT>>;

  /// Calls of a stage's functions with the slots of a microbatch: the first
  /// slot is that of number `first`, the second of `second`, and both of a
  /// later one on each turn of the loop around them.
  struct SlotCall {
    std::string function;
    uint32_t first, second = 0;
  };
  std::unique_ptr<StepT> call(const ProgramTableT &made, const SlotCall &one,
                              bool isInLoop) const {
    std::unique_ptr<StepT> step = call(one.function);
    const FunctionT &function = *findFunction(made, one.function);
    for (uint32_t i = 0; i != function.arguments.size(); ++i)
      for (const auto &[name, number] :
           {std::pair(slotName(0), one.first), {slotName(1), one.second}}) {
        if (function.arguments[i]->buffer != name)
          continue;
        BindingT binding;
        binding.argument = i;
        for (uint32_t slot = 0; slot != microbatches; ++slot)
          binding.buffers.push_back(slotName(slot));
        binding.constant = number;
        if (isInLoop)
          binding.terms = {CounterTerm(1, 0)};
        step->kind.AsCall()->bindings.push_back(
            std::make_unique<BindingT>(std::move(binding)));
      }
    return step;
  }
  std::unique_ptr<StepT> loop(const ProgramTableT &made, uint32_t times,
                              const std::vector<SlotCall> &calls) const {
    LoopT loop;
    loop.times = times;
    for (const SlotCall &one : calls)
      loop.steps.push_back(call(made, one, /*isInLoop=*/true));
    auto step = std::make_unique<StepT>();
    step->kind.Set(std::move(loop));
    return step;
  }
  static std::string slotName(uint32_t slot) {
    return "slot" + std::to_string(slot);
  }

  /// The forwards and backwards of a stage.
  Steps schedule(const ProgramTableT &made, int stage) const {
    const uint32_t last = microbatches - 1;
    Steps steps;
    auto once = [&](const SlotCall &one) {
      steps.push_back(call(made, one, /*isInLoop=*/false));
    };
    auto repeat = [&](uint32_t times, const std::vector<SlotCall> &calls) {
      steps.push_back(loop(made, times, calls));
    };
    if (order == Order::GPipe && stage == 0) {
      repeat(microbatches, {{"forward0", 0}, {"send0", 0}});
      repeat(microbatches, {{"receive0", 0}, {"backward0", 0}});
    } else if (order == Order::GPipe) {
      repeat(microbatches, {{"receive1", 0}, {"forward1", 0}});
      repeat(microbatches, {{"backward1", 0}, {"send1", 0}});
    } else if (stage == 0) {
      once({"forward0", 0});
      once({"send0", 0});
      repeat(last, {{"forward0", 1}, {"exchange0", 1, 0}, {"backward0", 0}});
      once({"receive0", last});
      once({"backward0", last});
    } else {
      once({"receive1", 0});
      repeat(last, {{"forward1", 0}, {"backward1", 0}, {"exchange1", 0, 1}});
      once({"forward1", last});
      once({"backward1", last});
      once({"send1", last});
    }
    return steps;
  }

  void writePrograms(bool prepares) {
    auto axis = std::make_unique<MeshAxisT>();
    axis->name = kPipeName;
    axis->size = 2;
    programs.mesh.insert(programs.mesh.begin(), std::move(axis));
    TargetT &target =
        **std::ranges::find_if(programs.targets, [&](const auto &one) {
          return one->name == library.target().name;
        });
    target.ranks = {RankRange(0, 1, 0), RankRange(1, 1, 1)};
    ProgramTableT empty(table);
    empty.functions.clear();
    empty.sequences.clear();
    target.tables.clear();
    for (int stage : {0, 1}) {
      target.tables.push_back(std::make_unique<ProgramTableT>(empty));
      ProgramTableT &made = *target.tables.back();
      made.functions = std::move(functions[stage]);
      auto sequence = std::make_unique<SequenceT>();
      sequence->name = "train_microbatches";
      const std::string number = std::to_string(stage);
      if (prepares)
        sequence->steps.push_back(call("prepare" + number));
      for (std::unique_ptr<StepT> &step : schedule(made, stage))
        sequence->steps.push_back(std::move(step));
      sequence->steps.push_back(call("update" + number));
      made.sequences.push_back(std::move(sequence));
    }
  }

  void writeManifest() {
    const Json pipe{{"axis", kPipeName}, {"size", 2}};
    manifest["mesh"].insert(manifest["mesh"].begin(), pipe);
    Json &buffers = manifest["buffers"];
    for (uint32_t slot = 0; slot != microbatches; ++slot)
      buffers.push_back({{"name", slotName(slot)},
                         {"role", slotName(slot)},
                         {"lifetime", "call"},
                         {"type", "f32"},
                         {"shape", {slotBytes / 4}},
                         {"local_shape", {slotBytes / 4}},
                         {"sharding", {Json::array()}}});
    std::map<std::string, size_t> numbers;
    for (size_t i = 0; i != buffers.size(); ++i)
      numbers[buffers[i]["name"]] = i;
    Json described = Json::array();
    for (const FunctionT *function :
         functionsOf(*findTarget(programs, library.target().name)))
      described.push_back(describe(*function, numbers));
    manifest["functions"] = std::move(described);
  }

  Json describe(const FunctionT &function,
                const std::map<std::string, size_t> &numbers) const {
    static const char *const kAccesses[] = {"", "read", "write", "update"};
    Json args = Json::array();
    int64_t sent = 0;
    for (const auto &argument : function.arguments)
      args.push_back({{"buffer", numbers.at(argument->buffer)},
                      {"access", kAccesses[int(argument->access)]}});
    for (const auto &command : function.commands)
      if (const SendT *send = command->action.AsSend())
        sent += 4 * send->cols;
    const int64_t arena =
        function.arenas.empty() ? 0 : function.arenas[0]->bytes;
    Json result{{"name", function.name},
                {"entry", {{"kind", kinds.at(function.name)}}},
                {"args", args},
                {"commands", function.commands.size()},
                {"arena_bytes", arena},
                {"lower_bound_bytes", arena},
                {"peak_bytes", Json::object()},
                {"communication", Json::array()}};
    result["schedule"] = manifest["functions"][0]["schedule"];
    if (sent)
      result["communication"].push_back(
          {{"axis", kPipeName}, {"bytes", sent}, {"messages", 0}});
    return result;
  }

  const ModelLibrary &library;
  const Blocks blocks;
  const uint32_t microbatches;
  const Order order;
  ProgramsT programs;
  Json manifest;
  const ProgramTableT &table;
  const Mesh mesh;
  int64_t slotBytes = 0;
  std::vector<std::unique_ptr<FunctionT>> functions[2];
  std::map<std::string, std::string> kinds;
};

} // namespace

StatusOr<Stages> split(const ModelLibrary &library,
                       const std::string &lastOfFirst, uint32_t microbatches,
                       Order order) {
  return Splitter(library, lastOfFirst, microbatches, order).run();
}

} // namespace optimus_stages
