//===- ManifestBuffers.cpp - The buffers of a model -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ManifestParts.h"

#include "optimus/Dialect/CCL/IR/CCL.h"
#include "optimus/Dialect/Exec/IR/Exec.h"

#include <tuple>

using namespace mlir;
using namespace mlir::optimus;
namespace json = llvm::json;

std::string BufferTable::Entry::getName() const {
  return getBufferName(buffer);
}

SmallVector<int64_t> BufferTable::Entry::getSavedShape() const {
  func::FuncOp holder = function;
  if (auto shape = holder.getArgAttrOfType<DenseI64ArrayAttr>(
          argument, OptimusDialect::kHfShape))
    return SmallVector<int64_t>(shape.asArrayRef());
  return ccl::getGlobalShape(cast<RankedTensorType>(
      holder.getArgAttrOfType<TypeAttr>(argument, exec::ExecDialect::kLocalType)
          .getValue()));
}

PackedAttr BufferTable::Entry::getPacked() const {
  func::FuncOp holder = function;
  return holder.getArgAttrOfType<PackedAttr>(argument, OptimusDialect::kPacked);
}

std::string BufferTable::Entry::getSavedName() const {
  StringAttr of = buffer.getOf();
  PackedAttr packed = getPacked();
  if (isParameter())
    return packed ? packed.getName().str() : getName();
  // A state as "ROLE.NAME".
  StringRef name = packed ? packed.getName() : of ? of.getValue() : "";
  return name.empty() ? getName() : (buffer.getRole() + "." + name).str();
}

LogicalResult BufferTable::add(func::FuncOp function) {
  // Arenas are not in the runtime's list.
  for (unsigned i = exec::getNumArenas(function.getArgumentTypes());
       i < function.getNumArguments(); ++i) {
    BufferAttr buffer = getArgumentBuffer(function, i);
    if (!buffer)
      return function.emitError("argument ")
             << i << " has neither '" << OptimusDialect::kParam << "' nor '"
             << OptimusDialect::kBinding
             << "', so the runtime would not know what to pass";
    if (!function.getArgAttr(i, exec::ExecDialect::kLocalType))
      return function.emitError("argument ")
             << i << " has no '" << exec::ExecDialect::kLocalType
             << "' of a bound argument; run --optimus-to-exec first";
    if (indices.try_emplace(buffer.getName(), entries.size()).second)
      entries.push_back({buffer, function, i});
  }
  return success();
}

LogicalResult BufferTable::finish() {
  for (const Entry &entry : entries)
    if (entry.isParameter())
      params.try_emplace(entry.getName(), params.size());
  auto place = [&](const Entry &entry) {
    StringAttr of = entry.buffer.getOf();
    auto owner = of ? params.find(of.getValue()) : params.end();
    int group = entry.isParameter() ? 0 : owner != params.end() ? 1 : 2;
    return std::make_pair(group, owner != params.end() ? owner->second : 0);
  };
  llvm::stable_sort(entries, [&](const Entry &a, const Entry &b) {
    return place(a) < place(b);
  });
  llvm::StringMap<BufferAttr> names;
  for (auto [index, entry] : llvm::enumerate(entries)) {
    indices[entry.buffer.getName()] = index;
    func::FuncOp function = entry.function;
    StringAttr of = entry.buffer.getOf();
    if (of && !params.contains(of.getValue()))
      return function.emitError("argument ")
             << entry.argument << " belongs to the parameter '" << of.getValue()
             << "', which no function has";
    auto [other, isNew] = names.try_emplace(entry.getName(), entry.buffer);
    if (!isNew)
      return function.emitError("argument ")
             << entry.argument << " is called '" << entry.getName()
             << "' as the parameter is; give the parameter another name";
  }
  return checkPacked();
}

