//===- ProgramBinder.cpp - What one rank decides about a function ---------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ProgramBinder.h"

#include "optimus-support/ProgramRegions.h"

#include <algorithm>

using namespace optimus_support::program;

namespace optrt {

using optimus_support::ElementType;
static_assert(int(ElementType::F32) == OPTRT_F32 &&
                  int(ElementType::F16) == OPTRT_F16 &&
                  int(ElementType::BF16) == OPTRT_BF16 &&
                  int(ElementType::I32) == OPTRT_I32 &&
                  int(CollectiveKind::Broadcast) == OPTRT_BROADCAST &&
                  int(CollectiveKind::AllToAll) == OPTRT_ALL_TO_ALL &&
                  int(Reduction::Max) == OPTRT_MAX,
              "descriptors have the values of tables");

Status ProgramBinder::bind() {
  size_t numPointers = 0;
  for (const auto &command : function.commands) {
    numPointers += std::max<size_t>(command->operands.size(), 11);
    if (const LaunchT *launch = command->action.AsLaunch())
      numPointers += launch->scalars.size();
  }
  const size_t count = function.commands.size();
  for (const auto &command : function.commands)
    if (const AttentionT *attention = command->action.AsAttention())
      hasCaches |= attention->shape->capacity != 0;
  result.commands.reserve(count);
  result.pointers.reserve(numPointers);
  result.strides.reserve(numPointers);
  result.gemms.reserve(count);
  result.packs.reserve(count);
  result.launches.reserve(count);
  result.copies.reserve(count);
  result.attentions.reserve(count);
  result.collectives.reserve(count);
  result.events.resize(count);
  result.integers.resize(function.scalars.size());
  result.reals.resize(function.scalars.size());
  for (uint32_t number = 0; number != count; ++number) {
    if (result.dynamic)
      result.dynamic->beginBinding(number);
    Status status = bindCommand(*function.commands[number]);
    if (result.dynamic)
      result.dynamic->endBinding(number);
    if (status.ok())
      status = std::exchange(notPlaced, okStatus());
    if (!status.ok())
      return status.withContext(result.describe(number));
  }
  result.visitCollectives(
      [&](BoundProgram::CollectiveNumber number,
          const optrt_collective_desc &desc) {
        result.planned.push_back({number.command, &desc});
      },
      [](BoundProgram::CollectiveNumber) {});
  bindOrder();
  OPTRT_RETURN_IF_ERROR(bindGroups());
  for (size_t i = 0; i != function.scalars.size(); ++i) {
    const NumberUnion &number = function.scalars[i]->number;
    if (const RealT *real = number.AsReal())
      result.reals[i] = real->value;
    else
      result.integers[i] = evaluate(*number.AsInteger(), coordinates);
  }
  return okStatus();
}

char *ProgramBinder::baseOf(const PlaceT &place) const {
  switch (place.base) {
  case Base::Arena:
    return arenas[place.index];
  case Base::Argument:
    return static_cast<char *>(arguments[place.index]);
  case Base::Constant:
    // check() has seen that nothing writes it.
    return reinterpret_cast<char *>(const_cast<uint8_t *>(
        result.table->constants[place.index]->data.data()));
  }
  return nullptr;
}

int64_t ProgramBinder::strideOf(const PlaceT &place) const {
  return place.base == Base::Argument
             ? laneStride(function.arguments[place.index]->bytes)
             : 0;
}

/// Adds the pointers of the other lanes behind those of the first.
void ProgramBinder::addLanes(int64_t lanes) {
  const size_t each = result.strides.size();
  result.pointers.reserve(each * lanes);
  for (int64_t lane = 1; lane < lanes; ++lane)
    for (size_t i = 0; i != each; ++i) {
      char *first = static_cast<char *>(result.pointers[i]);
      result.pointers.push_back(first ? first + lane * result.strides[i]
                                      : nullptr);
    }
}

void ProgramBinder::addPointer(uint32_t address) {
  void *&pointer = append(result.pointers, static_cast<void *>(nullptr));
  int64_t &stride = append(result.strides, int64_t(0));
  if (address == kNone)
    return;
  const PlaceT &place = placeOf(function, address, coordinates);
  stride = strideOf(place);
  const int64_t bytes = evaluate(*place.bytes, coordinates);
  if (!result.dynamic || place.base != Base::Arena)
    pointer = baseOf(place) + bytes;
  else if (Status placed = result.dynamic->bind(place.index, bytes, &pointer);
           notPlaced.ok())
    notPlaced = std::move(placed);
}

/// Operands at the end that are left out are absent.
void ProgramBinder::addPointers(const CommandT &command, size_t count) {
  for (size_t i = 0; i != count; ++i)
    addPointer(i < command.operands.size() ? command.operands[i]->address
                                           : kNone);
}

int32_t ProgramBinder::typeOf(const CommandT &command, size_t operand) {
  const bool isThere = operand < command.operands.size() &&
                       command.operands[operand]->address != kNone;
  return static_cast<int32_t>(isThere ? command.operands[operand]->type
                                      : ElementType::F32);
}

Status ProgramBinder::expectComputable(std::string_view what,
                                       const CommandT &command) const {
  for (const auto &operand : command.operands)
    if (operand->address != kNone && operand->type != ElementType::F32 &&
        operand->type != ElementType::BF16 && operand->type != ElementType::I32)
      return notHere(concat(what, " of ", toString(operand->type)));
  return okStatus();
}

Status ProgramBinder::expectTypes(const CommandT &command) const {
  for (const auto &operand : command.operands)
    if (operand->address != kNone && operand->type != ElementType::F32 &&
        operand->type != ElementType::I32)
      return notHere(concat(actionName(command.action.type), " of ",
                            toString(operand->type)));
  return okStatus();
}

Status ProgramBinder::bindCommand(const CommandT &command) {
  BoundProgram::Bound &bound =
      append(result.commands, {command.action.type,
                               static_cast<uint32_t>(result.pointers.size()), 0,
                               0, 0, kCompute, 0, false, 0, 0});
  Status status;
  switch (command.action.type) {
  case Action::Gemm:
    bound.descriptor = result.gemms.size();
    status = bind(*command.action.AsGemm(), command);
    break;
  case Action::PackMatrix: {
    const PackMatrixT &pack = *command.action.AsPackMatrix();
    bound.descriptor = result.packs.size();
    OPTRT_RETURN_IF_ERROR(expectTypes(command));
    addPointers(command, 2);
    append(result.packs, {pack.rows, pack.cols, pack.ld, pack.elements,
                          pack.trans, static_cast<int64_t>(pack.blocks)});
    break;
  }
  case Action::Launch:
    bound.descriptor = result.launches.size();
    status = bind(*command.action.AsLaunch(), command);
    break;
  case Action::Copy: {
    const CopyT &copy = *command.action.AsCopy();
    if (copy.kernel != kNone) {
      bindCopyingKernel(copy, command, bound);
      break;
    }
    bound.descriptor = result.copies.size();
    addPointers(command, 2);
    append(result.copies, {copy.rows, copy.cols, copy.src_ld, copy.dst_ld,
                           elementBytes(command.operands[0]->type)});
    break;
  }
  case Action::Fill: {
    const FillT &fill = *command.action.AsFill();
    bound.descriptor = result.copies.size();
    addPointers(command, 1);
    append(result.copies, {fill.rows, fill.cols, fill.ld, fill.ld,
                           elementBytes(command.operands[0]->type)});
    break;
  }
  case Action::Attention:
    bound.descriptor = result.attentions.size();
    addPointers(command, 9);
    status = bind(*command.action.AsAttention()->shape, command,
                  /*isDeterministic=*/false);
    break;
  case Action::AttentionGrad:
    bound.descriptor = result.attentions.size();
    addPointers(command, 12);
    status = bind(*command.action.AsAttentionGrad()->shape, command,
                  command.action.AsAttentionGrad()->deterministic);
    break;
  case Action::Collective:
    bound.descriptor = result.collectives.size();
    status = bind(*command.action.AsCollective(), command);
    break;
  case Action::Send:
    bound.descriptor = result.collectives.size();
    status = bind(*command.action.AsSend(), command);
    break;
  case Action::Receive:
    bound.descriptor = result.collectives.size();
    status = bind(*command.action.AsReceive(), command);
    break;
  case Action::Wait:
    if (isQueued && command.action.AsWait()->carried != 0)
      return notHere("wait for a collective of an earlier call");
    bound.carried = command.action.AsWait()->carried;
    bound.descriptor = command.action.AsWait()->command;
    break;
  default:
    return notHere(actionName(command.action.type));
  }
  return status;
}

Status ProgramBinder::bind(const GemmT &gemm, const CommandT &command) {
  OPTRT_RETURN_IF_ERROR(expectComputable("product", command));
  addPointers(command, 6);
  const bool hasBias =
      command.operands.size() > 3 && command.operands[3]->address != kNone;
  append(result.gemms,
         {gemm.m,
          gemm.n,
          gemm.k,
          gemm.lda,
          gemm.ldb,
          gemm.ldc,
          gemm.ld_extra,
          gemm.trans_a,
          gemm.trans_b,
          gemm.accumulate,
          static_cast<int32_t>(gemm.epilogue),
          hasBias,
          gemm.packed_b,
          typeOf(command, 0),
          typeOf(command, 2),
          typeOf(command, 3),
          typeOf(command, 4),
          hasCaches,
          gemm.kernel == kNone
              ? nullptr
              : kernels.find(result.target->kernels[gemm.kernel]->name)->second,
          /*live=*/nullptr,
          static_cast<int64_t>(gemm.blocks)});
  return okStatus();
}

/// A launch, of an iteration for each element.
void ProgramBinder::bindCopyingKernel(const CopyT &copy,
                                      const CommandT &command,
                                      BoundProgram::Bound &bound) {
  bound.action = Action::Launch;
  bound.descriptor = result.launches.size();
  addPointers(command, 2);
  const std::string &name = result.target->kernels[copy.kernel]->name;
  append(result.launches, {{name.c_str(), copy.rows * copy.cols, /*grain=*/1,
                            /*num_buffers=*/2, /*num_scalars=*/0},
                           kernels.find(name)->second});
}

Status ProgramBinder::bind(const LaunchT &launch, const CommandT &command) {
  addPointers(command, command.operands.size());
  const std::string &name = result.target->kernels[launch.kernel]->name;
  append(result.launches, {{name.c_str(), launch.extent, launch.grain,
                            static_cast<int32_t>(command.operands.size()),
                            static_cast<int32_t>(launch.scalars.size())},
                           kernels.find(name)->second});
  for (uint32_t scalar : launch.scalars) {
    const NumberUnion &number = function.scalars[scalar]->number;
    void *cell = number.AsReal()
                     ? static_cast<void *>(&result.reals[scalar])
                     : static_cast<void *>(&result.integers[scalar]);
    append(result.pointers, cell);
    append(result.strides, int64_t(0));
  }
  return okStatus();
}

Status ProgramBinder::bind(const AttentionShapeT &shape,
                           const CommandT &command, bool isDeterministic) {
  OPTRT_RETURN_IF_ERROR(expectComputable("attention", command));
  const size_t lengths = command.action.AsAttention() ? 3 : 4;
  const uint32_t workspace = *optimus_support::program::workspaceOf(command);
  append(result.attentions,
         {shape.batch, shape.seq, shape.heads, shape.kv_heads, shape.head_dim,
          shape.q_ld, shape.kv_ld, shape.causal, typeOf(command, 0),
          command.operands[lengths]->address != kNone,
          command.operands[lengths + 1]->address != kNone, isDeterministic,
          workspace < command.operands.size()
              ? command.operands[workspace]->row_bytes
              : 0,
          shape.window, shape.capacity, shape.pool});
  return okStatus();
}

StatusOr<BoundProgram>
BoundProgram::bind(const TargetT &target, const KernelTable &kernels,
                   std::string_view function, const Mesh &mesh, int64_t rank,
                   Device &device, std::span<char *const> arenas,
                   std::span<void *const> arguments, Placement placement,
                   bool queued, int64_t lanes) {
  BoundProgram program;
  program.target = &target;
  program.table = &tableOf(target, rank);
  program.described = findFunction(*program.table, function);
  if (placement == Placement::Dynamic)
    program.dynamic = std::make_unique<DynamicPlacement>(*program.described);
  ProgramBinder binder(program, kernels, mesh.coordinates(rank), device, arenas,
                       arguments, queued);
  OPTRT_RETURN_IF_ERROR(binder.bind());
  binder.addLanes(lanes);
  return program;
}

} // namespace optrt
