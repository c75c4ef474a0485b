//===- ProgramCheck.cpp - What makes programs valid -----------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ProgramCheck.h"

#include "optimus-support/ProgramOrder.h"
#include "optimus-support/Sizes.h"

#include <algorithm>
#include <future>
#include <map>
#include <optional>
#include <set>

namespace optimus_support::program {

namespace {

/// An address may choose this often on the way to its places: each choice
/// doubles them.
constexpr int kMaxChoices = 8;
constexpr size_t kMaxCommands = size_t(1) << 24;
/// So many are worth a thread for a while.
constexpr size_t kManyCommands = 10'000;

/// Names that functions, kernels, targets and mesh axes have: printable, not
/// empty, each once.
template <typename List>
Status checkNames(const char *what, const List &list) {
  std::set<std::string> names;
  for (size_t i = 0; i != list.size(); ++i)
    if (list[i]->name.empty() ||
        !std::all_of(list[i]->name.begin(), list[i]->name.end(), isPrintable))
      return wrong(
          concat(what, " ", i, ": expected a name of printable characters"));
    else if (!names.insert(list[i]->name).second)
      return wrong(concat(what, " \"", printable(list[i]->name),
                          "\": expected names that differ"));
  return okStatus();
}

Status checkMesh(const ProgramsT &programs) {
  OPTRT_RETURN_IF_ERROR(checkNames("mesh axis", programs.mesh));
  CheckedSize ranks = 1;
  for (const std::unique_ptr<MeshAxisT> &axis : programs.mesh) {
    if (axis->size < 1)
      return wrong(concat("mesh axis \"", axis->name,
                          "\": expected at least one rank, found ",
                          axis->size));
    ranks = ranks * axis->size;
  }
  if (!ranks.isAtMost(kMaxRanks))
    return wrong(concat("the mesh has ", ranks.toString(),
                        " ranks; expected at most ", kMaxRanks));
  return okStatus();
}

Status checkRanks(const TargetT &target, int64_t ranks) {
  int64_t next = 0;
  for (const RankRange &range : target.ranks) {
    if (range.first() != next || range.count() == 0 ||
        range.table() >= target.tables.size())
      return wrong(concat("ranks from ", next,
                          " on: expected a range that begins there, of one of ",
                          target.tables.size(), " tables; found [",
                          range.first(), ", ",
                          int64_t(range.first()) + range.count(), ") of table ",
                          range.table()));
    next += range.count();
  }
  if (next != ranks)
    return wrong(concat("tables are there for ", next, " ranks of ", ranks));
  return okStatus();
}

class FunctionChecker {
public:
  FunctionChecker(const TargetT &target, const ProgramTableT &table,
                  const FunctionT &function, const Mesh &mesh)
      : target(target), table(table), function(function), mesh(mesh) {}

  /// All but order: checkOrder() is for functions that are right so far.
  Status check() {
    OPTRT_RETURN_IF_ERROR(checkMemory());
    OPTRT_RETURN_IF_ERROR(checkQueues());
    OPTRT_RETURN_IF_ERROR(checkScalars());
    OPTRT_RETURN_IF_ERROR(checkAddresses());
    OPTRT_RETURN_IF_ERROR(checkBuffers());
    if (function.commands.size() > kMaxCommands)
      return wrong(concat("has more than ", kMaxCommands, " commands"));
    for (uint32_t number = 0; number != function.commands.size(); ++number) {
      const CommandT &command = *function.commands[number];
      Status status = checkCommand({target, table, function, mesh}, number);
      if (!status.ok() && isKnown(command.action.type, Action::Wait))
        return status.withContext(concat("command ", number, " (",
                                         actionName(command.action.type), ")"));
      OPTRT_RETURN_IF_ERROR(status);
    }
    return checkLifetimes(target, table, function, mesh);
  }

