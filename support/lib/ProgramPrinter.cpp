//===- ProgramPrinter.cpp - Tables of commands as text --------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/ProgramPrinter.h"

#include "ProgramCheck.h"

#include "optimus-support/ProgramRegions.h"
#include "optimus-support/ProgramShapes.h"

#include <utility>

namespace optimus_support::program {

namespace {

class Printer {
public:
  Printer(const ProgramsT &programs, const TargetT &target,
          const ProgramTableT &table, const FunctionT &function,
          const PrintOptions &options)
      : target(target), table(table), function(function),
        mesh(meshOf(programs)) {
    if (options.rank)
      coordinates = mesh.coordinates(*options.rank);
    hasRank = options.rank.has_value();
  }

  std::string print() {
    text = concat("function ", function.name,
                  function.prepares ? " (prepares)" : "");
    for (size_t i = 0; i != function.arenas.size(); ++i)
      text += concat(i == 0 ? ": " : ", ", "arena", i, " of ",
                     function.arenas[i]->bytes, " bytes (",
                     spaceName(function.arenas[i]->space), ")");
    printLanes();
    text += "\n";
    for (uint32_t number = 0; number != function.commands.size(); ++number)
      printCommand(number);
    for (const std::unique_ptr<BufferT> &buffer : function.buffers)
      printBuffer(*buffer);
    return std::move(text);
  }

private:
  static const char *spaceName(MemorySpace space) {
    static constexpr const char *names[] = {"device", "host", "file"};
    return names[static_cast<int>(space)];
  }

  std::string axesName(const std::vector<uint32_t> &axes) const {
    std::string name;
    for (uint32_t axis : axes)
      name += (name.empty() ? "" : "+") + mesh.axes()[axis].name;
    return name;
  }

  std::string queueName(uint32_t number) const {
    const QueueT &queue = *function.queues[number];
    if (queue.kind == QueueKind::Communication)
      return axesName(queue.axes);
    const char *kind = queue.kind == QueueKind::Compute ? "compute" : "copies";
    // The first of its kind needs no number.
    int count = 1;
    for (uint32_t earlier = 0; earlier != number; ++earlier)
      count += function.queues[earlier]->kind == queue.kind;
    return count == 1 ? kind : concat(kind, count);
  }

  std::string format(const IntegerT &integer) const {
    if (hasRank)
      return concat(evaluate(integer, coordinates));
    std::string sum;
    auto add = [&](const std::string &term) {
      sum += (sum.empty() ? "" : "+") + term;
    };
    for (const Term &term : integer.terms)
      add(concat(term.scale(), "*", mesh.axes()[term.axis()].name));
    if (integer.constant != 0 || sum.empty())
      sum = concat(integer.constant) + (sum.empty() ? "" : "+" + sum);
    if (integer.least != INT64_MIN || integer.most != INT64_MAX)
      sum = concat("clamp(", sum, ", ", integer.least, ", ", integer.most, ")");
    return sum;
  }

  std::string formatAddress(uint32_t address) const {
    const LocationUnion &location = function.addresses[address]->location;
    if (const ChoiceT *choice = location.AsChoice()) {
      if (hasRank)
        return formatAddress(coordinates[choice->axis] == choice->coordinate
                                 ? choice->mine
                                 : choice->other);
      return concat("(", mesh.axes()[choice->axis].name, "=",
                    choice->coordinate, " ? ", formatAddress(choice->mine),
                    " : ", formatAddress(choice->other), ")");
    }
    static constexpr const char *bases[] = {"arena", "arg", "constant"};
    const PlaceT &place = *location.AsPlace();
    return concat(bases[static_cast<int>(place.base)], place.index, "[",
                  format(*place.bytes), "]");
  }

  /// How far apart the lanes of each argument lie, where there are several.
  void printLanes() {
    if (table.lanes == 1)
      return;
    text += concat("; ", table.lanes, " lanes, from one to the next ");
    const char *before = "";
    for (size_t i = 0; i != function.arguments.size(); ++i)
      text += concat(std::exchange(before, ", "), "arg", i, "+",
                     laneStride(function.arguments[i]->bytes));
  }

