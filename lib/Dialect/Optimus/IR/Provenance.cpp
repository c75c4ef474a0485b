//===- Provenance.cpp - Where operations and values come from -------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/Optimus/IR/Provenance.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <limits>

using namespace mlir;
using namespace mlir::optimus;

//===----------------------------------------------------------------------===//
// #optimus.origin
//===----------------------------------------------------------------------===//

LogicalResult OriginAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                 ProgramPhase phase, int64_t result,
                                 StringAttr part, int64_t ordinal) {
  constexpr int64_t most = std::numeric_limits<int32_t>::max();
  for (int64_t number : {result, ordinal})
    if (number < 0 || number > most)
      return emitError() << "C1: expected numbers from 0 to " << most
                         << ", found " << number;
  return success();
}

namespace {
/// The members of an OriginAttr, to be changed.
struct Origin {
  ProgramPhase phase = ProgramPhase::Forward;
  int64_t result = 0;
  StringAttr part;
  int64_t ordinal = 0;

  bool isPlain() const {
    return phase == ProgramPhase::Forward && result == 0 && !part &&
           ordinal == 0;
  }
};
} // namespace

/// The locations that a fused one is made of; none of any other.
static ArrayRef<Location> getFused(Location loc) {
  auto fused = dyn_cast<FusedLoc>(loc);
  return fused ? fused.getLocations() : ArrayRef<Location>();
}

static Origin getOrigin(Location loc) {
  if (auto fused = dyn_cast<FusedLocWith<OriginAttr>>(loc)) {
    OriginAttr origin = fused.getMetadata();
    return {origin.getPhase(), origin.getResult(), origin.getPart(),
            origin.getOrdinal()};
  }
  ArrayRef<Location> fused = getFused(loc);
  return fused.empty() ? Origin() : getOrigin(fused.front());
}

/// `loc` with a changed origin; of a fused location, all of its parts, or the
/// first alone, which is the result's.
static Location changeOrigin(Location loc, bool all,
                             function_ref<void(Origin &)> change) {
  MLIRContext *context = loc.getContext();
  bool hasOrigin = isa<FusedLocWith<OriginAttr>>(loc);
  SmallVector<Location> fused(getFused(loc));
  if (!hasOrigin && !fused.empty()) {
    for (Location &part : all ? MutableArrayRef(fused)
                              : MutableArrayRef(fused).take_front())
      part = changeOrigin(part, all, change);
    return FusedLoc::get(fused, cast<FusedLoc>(loc).getMetadata(), context);
  }
  if (!hasOrigin)
    fused = {loc};
  Origin origin = getOrigin(loc);
  change(origin);
  if (origin.isPlain())
    return FusedLoc::get(fused, /*metadata=*/Attribute(), context);
  return FusedLoc::get(fused,
                       OriginAttr::get(context, origin.phase, origin.result,
                                       origin.part, origin.ordinal),
                       context);
}

//===----------------------------------------------------------------------===//
// Locations
//===----------------------------------------------------------------------===//

StringRef mlir::optimus::getPath(Location loc) {
  if (auto name = dyn_cast<NameLoc>(loc))
    return name.getName();
  if (auto call = dyn_cast<CallSiteLoc>(loc))
    return getPath(call.getCallee());
  for (Location part : getFused(loc))
    if (StringRef path = getPath(part); !path.empty())
      return path;
  return {};
}

ProgramPhase mlir::optimus::getPhase(Location loc) {
  return getOrigin(loc).phase;
}

/// " backward", or nothing of the forward.
static std::string getSuffix(ProgramPhase phase) {
  return phase == ProgramPhase::Forward
             ? ""
             : (" " + stringifyProgramPhase(phase)).str();
}

std::string mlir::optimus::getPathWithPhase(Location loc) {
  const std::string path = getPath(loc).str();
  return path.empty() ? path : path + getSuffix(getPhase(loc));
}

FileLineColLoc mlir::optimus::getFileLine(Location loc) {
  return loc->findInstanceOf<FileLineColLoc>();
}

std::string mlir::optimus::describeLocation(Location loc) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << getPath(loc);
  if (ProgramPhase phase = getPhase(loc); phase != ProgramPhase::Forward)
    stream << (text.empty() ? "" : " ") << stringifyProgramPhase(phase);
  if (FileLineColLoc line = getFileLine(loc)) {
    bool isAlone = text.empty();
    stream << (isAlone ? "" : " (") << line.getFilename().getValue() << ':'
           << line.getLine() << (isAlone ? "" : ")");
  }
  return text;
}

Location mlir::optimus::withPath(Location loc, StringRef path) {
  if (!getPath(loc).empty())
    return loc;
  return NameLoc::get(StringAttr::get(loc.getContext(), path), loc);
}

Location mlir::optimus::withPhase(Location loc, ProgramPhase phase) {
  return changeOrigin(loc, /*all=*/true,
                      [&](Origin &origin) { origin.phase = phase; });
}

