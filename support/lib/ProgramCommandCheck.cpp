//===- ProgramCommandCheck.cpp - What makes a command valid ---------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ProgramCheck.h"

#include "optimus-support/CachePages.h"
#include "optimus-support/ProgramShapes.h"
#include "optimus-support/WeightBlocks.h"

#include <algorithm>

namespace optimus_support::program {

namespace {

class CommandChecker {
public:
  CommandChecker(const CommandContext &context, uint32_t number)
      : target(context.target), table(context.table),
        function(context.function), mesh(context.mesh), number(number),
        command(*function.commands[number]) {}

  Status check() {
    if (!command.action.value || !isKnown(command.action.type, Action::Wait) ||
        command.action.type == Action::NONE)
      return wrong(concat("command ", number, " has no action"));
    if (command.queue >= function.queues.size())
      return wrong(concat("is on queue ", command.queue, " of ",
                          function.queues.size()));
    for (uint32_t text : {command.path, command.source})
      if (text != kNone && text >= table.texts.size())
        return wrong("has a path or source that is not there");
    for (uint32_t earlier : command.after)
      if (earlier >= number || isAsynchronous(*function.commands[earlier]))
        return wrong(concat("comes after ", earlier,
                            "; expected an earlier command that is done when "
                            "it ends"));
    OPTRT_RETURN_IF_ERROR(checkAction());
    for (size_t i = 0; i != command.operands.size(); ++i)
      if (Status status = checkOperand(*command.operands[i]); !status.ok())
        return status.withContext(concat("operand ", i));
    if (command.action.type == Action::Launch)
      OPTRT_RETURN_IF_ERROR(
          checkLaunch({target, table, function, mesh}, command));
    else
      OPTRT_RETURN_IF_ERROR(checkShapes());
    if (command.action.type == Action::Collective)
      OPTRT_RETURN_IF_ERROR(
          checkReduction({target, table, function, mesh}, command));
    if (command.action.type == Action::Copy)
      OPTRT_RETURN_IF_ERROR(
          checkCopy({target, table, function, mesh}, command));
    if (command.action.type == Action::Gemm)
      OPTRT_RETURN_IF_ERROR(
          checkBiasGrad({target, table, function, mesh}, command));
    return checkWrites();
  }

private:
  Status checkAction() {
    const Action action = command.action.type;
    const QueueKind queue = function.queues[command.queue]->kind;
    if (!isAsynchronous(command) && queue == QueueKind::Communication)
      return wrong("is on a queue for communication");
    if (queue == QueueKind::Copies && action != Action::Copy &&
        action != Action::Fill && action != Action::Wait)
      return wrong("is on a queue for copies");
    switch (action) {
    case Action::Gemm:
      return check(*command.action.AsGemm());
    case Action::PackMatrix:
      return check(*command.action.AsPackMatrix());
    case Action::Launch:
      return check(*command.action.AsLaunch());
    case Action::Attention:
      return check(command.action.AsAttention()->shape.get(), /*positions=*/4);
    case Action::AttentionGrad:
      return check(command.action.AsAttentionGrad()->shape.get(),
                   /*positions=*/5);
    case Action::Collective:
      return check(*command.action.AsCollective());
    case Action::Send:
      return checkPeer(command.action.AsSend()->axis,
                       command.action.AsSend()->peer.get());
    case Action::Receive:
      return checkPeer(command.action.AsReceive()->axis,
                       command.action.AsReceive()->peer.get());
    case Action::Wait:
      return check(*command.action.AsWait());
    default:
      break;
    }
    return okStatus();
  }

