//===- ManifestLayouts.cpp - How buffers lie on the mesh --------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ManifestParts.h"

#include "optimus/Dialect/CCL/IR/CCL.h"
#include "optimus/Dialect/Exec/IR/Exec.h"

using namespace mlir;
using namespace mlir::optimus;
namespace json = llvm::json;

json::Array mlir::optimus::toJson(ArrayRef<int64_t> values) {
  json::Array array;
  for (int64_t value : values)
    array.push_back(value);
  return array;
}

json::Array mlir::optimus::toJson(ArrayRef<StringRef> values) {
  json::Array array;
  for (StringRef value : values)
    array.push_back(value);
  return array;
}

/// The manifest's word for an element type: "f32", "i32".
static std::string getTypeName(Type type) {
  std::string name;
  llvm::raw_string_ostream(name) << type;
  return name;
}

void LayoutWriter::note(StringRef name, int64_t size, int64_t padded,
                        ArrayRef<StringRef> axes) {
  auto *known = llvm::find_if(dimensions, [&](const Dimension &other) {
    return StringRef(other.name).split('#').first == name &&
           other.size == size && other.padded == padded;
  });
  if (known == dimensions.end()) {
    // One class of several sizes: tell them apart.
    int64_t same = llvm::count_if(dimensions, [&](const Dimension &other) {
      return StringRef(other.name).split('#').first == name;
    });
    std::string unique = name.str();
    if (same > 0)
      unique += ("#" + Twine(same + 1)).str();
    dimensions.push_back({unique, size, padded, {}});
    known = &dimensions.back();
  }
  known->axes.insert_range(axes);
}

FailureOr<json::Object> LayoutWriter::describe(func::FuncOp function,
                                               unsigned argument) {
  auto local = function.getArgAttrOfType<TypeAttr>(
      argument, exec::ExecDialect::kLocalType);
  auto type = local ? dyn_cast<RankedTensorType>(local.getValue()) : nullptr;
  if (!type)
    return function.emitError("argument ")
           << argument << " has no '" << exec::ExecDialect::kLocalType
           << "' of a bound argument; run --optimus-to-exec first";
  SmallVector<int64_t> shape = ccl::getGlobalShape(type);
  auto names =
      function.getArgAttrOfType<ArrayAttr>(argument, OptimusDialect::kDims);
  BufferAttr buffer = getArgumentBuffer(function, argument);
  const bool isPrepared = buffer && buffer.isPrepared();
  json::Array sharding;
  for (int64_t d = 0, rank = type.getRank(); d < rank; ++d) {
    SmallVector<StringRef> axes = ccl::getDimAxes(type, d);
    sharding.push_back(toJson(ArrayRef<StringRef>(axes)));
    int64_t padded = type.getDimSize(d);
    for (StringRef axis : axes)
      padded *= *mesh.getAxisSize(axis);
    // What is prepared has no dimensions of the model.
    if (isPrepared || (axes.empty() && padded == shape[d]))
      continue;
    StringRef name = "dimension";
    if (names && d < static_cast<int64_t>(names.size()))
      if (auto text = dyn_cast<StringAttr>(names[d]))
        name = text.getValue();
    note(name, shape[d], padded, axes);
  }
  json::Object layout{{"type", getTypeName(type.getElementType())},
                      {"shape", toJson(ArrayRef<int64_t>(shape))},
                      {"local_shape", toJson(type.getShape())},
                      {"sharding", std::move(sharding)}};
  if (ccl::LocalAttr local = ccl::getLocal(type)) {
    SmallVector<StringRef> axes = local.getSharding().getUnreducedAxes();
    if (!axes.empty())
      layout["unreduced"] = toJson(ArrayRef<StringRef>(axes));
  }
  return layout;
}

json::Array LayoutWriter::getDimensions() {
  json::Array result;
  for (Dimension &dimension : dimensions)
    result.push_back(
        json::Object{{"name", dimension.name},
                     {"size", dimension.size},
                     {"padded", dimension.padded},
                     {"axes", toJson(dimension.axes.getArrayRef())}});
  return result;
}
