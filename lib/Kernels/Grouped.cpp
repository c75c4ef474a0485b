//===- Grouped.cpp - One launch of a kernel on several pieces ---*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Kernels/Grouped.h"

#include "NestedSchedule.h"

#include "optimus/Kernels/GroupedLaunchSchedule.h"

#include "optimus-support/Sizes.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/xxhash.h"

using namespace mlir;
using namespace mlir::optimus;
using namespace mlir::optimus::kernels;

namespace {
/// The iteration of a piece is the launch's.
class NestedPiece final : public NestedSchedule {
public:
  NestedPiece(const KernelSchedule &base, const GroupedIteration &piece)
      : NestedSchedule(base, piece.iteration), piece(piece) {}

  void forElements(KernelBuilder &k, int64_t, int64_t,
                   ElementsFn body) const override {
    base.getGroupedLaunches()->forElements(k, piece, body);
  }

private:
  const GroupedIteration &piece;
};
} // namespace

/// The iterations of a piece.
static int64_t getCount(const IterationSpace &space) {
  return space.kind == IterationSpace::Elements ? space.cols : space.rows;
}

bool Grouped::isShared(StringRef name) const {
  return llvm::is_contained(shared, name);
}

void Grouped::visit(KernelParameters &parameters) {
  parameters.kernels(kPieces, pieces);
  parameters.names("buffers", buffers);
  parameters.names("shared", shared);
  parameters.require(isValid(parameters.getContext()),
                     "has pieces that do not fit each other, or the names of "
                     "their buffers");
}

bool Grouped::isValid(MLIRContext *context) const {
  if (pieces.empty())
    return false;
  KernelDescription model = pieces.front().describe(context);
  DictionaryAttr form = pieces.front().getForm(context);
  const IterationSpace &space = model.getSpace();
  llvm::StringMap<KernelOperand> known;
  optimus_support::CheckedSize iterations(0);
  for (auto [number, piece] : llvm::enumerate(pieces)) {
    KernelDescription description = piece.describe(context);
    const IterationSpace &own = description.getSpace();
    bool isAlike = piece.getForm(context) == form && own.kind == space.kind &&
                   own.lanes == space.lanes && own.group == 0 &&
                   own.pieces.empty() && description.getScalars().empty() &&
                   description.getOperands().size() == buffers.size();
    if (!isAlike ||
        (own.kind == IterationSpace::Elements
             ? own.rows != 1
             : own.cols != space.cols || own.getLength() != space.getLength()))
      return false;
    iterations = iterations + getCount(own);
    for (auto [operand, name] :
         llvm::zip_equal(description.getOperands(), buffers)) {
      auto [entry, isNew] = known.try_emplace(
          isShared(name) ? name : getOwnName(name, number), operand);
      const KernelOperand &first = entry->second;
      // No kernel writes an operand shared by all, and an in-place operand may
      // be the first.
      bool mayBeOne = isNew || operand.access == KernelAccess::Read ||
                      llvm::is_contained(operand.places, first.name);
      if (first.extent != operand.extent ||
          first.elementType != operand.elementType || !mayBeOne ||
          (isShared(name) && operand.access != KernelAccess::Read))
        return false;
    }
  }
  return iterations.isAtMost(optimus_support::kMaxElements) &&
         llvm::all_of(shared, [&](const std::string &name) {
           return llvm::is_contained(buffers, name);
         });
}

void Grouped::describe(KernelDescription &description) const {
  MLIRContext *context = description.getContext();
  SmallVector<int64_t> counts;
  std::string wires = llvm::join(buffers, ",") + ";" + llvm::join(shared, ",");
  std::vector<KernelDescription> parts;
  for (const Kernel &piece : pieces) {
    const KernelDescription &part = parts.emplace_back(piece.describe(context));
    counts.push_back(getCount(part.getSpace()));
    wires += ";" + part.getName();
  }
  auto share = [&](const KernelDescription &part, bool ofAll, size_t number) {
    for (auto [operand, name] : llvm::zip_equal(part.getOperands(), buffers))
      if (isShared(name) == ofAll)
        description.share(ofAll ? name : getOwnName(name, number), operand);
  };
  for (const KernelDescription &part : parts)
    share(part, /*ofAll=*/true, 0);
  for (auto [number, part] : llvm::enumerate(parts))
    share(part, /*ofAll=*/false, number);
  description.setStem(
      ("grouped_" + Twine(pieces.size()) + "_" + parts.front().getName())
          .str());
  description.text(llvm::utohexstr(llvm::xxh3_64bits(wires)));
  description.overPieces(parts.front().getSpace(), counts);
}

namespace {
/// Pieces that follow each other and have one body.
struct Run {
  const Kernel *kernel;
  size_t end;
};
} // namespace

/// Code for elements does not know their number.
static SmallVector<Run> findRuns(ArrayRef<Kernel> pieces,
                                 const IterationSpace &space,
                                 MLIRContext *context) {
  SmallVector<Run> runs;
  DictionaryAttr last;
  for (auto [number, piece] : llvm::enumerate(pieces)) {
    DictionaryAttr body = space.kind == IterationSpace::Elements
                              ? piece.getForm(context)
                              : piece.getParameters(context);
    if (body != last)
      runs.push_back({&piece, number});
    runs.back().end = number + 1;
    last = body;
  }
  return runs;
}

void Grouped::build(KernelBuilder &k) const {
  MLIRContext *context = k.getBuilder().getContext();
  const GroupedLaunchSchedule &schedule = *k.getSchedule().getGroupedLaunches();
  SmallVector<Run> runs = findRuns(pieces, k.getSpace(), context);
  schedule.forGrouped(k, [&](const GroupedIteration &piece) {
    llvm::StringMap<Value> chosen;
    SmallVector<Value> operands;
    for (const std::string &name : buffers) {
      Value &buffer = chosen[name];
      if (!buffer && isShared(name)) {
        buffer = k[name].getMemory();
      } else if (!buffer) {
        SmallVector<Value> candidates;
        for (size_t number = 0; number < pieces.size(); ++number)
          candidates.push_back(k[getOwnName(name, number)].getMemory());
        buffer = schedule.choose(k, candidates, piece.number);
      }
      operands.push_back(buffer);
    }
    NestedPiece within(k.getSchedule(), piece);
    std::function<void(ArrayRef<Run>)> write = [&](ArrayRef<Run> runs) {
      const Run &run = runs.front();
      auto writeThis = [&] {
        KernelDescription description = run.kernel->describe(context);
        KernelBuilder part(k, description, within, operands);
        run.kernel->build(part);
      };
      if (runs.size() == 1)
        return writeThis();
      k.when(k.less(piece.number, k.index(run.end)), writeThis,
             [&] { write(runs.drop_front()); });
    };
    write(runs);
  });
}
