//===- Buffers.cpp - What arguments and results are -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/Optimus/IR/Buffers.h"

using namespace mlir;
using namespace mlir::optimus;

/// Whether an entry makes it of a parameter, for the calls of a sequence.
static bool isPrepared(Lifetime lifetime, StringAttr of, InitAttr init,
                       Reset reset) {
  return lifetime == Lifetime::Sequence && of && !init && reset == Reset::Never;
}

bool BufferAttr::isPrepared() const {
  return ::isPrepared(getLifetime(), getOf(), getInit(), getReset());
}

std::string BufferAttr::getName() const {
  StringAttr of = getOf();
  return of ? (getRole() + ":" + of.getValue()).str() : getRole().str();
}

/// C3 and C4: a reset allowed by the lifetime, to a known value.
static LogicalResult verifyReset(function_ref<InFlightDiagnostic()> emitError,
                                 Lifetime lifetime, InitAttr init, Reset reset,
                                 bool isPrepared) {
  auto expect = [&](ArrayRef<Reset> allowed) -> LogicalResult {
    if (llvm::is_contained(allowed, reset))
      return success();
    InFlightDiagnostic error =
        emitError() << "C3: expected a buffer that lives "
                       "as long as a "
                    << stringifyLifetime(lifetime) << " to have the reset ";
    llvm::interleave(
        allowed, error, [&](Reset each) { error << stringifyReset(each); },
        " or ");
    return error << ", found " << stringifyReset(reset);
  };
  switch (lifetime) {
  case Lifetime::Parameter:
    if (failed(expect(Reset::Never)))
      return failure();
    break;
  case Lifetime::State:
    break;
  case Lifetime::Sequence:
    if (!isPrepared && failed(expect({Reset::Step, Reset::Sequence})))
      return failure();
    break;
  case Lifetime::Call:
    if (failed(expect({Reset::Never, Reset::Call})))
      return failure();
    break;
  }
  if (reset != Reset::Never && (!init || init.isDrawn()))
    return emitError() << "C4: expected a buffer that is reset to have an "
                          "initial value, zeros, ones or a constant";
  return success();
}

LogicalResult BufferAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                 StringRef role, StringAttr of,
                                 Lifetime lifetime, InitAttr init, Reset reset,
                                 FilledBy filledBy, SavedIn savedIn) {
  auto isName = [](StringRef text) {
    return isPlainName(text) && !text.contains(':');
  };
  if (!isName(role) || (of && !isName(of.getValue())))
    return emitError() << "C1: expected a role and a parameter named by 1 to "
                          "255 bytes of UTF-8, without control characters and "
                          "colons, found \""
                       << role << "\" of \"" << (of ? of.getValue() : "")
                       << '"';
  bool isParameter = role == kParameterRole;
  if (isParameter != (lifetime == Lifetime::Parameter) || (isParameter && !of))
    return emitError() << "C2: expected the lifetime parameter exactly of what "
                          "has the role \"parameter\", and is `of` itself; "
                          "found the lifetime "
                       << stringifyLifetime(lifetime) << " of the role \""
                       << role << '"';
  if (failed(verifyReset(emitError, lifetime, init, reset,
                         ::isPrepared(lifetime, of, init, reset))))
    return failure();
  if (filledBy != FilledBy::Program &&
      (lifetime != Lifetime::Call || init || of))
    return emitError() << "C5: expected what " << stringifyFilledBy(filledBy)
                       << " fills to live for a call, without an initial value "
                          "and a parameter";
  if (filledBy == FilledBy::Data && !isFilledByData(role))
    return emitError() << "C5: expected data to fill tokens, targets or "
                          "positions, found \""
                       << role << '"';
  if (savedIn != SavedIn::Nowhere && lifetime != Lifetime::Parameter &&
      lifetime != Lifetime::State)
    return emitError() << "C6: expected what is saved to be a parameter or a "
                          "state, found the lifetime "
                       << stringifyLifetime(lifetime);
  return success();
}

bool mlir::optimus::isFilledByData(StringRef role) {
  return role == "tokens" || role == "targets" || role == "positions";
}

