//===- Annotations.cpp - Attributes on functions of commands ----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What passes leave for the manifest, a module apart from what it describes.
// Nothing of it is an operation's own, so nothing else would check it.
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/Exec/IR/Exec.h"

#include "optimus-support/Hash.h"

#include "mlir/Interfaces/FunctionInterfaces.h"

#include <cmath>

using namespace mlir;
using namespace mlir::exec;
using optimus_support::kMaxBytes;

static bool isCount(Attribute value, int64_t most) {
  auto count = dyn_cast_or_null<IntegerAttr>(value);
  return count && count.getType().isInteger(64) && count.getInt() >= 0 &&
         count.getInt() <= most;
}

static bool isAmount(Attribute value) {
  auto amount = dyn_cast_or_null<FloatAttr>(value);
  return amount && std::isfinite(amount.getValueAsDouble()) &&
         amount.getValueAsDouble() >= 0;
}

static bool areBytesByName(Attribute value) {
  auto entries = dyn_cast<DictionaryAttr>(value);
  return entries && llvm::all_of(entries, [](NamedAttribute entry) {
           return isCount(entry.getValue(), kMaxBytes);
         });
}

static bool areAmountsByName(Attribute value) {
  auto entries = dyn_cast<DictionaryAttr>(value);
  return entries && llvm::all_of(entries, [](NamedAttribute entry) {
           return isAmount(entry.getValue());
         });
}

static bool isCommunication(Attribute value) {
  auto entries = dyn_cast<ArrayAttr>(value);
  return entries && llvm::all_of(entries, [](Attribute value) {
           auto entry = dyn_cast<DictionaryAttr>(value);
           return entry && entry.size() == 3 &&
                  entry.getAs<StringAttr>("axis") &&
                  isCount(entry.get("bytes"), INT64_MAX) &&
                  isCount(entry.get("messages"), UINT32_MAX);
         });
}

static bool areWaits(Attribute value) {
  auto entries = dyn_cast_or_null<ArrayAttr>(value);
  return entries && llvm::all_of(entries, [](Attribute value) {
           auto entry = dyn_cast<DictionaryAttr>(value);
           return entry && entry.size() == 6 &&
                  entry.getAs<StringAttr>("axis") &&
                  entry.getAs<StringAttr>("collective") &&
                  isCount(entry.get("count"), UINT32_MAX) &&
                  isAmount(entry.get("ms")) &&
                  isAmount(entry.get("queued_ms")) &&
                  isAmount(entry.get("idle_ms"));
         });
}

static bool isSchedule(Attribute value) {
  auto entries = dyn_cast<DictionaryAttr>(value);
  return entries && entries.size() == 7 && areWaits(entries.get("waits")) &&
         isAmount(entries.get("predicted_step_ms")) &&
         isAmount(entries.get("predicted_comm_ms")) &&
         isAmount(entries.get("predicted_exposed_ms")) &&
         isCount(entries.get("extra_workspace_bytes"), kMaxBytes) &&
         isCount(entries.get("not_overlapped"), UINT32_MAX) &&
         isCount(entries.get("out_of_workspace"),
                 entries.getAs<IntegerAttr>("not_overlapped").getInt());
}

static bool isHash(Attribute value) {
  auto text = dyn_cast<StringAttr>(value);
  return text && optimus_support::hashFromHex(text.getValue());
}

static LogicalResult expect(Operation *op, NamedAttribute attr, bool holds,
                            const Twine &expected) {
  if (holds)
    return success();
  return op->emitOpError("expected ") << attr.getName() << " to be " << expected
                                      << ", found " << attr.getValue();
}

/// Refuses a name of this dialect that nothing reads.
static LogicalResult refuse(Operation *op, NamedAttribute attr) {
  return op->emitOpError("has the attribute ")
         << attr.getName() << ", which the exec dialect does not know here";
}

LogicalResult ExecDialect::verifyOperationAttribute(Operation *op,
                                                    NamedAttribute attr) {
  StringRef name = attr.getName();
  Attribute value = attr.getValue();
  if (isa<ModuleOp>(op)) {
    if (name == kSourceHash)
      return expect(op, attr, isHash(value), "16 hexadecimal digits");
    if (name == kRounding)
      return expect(op, attr, areAmountsByName(value),
                    "finite numbers from 0 by name");
    if (name == kManifest)
      return expect(op, attr, isa<StringAttr>(value), "a text");
    return refuse(op, attr);
  }
  if (!isa<FunctionOpInterface>(op))
    return refuse(op, attr);
  if (name == kArenaBytes || name == kLowerBoundBytes)
    return expect(op, attr, isCount(value, kMaxBytes),
                  "an i64 from 0 to " + Twine(kMaxBytes));
  if (name == kCommands)
    return expect(op, attr, isCount(value, UINT32_MAX),
                  "an i64 from 0 to " + Twine(UINT32_MAX));
  if (name == kPeakBytes)
    return expect(op, attr, areBytesByName(value), "bytes by category");
  if (name == kCommunication)
    return expect(op, attr, isCommunication(value),
                  "an array of {axis, bytes, messages}");
  if (name == kSchedule)
    return expect(op, attr, isSchedule(value),
                  "what --optimus-schedule leaves");
  if (name == kKernel)
    return expect(op, attr, isa<UnitAttr>(value), "without a value");
  return refuse(op, attr);
}

LogicalResult ExecDialect::verifyRegionArgAttribute(Operation *op, unsigned,
                                                    unsigned index,
                                                    NamedAttribute attr) {
  if (attr.getName() == kAccess) {
    auto access = dyn_cast<StringAttr>(attr.getValue());
    return expect(op, attr,
                  access && (access == kAccessRead || access == kAccessWrite ||
                             access == kAccessUpdate),
                  "\"read\", \"write\" or \"update\"");
  }
  if (attr.getName() != kLocalType)
    return refuse(op, attr);
  auto function = dyn_cast<FunctionOpInterface>(op);
  auto type = dyn_cast<TypeAttr>(attr.getValue());
  auto tensor = type ? dyn_cast<RankedTensorType>(type.getValue()) : nullptr;
  if (failed(expect(op, attr,
                    function && tensor && tensor.hasStaticShape() &&
                        tensor.getRank() <= optimus_support::kMaxDims,
                    "the type of a tensor of static shape")))
    return failure();
  // Before --optimus-to-exec the argument is that tensor.
  auto buffer = dyn_cast<MemRefType>(function.getArgumentTypes()[index]);
  auto elements = optimus_support::CheckedSize::product(
      {tensor.getShape().data(), tensor.getShape().size()});
  if (buffer &&
      (buffer.getElementType() != tensor.getElementType() ||
       buffer.getRank() != 1 || elements.get() != buffer.getDimSize(0)))
    return op->emitOpError("expected argument ")
           << index << " to hold the tensor of its " << attr.getName() << ", "
           << tensor << ", found " << buffer;
  return success();
}

LogicalResult ExecDialect::verifyRegionResultAttribute(Operation *op, unsigned,
                                                       unsigned,
                                                       NamedAttribute attr) {
  return refuse(op, attr);
}
