//===- Program.cpp - Programs as tables of commands -----------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/Program.h"

#include "ProgramCheck.h"
#include "optimus-support/ProgramSchema.h"
#include "optimus-support/SeenKeys.h"
#include "optimus-support/Sizes.h"

#include <algorithm>
#include <flatbuffers/flatbuffers.h>
#include <functional>
#include <memory>
#include <set>

namespace optimus_support::program {

/// Tables that bytes may expand to: many more than a program of 10^5 commands has.
static constexpr flatbuffers::uoffset_t kMaxTables = 20'000'000;
static constexpr flatbuffers::uoffset_t kMaxDepth = 32;

uint64_t schemaHash() { return kSchemaHash; }

int64_t laneStride(int64_t bytes) {
  constexpr int64_t kAlignment = 64;
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

std::string pack(ProgramsT &programs) {
  programs.schema_hash = schemaHash();
  // It copies all where it grows.
  constexpr size_t kBytesOfCommand = 256, kLeast = 1024;
  size_t numCommands = 0;
  for (const std::unique_ptr<TargetT> &target : programs.targets)
    for (const std::unique_ptr<ProgramTableT> &table : target->tables)
      for (const std::unique_ptr<FunctionT> &function : table->functions)
        numCommands += function->commands.size();
  flatbuffers::FlatBufferBuilder builder(kLeast +
                                         kBytesOfCommand * numCommands);
  FinishProgramsBuffer(builder, Programs::Pack(builder, &programs));
  return {reinterpret_cast<const char *>(builder.GetBufferPointer()),
          builder.GetSize()};
}

StatusOr<ProgramsT> unpack(std::span<const char> bytes, Checks checks) {
  // Where they are not aligned, in memory that is.
  std::unique_ptr<std::max_align_t[]> aligned;
  const auto *data = reinterpret_cast<const uint8_t *>(bytes.data());
  if (reinterpret_cast<uintptr_t>(data) % alignof(std::max_align_t) != 0) {
    aligned = std::make_unique<std::max_align_t[]>(
        bytes.size() / sizeof(std::max_align_t) + 1);
    std::copy(bytes.begin(), bytes.end(),
              reinterpret_cast<char *>(aligned.get()));
    data = reinterpret_cast<const uint8_t *>(aligned.get());
  }
  if (bytes.size() < 16 || !ProgramsBufferHasIdentifier(data))
    return invalidArgument("there are no programs: expected a flatbuffer that "
                           "is marked OPTP");
  flatbuffers::Verifier verifier(data, bytes.size(), kMaxDepth, kMaxTables);
  // What another version wrote may be anything but its first field.
  if (!VerifyProgramsBuffer(verifier))
    return invalidArgument("the programs are no flatbuffer of this version: "
                           "their offsets lead outside, or the library was "
                           "compiled by another version. Compile it again");
  const Programs *root = GetPrograms(data);
  if (root->schema_hash() != schemaHash())
    return invalidArgument("the programs were written by another version of "
                           "the compiler. Compile the library again");
  ProgramsT programs;
  root->UnPackTo(&programs);
  OPTRT_RETURN_IF_ERROR(check(programs, checks));
  return programs;
}

Mesh meshOf(const ProgramsT &programs) {
  std::vector<optimus_support::MeshAxis> axes;
  for (const std::unique_ptr<MeshAxisT> &axis : programs.mesh)
    axes.push_back({axis->name, axis->size});
  return Mesh(std::move(axes));
}

const TargetT *findTarget(const ProgramsT &programs, std::string_view name) {
  for (const std::unique_ptr<TargetT> &target : programs.targets)
    if (target->name == name)
      return target.get();
  return nullptr;
}

const ProgramTableT &tableOf(const TargetT &target, int64_t rank) {
  for (const RankRange &range : target.ranks)
    if (rank - range.first() < range.count())
      return *target.tables[range.table()];
  return *target.tables.back();
}

const FunctionT *findFunction(const ProgramTableT &table,
                              std::string_view name) {
  for (const std::unique_ptr<FunctionT> &function : table.functions)
    if (function->name == name)
      return function.get();
  return nullptr;
}

std::vector<const FunctionT *> functionsOf(const TargetT &target) {
  std::vector<const FunctionT *> functions;
  std::set<std::string_view> names;
  for (const std::unique_ptr<ProgramTableT> &table : target.tables)
    for (const std::unique_ptr<FunctionT> &function : table->functions)
      if (names.insert(function->name).second)
        functions.push_back(function.get());
  return functions;
}

//===----------------------------------------------------------------------===//
// For people
//===----------------------------------------------------------------------===//

std::string printable(std::string text) {
  // A broken table may have all of a file as a name.
  constexpr size_t kMostShown = 500;
  if (text.size() > kMostShown)
    text = text.substr(0, kMostShown) + "...";
  std::replace_if(text.begin(), text.end(), std::not_fn(isPrintable), '?');
  return text;
}

std::string_view actionName(Action action) {
  static constexpr std::string_view names[] = {
      "nothing", "gemm",      "pack",           "launch",     "copy",
      "fill",    "attention", "attention_grad", "collective", "send",
      "receive", "wait"};
  return names[static_cast<int>(action)];
}

std::string_view toString(CollectiveKind kind) {
  static constexpr std::string_view kinds[] = {
      "broadcast",  "reduce",         "all_reduce",
      "all_gather", "reduce_scatter", "all_to_all"};
  return kinds[static_cast<int>(kind)];
}

std::string describeAction(const TargetT &target, const CommandT &command) {
  if (const LaunchT *launch = command.action.AsLaunch())
    return target.kernels[launch->kernel]->name;
  if (const CollectiveT *collective = command.action.AsCollective())
    return std::string(toString(collective->kind));
  return std::string(actionName(command.action.type));
}

std::string describe(const TargetT &target, const ProgramTableT &table,
                     const FunctionT &function, uint32_t number) {
  const CommandT &command = *function.commands[number];
  const std::string action = describeAction(target, command);
  if (command.path == kNone)
    return concat("command ", number, " (", action, ")");
  std::string text = concat(printable(table.texts[command.path]), " (", action);
  if (command.source != kNone)
    text += concat(", ", printable(table.texts[command.source]));
  return text + ")";
}

double countFlops(const CommandT &command) {
  auto pairs = [](const AttentionShapeT &shape) {
    if (shape.capacity != 0)
      return double(shape.batch) * shape.heads * shape.seq * shape.capacity *
             shape.head_dim;
    // A causal mask leaves half and the diagonal.
    const double seen = shape.causal ? (shape.seq + 1) / 2.0 *
                                           windowShare(shape.seq, shape.window)
                                     : double(shape.seq);
    return double(shape.batch) * shape.heads * shape.seq * seen *
           shape.head_dim;
  };
  if (const GemmT *gemm = command.action.AsGemm())
    return 2.0 * gemm->m * gemm->n * gemm->k;
  if (const AttentionT *attention = command.action.AsAttention())
    return 4 * pairs(*attention->shape);
  if (const AttentionGradT *attention = command.action.AsAttentionGrad())
    return 10 * pairs(*attention->shape);
  return 0;
}

int64_t countBytes(const CommandT &command) {
  int64_t bytes = 0;
  for (const std::unique_ptr<OperandT> &operand : command.operands)
    if (operand->address != kNone)
      bytes += operand->rows * operand->row_bytes *
               (operand->access == Access::Update ? 2 : 1);
  return bytes;
}

} // namespace optimus_support::program