  /// Checks that every packed operand of a product is the result of the last
  /// PackMatrix to its address, here or where an argument was prepared. All
  /// functions have been checked.
  Status checkPacked() {
    std::map<uint32_t, const PackMatrixT *> packed = findPrepared();
    for (uint32_t number = 0; number != function.commands.size(); ++number) {
      const CommandT &command = *function.commands[number];
      if (const PackMatrixT *pack = command.action.AsPackMatrix())
        packed[command.operands[1]->address] = pack;
      const GemmT *gemm = command.action.AsGemm();
      if (!gemm || !gemm->packed_b)
        continue;
      const auto found = packed.find(command.operands[1]->address);
      if (found == packed.end() || found->second->rows != gemm->k ||
          found->second->cols != gemm->n ||
          found->second->elements != gemm->ldb ||
          found->second->blocks != gemm->blocks)
        return wrong(concat(describe(target, table, function, number),
                            " reads a packed B of ", gemm->k, " x ", gemm->n,
                            " in ", gemm->ldb,
                            " elements; expected an earlier pack of such a "
                            "one at the same address"));
    }
    return okStatus();
  }

private:
  Status checkMemory() {
    for (const std::unique_ptr<ArenaT> &arena : function.arenas)
      if (arena->bytes < 0 || arena->bytes > kMaxBytes ||
          !isKnown(arena->space, MemorySpace::File))
        return wrong(concat("an arena of ", arena->bytes, " bytes in space ",
                            int(arena->space), "; expected 0 to ", kMaxBytes,
                            " bytes in a space that is known"));
    for (size_t i = 0; i != function.arguments.size(); ++i) {
      const ArgumentT &argument = *function.arguments[i];
      if (argument.bytes < 0 || argument.bytes > kMaxBytes ||
          !isKnown(argument.type, ElementType::I8) ||
          !isKnown(argument.access, Access::Update) ||
          argument.access == Access() ||
          !isKnown(argument.space, MemorySpace::File))
        return wrong(concat("argument ", i, ": expected 0 to ", kMaxBytes,
                            " bytes of a known type, in a known space, read, "
                            "written or updated; found ",
                            argument.bytes));
    }
    return okStatus();
  }

  Status checkQueues() {
    for (size_t i = 0; i != function.queues.size(); ++i) {
      const QueueT &queue = *function.queues[i];
      if (!isKnown(queue.kind, QueueKind::Copies))
        return wrong(concat("queue ", i, " is of kind ", int(queue.kind)));
      if ((queue.kind == QueueKind::Communication) == queue.axes.empty())
        return wrong(concat("queue ", i,
                            ": expected mesh axes exactly if it is for "
                            "communication"));
      OPTRT_RETURN_IF_ERROR(
          checkAxes(queue.axes, mesh).withContext(concat("queue ", i)));
      for (size_t j = 0; j != i && !queue.axes.empty(); ++j)
        if (function.queues[j]->axes == queue.axes)
          return wrong(
              concat("queue ", i, " is for the same mesh axes as queue ", j));
    }
    return okStatus();
  }

  Status checkScalars() {
    for (size_t i = 0; i != function.scalars.size(); ++i) {
      const NumberUnion &number = function.scalars[i]->number;
      if (!number.value || !isKnown(number.type, Number::Real))
        return wrong(concat("scalar ", i, " has no value"));
      if (const IntegerT *integer = number.AsInteger())
        OPTRT_RETURN_IF_ERROR(
            checkInteger(*integer).withContext(concat("scalar ", i)));
    }
    return okStatus();
  }

  Status checkInteger(const IntegerT &integer) {
    for (const Term &term : integer.terms)
      if (term.axis() >= uint32_t(mesh.numAxes()))
        return wrong(concat("depends on mesh axis ", term.axis(), " of ",
                            mesh.numAxes()));
    if (!rangeOf(integer, mesh))
      return wrong("its values do not fit 64 bits, or none is left between "
                   "its bounds");
    return okStatus();
  }

  Status checkAddresses() {
    std::vector<int> choices(function.addresses.size());
    for (uint32_t i = 0; i != function.addresses.size(); ++i)
      if (Status status = checkAddress(i, choices); !status.ok())
        return status.withContext(concat("address ", i));
    return okStatus();
  }

  Status checkAddress(uint32_t number, std::vector<int> &choices) {
    const LocationUnion &location = function.addresses[number]->location;
    if (!location.value || !isKnown(location.type, Location::Choice))
      return wrong("leads nowhere");
    if (const ChoiceT *choice = location.AsChoice()) {
      if (choice->axis >= uint32_t(mesh.numAxes()) || choice->coordinate < 0 ||
          choice->coordinate >= mesh.axisSize(int(choice->axis)))
        return wrong(concat("chooses by index ", choice->coordinate,
                            " on mesh axis ", choice->axis,
                            ", which there is not"));
      if (choice->mine >= number || choice->other >= number)
        return wrong(concat("chooses between ", choice->mine, " and ",
                            choice->other, "; expected earlier addresses"));
      choices[number] =
          1 + std::max(choices[choice->mine], choices[choice->other]);
      if (choices[number] > kMaxChoices)
        return wrong(concat("has more than ", kMaxChoices,
                            " choices on the way to a buffer"));
      return okStatus();
    }
    const PlaceT &place = *location.AsPlace();
    const size_t bases[] = {function.arenas.size(), function.arguments.size(),
                            table.constants.size()};
    if (!isKnown(place.base, Base::Constant) ||
        place.index >= bases[int(place.base)])
      return wrong(concat("is in base ", int(place.base), " number ",
                          place.index, ", which there is not"));
    if (!place.bytes)
      return wrong("has no offset");
    if (place.bytes->least != INT64_MIN || place.bytes->most != INT64_MAX)
      return wrong("has an offset with bounds; expected those of what it "
                   "adds up");
    return checkInteger(*place.bytes);
  }