  Status check(const GemmT &gemm) {
    if (!isKnown(gemm.epilogue, Epilogue::BiasGrad))
      return wrong("has an epilogue that is not known");
    const bool isGradient = gemm.epilogue == Epilogue::BiasGrad;
    if (isGradient != (gemm.kernel != kNone))
      return wrong(isGradient ? "sums rows of B without a kernel; expected one"
                              : "has a kernel, and sums no rows of B");
    if (isGradient && (gemm.accumulate || gemm.packed_b || gemm.trans_b ||
                       gemm.ldb != gemm.n))
      return wrong("sums rows of B; expected rows one after the other, of a "
                   "product that does not accumulate");
    if (gemm.accumulate && gemm.epilogue == Epilogue::Mul)
      return wrong("accumulates and multiplies; expected one of the two");
    if (gemm.packed_b && gemm.trans_b)
      return wrong("has a packed B that is transposed; expected packed what is "
                   "multiplied");
    if (gemm.blocks != WeightBlocks::None && !gemm.packed_b)
      return wrong("has blocks that are not packed");
    OPTRT_RETURN_IF_ERROR(checkBlocks(gemm.blocks, gemm.k, gemm.n, gemm.ldb));
    const bool hasLive =
        command.operands.size() > 5 && command.operands[5]->address != kNone;
    if (hasLive && (gemm.trans_a || isGradient))
      return wrong("leaves out rows; expected an A that is not transposed, and "
                   "no sum of B's rows");
    return okStatus();
  }

  /// Blocks of B [k,n], if it has any.
  Status checkBlocks(WeightBlocks blocks, int64_t k, int64_t n, int64_t words) {
    if (!isKnown(blocks, WeightBlocks::BF16))
      return wrong("has blocks that are not known");
    if (blocks == WeightBlocks::None)
      return okStatus();
    const BlockLayout layout{blocks, k, n};
    const CheckedSize expected = layout.words();
    if (k < 1 || n < 1 || !layout.takesRows() || !expected.isAtMost(words) ||
        *expected.get() != words)
      return wrong(
          concat("has blocks of ", k, " x ", n, " elements in ", words,
                 " words; expected ", expected.toString(),
                 isFewBits(layout.blocks)
                     ? concat(", and a multiple of ", kBlockElements, " rows")
                     : ""));
    return okStatus();
  }

  /// Other sizes shapes tell about.
  Status check(const PackMatrixT &pack) {
    OPTRT_RETURN_IF_ERROR(
        checkBlocks(pack.blocks, pack.rows, pack.cols, pack.elements));
    const CheckedSize all = CheckedSize(pack.rows) * pack.cols;
    if (pack.blocks == WeightBlocks::None && all.isAtMost(kMaxElements) &&
        !all.isAtMost(pack.elements))
      return wrong(concat("packs ", pack.rows, " x ", pack.cols,
                          " elements into ", pack.elements));
    return okStatus();
  }

  Status check(const LaunchT &launch) {
    if (launch.kernel >= target.kernels.size())
      return wrong(concat("launches kernel ", launch.kernel, " of ",
                          target.kernels.size()));
    if (launch.extent < 1 || launch.grain < 1)
      return wrong(concat("has extent ", launch.extent, " and grain ",
                          launch.grain, "; expected at least 1"));
    for (uint32_t scalar : launch.scalars)
      if (scalar >= function.scalars.size())
        return wrong(concat("is given scalar ", scalar, " of ",
                            function.scalars.size()));
    for (const std::unique_ptr<OperandT> &operand : command.operands)
      if (operand->address == kNone)
        return wrong("lacks a buffer");
    return checkWork(launch);
  }

  /// Lengths come before positions.
  Status checkCache(const AttentionShapeT &shape, size_t positions) {
    if (command.action.type != Action::Attention)
      return wrong("is of a cache; expected keys of tokens");
    if (shape.capacity < 0)
      return wrong(concat("has capacity ", shape.capacity,
                          "; expected at least 1, or 0 for no cache"));
    for (size_t operand : {positions - 1, positions})
      if (operand >= command.operands.size() ||
          command.operands[operand]->address == kNone)
        return wrong("is of a cache; expected lengths and positions with it");
    return shape.causal ? okStatus()
                        : wrong("is of a cache; expected a causal one");
  }

  Status checkPool(const AttentionShapeT &shape) {
    if (shape.pool < 1 || shape.batch < 1 || shape.pool % shape.batch != 0)
      return wrong(concat("has a pool of ", shape.pool,
                          " pages; expected as many for each of ", shape.batch,
                          " sequences"));
    if (shape.capacity < 1 || shape.capacity % kPageTokens != 0 ||
        shape.seq != 1)
      return wrong(concat("has pages; expected a cache of whole ones of ",
                          kPageTokens, " positions, and one query"));
    return okStatus();
  }

