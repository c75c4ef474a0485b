//===- ProgramRows.cpp - Programs as rows of a profile --------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ProgramRows.h"

#include "optimus-support/MemoryCategory.h"
#include "optimus-support/ProgramLifetimes.h"
#include "optimus-support/ProgramRegions.h"

#include <optional>

using namespace optimus_support::program;

namespace optrt {

namespace {

/// What people are to know a held buffer as.
std::string_view categoryOf(const Buffer &buffer) {
  static constexpr std::string_view names[] = {"parameter", "state", "gradient",
                                               "input"};
  if (buffer.isPrepared())
    return "prepared weight";
  return entryOf(optimus_support::memoryCategory(
                     buffer.lifetime, buffer.of >= 0, /*isPrepared=*/false),
                 names);
}

const char *kindOf(QueueKind kind) {
  static constexpr const char *names[] = {"compute", "communication", "copies"};
  return names[static_cast<int>(kind)];
}

class RowWriter {
public:
  RowWriter(Database &database, const Profiled &profiled)
      : database(database), profiled(profiled),
        manifest(profiled.library.manifest()),
        target(profiled.library.target()) {}

  Status begin();
  Status writeHeldBuffers();
  /// A function with the addresses of a rank. Returns its first block.
  StatusOr<int64_t> writeFunction(int64_t number, std::size_t call, int rank);

private:
  Status writeQueues(int64_t number, const FunctionT &function);
  Status writeBuffers(int64_t number, const ProgramTableT &table,
                      const FunctionT &function);
  Status writeCommand(int64_t number, const ProgramTableT &table,
                      const FunctionT &function, uint32_t command);
  Status writeAccesses(int64_t number, const FunctionT &function,
                       const LiveBuffers &alive, uint32_t command);
  /// The block that an operand lies in, or nothing: a constant, or an arena
  /// whose buffers are not listed.
  std::optional<int64_t> blockOf(const FunctionT &function,
                                 const LiveBuffers &alive,
                                 uint32_t address) const;
  /// How the rank touches an operand; nothing where it does not, though others
  /// do.
  std::optional<int64_t> accessOf(const FunctionT &function,
                                  const CommandT &command,
                                  size_t operand) const;

  std::string_view text(const ProgramTableT &table, uint32_t number) const {
    return number == kNone ? std::string_view()
                           : std::string_view(table.texts[number]);
  }

