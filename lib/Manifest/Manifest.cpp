//===- Manifest.cpp - Writes the manifest of a model library ----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Manifest/Manifest.h"

#include "ManifestParts.h"
#include "optimus/Dialect/Exec/IR/Exec.h"
#include "optimus/Manifest/ModelDescription.h"
#include "optimus/Manifest/ModelFunction.h"
#include "optimus/Target/Target.h"

#include "optimus-support/Hash.h"

#include "mlir/IR/Threading.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/DebugLog.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/InterleavedRange.h"

#include <limits>

#define DEBUG_TYPE "optimus-record-layouts"

using namespace mlir;
using namespace mlir::optimus;
namespace json = llvm::json;

/// The number of the format; docs/manifest.md describes each one.
static constexpr int64_t kFormat = 3;

/// Whatever the user's flags say of printed IR.
static OpPrintingFlags getPlainPrinting() {
  constexpr int64_t kAnySize = std::numeric_limits<int64_t>::max();
  return OpPrintingFlags()
      .elideLargeElementsAttrs(kAnySize)
      .elideLargeResourceString(kAnySize)
      .enableDebugInfo(false)
      .printGenericOpForm(false)
      .skipRegions(false)
      .useLocalScope(false)
      .printValueUsers(false)
      .printUniqueSSAIDs(false)
      .printNameLocAsPrefix(false);
}

void mlir::optimus::recordProgram(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream, getPlainPrinting());
  module->setAttr(
      exec::ExecDialect::kSourceHash,
      StringAttr::get(module.getContext(), optimus_support::hashToHex(
                                               optimus_support::hash64(text))));
  NamedAttrList roundings;
  for (auto function : module.getOps<func::FuncOp>())
    if (saysRoundings(function))
      addRoundings(function, roundings);
  LDBG() << "source hash " << module->getAttr(exec::ExecDialect::kSourceHash)
         << ", roundings of " << roundings.getAttrs().size() << " results";
  if (!roundings.empty())
    module->setAttr(exec::ExecDialect::kRounding,
                    roundings.getDictionary(module.getContext()));
}

static json::Object describeModel(DictionaryAttr described) {
  json::Object model;
  for (StringRef key : kModelKeys)
    model[key] = described.getAs<IntegerAttr>(key).getInt();
  return model;
}

static json::Object describeObjective(DictionaryAttr described) {
  json::Object objective{{"kind", "next_token"}};
  if (auto kind = described.getAs<StringAttr>("objective"))
    objective["kind"] = kind.getValue();
  for (StringRef key : {"mask_token", "pad_token"})
    if (auto value = described.getAs<IntegerAttr>(key))
      objective[key] = value.getInt();
  return objective;
}

/// Processors are the only targets that say more than their name.
static json::Object describeTarget(const std::string &name,
                                   const CpuTarget &processor) {
  json::Object target{{"name", name}};
  if (name != "cpu")
    return target;
  target["cpu"] = processor.cpu;
  target["features"] = json::Array(processor.required);
  return target;
}

static json::Array describeMesh(MeshOp mesh) {
  json::Array axes;
  if (mesh)
    for (MeshAxisAttr axis : mesh.getAxisList())
      axes.push_back(json::Object{{"axis", axis.getName().getValue()},
                                  {"size", axis.getSize()}});
  return axes;
}

/// Which ranks a node is meant to have, or nothing.
static FailureOr<std::optional<json::Object>>
describePlacement(ModuleOp module, MeshOp mesh,
                  const ManifestOptions &options) {
  if (options.tile.empty() && options.nodeRanks == 0)
    return std::optional<json::Object>();
  if (options.tile.empty())
    return std::optional(json::Object{{"consecutive", options.nodeRanks}});
  SmallVector<int64_t> sizes;
  if (mesh)
    for (MeshAxisAttr axis : mesh.getAxisList())
      sizes.push_back(axis.getSize());
  const bool divides =
      sizes.size() == options.tile.size() &&
      llvm::all_of(llvm::zip_equal(sizes, options.tile), [](auto pair) {
        auto [size, extent] = pair;
        return extent > 0 && size % extent == 0;
      });
  if (!divides) {
    module.emitError("expected a tile that divides the mesh, one extent an "
                     "axis; found ")
        << llvm::interleaved_array(options.tile) << " of "
        << llvm::interleaved_array(sizes);
    return failure();
  }
  return std::optional(
      json::Object{{"tile", json::Array(ArrayRef(options.tile))}});
}

FailureOr<std::string>
mlir::optimus::buildManifest(ModuleOp module, const CpuTarget &processor,
                             const ManifestOptions &options) {
  SmallVector<func::FuncOp> functions;
  for (auto function : module.getOps<func::FuncOp>())
    if (!function->hasAttr(exec::ExecDialect::kKernel))
      functions.push_back(function);
  if (functions.empty()) {
    module.emitError("has no function to export");
    return failure();
  }
  if (failed(checkModelDescription(module)))
    return failure();

  MeshOp mesh = getMesh(module);
  BufferTable table;
  for (func::FuncOp function : functions)
    if (failed(table.add(function)))
      return failure();
  if (failed(table.finish()))
    return failure();
  LayoutWriter layouts(mesh);
  FailureOr<json::Array> buffers = table.toJson(layouts);
  if (failed(buffers))
    return failure();
  const Target *target = findTarget(options.target);
  std::vector<FailureOr<json::Object>> entries(functions.size());
  if (failed(failableParallelForEachN(
          module.getContext(), 0, functions.size(), [&](size_t number) {
            entries[number] =
                describeFunction(functions[number], table,
                                 target ? target->getAttentionLibrary() : "");
            return success(succeeded(entries[number]));
          })))
    return failure();
  json::Array functionList;
  for (FailureOr<json::Object> &entry : entries)
    functionList.push_back(std::move(*entry));

  auto described =
      module->getAttrOfType<DictionaryAttr>(OptimusDialect::kModel);
  auto hash = module->getAttrOfType<StringAttr>(exec::ExecDialect::kSourceHash);
  std::optional<json::Object> modelFunction = describeModelFunction(module);
  std::string identity = table.getIdentity();
  if (modelFunction)
    identity += modelFunction->getString("hash")->str();
  json::Object manifest{{"format", kFormat},
                        {"compiler", "optimus " OPTIMUS_VERSION
                                     " (LLVM " LLVM_VERSION_STRING ")"},
                        {"source_hash", hash ? hash.getValue() : ""},
                        {"model_hash", optimus_support::hashToHex(
                                           optimus_support::hash64(identity))},
                        {"target", describeTarget(options.target, processor)},
                        {"mesh", describeMesh(mesh)},
                        {"strategy", options.strategy},
                        {"model", describeModel(described)},
                        {"objective", describeObjective(described)},
                        {"optimizer", options.optimizer},
                        {"precision", options.precision},
                        {"dimensions", layouts.getDimensions()},
                        {"buffers", std::move(*buffers)},
                        {"functions", std::move(functionList)}};
  if (options.isPlan)
    manifest["plan"] = true;
  auto placement = describePlacement(module, mesh, options);
  if (failed(placement))
    return failure();
  if (*placement)
    manifest["placement"] = std::move(**placement);
  if (auto config = described.getAs<StringAttr>("config"))
    manifest["config"] = config.getValue();
  if (auto adapter = described.getAs<StringAttr>("adapter"))
    manifest["adapter"] = adapter.getValue();
  if (modelFunction)
    manifest["function"] = std::move(*modelFunction);
  return llvm::formatv("{0:2}", json::Value(std::move(manifest))).str();
}