  void printOperands(const CommandT &command) {
    const std::vector<OperandShape> shapes =
        shapesOf(command.action, mesh).value_or(std::vector<OperandShape>());
    for (size_t i = 0; i != command.operands.size(); ++i) {
      const OperandT &operand = *command.operands[i];
      if (operand.address == kNone)
        continue;
      static constexpr const char *accesses[] = {"", "read", "write", "update"};
      text += concat(" ", accesses[static_cast<int>(operand.access)], " ");
      if (i < shapes.size())
        text += concat(shapes[i].name, "=");
      text += formatAddress(operand.address);
      const int64_t size = elementBytes(operand.type);
      text += ":";
      if (operand.rows > 1)
        text += concat(operand.rows, "x", operand.row_bytes / size, "/",
                       operand.pitch / size);
      else
        text += concat(operand.row_bytes / size);
      text += std::string(toString(operand.type));
    }
  }

  void printAction(const CommandT &command) {
    text += describeAction(target, command);
    auto flag = [&](bool isSet, const char *name) {
      if (isSet)
        text += concat(" ", name);
    };
    if (const GemmT *gemm = command.action.AsGemm()) {
      text += concat(" ", gemm->m, "x", gemm->n, "x", gemm->k);
      flag(gemm->trans_a, "trans_a");
      flag(gemm->trans_b, "trans_b");
      flag(gemm->accumulate, "accumulate");
      flag(gemm->epilogue == Epilogue::Add, "add");
      flag(gemm->epilogue == Epilogue::Mul, "mul");
      flag(gemm->epilogue == Epilogue::BiasGrad, "bias_grad");
      flag(gemm->packed_b, "packed_b");
      printBlocks(gemm->blocks);
    } else if (const PackMatrixT *pack = command.action.AsPackMatrix()) {
      text += concat(" ", pack->rows, "x", pack->cols);
      flag(pack->trans, "trans");
      printBlocks(pack->blocks);
    } else if (const LaunchT *launch = command.action.AsLaunch()) {
      text += concat(" extent=", launch->extent, " grain=", launch->grain);
      for (uint32_t number : launch->scalars)
        text += concat(" scalar=", formatScalar(number));
    } else if (const CopyT *copy = command.action.AsCopy()) {
      if (copy->kernel != kNone)
        text += concat(" by=", target.kernels[copy->kernel]->name);
    } else if (const CollectiveT *one = command.action.AsCollective()) {
      flag(one->reduction == Reduction::Max, "max");
      if (one->kind == CollectiveKind::Broadcast ||
          one->kind == CollectiveKind::Reduce)
        text += concat(" root=", one->root);
      if (one->kernel != kNone)
        text += concat(" by=", target.kernels[one->kernel]->name);
      if (one->carried != 0)
        text += concat(" carried=", one->carried);
    } else if (const WaitT *wait = command.action.AsWait()) {
      text += wait->command != kNone ? concat(" for ", wait->command)
                                     : concat(" carried ", wait->carried);
    } else if (const AttentionT *one = command.action.AsAttention()) {
      printShape(*one->shape);
    } else if (const AttentionGradT *one = command.action.AsAttentionGrad()) {
      printShape(*one->shape);
      flag(one->deterministic, "deterministic");
    }
  }

  void printBlocks(WeightBlocks blocks) {
    if (blocks != WeightBlocks::None)
      text += concat(" ", toString(blocks));
  }

  void printShape(const AttentionShapeT &shape) {
    text += concat(" batch=", shape.batch, " seq=", shape.seq,
                   " heads=", shape.heads, " kv_heads=", shape.kv_heads,
                   " head_dim=", shape.head_dim, shape.causal ? " causal" : "");
    if (shape.window != 0)
      text += concat(" window=", shape.window);
    if (shape.capacity != 0)
      text += concat(" capacity=", shape.capacity);
    if (shape.pool != 0)
      text += concat(" pool=", shape.pool);
  }

  std::string formatScalar(uint32_t number) const {
    const NumberUnion &value = function.scalars[number]->number;
    if (const RealT *real = value.AsReal())
      return concat(real->value);
    return format(*value.AsInteger());
  }