  Database &database;
  const Profiled &profiled;
  const Manifest &manifest;
  const TargetT &target;
  Insertion functions, queues, commands, blocks, accesses;
  int64_t nextBlock = 0;
  /// Of the manifest's buffers.
  std::map<int64_t, int64_t> heldBlocks;
  /// Of the function that is written.
  int64_t firstBlock = 0;
  std::size_t call = 0;
  std::vector<int64_t> coordinates;
};

Status RowWriter::begin() {
  for (auto [insertion, table, columns] :
       {std::tuple(&functions, "functions", 3),
        {&queues, "queues", 4},
        {&commands, "commands", 10},
        {&blocks, "blocks", 11},
        {&accesses, "accesses", 6}}) {
    OPTRT_ASSIGN_OR_RETURN(*insertion,
                           Insertion::prepare(database, table, columns));
  }
  return okStatus();
}

Status RowWriter::writeHeldBuffers() {
  int64_t address = 0;
  for (int64_t index : profiled.held) {
    const Buffer &buffer = manifest.buffers[index];
    heldBlocks[index] = nextBlock;
    blocks.add(nextBlock++);
    blocks.addNull();
    blocks.add("resident");
    blocks.add(buffer.name);
    blocks.add(address);
    blocks.add(buffer.numBytes());
    blocks.add(categoryOf(buffer));
    OPTRT_RETURN_IF_ERROR(blocks.insert());
    address += alignedSize(buffer.numBytes());
  }
  return okStatus();
}

Status RowWriter::writeQueues(int64_t number, const FunctionT &function) {
  for (size_t i = 0; i != function.queues.size(); ++i) {
    const QueueT &queue = *function.queues[i];
    const std::string axes = axesName(manifest.mesh, queue.axes);
    queues.add(number);
    queues.add(static_cast<int64_t>(i));
    queues.add(kindOf(queue.kind));
    queues.add(axes);
    OPTRT_RETURN_IF_ERROR(queues.insert());
  }
  return okStatus();
}

Status RowWriter::writeBuffers(int64_t number, const ProgramTableT &table,
                               const FunctionT &function) {
  for (const std::unique_ptr<BufferT> &buffer : function.buffers) {
    blocks.add(nextBlock++);
    blocks.add(number);
    blocks.add("arena");
    blocks.add(text(table, buffer->values.empty() ? buffer->name
                                                  : buffer->values.front()));
    blocks.add(buffer->offset);
    blocks.add(buffer->bytes);
    for (uint32_t name : {buffer->category, buffer->path, buffer->source})
      blocks.add(text(table, name));
    blocks.add(static_cast<int64_t>(buffer->first));
    blocks.add(static_cast<int64_t>(buffer->last));
    OPTRT_RETURN_IF_ERROR(blocks.insert());
  }
  return okStatus();
}

Status RowWriter::writeCommand(int64_t number, const ProgramTableT &table,
                               const FunctionT &function, uint32_t place) {
  const CommandT &command = *function.commands[place];
  const std::string described = describeAction(target, command);
  const bool isLaunch = command.action.type == Action::Launch;
  commands.add(number);
  commands.add(static_cast<int64_t>(place));
  commands.add(isLaunch ? std::string_view("launch") : described);
  commands.add(isLaunch ? std::string_view(described) : std::string_view());
  commands.add(static_cast<int64_t>(command.queue));
  commands.add(text(table, command.path));
  commands.add(text(table, command.source));
  commands.add(static_cast<int64_t>(countFlops(command)));
  commands.add(countBytes(command));
  if (const WaitT *wait = command.action.AsWait();
      wait && wait->command != kNone)
    commands.add(static_cast<int64_t>(wait->command));
  return commands.insert();
}

std::optional<int64_t> RowWriter::blockOf(const FunctionT &function,
                                          const LiveBuffers &alive,
                                          uint32_t address) const {
  const PlaceT &place = placeOf(function, address, coordinates);
  if (place.base == Base::Argument)
    return heldBlocks.at(profiled.calls[call].buffers[place.index]);
  if (place.base == Base::Constant)
    return std::nullopt;
  const int64_t offset = evaluate(*place.bytes, coordinates);
  std::optional<uint32_t> buffer = alive.find(place.index, offset, offset + 1);
  return buffer ? std::optional(firstBlock + *buffer) : std::nullopt;
}

std::optional<int64_t> RowWriter::accessOf(const FunctionT &function,
                                           const CommandT &command,
                                           size_t operand) const {
  const auto access = static_cast<int64_t>(command.operands[operand]->access);
  const CollectiveT *collective = command.action.AsCollective();
  if (!collective || collective->axes.size() != 1)
    return access;
  const bool isRoot = coordinates[collective->axes[0]] == collective->root;
  if (collective->kind == CollectiveKind::Reduce && operand == 1 && !isRoot)
    return std::nullopt;
  if (collective->kind != CollectiveKind::Broadcast)
    return access;
  // The root only sends; it may receive where its panel lies.
  if (operand == 0)
    return isRoot ? std::optional(access) : std::nullopt;
  const uint32_t address = command.operands[operand]->address;
  return isRoot && writtenAddress(function, command, operand) != address
             ? std::nullopt
             : std::optional(access);
}

Status RowWriter::writeAccesses(int64_t number, const FunctionT &function,
                                const LiveBuffers &alive, uint32_t place) {
  const CommandT &command = *function.commands[place];
  for (size_t i = 0; i != command.operands.size(); ++i) {
    const OperandT &operand = *command.operands[i];
    if (operand.address == kNone)
      continue;
    const std::optional<int64_t> block =
                                     blockOf(function, alive, operand.address),
                                 access = accessOf(function, command, i);
    if (!block || !access)
      continue;
    accesses.add(number);
    accesses.add(static_cast<int64_t>(place));
    accesses.add(static_cast<int64_t>(i));
    accesses.add(*block);
    accesses.add(*access);
    accesses.add(operand.rows * operand.row_bytes);
    OPTRT_RETURN_IF_ERROR(accesses.insert());
  }
  return okStatus();
}

StatusOr<int64_t> RowWriter::writeFunction(int64_t number, std::size_t ofCall,
                                           int rank) {
  call = ofCall;
  firstBlock = nextBlock;
  coordinates = manifest.mesh.coordinates(rank);
  const ProgramTableT &table = tableOf(target, rank);
  const std::string &name = profiled.calls[call].function->name;
  const FunctionT &function = *findFunction(table, name);
  functions.add(number);
  functions.add(name);
  functions.add(profiled.calls[call].function->arenaBytes);
  OPTRT_RETURN_IF_ERROR(functions.insert());
  OPTRT_RETURN_IF_ERROR(writeQueues(number, function));
  OPTRT_RETURN_IF_ERROR(writeBuffers(number, table, function));
  LiveBuffers alive(function);
  for (uint32_t place = 0; place != function.commands.size(); ++place) {
    alive.begin(place);
    OPTRT_RETURN_IF_ERROR(writeCommand(number, table, function, place));
    OPTRT_RETURN_IF_ERROR(writeAccesses(number, function, alive, place));
    alive.end(place);
  }
  return firstBlock;
}

} // namespace

Status ProgramRows::write(Database &database, const Profiled &profiled) {
  RowWriter rows(database, profiled);
  OPTRT_RETURN_IF_ERROR(rows.begin());
  OPTRT_RETURN_IF_ERROR(rows.writeHeldBuffers());
  // Ranks with the same table share what is said of it.
  std::map<std::pair<const ProgramTableT *, std::size_t>, Function> written;
  for (std::size_t call = 0; call != profiled.calls.size(); ++call)
    for (int rank : profiled.ranks) {
      if (!profiled.hasCall(rank, call))
        continue;
      const ProgramTableT &table = tableOf(profiled.library.target(), rank);
      auto [entry, isNew] = written.try_emplace({&table, call});
      if (isNew) {
        entry->second.number = static_cast<int64_t>(written.size()) - 1;
        OPTRT_ASSIGN_OR_RETURN(
            entry->second.firstBlock,
            rows.writeFunction(entry->second.number, call, rank));
      }
      functions[{rank, call}] = entry->second;
    }
  return okStatus();
}

} // namespace optrt