  Status checkBuffers() {
    for (size_t i = 0; i != function.buffers.size(); ++i) {
      const BufferT &buffer = *function.buffers[i];
      if (buffer.arena >= function.arenas.size() || buffer.offset < 0 ||
          buffer.bytes < 0 ||
          buffer.bytes > function.arenas[buffer.arena]->bytes - buffer.offset)
        return wrong(concat("buffer ", i, " of ", buffer.bytes,
                            " bytes at byte ", buffer.offset,
                            " is not in its arena"));
      if (buffer.first > buffer.last || buffer.last >= function.commands.size())
        return wrong(concat("buffer ", i, " is alive from command ",
                            buffer.first, " to ", buffer.last,
                            "; expected commands of the function's ",
                            function.commands.size(), ", in order"));
      auto isText = [&](uint32_t text) { return text < table.texts.size(); };
      auto isName = [&](uint32_t text) {
        return text == kNone || isText(text);
      };
      if (!isName(buffer.category) || !isName(buffer.name) ||
          !isName(buffer.path) || !isName(buffer.source) ||
          !std::all_of(buffer.values.begin(), buffer.values.end(), isText))
        return wrong(concat("buffer ", i, " has names that are not there"));
    }
    return okStatus();
  }

  /// The argument at whose begin an address lies on all ranks, or null.
  static const ArgumentT *argumentAt(const FunctionT &function,
                                     uint32_t address) {
    if (address == kNone)
      return nullptr;
    const PlaceT *place = function.addresses[address]->location.AsPlace();
    return place && place->base == Base::Argument &&
                   place->bytes->constant == 0 && place->bytes->terms.empty()
               ? function.arguments[place->index].get()
               : nullptr;
  }

  /// What other functions have packed into the arguments of this one, by their
  /// addresses.
  std::map<uint32_t, const PackMatrixT *> findPrepared() const {
    std::map<std::string, const PackMatrixT *> byBuffer;
    for (const std::unique_ptr<FunctionT> &other : table.functions)
      for (const std::unique_ptr<CommandT> &command : other->commands)
        if (const PackMatrixT *pack = command->action.AsPackMatrix();
            pack && other->prepares && other.get() != &function)
          if (const ArgumentT *argument =
                  argumentAt(*other, command->operands[1]->address))
            byBuffer[argument->buffer] = pack;
    std::map<uint32_t, const PackMatrixT *> packed;
    for (uint32_t address = 0; address != function.addresses.size(); ++address)
      if (const ArgumentT *argument = argumentAt(function, address))
        if (const auto found = byBuffer.find(argument->buffer);
            found != byBuffer.end())
          packed[address] = found->second;
    return packed;
  }