/// The parameters of each tensor with several fill it, each element once.
LogicalResult BufferTable::checkPacked() const {
  llvm::MapVector<StringRef, SmallVector<const Entry *>> tensors;
  for (const Entry &entry : entries)
    if (entry.isParameter())
      if (PackedAttr packed = entry.getPacked())
        tensors[packed.getName()].push_back(&entry);
  for (auto &[name, members] : tensors) {
    llvm::stable_sort(members, [](const Entry *a, const Entry *b) {
      return a->getPacked().getBegin() < b->getPacked().getBegin();
    });
    const PackedAttr first = members.front()->getPacked();
    auto fail = [&](const Entry &entry) {
      func::FuncOp function = entry.function;
      return function.emitError("argument ")
             << entry.argument << ": expected the parameters in '" << name
             << "' to fill its rows, each element once; ";
    };
    if (params.contains(name))
      return fail(*members.front()) << "a parameter has this name";
    int64_t end = 0;
    for (const Entry *member : members) {
      PackedAttr packed = member->getPacked();
      if (packed.getShape() != first.getShape() ||
          packed.getRow() != first.getRow())
        return fail(*member) << "found " << packed << " beside " << first;
      if (packed.getBegin() != end)
        return fail(*member) << "'" << member->getName() << "' begins at "
                             << packed.getBegin() << ", expected " << end;
      end += ShapedType::getNumElements(member->getSavedShape()) /
             packed.getNumRows();
    }
    if (end != first.getRow())
      return fail(*members.back())
             << "they have " << end << " of " << first.getRow() << " elements";
  }
  return success();
}

int64_t BufferTable::getIndex(BufferAttr buffer) const {
  return indices.lookup(buffer.getName());
}

static json::Object toJson(InitAttr init) {
  json::Object object{{"kind", init.getKind()}};
  if (init.getKind() == "constant")
    object["value"] = init.getNumber();
  if (init.isDrawn()) {
    object[init.getKind() == "normal" ? "stddev" : "bound"] = init.getNumber();
    object["stream"] = init.getStream();
  }
  return object;
}

FailureOr<json::Object> BufferTable::toJson(const Entry &entry,
                                            LayoutWriter &layouts) const {
  FailureOr<json::Object> object =
      layouts.describe(entry.function, entry.argument);
  if (failed(object))
    return failure();
  BufferAttr buffer = entry.buffer;
  (*object)["name"] = entry.getName();
  (*object)["role"] = buffer.getRole();
  (*object)["lifetime"] = stringifyLifetime(buffer.getLifetime());
  if (buffer.getOf() && !entry.isParameter())
    (*object)["of"] = params.lookup(buffer.getOf().getValue());
  if (InitAttr init = buffer.getInit())
    (*object)["init"] = ::toJson(init);
  if (buffer.getReset() != Reset::Never)
    (*object)["reset"] = stringifyReset(buffer.getReset());
  if (buffer.getFilledBy() != FilledBy::Program)
    (*object)["filled_by"] = stringifyFilledBy(buffer.getFilledBy());
  SmallVector<int64_t> shape = entry.getSavedShape();
  if (entry.isParameter())
    (*object)["decay"] = shape.size() >= 2;
  if (buffer.getSavedIn() == SavedIn::Nowhere)
    return object;
  json::Object saved{{"file", stringifySavedIn(buffer.getSavedIn())},
                     {"name", entry.getSavedName()},
                     {"shape", optimus::toJson(shape)}};
  if (PackedAttr packed = entry.getPacked()) {
    saved["shape"] = optimus::toJson(packed.getShape());
    saved["packed"] =
        json::Object{{"row", packed.getRow()}, {"begin", packed.getBegin()}};
  }
  (*object)["saved"] = std::move(saved);
  return object;
}

FailureOr<json::Array> BufferTable::toJson(LayoutWriter &layouts) const {
  json::Array array;
  for (const Entry &entry : entries) {
    FailureOr<json::Object> object = toJson(entry, layouts);
    if (failed(object))
      return failure();
    array.push_back(std::move(*object));
  }
  return array;
}

std::string BufferTable::getIdentity() const {
  std::string identity;
  for (const Entry &entry : entries) {
    if (!entry.isParameter())
      continue;
    identity += entry.getName();
    for (int64_t extent : entry.getSavedShape())
      identity += (":" + Twine(extent)).str();
    identity += '\n';
  }
  return identity;
}
