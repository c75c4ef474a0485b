//===- ToExec.cpp - Functions on tensors become device programs -*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Lowering.h"

#include "optimus/Conversion/ToExec/BufferElements.h"
#include "optimus/Conversion/ToExec/ExecLoweringOpInterface.h"
#include "optimus/Conversion/ToExec/Passes.h"
#include "optimus/Dialect/Exec/IR/Commands.h"
#include "optimus/Dialect/Optimus/IR/Entries.h"
#include "optimus/Dialect/Optimus/IR/Provenance.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/Threading.h"
#include "llvm/Support/DebugLog.h"

#define DEBUG_TYPE "optimus-to-exec"

namespace mlir::optimus {
#define GEN_PASS_DEF_TOEXECPASS
#include "optimus/Conversion/ToExec/Passes.h.inc"
} // namespace mlir::optimus

using namespace mlir;
using namespace mlir::optimus;

static LogicalResult lowerOp(Operation *op, Lowering &lowering) {
  auto lowerable = dyn_cast<ExecLoweringOpInterface>(op);
  if (!lowerable)
    return op->emitOpError("has no lowering to the device program");
  return lowerable.lowerToExec(lowering);
}

static bool isTensor(Type type) { return isa<RankedTensorType>(type); }

/// True if a function is to be converted.
static bool hasTensors(func::FuncOp function) {
  return !function.isExternal() &&
         (llvm::any_of(function.getArgumentTypes(), isTensor) ||
          llvm::any_of(function.getResultTypes(), isTensor));
}

namespace {
/// Converts one function, beside others: assign() and lower() touch no other.
class FunctionConverter {
public:
  FunctionConverter(func::FuncOp function, const Target &target,
                    const Processor &processor, AttentionChoice attention,
                    exec::Blocks fewBits, const llvm::StringSet<> &rounded)
      : function(function), target(target), processor(processor),
        attention(attention), weights(function, fewBits, rounded),
        kernels(ModuleOp::create(function.getLoc())) {}

  LogicalResult assign() {
    if (failed(check()) || failed(weights.verify()))
      return failure();
    nameValues(function.front());
    FailureOr<BufferAssignment> computed = BufferAssignment::compute(function);
    if (failed(computed))
      return failure();
    assignment = std::move(*computed);
    return success();
  }

  /// Makes the new function, with an empty body.
  void createFunction() {
    OpBuilder builder(function);
    SmallVector<Type> types;
    SmallVector<DictionaryAttr> attributes;
    StringAttr donates = builder.getStringAttr(OptimusDialect::kDonates);
    for (BlockArgument argument : function.getArguments()) {
      types.push_back(getFlatType(argument.getType()));
      NamedAttrList list(function.getArgAttrDict(argument.getArgNumber()));
      bool isUpdated = list.erase(donates) != nullptr;
      describe(list, argument.getType(),
               isUpdated ? exec::ExecDialect::kAccessUpdate
                         : exec::ExecDialect::kAccessRead);
      attributes.push_back(list.getDictionary(builder.getContext()));
    }
    for (unsigned result = 0; result < function.getNumResults(); ++result) {
      if (!assignment.getOutput(result))
        continue;
      types.push_back(getFlatType(function.getResultTypes()[result]));
      NamedAttrList list(function.getResultAttrDict(result));
      describe(list, function.getResultTypes()[result],
               exec::ExecDialect::kAccessWrite);
      attributes.push_back(list.getDictionary(builder.getContext()));
    }
    SmallVector<NamedAttribute> functionAttributes(
        function->getDiscardableAttrs());
    converted = func::FuncOp::create(
        builder, function.getLoc(), (function.getName() + ".exec").str(),
        builder.getFunctionType(types, {}), functionAttributes, attributes);
    converted.setVisibility(function.getVisibility());
    converted.addEntryBlock();
  }

  LogicalResult lower() {
    if (failed(lowerBody()))
      return failure();
    numCommands = exec::numberCommands(converted);
    function.getBody().dropAllReferences();
    function.getBody().getBlocks().clear();
    return success();
  }

  /// Puts the new function in the place of the old one.
  void replaceFunction(KernelDeclarations &all) {
    all.take(*kernels);
    StringAttr name = function.getSymNameAttr();
    function.erase();
    converted.setSymNameAttr(name);
  }

  int64_t getNumInPlace() const { return assignment.getNumInPlace(); }
  int64_t getNumCommands() const { return numCommands; }
  int64_t getNumPacked() {
    return llvm::range_size(converted.getOps<exec::PackOp>());
  }
  int64_t getNumAllocations() {
    int64_t count = 0;
    converted.walk([&](exec::AllocOp) { ++count; });
    return count;
  }

private:
  LogicalResult check() {
    if (!function.getBody().hasOneBlock())
      return function.emitOpError("has more than one block; only straight-line "
                                  "code has a device program");
    auto checkTypes = [&](TypeRange types, StringRef what) -> LogicalResult {
      for (auto [index, type] : llvm::enumerate(types)) {
        if (!hasBuffers(type))
          return function.emitOpError()
                 << what << " " << index
                 << " must be a tensor of f32, bf16, f16 or i32 with static "
                    "shape, but is "
                 << type;
      }
      return success();
    };
    return success(
        succeeded(checkTypes(function.getArgumentTypes(), "argument")) &&
        succeeded(checkTypes(function.getResultTypes(), "result")));
  }

  /// Keeps for the manifest what a flat buffer does not show: its tensor, and
  /// how the function accesses it.
  static void describe(NamedAttrList &attributes, Type type, StringRef access) {
    using exec::ExecDialect;
    if (!attributes.get(OptimusDialect::kParam) &&
        !attributes.get(OptimusDialect::kBinding))
      return;
    attributes.set(ExecDialect::kLocalType, TypeAttr::get(type));
    attributes.set(ExecDialect::kAccess,
                   StringAttr::get(type.getContext(), access));
  }