  Status check(const AttentionShapeT *shape, size_t positions) {
    if (!shape)
      return wrong("has no shape");
    const bool hasPositions = positions < command.operands.size() &&
                              command.operands[positions]->address != kNone;
    if (shape->capacity != 0)
      OPTRT_RETURN_IF_ERROR(checkCache(*shape, positions));
    if (shape->pool != 0)
      OPTRT_RETURN_IF_ERROR(checkPool(*shape));
    if (shape->window < 0)
      return wrong(concat("has window ", shape->window,
                          "; expected at least 1, or 0 for none"));
    if (shape->causal)
      return okStatus();
    if (hasPositions)
      return wrong("has positions; expected a causal one with them");
    return shape->window == 0
               ? okStatus()
               : wrong("has a window; expected a causal one with it");
  }

  Status check(const CollectiveT &collective) {
    if (!isKnown(collective.kind, CollectiveKind::AllToAll) ||
        !isKnown(collective.reduction, Reduction::Max))
      return wrong("has a kind or reduction that is not known");
    OPTRT_RETURN_IF_ERROR(checkAxes(collective.axes, mesh));
    int64_t members = 1;
    for (uint32_t axis : collective.axes)
      members *= mesh.axisSize(int(axis));
    const QueueT &queue = *function.queues[command.queue];
    if (collective.axes.empty() || queue.axes != collective.axes)
      return wrong("is not on the queue of its mesh axes");
    if (collective.root < 0 || collective.root >= members)
      return wrong(
          concat("has root ", collective.root, " among ", members, " ranks"));
    return okStatus();
  }

  Status checkPeer(uint32_t axis, const IntegerT *peer) {
    const QueueT &queue = *function.queues[command.queue];
    if (axis >= uint32_t(mesh.numAxes()) || queue.axes.size() != 1 ||
        queue.axes[0] != axis)
      return wrong("is not on the queue of its mesh axis");
    if (!peer)
      return wrong("has no peer that its rank decides about");
    for (const Term &term : peer->terms)
      if (term.axis() >= uint32_t(mesh.numAxes()))
        return wrong("has a peer by a mesh axis that there is not");
    std::optional<Range> range = rangeOf(*peer, mesh);
    if (!range || range->least < 0 || range->most >= mesh.axisSize(int(axis)))
      return wrong("has a peer outside its mesh axis");
    return okStatus();
  }

  Status check(const WaitT &wait) {
    if ((wait.command == kNone) == (wait.carried == 0))
      return wrong("expected to wait for a command or for one of an earlier "
                   "call");
    if (wait.command != kNone &&
        (wait.command >= number ||
         !isAsynchronous(*function.commands[wait.command])))
      return wrong(concat("waits for ", wait.command,
                          "; expected an earlier collective, send or receive"));
    if (!command.operands.empty())
      return wrong("has operands");
    return okStatus();
  }

  Status checkOperand(const OperandT &operand) {
    if (!isKnown(operand.type, ElementType::I8) ||
        !isKnown(operand.access, Access::Update) ||
        uint8_t(operand.access) == 0)
      return wrong("has a type or access that is not known");
    if (operand.address == kNone)
      return okStatus();
    if (operand.address >= function.addresses.size())
      return wrong(concat("is at address ", operand.address, " of ",
                          function.addresses.size()));
    if (operand.rows < 1 || operand.row_bytes < 0 ||
        operand.row_bytes > kMaxBytes || operand.pitch < 0 ||
        (operand.rows > 1 && operand.pitch < operand.row_bytes))
      return wrong(concat("has ", operand.rows, " rows of ", operand.row_bytes,
                          " bytes, ", operand.pitch, " apart"));
    const int64_t size = elementBytes(operand.type);
    if (operand.row_bytes % size != 0 || operand.pitch % size != 0)
      return wrong(
          concat("has rows of no whole number of ", toString(operand.type)));
    const CheckedSize extent =
        matrixExtent(operand.rows, operand.row_bytes, operand.pitch);
    return checkSpans(operand, extent);
  }

