//===- MeshOption.cpp - A mesh given on a command line -*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/Optimus/Transforms/MeshOption.h"

#include "optimus/Dialect/Optimus/IR/Optimus.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::optimus;

llvm::Expected<MeshOption> MeshOption::parse(StringRef text) {
  auto fail = [&](StringRef what) {
    return llvm::createStringError(
        llvm::formatv("bad mesh '{0}': {1}; expected axes and sizes like "
                      "'row:2,col:2'",
                      text, what)
            .str());
  };
  constexpr int64_t maxRanks = MeshOp::kMaxRanks;
  MeshOption mesh;
  SmallVector<StringRef> parts;
  text.split(parts, ',');
  int64_t ranks = 1;
  for (StringRef part : parts) {
    auto [name, size] = part.split(':');
    if (name.empty() || !llvm::all_of(name, [](char c) {
          return llvm::isAlnum(c) || c == '_';
        }))
      return fail(llvm::formatv("'{0}' has no axis name", part).str());
    int64_t extent = 0;
    if (size.getAsInteger(10, extent) || extent < 1 || extent > maxRanks)
      return fail(llvm::formatv("the size of axis '{0}' is '{1}', which is not "
                                "a number from 1 to {2}",
                                name, size, maxRanks)
                      .str());
    if (llvm::any_of(mesh.axes,
                     [&](const auto &axis) { return axis.first == name; }))
      return fail(llvm::formatv("axis '{0}' is named twice", name).str());
    ranks *= extent;
    if (ranks > maxRanks)
      return fail(llvm::formatv("more than {0} ranks", maxRanks).str());
    mesh.axes.emplace_back(name.str(), extent);
  }
  return mesh;
}

std::string MeshOption::toString() const {
  return llvm::join(
      llvm::map_range(
          axes,
          [](const auto &axis) {
            return llvm::formatv("{0}:{1}", axis.first, axis.second).str();
          }),
      ",");
}

int64_t MeshOption::getNumRanks() const {
  int64_t ranks = 1;
  for (const auto &axis : axes)
    ranks *= axis.second;
  return ranks;
}
