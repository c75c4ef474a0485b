//===- Annotations.cpp - Attributes on functions of commands ----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Attributes left by passes for the manifest, a module apart from the functions
// they describe. Nothing of it is an operation's own, so nothing else would
// check it.
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

static bool isLaneCount(Attribute value) {
  return isCount(value, optimus_support::kMaxLanes) &&
         cast<IntegerAttr>(value).getInt() >= 2;
}

static bool isByteCount(Attribute value) { return isCount(value, kMaxBytes); }

static bool isCommandCount(Attribute value) {
  return isCount(value, UINT32_MAX);
}

static bool isAmount(Attribute value) {
  auto amount = dyn_cast_or_null<FloatAttr>(value);
  return amount && std::isfinite(amount.getValueAsDouble()) &&
         amount.getValueAsDouble() >= 0;
}

static bool areBytesByName(Attribute value) {
  auto entries = dyn_cast<DictionaryAttr>(value);
  return entries && llvm::all_of(entries, [](NamedAttribute entry) {
           return isByteCount(entry.getValue());
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

static bool areParts(Attribute value) {
  auto entries = dyn_cast_or_null<DictionaryAttr>(value);
  return entries && llvm::all_of(entries, [](NamedAttribute entry) {
           return isAmount(entry.getValue());
         });
}

/// How much of a function was measured.
static bool isMeasurement(Attribute value) {
  auto entries = dyn_cast<DictionaryAttr>(value);
  return entries && entries.size() == 4 && isCommandCount(entries.get("of")) &&
         isCount(entries.get("commands"),
                 entries.getAs<IntegerAttr>("of").getInt()) &&
         isAmount(entries.get("ms")) && isAmount(entries.get("of_ms"));
}

/// What is started for later calls, and waited for of earlier ones.
static bool isCarried(Attribute value) {
  auto entries = dyn_cast<DictionaryAttr>(value);
  return entries && entries.size() == 4 &&
         isCount(entries.get("count"), UINT32_MAX) &&
         isAmount(entries.get("ms")) && isAmount(entries.get("after_ms")) &&
         isAmount(entries.get("exposed_ms"));
}

static bool isSchedule(Attribute value) {
  auto entries = dyn_cast<DictionaryAttr>(value);
  if (!entries)
    return false;
  bool isMeasured = entries.contains("measured");
  bool carries = entries.contains("carried");
  return entries.size() == 8u + isMeasured + carries &&
         (!carries || isCarried(entries.get("carried"))) &&
         (!isMeasured || isMeasurement(entries.get("measured"))) &&
         areWaits(entries.get("waits")) &&
         areParts(entries.get("predicted_parts_ms")) &&
         isAmount(entries.get("predicted_step_ms")) &&
         isAmount(entries.get("predicted_comm_ms")) &&
         isAmount(entries.get("predicted_exposed_ms")) &&
         isByteCount(entries.get("extra_workspace_bytes")) &&
         isCommandCount(entries.get("not_overlapped")) &&
         isCount(entries.get("out_of_workspace"),
                 entries.getAs<IntegerAttr>("not_overlapped").getInt());
}

static bool isPaging(Attribute value) {
  auto entries = dyn_cast<DictionaryAttr>(value);
  return entries && entries.size() == 5 &&
         isByteCount(entries.get("fetched_bytes")) &&
         isByteCount(entries.get("stored_bytes")) &&
         isAmount(entries.get("fetch_ms")) &&
         isAmount(entries.get("store_ms")) &&
         isAmount(entries.get("exposed_ms"));
}

static bool isText(Attribute value) { return isa<StringAttr>(value); }

static bool isUnit(Attribute value) { return isa<UnitAttr>(value); }

static bool isComputation(Attribute value) {
  auto dictionary = dyn_cast<DictionaryAttr>(value);
  return dictionary && dictionary.getAs<StringAttr>("kind");
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

namespace {
/// An attribute of this dialect: its name and what its value must be.
struct Annotation {
  StringRef name;
  bool (*isRight)(Attribute value);
  std::string expected;
};
} // namespace

static ArrayRef<Annotation> getAnnotationsOfModules() {
  static const Annotation annotations[] = {
      {ExecDialect::kSourceHash, isHash, "16 hexadecimal digits"},
      {ExecDialect::kRounding, areAmountsByName,
       "finite numbers from 0 by name"},
      {ExecDialect::kManifest, isText, "a text"},
      {ExecDialect::kLanes, isLaneCount,
       "an i64 from 2 to " + Twine(optimus_support::kMaxLanes).str()},
  };
  return annotations;
}

static ArrayRef<Annotation> getAnnotationsOfFunctions() {
  static const std::string bytes = "an i64 from 0 to " + Twine(kMaxBytes).str();
  static const Annotation annotations[] = {
      {ExecDialect::kArenaBytes, isByteCount, bytes},
      {ExecDialect::kLowerBoundBytes, isByteCount, bytes},
      {ExecDialect::kCommands, isCommandCount,
       "an i64 from 0 to " + Twine(UINT32_MAX).str()},
      {ExecDialect::kPeakBytes, areBytesByName, "bytes by category"},
      {ExecDialect::kCommunication, isCommunication,
       "an array of {axis, bytes, messages}"},
      {ExecDialect::kSchedule, isSchedule, "what --optimus-schedule leaves"},
      {ExecDialect::kPaging, isPaging, "what --optimus-offload leaves"},
      {ExecDialect::kKernel, isUnit, "without a value"},
      {ExecDialect::kComputes, isComputation,
       "a dictionary with a text 'kind'"},
  };
  return annotations;
}

int64_t exec::getLanes(Operation *op) {
  auto module = dyn_cast<ModuleOp>(op);
  if (!module)
    module = op->getParentOfType<ModuleOp>();
  auto lanes = module ? module->getAttrOfType<IntegerAttr>(ExecDialect::kLanes)
                      : nullptr;
  return lanes ? lanes.getInt() : 1;
}

LogicalResult ExecDialect::verifyOperationAttribute(Operation *op,
                                                    NamedAttribute attr) {
  ArrayRef<Annotation> known;
  if (isa<ModuleOp>(op))
    known = getAnnotationsOfModules();
  else if (isa<FunctionOpInterface>(op))
    known = getAnnotationsOfFunctions();
  for (const Annotation &annotation : known)
    if (annotation.name == attr.getName())
      return expect(op, attr, annotation.isRight(attr.getValue()),
                    annotation.expected);
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
