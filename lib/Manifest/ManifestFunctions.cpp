//===- ManifestFunctions.cpp - The functions of a library -------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ManifestParts.h"

#include "optimus/Analysis/KernelWork.h"
#include "optimus/Analysis/Rounding.h"
#include "optimus/Dialect/Exec/IR/Exec.h"
#include "optimus/Dialect/Optimus/IR/Entries.h"
#include "optimus/Dialect/Optimus/IR/Provenance.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mlir::optimus;
namespace json = llvm::json;

bool mlir::optimus::saysRoundings(func::FuncOp function) {
  return llvm::is_contained({EntryKind::Grad, EntryKind::Forward},
                            getEntryKind(function));
}

void mlir::optimus::addRoundings(func::FuncOp function,
                                 NamedAttrList &roundings) {
  Builder builder(function.getContext());
  llvm::StringSet<> known;
  for (NamedAttribute rounding : roundings)
    known.insert(rounding.getName());
  for (auto [buffer, estimate] :
       llvm::zip_equal(getResultBuffers(function),
                       estimateRoundings(function.getBody().front())))
    if (buffer && known.insert(buffer.getName()).second)
      roundings.append(buffer.getName(), builder.getF64FloatAttr(estimate));
}

static FailureOr<json::Object> describeArgument(func::FuncOp function,
                                                unsigned number,
                                                const BufferTable &buffers) {
  using exec::ExecDialect;
  BufferAttr buffer = getArgumentBuffer(function, number);
  auto access =
      function.getArgAttrOfType<StringAttr>(number, ExecDialect::kAccess);
  if (!access)
    return function.emitError("argument ")
           << number << " has no '" << ExecDialect::kAccess
           << "' of a bound argument; run --optimus-to-exec first";
  json::Object argument{{"buffer", buffers.getIndex(buffer)},
                        {"access", access.getValue()}};
  auto module = function->getParentOfType<ModuleOp>();
  auto roundings =
      module->getAttrOfType<DictionaryAttr>(ExecDialect::kRounding);
  if (roundings && saysRoundings(function) &&
      access != ExecDialect::kAccessRead)
    if (auto rounding = roundings.getAs<FloatAttr>(buffer.getName()))
      argument["rounding"] = rounding.getValueAsDouble();
  return argument;
}

/// The names of attentions in the order of the program, by what computes them.
static json::Object describeAttention(func::FuncOp function,
                                      StringRef library) {
  json::Object who;
  auto note = [&](Operation *op, StringRef by) {
    json::Value &names = who.try_emplace(by, json::Array()).first->second;
    std::string name = getPathWithPhase(op->getLoc());
    // The gradient is two launches.
    json::Array &list = *names.getAsArray();
    if (list.empty() || list.back() != json::Value(name))
      list.push_back(std::move(name));
  };
  KernelWorks works;
  function.walk([&](Operation *op) {
    if (auto working = dyn_cast<WorkOpInterface>(op);
        working && working.getWork().kind == Work::Attention)
      note(op, library);
    else if (auto launch = dyn_cast<exec::LaunchOp>(op);
             launch && works.getAttention(launch))
      note(op, "builtin");
  });
  return who;
}

/// What a kernel of attention says of itself; null for other launches.
static DictionaryAttr getAttention(exec::LaunchOp launch, KernelWorks &works) {
  if (!works.getAttention(launch))
    return nullptr;
  auto kernel = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(
      launch, launch.getKernelAttr());
  return kernel->getAttrOfType<DictionaryAttr>(exec::ExecDialect::kComputes);
}

/// Keys of a cache that a token sees at most; nothing where some attention lets
/// it see all.
static std::optional<int64_t> getWindow(func::FuncOp function) {
  std::optional<int64_t> most = 0;
  auto note = [&](bool isCached, IntegerAttr window) {
    if (isCached && most)
      most = window ? std::optional(std::max(*most, window.getInt()))
                    : std::nullopt;
  };
  KernelWorks works;
  function.walk([&](Operation *op) {
    if (auto attention = dyn_cast<exec::AttentionOp>(op))
      note(attention.getCapacity().has_value(), attention.getWindowAttr());
    else if (auto launch = dyn_cast<exec::LaunchOp>(op))
      if (DictionaryAttr attention = getAttention(launch, works))
        note(attention.contains("capacity"),
             attention.getAs<IntegerAttr>("window"));
  });
  return most == 0 ? std::nullopt : most;
}

static json::Object describeEntry(func::FuncOp function) {
  json::Object object{{"kind", stringifyEntryKind(getEntryKind(function))}};
  if (EntryAttr entry = getEntry(function); entry && entry.readsBatch()) {
    object["batch"] = entry.getBatch();
    object["sequence"] = entry.getSequence();
  }
  if (std::optional<int64_t> window = getWindow(function))
    object["window"] = *window;
  return object;
}

FailureOr<json::Object>
mlir::optimus::describeFunction(func::FuncOp function,
                                const BufferTable &buffers,
                                StringRef attentionLibrary) {
  using exec::ExecDialect;
  json::Array args;
  // Arenas are not in the runtime's list.
  for (unsigned i = exec::getNumArenas(function.getArgumentTypes());
       i < function.getNumArguments(); ++i) {
    FailureOr<json::Object> arg = describeArgument(function, i, buffers);
    if (failed(arg))
      return failure();
    args.push_back(std::move(*arg));
  }
  json::Object result{{"name", function.getSymName()},
                      {"entry", describeEntry(function)},
                      {"args", std::move(args)}};
  for (auto [key, attr] :
       {std::pair(StringLiteral("commands"), ExecDialect::kCommands),
        std::pair(StringLiteral("arena_bytes"), ExecDialect::kArenaBytes),
        std::pair(StringLiteral("lower_bound_bytes"),
                  ExecDialect::kLowerBoundBytes)}) {
    auto value = function->getAttrOfType<IntegerAttr>(attr);
    if (!value)
      return function.emitError("has no '")
             << attr << "'; run --optimus-place-buffers first";
    result[key] = value.getInt();
  }
  json::Object peak;
  if (auto categories =
          function->getAttrOfType<DictionaryAttr>(ExecDialect::kPeakBytes))
    for (NamedAttribute category : categories)
      peak[category.getName().getValue()] =
          cast<IntegerAttr>(category.getValue()).getInt();
  result["peak_bytes"] = std::move(peak);
  json::Array communication;
  if (auto axes =
          function->getAttrOfType<ArrayAttr>(ExecDialect::kCommunication))
    for (auto axis : axes.getAsRange<DictionaryAttr>())
      communication.push_back(json::Object{
          {"axis", axis.getAs<StringAttr>("axis").getValue()},
          {"bytes", axis.getAs<IntegerAttr>("bytes").getInt()},
          {"messages", axis.getAs<IntegerAttr>("messages").getInt()}});
  result["communication"] = std::move(communication);
  // Where there is a choice.
  if (!attentionLibrary.empty())
    if (json::Object who = describeAttention(function, attentionLibrary);
        !who.empty())
      result["attention"] = std::move(who);
  if (auto schedule =
          function->getAttrOfType<DictionaryAttr>(ExecDialect::kSchedule)) {
    json::Object entries;
    for (NamedAttribute entry : schedule) {
      if (auto number = dyn_cast<FloatAttr>(entry.getValue()))
        entries[entry.getName().getValue()] = number.getValueAsDouble();
      else if (auto count = dyn_cast<IntegerAttr>(entry.getValue()))
        entries[entry.getName().getValue()] = count.getInt();
    }
    result["schedule"] = std::move(entries);
  }
  return result;
}