  LogicalResult lowerBody() {
    OpBuilder builder = OpBuilder::atBlockEnd(&converted.getBody().front());
    KernelDeclarations declarations(*kernels);
    Lowering lowering(builder, optimus::getMesh(function), target, processor,
                      declarations, assignment, LiveRows(function), weights,
                      attention);
    unsigned next = function.getNumArguments();
    for (auto [index, buffer] : llvm::enumerate(assignment.getBuffers())) {
      if (buffer.kind == Buffer::Argument)
        lowering.setBufferAt(index, converted.getArgument(buffer.index));
      else if (buffer.kind == Buffer::Output)
        lowering.setBufferAt(index, converted.getArgument(next++));
    }
    Operation *terminator = function.getBody().front().getTerminator();
    for (Operation *op = &function.getBody().front().front();
         op != terminator;) {
      SmallVector<Operation *> group = ccl::getProductGroup(op);
      op = group.back()->getNextNode();
      if (failed(lowerGroup(group, lowering)))
        return failure();
    }
    for (unsigned result : assignment.getCopiedResults()) {
      LDBG() << "result " << result << " is copied: another one is its buffer";
      Value value = terminator->getOperand(result);
      lowering.location = value.getLoc();
      lowering.copy(lowering.getBuffer(value),
                    lowering.getBufferAt(*assignment.getOutput(result)));
    }
    func::ReturnOp::create(builder, terminator->getLoc());
    return success();
  }

  LogicalResult lowerGroup(ArrayRef<Operation *> group, Lowering &lowering) {
    lowering.location = group.front()->getLoc();
    if (group.size() > 1 && canExpandTogether(group, lowering))
      return expandPanels(group, lowering);
    for (Operation *op : group) {
      if (weights.isUnread(op))
        continue;
      lowering.location = op->getLoc();
      LDBG() << "lower " << op->getName() << " of "
             << describeLocation(op->getLoc());
      if (failed(lowerOp(op, lowering)))
        return failure();
    }
    return success();
  }

  func::FuncOp function;
  const Target &target;
  const Processor &processor;
  AttentionChoice attention;
  HeldWeights weights;
  OwningOpRef<ModuleOp> kernels;
  BufferAssignment assignment;
  func::FuncOp converted;
  int64_t numCommands = 0;
};

class ToExecPass : public optimus::impl::ToExecPassBase<ToExecPass> {
public:
  using ToExecPassBase::ToExecPassBase;

  LogicalResult initialize(MLIRContext *context) override {
    if (failed(checkTarget(context, target)))
      return failure();
    llvm::Expected<Processor> found = findTarget(target)->getProcessor(cpu);
    if (!found)
      return emitError(UnknownLoc::get(context))
             << "mcpu: " << llvm::toString(found.takeError());
    processor = std::move(*found);
    StringRef library = findTarget(target)->getAttentionLibrary();
    if (attention == "builtin")
      choice.who = AttentionChoice::Builtin;
    else if (attention == library && !library.empty())
      choice.who = AttentionChoice::Library;
    else if (attention != "auto")
      return emitError(UnknownLoc::get(context))
             << "attention: expected auto"
             << (library.empty() ? "" : ", " + library.str())
             << " or builtin, found '" << attention << "'";
    choice.isDeterministic = deterministic;
    std::optional<exec::Blocks> known = exec::symbolizeBlocks(
        weights == "activations" ? "none" : StringRef(weights));
    if (!known || *known == exec::Blocks::BF16)
      return emitError(UnknownLoc::get(context))
             << "weights: expected activations, int8 or int4, found '"
             << weights << "'";
    blocks = *known;
    return success();
  }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    const Target &device = *findTarget(target);
    if (blocks != exec::Blocks::None &&
        llvm::none_of(kGenerationKinds, [&](EntryKind kind) {
          return findEntry(module, kind);
        })) {
      module.emitError()
          << "has no functions that generate text, and so no weights of "
          << exec::stringifyBlocks(blocks)
          << "; write the program with --generate of its builder, "
             "or compile without --weights";
      return signalPassFailure();
    }
    // Weights of few bits are made of the parameters themselves.
    llvm::StringSet<> rounded;
    if (device.readsBlocks() && blocks == exec::Blocks::None)
      rounded = HeldWeights::findRounded(module);
    std::vector<FunctionConverter> converters;
    for (func::FuncOp function :
         llvm::filter_to_vector(module.getOps<func::FuncOp>(), hasTensors))
      converters.emplace_back(function, device, processor, choice, blocks,
                              rounded);
    if (failed(failableParallelForEach(
            &getContext(), converters,
            [](FunctionConverter &converter) { return converter.assign(); })))
      return signalPassFailure();
    for (FunctionConverter &converter : converters)
      converter.createFunction();
    if (failed(failableParallelForEach(
            &getContext(), converters,
            [](FunctionConverter &converter) { return converter.lower(); })))
      return signalPassFailure();
    // Kernels stand in the order in which functions launch them.
    KernelDeclarations kernels(module);
    for (FunctionConverter &converter : converters) {
      converter.replaceFunction(kernels);
      numCommands += converter.getNumCommands();
      numAllocations += converter.getNumAllocations();
      numInPlace += converter.getNumInPlace();
      numPacked += converter.getNumPacked();
    }
  }

private:
  Processor processor;
  AttentionChoice choice;
  exec::Blocks blocks = exec::Blocks::None;
};
} // namespace
