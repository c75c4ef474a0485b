//===- ProgramWriter.cpp - Tables of commands by hand ---------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-testing/ProgramWriter.h"

#include "optimus-support/ProgramKernels.h"
#include "optimus-support/ProgramRegions.h"
#include "optimus-support/ProgramShapes.h"

#include <algorithm>
#include <cstring>

namespace optimus_support::program {

template <typename T>
static uint32_t addTo(std::vector<std::unique_ptr<T>> &list, T entry) {
  list.push_back(std::make_unique<T>(std::move(entry)));
  return static_cast<uint32_t>(list.size() - 1);
}

static void setIfZero(int64_t &number, int64_t value) {
  if (number == 0)
    number = value;
}

template <typename ActionT>
static ActionUnion unite(ActionT action) {
  ActionUnion result;
  result.Set(std::move(action));
  return result;
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

View FunctionWriter::addPlace(Base base, uint32_t index, ElementType type,
                              int64_t elements) {
  PlaceT place;
  place.base = base;
  place.index = index;
  place.bytes = std::make_unique<IntegerT>();
  AddressT address;
  address.location.Set(std::move(place));
  return {addTo(function.addresses, std::move(address)), type, elements};
}

View FunctionWriter::arena(ElementType type, int64_t elements,
                           MemorySpace space) {
  ArenaT arena;
  arena.space = space;
  arena.bytes = elements * elementBytes(type);
  return addPlace(Base::Arena, addTo(function.arenas, std::move(arena)), type,
                  elements);
}

View FunctionWriter::argument(ElementType type, int64_t elements,
                              const std::string &buffer) {
  ArgumentT argument;
  argument.buffer = buffer;
  argument.type = type;
  argument.bytes = elements * elementBytes(type);
  return addPlace(Base::Argument,
                  addTo(function.arguments, std::move(argument)), type,
                  elements);
}

View FunctionWriter::constant(const std::vector<float> &values) {
  ConstantT constant;
  constant.data.resize(values.size() * sizeof(float));
  std::memcpy(constant.data.data(), values.data(), constant.data.size());
  return addPlace(Base::Constant,
                  addTo(programs.table().constants, std::move(constant)),
                  ElementType::F32, static_cast<int64_t>(values.size()));
}

std::unique_ptr<IntegerT> FunctionWriter::convert(const Sum &sum,
                                                  int64_t scale) const {
  auto integer = std::make_unique<IntegerT>();
  integer->constant = sum.constant * scale;
  for (const Term &term : sum.terms)
    integer->terms.emplace_back(term.scale() * scale, term.axis());
  integer->least = sum.least;
  integer->most = sum.most;
  return integer;
}

View FunctionWriter::at(View base, int64_t offset, int64_t elements) {
  return at(base, Sum{.constant = offset}, elements);
}

View FunctionWriter::at(View base, const Sum &offset, int64_t elements) {
  PlaceT place = *function.addresses[base.address]->location.AsPlace();
  std::unique_ptr<IntegerT> added = convert(offset, elementBytes(base.type));
  IntegerT &bytes = *place.bytes;
  bytes.constant += added->constant;
  bytes.terms.insert(bytes.terms.end(), added->terms.begin(),
                     added->terms.end());
  bytes.least = added->least;
  bytes.most = added->most;
  AddressT address;
  address.location.Set(std::move(place));
  return {addTo(function.addresses, std::move(address)), base.type, elements};
}

View FunctionWriter::choose(uint32_t axis, int64_t coordinate, View mine,
                            View other) {
  ChoiceT choice;
  choice.axis = axis;
  choice.coordinate = coordinate;
  choice.mine = mine.address;
  choice.other = other.address;
  AddressT address;
  address.location.Set(std::move(choice));
  return {addTo(function.addresses, std::move(address)), mine.type,
          std::min(mine.elements, other.elements)};
}

BufferT &FunctionWriter::buffer(View view, uint32_t first, uint32_t last,
                                const std::string &category) {
  const PlaceT &place = *function.addresses[view.address]->location.AsPlace();
  BufferT buffer;
  buffer.arena = place.index;
  buffer.offset = place.bytes->constant;
  buffer.bytes = view.elements * elementBytes(view.type);
  buffer.first = first;
  buffer.last = last;
  if (!category.empty())
    buffer.category = programs.text(category);
  return *function.buffers[addTo(function.buffers, std::move(buffer))];
}

uint32_t FunctionWriter::integer(const Sum &sum) {
  ScalarT scalar;
  scalar.number.Set(std::move(*convert(sum, 1)));
  return addTo(function.scalars, std::move(scalar));
}

uint32_t FunctionWriter::real(float value) {
  RealT real;
  real.value = value;
  ScalarT scalar;
  scalar.number.Set(std::move(real));
  return addTo(function.scalars, std::move(scalar));
}

//===----------------------------------------------------------------------===//
// Commands
//===----------------------------------------------------------------------===//

void FunctionWriter::from(const std::string &newPath,
                          const std::string &newSource) {
  path = newPath.empty() ? kNone : programs.text(newPath);
  source = newSource.empty() ? kNone : programs.text(newSource);
}

uint32_t FunctionWriter::queueFor(const ActionUnion &action) {
  QueueT wanted;
  if (const CollectiveT *collective = action.AsCollective())
    wanted.axes = collective->axes;
  if (const SendT *send = action.AsSend())
    wanted.axes = {send->axis};
  if (const ReceiveT *receive = action.AsReceive())
    wanted.axes = {receive->axis};
  if (!wanted.axes.empty())
    wanted.kind = QueueKind::Communication;
  for (uint32_t i = 0; i != function.queues.size(); ++i)
    if (function.queues[i]->kind == wanted.kind &&
        function.queues[i]->axes == wanted.axes)
      return i;
  return addTo(function.queues, std::move(wanted));
}

uint32_t FunctionWriter::append(std::unique_ptr<CommandT> command) {
  command->queue = queueFor(command->action);
  command->path = path;
  command->source = source;
  const auto number = static_cast<uint32_t>(function.commands.size());
  if (!isAsynchronous(*command))
    lastComputed = number;
  else if (lastComputed != kNone)
    command->after.push_back(lastComputed);
  function.commands.push_back(std::move(command));
  return number;
}

uint32_t FunctionWriter::add(ActionUnion action,
                             const std::vector<View> &operands) {
  auto command = std::make_unique<CommandT>();
  command->action = std::move(action);
  // Without shapes it is refused, whatever its operands are.
  const std::vector<OperandShape> shapes =
      shapesOf(command->action, programs.mesh)
          .value_or(std::vector<OperandShape>());
  for (size_t i = 0; i != operands.size(); ++i) {
    const View &view = operands[i];
    OperandShape shape;
    if (i < shapes.size())
      shape = shapes[i];
    if (shape.cols == 0)
      shape.cols = view.elements;
    command->operands.push_back(std::make_unique<OperandT>(
        view.address == kNone ? OperandT()
                              : makeOperand(shape, view.type, view.address)));
  }
  while (!command->operands.empty() &&
         command->operands.back()->address == kNone)
    command->operands.pop_back();
  return append(std::move(command));
}

uint32_t FunctionWriter::gemm(GemmT gemm, const GemmViews &views) {
  setIfZero(gemm.lda, gemm.trans_a ? gemm.m : gemm.k);
  setIfZero(gemm.ldb, gemm.packed_b  ? views.b.elements
                      : gemm.trans_b ? gemm.k
                                     : gemm.n);
  setIfZero(gemm.ldc, gemm.n);
  if (gemm.epilogue != Epilogue::None)
    setIfZero(gemm.ld_extra, gemm.n);
  return add(unite(std::move(gemm)),
             {views.a, views.b, views.c, views.bias, views.extra, views.live});
}

uint32_t FunctionWriter::pack(PackMatrixT pack, View src, View dst) {
  setIfZero(pack.ld, pack.trans ? pack.rows : pack.cols);
  setIfZero(pack.elements, dst.elements);
  return add(unite(std::move(pack)), {src, dst});
}

uint32_t FunctionWriter::launch(const std::string &kernel,
                                const Iterations &iterations,
                                const std::vector<Use> &buffers,
                                std::vector<uint32_t> scalars) {
  LaunchT launch;
  launch.kernel = programs.kernel(kernel);
  launch.extent = iterations.extent;
  launch.grain = iterations.grain;
  launch.scalars = std::move(scalars);
  auto command = std::make_unique<CommandT>();
  command->action.Set(std::move(launch));
  for (const Use &use : buffers) {
    OperandShape shape;
    shape.access = use.access;
    shape.cols = use.view.elements;
    command->operands.push_back(std::make_unique<OperandT>(
        makeOperand(shape, use.view.type, use.view.address)));
  }
  return append(std::move(command));
}

uint32_t FunctionWriter::copy(CopyT copy, View src, View dst) {
  setIfZero(copy.src_ld, copy.cols);
  setIfZero(copy.dst_ld, copy.cols);
  return add(unite(std::move(copy)), {src, dst});
}

uint32_t FunctionWriter::copy(View src, View dst) {
  CopyT all;
  all.rows = 1;
  all.cols = std::min(src.elements, dst.elements);
  return copy(std::move(all), src, dst);
}

uint32_t FunctionWriter::fill(View dst) {
  FillT fill;
  fill.rows = 1;
  fill.cols = fill.ld = dst.elements;
  return add(unite(std::move(fill)), {dst});
}

/// The shape, tokens lying one after the other.
static std::unique_ptr<AttentionShapeT> dense(const AttentionShapeT &shape) {
  auto result = std::make_unique<AttentionShapeT>(shape);
  setIfZero(result->q_ld, shape.heads * shape.head_dim);
  setIfZero(result->kv_ld, shape.kv_heads * shape.head_dim);
  return result;
}

uint32_t FunctionWriter::attention(const AttentionShapeT &shape,
                                   const AttentionViews &views) {
  AttentionT attention;
  attention.shape = dense(shape);
  return add(unite(std::move(attention)),
             {views.q, views.k, views.v, views.lengths, views.positions,
              views.out, views.lse, views.workspace, views.pages});
}

uint32_t FunctionWriter::attentionGrad(const AttentionShapeT &shape,
                                       const AttentionGradViews &views) {
  AttentionGradT attention;
  attention.shape = dense(shape);
  return add(unite(std::move(attention)),
             {views.dout, views.q, views.k, views.v, views.lengths,
              views.positions, views.out, views.lse, views.dq, views.dk,
              views.dv, views.workspace});
}

uint32_t FunctionWriter::collective(CollectiveT collective, View src,
                                    View dst) {
  int64_t members = 1;
  for (uint32_t axis : collective.axes)
    if (axis < static_cast<uint32_t>(programs.mesh.numAxes()))
      members *= programs.mesh.axisSize(static_cast<int>(axis));
  const bool gathers = collective.kind == CollectiveKind::AllGather ||
                       collective.kind == CollectiveKind::AllToAll;
  const bool scatters = collective.kind == CollectiveKind::ReduceScatter ||
                        collective.kind == CollectiveKind::AllToAll;
  setIfZero(collective.src_ld,
            collective.inner * (scatters ? members : int64_t(1)));
  setIfZero(collective.dst_ld,
            collective.inner * (gathers ? members : int64_t(1)));
  return add(unite(std::move(collective)), {src, dst});
}

uint32_t FunctionWriter::collective(CollectiveKind kind,
                                    std::vector<uint32_t> axes, View src,
                                    View dst) {
  CollectiveT row;
  row.kind = kind;
  row.axes = std::move(axes);
  row.outer = 1;
  row.inner = std::min(src.elements, dst.elements);
  return collective(std::move(row), src, dst);
}

template <typename Message>
static ActionUnion makeMessage(uint32_t axis, int64_t peer, View view,
                               uint32_t carried) {
  Message message;
  message.axis = axis;
  message.peer = std::make_unique<IntegerT>();
  message.peer->constant = peer;
  message.rows = 1;
  message.cols = message.ld = view.elements;
  message.carried = carried;
  ActionUnion action;
  action.Set(std::move(message));
  return action;
}

uint32_t FunctionWriter::message(bool isSend, uint32_t axis, int64_t peer,
                                 View view, uint32_t carried) {
  return add(isSend ? makeMessage<SendT>(axis, peer, view, carried)
                    : makeMessage<ReceiveT>(axis, peer, view, carried),
             {view});
}

uint32_t FunctionWriter::wait(uint32_t command) {
  WaitT wait;
  wait.command = command;
  return add(unite(std::move(wait)), {});
}

uint32_t FunctionWriter::waitCarried(uint32_t number) {
  WaitT wait;
  wait.carried = number;
  return add(unite(std::move(wait)), {});
}

//===----------------------------------------------------------------------===//
// Tables
//===----------------------------------------------------------------------===//

ProgramWriter::ProgramWriter(Mesh ranks, const std::string &target)
    : mesh(std::move(ranks)) {
  for (const optimus_support::MeshAxis &axis : mesh.axes()) {
    MeshAxisT entry;
    entry.name = axis.name;
    entry.size = axis.size;
    addTo(programs.mesh, std::move(entry));
  }
  TargetT entry;
  entry.name = target;
  addTo(programs.targets, std::move(entry));
}

SequenceWriter &SequenceWriter::call(std::string function,
                                     std::vector<Choose> bindings) {
  CallT call;
  call.function = std::move(function);
  for (Choose &choose : bindings) {
    BindingT binding;
    binding.argument = choose.argument;
    binding.buffers = std::move(choose.buffers);
    binding.constant = choose.constant;
    binding.terms = std::move(choose.terms);
    addTo(call.bindings, std::move(binding));
  }
  StepT step;
  step.kind.Set(std::move(call));
  addTo(steps, std::move(step));
  return *this;
}

SequenceWriter &
SequenceWriter::loop(uint32_t times,
                     const std::function<void(SequenceWriter &)> &body) {
  LoopT loop;
  loop.times = times;
  SequenceWriter inner(loop.steps);
  body(inner);
  StepT step;
  step.kind.Set(std::move(loop));
  addTo(steps, std::move(step));
  return *this;
}

void ProgramWriter::beginTable(int64_t ranks) {
  uint32_t first = 0;
  if (!target().ranks.empty())
    first = target().ranks.back().first() + target().ranks.back().count();
  const uint32_t number = addTo(target().tables, ProgramTableT());
  target().ranks.emplace_back(first, static_cast<uint32_t>(ranks), number);
}

FunctionWriter ProgramWriter::function(const std::string &name) {
  if (target().tables.empty())
    beginTable(mesh.numRanks());
  FunctionT entry;
  entry.name = name;
  addTo(table().functions, std::move(entry));
  return FunctionWriter(*this, *table().functions.back());
}

uint32_t ProgramWriter::kernel(std::string_view name) {
  std::vector<std::unique_ptr<KernelT>> &kernels = target().kernels;
  auto found =
      std::find_if(kernels.begin(), kernels.end(),
                   [&](const auto &kernel) { return kernel->name == name; });
  if (found != kernels.end())
    return static_cast<uint32_t>(found - kernels.begin());
  KernelT kernel;
  kernel.name = name;
  return addTo(kernels, std::move(kernel));
}

void ProgramWriter::kernel(std::string_view name,
                           const std::vector<Takes> &buffers,
                           const std::vector<Bounds> &scalars,
                           int64_t iterations) {
  KernelT &described = *target().kernels[kernel(name)];
  described.iterations = iterations;
  for (const Takes &one : buffers) {
    auto buffer = std::make_unique<KernelBufferT>();
    buffer->type = one.type;
    buffer->access = one.access;
    buffer->extents = one.extents;
    described.buffers.push_back(std::move(buffer));
  }
  for (const Bounds &one : scalars) {
    auto scalar = std::make_unique<KernelScalarT>();
    scalar->type = one.type;
    scalar->least = one.least;
    scalar->most = one.most;
    described.scalars.push_back(std::move(scalar));
  }
}

uint32_t ProgramWriter::text(const std::string &text) {
  std::vector<std::string> &texts = table().texts;
  auto found = std::find(texts.begin(), texts.end(), text);
  if (found == texts.end())
    found = texts.insert(texts.end(), text);
  return static_cast<uint32_t>(found - texts.begin());
}

ProgramsT ProgramWriter::finish() {
  for (const std::unique_ptr<ProgramTableT> &table : target().tables)
    for (const std::unique_ptr<FunctionT> &function : table->functions)
      setArgumentAccess(*function, mesh);
  describeKernels(target(), mesh);
  return std::move(programs);
}

} // namespace optimus_support::program