Location mlir::optimus::withPart(Location loc, StringRef part) {
  return changeOrigin(loc, /*all=*/false, [&](Origin &origin) {
    origin.part = StringAttr::get(loc.getContext(), part);
    origin.result = origin.ordinal = 0;
  });
}

Location mlir::optimus::withResult(Location loc, int64_t number) {
  return changeOrigin(loc, /*all=*/false,
                      [&](Origin &origin) { origin.result = number; });
}

Location mlir::optimus::fuseLocations(Location result, Location other) {
  return FusedLoc::get({result, other}, /*metadata=*/Attribute(),
                       result.getContext());
}

//===----------------------------------------------------------------------===//
// Ids
//===----------------------------------------------------------------------===//

int64_t mlir::optimus::getFirstResult(Location loc) {
  return getOrigin(loc).result;
}

/// The ids of results of an operation are `prefix + number + suffix`.
static std::pair<std::string, std::string> getIdParts(StringRef path,
                                                      const Origin &origin) {
  std::string prefix = path.str();
  if (origin.part) {
    prefix += prefix.empty() ? "" : " ";
    prefix += origin.part.getValue();
  }
  if (origin.ordinal > 0)
    prefix += ("#" + Twine(origin.ordinal)).str();
  return {prefix + ":", getSuffix(origin.phase)};
}

std::string mlir::optimus::getValueId(OpResult value) {
  Location loc = value.getOwner()->getLoc();
  Origin origin = getOrigin(loc);
  auto [prefix, suffix] = getIdParts(getPath(loc), origin);
  return prefix + std::to_string(origin.result + value.getResultNumber()) +
         suffix;
}

namespace {
/// The ids of one block.
class ValueIds {
public:
  void name(Operation &op) {
    StringRef path = getPath(op.getLoc());
    Origin origin = getOrigin(op.getLoc());
    // A value without a path is known by its kind.
    bool isKnown = !path.empty() || origin.part;
    if (isKnown && take(path, origin, op.getNumResults()))
      return;
    if (!origin.part) {
      origin.part = StringAttr::get(op.getContext(),
                                    op.getName().stripDialect());
      origin.ordinal = 0;
    }
    if (isKnown || !take(path, origin, op.getNumResults())) {
      int64_t &last = ordinals[getKey(path, origin)];
      do
        origin.ordinal = last++;
      while (!take(path, origin, op.getNumResults()));
    }
    op.setLoc(changeOrigin(op.getLoc(), /*all=*/false,
                           [&](Origin &old) { old = origin; }));
  }

private:
  static std::string getKey(StringRef path, Origin origin) {
    origin.ordinal = 0;
    auto [prefix, suffix] = getIdParts(path, origin);
    return prefix + suffix;
  }

  /// Takes the ids of as many results; false where one is taken.
  bool take(StringRef path, const Origin &origin, unsigned count) {
    auto [prefix, suffix] = getIdParts(path, origin);
    SmallVector<std::string> ids;
    for (unsigned i = 0; i < count; ++i) {
      ids.push_back(prefix + std::to_string(origin.result + i) + suffix);
      if (taken.contains(ids.back()))
        return false;
    }
    for (const std::string &id : ids)
      taken.insert(id);
    return true;
  }

  llvm::StringSet<> taken;
  /// The next ordinal to try, by the id without one.
  llvm::StringMap<int64_t> ordinals;
};
} // namespace

void mlir::optimus::nameValues(Block &block) {
  ValueIds ids;
  for (Operation &op : block)
    if (op.getNumResults() > 0)
      ids.name(op);
}

//===----------------------------------------------------------------------===//
// Diagnostics
//===----------------------------------------------------------------------===//

/// The message with its path before it.
static void prefixWithPath(Diagnostic &diagnostic) {
  StringRef path = getPath(diagnostic.getLocation());
  bool hasPaths = !path.empty();
  for (Diagnostic &note : diagnostic.getNotes())
    hasPaths |= !getPath(note.getLocation()).empty();
  if (!hasPaths)
    return;
  auto prefix = [](Location loc) {
    const std::string text = getPathWithPhase(loc);
    return text.empty() ? text : text + ": ";
  };
  Diagnostic longer(diagnostic.getLocation(), diagnostic.getSeverity());
  longer << prefix(diagnostic.getLocation()) + diagnostic.str();
  for (Diagnostic &note : diagnostic.getNotes())
    longer.attachNote(note.getLocation())
        << prefix(note.getLocation()) + note.str();
  diagnostic = std::move(longer);
}

void mlir::optimus::prefixDiagnosticsWithPaths(MLIRContext &context) {
  context.getDiagEngine().registerHandler([](Diagnostic &diagnostic) {
    prefixWithPath(diagnostic);
    // The handler that prints it comes next.
    return failure();
  });
}
