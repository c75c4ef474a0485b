//===- ProgramWork.cpp - Commands of tables as prices see them --*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Prices/ProgramWork.h"

#include "optimus-support/SeenKeys.h"

#include <algorithm>

using namespace optimus_support::program;
using optimus_support::Mesh;
using optimus_support::windowShare;

namespace optimus_prices {

//===----------------------------------------------------------------------===//
// What a command computes
//===----------------------------------------------------------------------===//

static Work getWork(const GemmT &gemm, const CommandT &command) {
  constexpr size_t kBias = 3;
  Work work{.kind = Work::Product,
            .m = gemm.m,
            .n = gemm.n,
            .k = gemm.k,
            .transA = gemm.trans_a,
            .transB = gemm.trans_b,
            .bias = command.operands.size() > kBias &&
                    command.operands[kBias]->address != kNone};
  std::optional<int64_t> ldb;
  if (!gemm.packed_b)
    ldb = gemm.ldb;
  work.findGaps(gemm.lda, ldb, gemm.ldc);
  return work;
}

static Work getWork(const PackMatrixT &pack) {
  return {.kind = Work::Packing,
          .n = pack.cols,
          .k = pack.rows,
          .transB = pack.trans};
}

/// Half of each product is left out with the causal mask, and more in a window.
/// How much of a cache is filled is not known.
static Work getWork(const AttentionShapeT &shape, bool isGradient) {
  Work work{.kind = Work::Attention,
            .seq = shape.seq,
            .headDim = shape.head_dim,
            .causal = shape.causal,
            .gradient = isGradient};
  const double products = isGradient ? 5 : 2;
  work.flops = 2.0 * products * shape.batch * shape.heads * shape.seq *
               shape.seq * shape.head_dim;
  if (shape.causal)
    work.flops = work.flops / 2 * windowShare(shape.seq, shape.window);
  if (shape.capacity != 0)
    work.flops = 4.0 * shape.batch * shape.heads * shape.seq * shape.capacity *
                 shape.head_dim;
  return work;
}

static Epilogue getEpilogue(const GemmT &gemm) {
  using TableEpilogue = optimus_support::program::Epilogue;
  if (gemm.epilogue == TableEpilogue::None)
    return Epilogue::None;
  // A dense residual is added by the product itself.
  const bool isFused = gemm.epilogue == TableEpilogue::Add &&
                       gemm.ldc == gemm.n && gemm.ld_extra == gemm.n;
  return isFused ? Epilogue::Fused : Epilogue::Pass;
}

static void describeLaunch(const TargetT &target, const LaunchT &launch,
                           CommandWork &result) {
  result.isKernel = true;
  if (const KernelAttentionT *attention =
          target.kernels[launch.kernel]->attention.get()) {
    result.work = {.kind = Work::Attention,
                   .flops = attention->flops,
                   .seq = attention->seq,
                   .headDim = attention->head_dim,
                   .causal = attention->causal,
                   .gradient = attention->gradient};
    return;
  }
  result.kernel = {launch.vector_ops, launch.divisions, launch.scalar_ops};
  result.tasks = launch.extent / launch.grain;
}

CommandWork getCommandWork(const TargetT &target, const CommandT &command) {
  CommandWork result;
  if (!command.operands.empty())
    result.factors = command.operands.front()->type;
  if (const LaunchT *launch = command.action.AsLaunch()) {
    describeLaunch(target, *launch, result);
  } else if (const GemmT *gemm = command.action.AsGemm()) {
    result.work = getWork(*gemm, command);
    result.epilogue = getEpilogue(*gemm);
  } else if (const PackMatrixT *pack = command.action.AsPackMatrix()) {
    result.work = getWork(*pack);
  } else if (const AttentionT *one = command.action.AsAttention()) {
    result.work = getWork(*one->shape, /*isGradient=*/false);
  } else if (const AttentionGradT *one = command.action.AsAttentionGrad()) {
    result.work = getWork(*one->shape, /*isGradient=*/true);
  }
  return result;
}

std::string_view getWorkName(const CommandT &command) {
  // To fill is to copy without a source.
  return actionName(command.action.type == Action::Fill ? Action::Copy
                                                        : command.action.type);
}

std::vector<int64_t> getShape(const TargetT &target, const CommandT &command) {
  const auto [work, factors, epilogue, isKernel, kernel, tasks] =
      getCommandWork(target, command);
  if (work.kind != Work::Traffic)
    return {
        int64_t(work.kind), int64_t(factors), work.m,       work.n,    work.k,
        work.transA,        work.transB,      work.bias,    work.gaps, work.seq,
        work.headDim,       work.causal,      work.gradient};
  std::vector<int64_t> shape{int64_t(work.kind), int64_t(command.action.type)};
  if (const LaunchT *launch = command.action.AsLaunch())
    shape.push_back(launch->kernel);
  for (const auto &operand : command.operands)
    shape.push_back(operand->rows * operand->row_bytes);
  return shape;
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

RankGroup getRankGroup(const Mesh &mesh, std::span<const uint32_t> axes) {
  RankGroup group;
  int64_t stride = 1;
  // The last axis is the one along which ranks are numbered.
  for (int axis = mesh.numAxes() - 1; axis >= 0; --axis) {
    if (std::find(axes.begin(), axes.end(), uint32_t(axis)) != axes.end()) {
      group.stride = group.ranks == 1 ? stride : group.stride;
      group.ranks *= mesh.axisSize(axis);
    }
    stride *= mesh.axisSize(axis);
  }
  return group;
}

double getWholeBytes(const CommandT &command, int64_t ranks) {
  const CollectiveT &collective = *command.action.AsCollective();
  const double bytes = 1.0 * elementBytes(command.operands.front()->type) *
                       collective.outer * collective.inner;
  // Of these, `inner` is one rank's block.
  const bool isBlock = collective.kind == CollectiveKind::AllGather ||
                       collective.kind == CollectiveKind::ReduceScatter ||
                       collective.kind == CollectiveKind::AllToAll;
  return isBlock ? bytes * ranks : bytes;
}

//===----------------------------------------------------------------------===//
// What a command touches
//===----------------------------------------------------------------------===//

static uint64_t combine(uint64_t kind, uint64_t index) {
  return (kind << 56) | index;
}

uint64_t ProgramReuse::getBase(const PlaceT &place) const {
  using TableBase = optimus_support::program::Base;
  const int64_t offset = place.bytes->constant;
  if (place.base == TableBase::Argument)
    return combine(1, place.index);
  if (place.base == TableBase::Constant)
    return combine(2, place.index);
  if (auto number = alive.find(place.index, offset, offset + 1))
    return combine(3, *number);
  // Of a table without buffers, places that are apart.
  return combine(4 + place.index, uint64_t(offset));
}

void ProgramReuse::collectBases(uint32_t address,
                                std::vector<uint64_t> &bases) const {
  const LocationUnion &location = function.addresses[address]->location;
  if (const ChoiceT *choice = location.AsChoice()) {
    collectBases(choice->mine, bases);
    collectBases(choice->other, bases);
    return;
  }
  const uint64_t base = getBase(*location.AsPlace());
  if (std::find(bases.begin(), bases.end(), base) == bases.end())
    bases.push_back(base);
}

/// Rows of a collective's side with every rank's block are as long as they can
/// be.
static double getTouchedBytes(const CommandT &command, size_t operand) {
  const OperandT &touched = *command.operands[operand];
  if (const CollectiveT *one = command.action.AsCollective()) {
    const double rowBytes = 1.0 * one->outer * elementBytes(touched.type);
    if (one->kind == CollectiveKind::AllGather && operand == 1)
      return rowBytes * one->dst_ld;
    if (one->kind == CollectiveKind::ReduceScatter && operand == 0)
      return rowBytes * one->src_ld;
  }
  return 1.0 * touched.rows * touched.row_bytes;
}

std::vector<Touch> ProgramReuse::advance() {
  const CommandT &command = *function.commands[next];
  alive.begin(next);
  std::vector<Touch> touches;
  std::vector<std::vector<uint64_t>> bases;
  const LaunchT *launch = command.action.AsLaunch();
  for (size_t i = 0; i != command.operands.size(); ++i) {
    const OperandT &operand = *command.operands[i];
    if (operand.address == kNone)
      continue;
    collectBases(operand.address, bases.emplace_back());
    Touch &touch = touches.emplace_back();
    touch.buffer = operand.address;
    touch.reads = operand.access != Access::Write;
    touch.writes = operand.access != Access::Read;
    touch.bytes = getTouchedBytes(command, i);
    touch.byColumns =
        launch && target.kernels[launch->kernel]->buffers[i]->by_columns;
  }
  if (command.action.type == Action::Wait)
    distances.wait();
  distances.advance(touches, [&](size_t i) { return std::span(bases[i]); });
  alive.end(next++);
  return touches;
}

} // namespace optimus_prices