bool mlir::optimus::isOfPositions(StringRef role) {
  return role == "positions" || role == "prefill_positions" ||
         role == "decode_positions" || role == "score_positions";
}

BufferAttr mlir::optimus::getInputBuffer(MLIRContext *context, StringRef name) {
  FilledBy filledBy;
  if (isFilledByData(name))
    filledBy = FilledBy::Data;
  else if (name == "random")
    filledBy = FilledBy::Host;
  else
    return {};
  return BufferAttr::get(context, name, /*of=*/{}, Lifetime::Call, /*init=*/{},
                         Reset::Never, filledBy, SavedIn::Nowhere);
}

StringAttr mlir::optimus::getParameterName(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  if (!argument)
    return {};
  auto function =
      dyn_cast<FunctionOpInterface>(argument.getOwner()->getParentOp());
  return function ? function.getArgAttrOfType<StringAttr>(
                        argument.getArgNumber(), OptimusDialect::kParam)
                  : StringAttr();
}

BufferAttr mlir::optimus::getArgumentBuffer(FunctionOpInterface function,
                                            unsigned argument) {
  if (auto param = function.getArgAttrOfType<StringAttr>(
          argument, OptimusDialect::kParam))
    return BufferAttr::get(
        function.getContext(), kParameterRole, param, Lifetime::Parameter,
        function.getArgAttrOfType<InitAttr>(argument, OptimusDialect::kInit),
        Reset::Never, FilledBy::Program, SavedIn::Model);
  Attribute binding = function.getArgAttr(argument, OptimusDialect::kBinding);
  if (auto input = dyn_cast_or_null<StringAttr>(binding))
    return getInputBuffer(function.getContext(), input.getValue());
  return dyn_cast_or_null<BufferAttr>(binding);
}

/// Calls `visit` with each argument that donates its buffer and the result, as
/// long as it returns true.
static void forEachDonor(FunctionOpInterface function,
                         function_ref<bool(unsigned, uint64_t)> visit) {
  ArrayAttr all = function.getArgAttrsAttr();
  if (!all)
    return;
  // A step has thousands: to compare names' characters takes as long as all
  // else.
  auto name = StringAttr::get(function.getContext(), OptimusDialect::kDonates);
  for (auto [argument, attributes] :
       llvm::enumerate(all.getAsRange<DictionaryAttr>()))
    if (auto donates = attributes.getAs<IntegerAttr>(name))
      if (!visit(argument, donates.getInt()))
        return;
}

BufferAttr mlir::optimus::getResultBuffer(FunctionOpInterface function,
                                          unsigned result) {
  if (auto binding = function.getResultAttrOfType<BufferAttr>(
          result, OptimusDialect::kBinding))
    return binding;
  std::optional<unsigned> donor = getDonor(function, result);
  return donor ? getArgumentBuffer(function, *donor) : BufferAttr();
}

SmallVector<BufferAttr>
mlir::optimus::getResultBuffers(FunctionOpInterface function) {
  SmallVector<BufferAttr> buffers(function.getNumResults());
  forEachDonor(function, [&](unsigned argument, uint64_t result) {
    if (result < buffers.size() && !buffers[result])
      buffers[result] = getArgumentBuffer(function, argument);
    return true;
  });
  for (auto [result, buffer] : llvm::enumerate(buffers))
    if (auto binding = function.getResultAttrOfType<BufferAttr>(
            result, OptimusDialect::kBinding))
      buffer = binding;
  return buffers;
}

std::string mlir::optimus::getBufferName(BufferAttr buffer) {
  if (!buffer)
    return {};
  return buffer.getLifetime() == Lifetime::Parameter ? buffer.getOf().str()
                                                     : buffer.getName();
}

std::optional<unsigned> mlir::optimus::getDonor(FunctionOpInterface function,
                                                unsigned result) {
  std::optional<unsigned> donor;
  forEachDonor(function, [&](unsigned argument, uint64_t donated) {
    if (donated == result)
      donor = argument;
    return !donor;
  });
  return donor;
}