  const TargetT &target;
  const ProgramTableT &table;
  const FunctionT &function;
  const Mesh &mesh;
};

/// What lanes rule out in a function, or nothing.
std::optional<std::string> findOutsideLanes(const FunctionT &function) {
  for (const std::unique_ptr<QueueT> &queue : function.queues)
    if (queue->kind != QueueKind::Compute)
      return "a queue of another kind than Compute";
  auto isElsewhere = [](const auto &memory) {
    return memory->space != MemorySpace::Device;
  };
  if (std::ranges::any_of(function.arenas, isElsewhere) ||
      std::ranges::any_of(function.arguments, isElsewhere))
    return "memory outside the device's";
  return std::nullopt;
}

/// Checks that all lanes of a table can be executed. Its functions were
/// checked.
Status checkLanes(const ProgramTableT &table, const Mesh &mesh) {
  if (table.lanes == 1)
    return okStatus();
  if (table.lanes == 0 || table.lanes > kMaxLanes)
    return wrong(concat("a table of ", table.lanes, " lanes; expected 1 to ",
                        kMaxLanes));
  if (mesh.numRanks() != 1)
    return wrong(concat("a table of ", table.lanes, " lanes on a mesh of ",
                        mesh.numRanks(), " ranks; expected one rank"));
  for (const std::unique_ptr<FunctionT> &function : table.functions) {
    if (const std::optional<std::string> found = findOutsideLanes(*function))
      return wrong(concat("function ", function->name, " has ", *found,
                          "; expected none in a table of ", table.lanes,
                          " lanes"));
    CheckedSize bytes = 0;
    for (const std::unique_ptr<ArenaT> &arena : function->arenas)
      bytes = bytes + laneStride(arena->bytes);
    for (const std::unique_ptr<ArgumentT> &argument : function->arguments)
      bytes = bytes + laneStride(argument->bytes);
    if (!(bytes * int64_t(table.lanes)).isAtMost(kMaxBytes))
      return wrong(concat("function ", function->name, ": ", table.lanes,
                          " lanes of ", bytes.toString(),
                          " bytes; expected at most ", kMaxBytes,
                          " bytes together"));
  }
  return okStatus();
}

/// Checks the sequences of a table by themselves.
Status checkSequences(const TargetT &target, const ProgramTableT &table,
                      const Mesh &mesh) {
  OPTRT_RETURN_IF_ERROR(checkNames("sequence", table.sequences));
  const ProgramTableT &first = *target.tables.front();
  if (table.sequences.size() != first.sequences.size())
    return wrong("tables have different sequences");
  for (const std::unique_ptr<SequenceT> &sequence : table.sequences) {
    if (!findSequence(first, sequence->name))
      return wrong(concat("sequence ", sequence->name,
                          " is in a later table only; expected it in all"));
    OPTRT_RETURN_IF_ERROR(checkSequence(*sequence, target, table, mesh)
                              .withContext("sequence " + sequence->name));
  }
  // In no sequence either.
  return checkCarried(table);
}

/// Checks functions by themselves. Their order is checked beside the others:
/// it takes as long as all else.
Status checkFunctions(const TargetT &target, const ProgramTableT &table,
                      const Mesh &mesh, Checks checks) {
  OPTRT_RETURN_IF_ERROR(checkNames("function", table.functions));
  std::vector<std::future<Status>> orders;
  Status failed = okStatus();
  for (const std::unique_ptr<FunctionT> &each : table.functions) {
    const FunctionT &function = *each;
    const std::string name = "function " + function.name;
    failed = FunctionChecker(target, table, function, mesh)
                 .check()
                 .withContext(name);
    if (!failed.ok())
      break;
    // Without a thread for it, at the end.
    const bool hasMany = function.commands.size() >= kManyCommands;
    orders.push_back(
        std::async(hasMany ? std::launch::async | std::launch::deferred
                           : std::launch::deferred,
                   [&target, &table, &function, &mesh, checks, name] {
                     return checkOrder(target, table, function, mesh, checks)
                         .withContext(name);
                   }));
  }
  // What fails first is said: the order of an earlier function.
  for (std::future<Status> &order : orders)
    OPTRT_RETURN_IF_ERROR(order.get());
  return failed;
}

Status checkTarget(const TargetT &target, const Mesh &mesh, Checks checks) {
  OPTRT_RETURN_IF_ERROR(checkNames("kernel", target.kernels));
  for (const std::unique_ptr<KernelT> &kernel : target.kernels)
    OPTRT_RETURN_IF_ERROR(
        checkKernel(*kernel).withContext("kernel " + kernel->name));
  OPTRT_RETURN_IF_ERROR(checkRanks(target, mesh.numRanks()));
  for (const std::unique_ptr<ProgramTableT> &table : target.tables) {
    OPTRT_RETURN_IF_ERROR(checkFunctions(target, *table, mesh, checks));
    for (const std::unique_ptr<FunctionT> &function : table->functions)
      if (const FunctionT *first =
              findFunction(*target.tables.front(), function->name);
          first && function->prepares != first->prepares)
        return wrong(
            concat("tables differ in whether ", function->name, " prepares"));
    OPTRT_RETURN_IF_ERROR(checkLanes(*table, mesh));
    OPTRT_RETURN_IF_ERROR(checkPrepared(*table, mesh));
    for (const std::unique_ptr<FunctionT> &function : table->functions)
      OPTRT_RETURN_IF_ERROR(FunctionChecker(target, *table, *function, mesh)
                                .checkPacked()
                                .withContext("function " + function->name));
  }
  for (const std::unique_ptr<ProgramTableT> &table : target.tables)
    OPTRT_RETURN_IF_ERROR(checkSequences(target, *table, mesh));
  return checkMeetings(target, mesh);
}

} // namespace

Status checkAxes(const std::vector<uint32_t> &axes, const Mesh &mesh) {
  std::set<uint32_t> seen;
  for (uint32_t axis : axes)
    if (axis >= uint32_t(mesh.numAxes()) || !seen.insert(axis).second)
      return wrong(concat("expected mesh axes below ", mesh.numAxes(),
                          ", each once; found ", axis));
  return okStatus();
}

Status check(const ProgramsT &programs, Checks checks) {
  OPTRT_RETURN_IF_ERROR(checkMesh(programs));
  const Mesh mesh = meshOf(programs);
  OPTRT_RETURN_IF_ERROR(checkNames("target", programs.targets));
  if (programs.targets.empty())
    return wrong("there is no target");
  for (const std::unique_ptr<TargetT> &target : programs.targets)
    OPTRT_RETURN_IF_ERROR(checkTarget(*target, mesh, checks)
                              .withContext("target " + target->name));
  return okStatus();
}

} // namespace optimus_support::program