  /// What is known of a kernel's work.
  void printWork(const LaunchT &launch) {
    const KernelT &kernel = *target.kernels[launch.kernel];
    printCount("vector_ops", launch.vector_ops);
    printCount("divisions", launch.divisions);
    printCount("scalar_ops", launch.scalar_ops);
    if (kernel.attention)
      printCount("attention_flops", kernel.attention->flops);
    const char *before = " by_columns=";
    for (size_t i = 0; i != kernel.buffers.size(); ++i)
      if (kernel.buffers[i]->by_columns)
        text += concat(std::exchange(before, ","), i);
  }

  void printCount(const char *name, double count) {
    if (count > 0)
      text += concat(" ", name, "=", countText(count));
  }

  void printCommand(uint32_t number) {
    const CommandT &command = *function.commands[number];
    text += concat(number, " ", queueName(command.queue));
    if (!command.after.empty()) {
      text += " after";
      for (uint32_t earlier : command.after)
        text += concat(" ", earlier);
    }
    text += ": ";
    printAction(command);
    printOperands(command);
    if (const LaunchT *launch = command.action.AsLaunch())
      printWork(*launch);
    printCount("flops", countFlops(command));
    if (int64_t bytes = countBytes(command); bytes > 0)
      text += concat(" bytes=", bytes);
    printSource(command.path, command.source);
  }

  void printSource(uint32_t path, uint32_t source) {
    if (path != kNone)
      text += concat(" ", printable(table.texts[path]));
    if (source != kNone)
      text += concat(" (", printable(table.texts[source]), ")");
    text += "\n";
  }

  void printBuffer(const BufferT &buffer) {
    text +=
        concat("arena", buffer.arena, "[", buffer.offset, "]: ", buffer.bytes,
               " bytes alive from ", buffer.first, " to ", buffer.last);
    if (buffer.category != kNone)
      text += concat(" ", printable(table.texts[buffer.category]));
    if (buffer.name != kNone)
      text += concat(" \"", printable(table.texts[buffer.name]), "\"");
    const char *before = " = ";
    for (uint32_t value : buffer.values)
      text +=
          concat(std::exchange(before, ", "), printable(table.texts[value]));
    if (buffer.path != kNone)
      text += " of";
    printSource(buffer.path, buffer.source);
  }

  const TargetT &target;
  const ProgramTableT &table;
  const FunctionT &function;
  const Mesh mesh;
  std::vector<int64_t> coordinates;
  bool hasRank = false;
  std::string text;
};

} // namespace

std::string print(const ProgramsT &programs, const TargetT &target,
                  const ProgramTableT &table, const FunctionT &function,
                  const PrintOptions &options) {
  return Printer(programs, target, table, function, options).print();
}

/// "2 * i0 + 1" of counters i0, i1, …
static std::string printIndex(const BindingT &binding) {
  std::string text;
  for (const CounterTerm &term : binding.terms)
    text += concat(text.empty() ? "" : " + ",
                   term.scale() == 1 ? "" : concat(term.scale(), " * "), "i",
                   term.loop());
  if (binding.constant != 0 || text.empty())
    text += concat(text.empty() ? "" : " + ", binding.constant);
  return text;
}

static std::string print(const CallT &call) {
  std::string text = call.function;
  for (const std::unique_ptr<BindingT> &binding : call.bindings) {
    text += concat(" arg", binding->argument, "=");
    if (binding->buffers.size() == 1) {
      text += printable(binding->buffers.front());
      continue;
    }
    const char *before = "[";
    for (const std::string &buffer : binding->buffers)
      text += std::exchange(before, ", ") + printable(buffer);
    text += "][" + printIndex(*binding) + "]";
  }
  return text;
}

static std::string print(const std::vector<std::unique_ptr<StepT>> &steps) {
  std::string text;
  for (const std::unique_ptr<StepT> &step : steps) {
    text += text.empty() ? "" : ", ";
    if (const CallT *call = step->kind.AsCall()) {
      text += print(*call);
    } else {
      const LoopT &loop = *step->kind.AsLoop();
      const std::string body = print(loop.steps);
      text += loop.steps.size() == 1 ? body : "(" + body + ")";
      text += loop.times ? concat(" x ", loop.times) : " x N";
    }
  }
  return text;
}

std::string print(const SequenceT &sequence) {
  return concat("sequence ", sequence.name, ": ", print(sequence.steps), "\n");
}

} // namespace optimus_support::program