  Status checkSpans(const OperandT &operand, CheckedSize extent) {
    const int64_t size = elementBytes(operand.type);
    OPTRT_RETURN_IF_ERROR(checkAlignment(operand.address, size));
    for (const Span &span : spansOf(function, operand.address, mesh)) {
      int64_t bytes = 0;
      if (span.base == Base::Arena) {
        bytes = function.arenas[span.index]->bytes;
      } else if (span.base == Base::Constant) {
        bytes = int64_t(table.constants[span.index]->data.size());
      } else {
        bytes = function.arguments[span.index]->bytes;
      }
      if (span.begin.least < 0 || !(extent + span.begin.most).isAtMost(bytes))
        return wrong(concat("touches bytes [", span.begin.least, ", ",
                            (extent + span.begin.most).toString(),
                            ") of a base of ", bytes));
    }
    return okStatus();
  }

  MemorySpace spaceOf(const Region &region) const {
    if (region.base == Base::Arena)
      return function.arenas[region.index]->space;
    return region.base == Base::Argument
               ? function.arguments[region.index]->space
               : MemorySpace::Device;
  }

  /// Checks that written memory is writable, and only the device's own copies
  /// reach memory other than the device's.
  Status checkWrites() const {
    for (const Touch &touch : touchesOf(function, command, mesh)) {
      const Region &region = touch.region;
      const CopyT *copy = command.action.AsCopy();
      if (spaceOf(region) != MemorySpace::Device &&
          (!copy || copy->kernel != kNone))
        return wrong("touches memory of the host or of a file, which only "
                     "copies reach");
      if (touch.writes && region.base == Base::Constant)
        return wrong("writes a constant");
      if (touch.writes && region.base == Base::Argument &&
          function.arguments[region.index]->access == Access::Read)
        return wrong(concat("writes argument ", region.index,
                            ", which the function only reads"));
    }
    return okStatus();
  }

  Status checkAlignment(uint32_t address, int64_t size) {
    const LocationUnion &location = function.addresses[address]->location;
    if (const ChoiceT *choice = location.AsChoice()) {
      OPTRT_RETURN_IF_ERROR(checkAlignment(choice->mine, size));
      return checkAlignment(choice->other, size);
    }
    const IntegerT &bytes = *location.AsPlace()->bytes;
    bool isAligned = bytes.constant % size == 0;
    for (const Term &term : bytes.terms)
      isAligned &= term.scale() % size == 0;
    if (!isAligned)
      return wrong(concat("begins at no multiple of ", size, " bytes"));
    return okStatus();
  }

  /// That operands are as the action touches them.
  Status checkShapes() {
    std::optional<std::vector<OperandShape>> shapes =
        shapesOf(command.action, mesh);
    if (!shapes)
      return wrong("has sizes or leading dimensions that are not positive, or "
                   "do not fit");
    // What is left out at the end is absent.
    if (command.operands.size() > shapes->size())
      return wrong(concat("has ", command.operands.size(),
                          " operands; expected at most ", shapes->size()));
    static const OperandT absent;
    for (size_t i = 0; i != shapes->size(); ++i) {
      const OperandShape &shape = (*shapes)[i];
      const OperandT &operand =
          i < command.operands.size() ? *command.operands[i] : absent;
      const bool isThere = operand.address != kNone;
      if ((shape.need == OperandShape::Required && !isThere) ||
          (shape.need == OperandShape::Absent && isThere))
        return wrong(concat("operand ", shape.name, " is ",
                            isThere ? "there" : "missing"));
      if (!isThere)
        continue;
      if (shape.cols == 0) {
        if (operand.access != Access::Update)
          return wrong(concat("operand ", shape.name, " is not updated"));
        continue;
      }
      const OperandT expected =
          makeOperand(shape, operand.type, operand.address);
      if (!mayHold(shape, operand.type) || operand.access != shape.access ||
          operand.rows != expected.rows ||
          operand.row_bytes != expected.row_bytes ||
          (operand.rows > 1 && operand.pitch != expected.pitch))
        return wrong(concat(
            "operand ", shape.name, ": expected ", expected.rows, " rows of ",
            expected.row_bytes, " bytes, ", expected.pitch, " apart, that are ",
            shape.access == Access::Read ? "read" : "written", "; found ",
            operand.rows, " of ", operand.row_bytes, ", ", operand.pitch,
            " apart, of ", toString(operand.type)));
    }
    return checkTypes();
  }

  static bool mayHold(const OperandShape &shape, ElementType type) {
    switch (shape.elements) {
    case OperandShape::Floats:
      return type <= ElementType::BF16;
    case OperandShape::Indices:
      return type == ElementType::I32;
    case OperandShape::Any:
      return true;
    }
    return false;
  }

  /// Checks that combined operands have one type.
  Status checkTypes() const {
    switch (command.action.type) {
    case Action::Gemm:
      if (command.action.AsGemm()->blocks == WeightBlocks::None)
        OPTRT_RETURN_IF_ERROR(expectOneType({0, 1}));
      if (command.action.AsGemm()->blocks == WeightBlocks::BF16)
        OPTRT_RETURN_IF_ERROR(expectType(0, ElementType::BF16));
      OPTRT_RETURN_IF_ERROR(expectTypeOrF32(2, 0));
      if (command.action.AsGemm()->epilogue == Epilogue::BiasGrad)
        return expectOneType({2, 3});
      OPTRT_RETURN_IF_ERROR(expectTypeOrF32(3, 2));
      return expectTypeOrF32(4, 2);
    case Action::PackMatrix:
      return command.action.AsPackMatrix()->blocks == WeightBlocks::None
                 ? expectOneType({0, 1})
                 : expectType(0, ElementType::F32);
    case Action::Copy:
      return expectOneType({0, 1});
    case Action::Attention:
      OPTRT_RETURN_IF_ERROR(expectOneType({0, 1, 2, 5}));
      return expectType(6, ElementType::F32);
    case Action::AttentionGrad:
      OPTRT_RETURN_IF_ERROR(expectOneType({0, 1, 2, 3, 6, 8, 9, 10}));
      return expectType(7, ElementType::F32);
    case Action::Collective:
      OPTRT_RETURN_IF_ERROR(expectOneType({0, 1}));
      return checkSum(*command.action.AsCollective(),
                      command.operands[0]->type);
    default:
      return okStatus();
    }
  }

  Status expectOneType(std::initializer_list<size_t> operands) const {
    const ElementType expected = command.operands[*operands.begin()]->type;
    for (size_t i : operands)
      if (i < command.operands.size() &&
          command.operands[i]->address != kNone &&
          command.operands[i]->type != expected)
        return wrong(concat("operand ", i, " is of ",
                            toString(command.operands[i]->type), "; expected ",
                            toString(expected), ", as operand ",
                            *operands.begin(), " is"));
    return okStatus();
  }

  /// That an operand, if it is there, is as wide as another or f32.
  Status expectTypeOrF32(size_t operand, size_t other) const {
    if (operand < command.operands.size() &&
        command.operands[operand]->type == ElementType::F32)
      return okStatus();
    return expectOneType({other, operand});
  }

  Status expectType(size_t operand, ElementType expected) const {
    const ElementType found = command.operands[operand]->type;
    if (found == expected)
      return okStatus();
    return wrong(concat("operand ", operand, " is of ", toString(found),
                        "; expected ", toString(expected)));
  }

  /// Integers travel, and are not added.
  Status checkSum(const CollectiveT &collective, ElementType type) const {
    const CollectiveKind kind = collective.kind;
    const bool adds = kind == CollectiveKind::Reduce ||
                      kind == CollectiveKind::AllReduce ||
                      kind == CollectiveKind::ReduceScatter;
    if (!adds || type == ElementType::F32 || type == ElementType::BF16 ||
        type == ElementType::F16)
      return okStatus();
    return wrong(
        concat("adds ", toString(type), "; expected f32, bf16 or f16"));
  }

  const TargetT &target;
  const ProgramTableT &table;
  const FunctionT &function;
  const Mesh &mesh;
  uint32_t number;
  const CommandT &command;
};

} // namespace

Status checkCommand(const CommandContext &context, uint32_t number) {
  return CommandChecker(context, number).check();
}

} // namespace optimus_support::program
