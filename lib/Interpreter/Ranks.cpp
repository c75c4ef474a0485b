//===- Ranks.cpp - The ranks of a mesh and what they hold -------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Interpreter/Ranks.h"

#include "optimus/Dialect/CCL/IR/CCL.h"

#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/APFloat.h"

using namespace mlir;
using namespace mlir::optimus;
using optimus_support::ShardLayout;

double mlir::optimus::getMagnitude(const Tensor &tensor) {
  double largest = 0;
  for (double x : tensor.elements) {
    if (std::isnan(x))
      return std::numeric_limits<double>::infinity();
    largest = std::max(largest, std::abs(x));
  }
  return largest;
}

double mlir::optimus::getDistance(const Tensor &a, const Tensor &b) {
  assert(a.shape == b.shape && "tensors of one shape");
  double largest = 0;
  for (auto [x, y] : llvm::zip_equal(a.elements, b.elements)) {
    if (x == y || (std::isnan(x) && std::isnan(y)))
      continue;
    double distance = std::abs(x - y);
    if (std::isnan(distance))
      return std::numeric_limits<double>::infinity();
    largest = std::max(largest, distance);
  }
  return largest;
}

static optimus_support::Mesh toMesh(MeshOp op) {
  std::vector<optimus_support::MeshAxis> axes;
  if (op)
    for (MeshAxisAttr axis : op.getAxisList())
      axes.push_back({axis.getName().str(), axis.getSize()});
  return optimus_support::Mesh(std::move(axes));
}

Ranks::Ranks(MeshOp mesh) : mesh(toMesh(mesh)) {}

SmallVector<SmallVector<int64_t>> Ranks::getGroups(StringRef name) const {
  int axis = *mesh.findAxis(name);
  SmallVector<SmallVector<int64_t>> groups;
  for (int64_t rank = 0; rank < getNumRanks(); ++rank) {
    if (mesh.coordinate(rank, axis) != 0)
      continue;
    std::vector<int64_t> coordinates = mesh.coordinates(rank);
    SmallVector<int64_t> &group = groups.emplace_back();
    for (int64_t i = 0; i < mesh.axisSize(axis); ++i) {
      coordinates[axis] = i;
      group.push_back(mesh.rank(coordinates));
    }
  }
  return groups;
}

std::string Ranks::describe(int64_t rank) const {
  std::string text = "rank " + std::to_string(rank);
  for (int axis = 0; axis < mesh.numAxes(); ++axis)
    text += (axis ? ", " : " (") + mesh.axes()[axis].name + " " +
            std::to_string(mesh.coordinate(rank, axis));
  return mesh.numAxes() ? text + ")" : text;
}

const Tensor &Ranks::get(Value value, int64_t rank) const {
  auto found = values.find(value);
  assert(found != values.end() && "operands are computed before their uses");
  return found->second[rank];
}

llvm::APFloat mlir::optimus::roundTo(FloatType type, double number) {
  llvm::APFloat value(number);
  bool loses;
  value.convert(type.getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven,
                &loses);
  return value;
}

void Ranks::set(Value value, SmallVector<Tensor> parts) {
  assert(static_cast<int64_t>(parts.size()) == getNumRanks() &&
         "one part a rank");
  auto element = dyn_cast<FloatType>(getElementTypeOrSelf(value));
  if (element && element.getWidth() < 32)
    for (Tensor &part : parts)
      for (double &number : part.elements)
        number = roundTo(element, number).convertToDouble();
  values[value] = std::move(parts);
}

ShardLayout Ranks::getLayout(Type type) const {
  ShardLayout layout;
  for (int64_t extent : ccl::getGlobalShape(type))
    layout.shape.push_back(extent);
  for (int64_t extent : cast<RankedTensorType>(type).getShape())
    layout.localShape.push_back(extent);
  for (size_t dim = 0; dim < layout.shape.size(); ++dim) {
    std::vector<int> &axes = layout.axes.emplace_back();
    for (StringRef axis : ccl::getDimAxes(type, dim))
      axes.push_back(*mesh.findAxis(axis.str()));
  }
  return layout;
}

ShardLayout Ranks::getPaddedLayout(Type type) const {
  ShardLayout layout = getLayout(type);
  for (size_t dim = 0; dim < layout.shape.size(); ++dim)
    layout.shape[dim] =
        layout.localShape[dim] * mesh.combinedSize(layout.axes[dim]);
  return layout;
}

SmallVector<Extent> Ranks::getExtents(Type type, int64_t rank) const {
  ShardLayout layout = getLayout(type);
  SmallVector<Extent> extents;
  for (size_t dim = 0; dim < layout.shape.size(); ++dim) {
    int64_t local = layout.localShape[dim];
    int64_t offset = mesh.combinedIndex(rank, layout.axes[dim]) * local;
    extents.push_back(
        {offset, std::clamp<int64_t>(layout.shape[dim] - offset, 0, local)});
  }
  return extents;
}

SmallVector<int> Ranks::getUnreducedAxes(Type type) const {
  SmallVector<int> axes;
  if (ccl::LocalAttr local = ccl::getLocal(type))
    for (StringRef axis : local.getSharding().getUnreducedAxes())
      axes.push_back(*mesh.findAxis(axis.str()));
  return axes;
}

int64_t Ranks::getFirstReplica(Type type, int64_t rank) const {
  SmallVector<bool> differs(mesh.numAxes(), false);
  for (const std::vector<int> &axes : getLayout(type).axes)
    for (int axis : axes)
      differs[axis] = true;
  for (int axis : getUnreducedAxes(type))
    differs[axis] = true;
  std::vector<int64_t> coordinates = mesh.coordinates(rank);
  for (int axis = 0; axis < mesh.numAxes(); ++axis)
    if (!differs[axis])
      coordinates[axis] = 0;
  return mesh.rank(coordinates);
}

SmallVector<Tensor> Ranks::shard(const Tensor &whole, Type type,
                                 double padding) const {
  ShardLayout layout = getLayout(type);
  SmallVector<int> partial = getUnreducedAxes(type);
  SmallVector<Tensor> parts;
  for (int64_t rank = 0; rank < getNumRanks(); ++rank) {
    Tensor part = Tensor::filled(layout.localShape, padding);
    // Of partial sums, the first rank holds the value and the others zeros.
    std::vector<int64_t> coordinates = mesh.coordinates(rank);
    if (llvm::any_of(partial,
                     [&](int axis) { return coordinates[axis] != 0; })) {
      parts.push_back(std::move(part));
      continue;
    }
    layout.forEachRun(mesh, rank, [&](const optimus_support::ShardRun &run) {
      std::copy_n(whole.elements.data() + run.globalOffset, run.count,
                  part.elements.data() + run.localOffset);
    });
    parts.push_back(std::move(part));
  }
  return parts;
}

Tensor Ranks::assemble(ArrayRef<Tensor> parts, Type type,
                       const ShardLayout &layout) const {
  Tensor whole = Tensor::zeros(layout.shape);
  for (int64_t rank = 0; rank < getNumRanks(); ++rank) {
    if (getFirstReplica(type, rank) != rank)
      continue;
    layout.forEachRun(mesh, rank, [&](const optimus_support::ShardRun &run) {
      for (int64_t i = 0; i < run.count; ++i)
        whole[run.globalOffset + i] += parts[rank][run.localOffset + i];
    });
  }
  return whole;
}

Tensor Ranks::assemble(ArrayRef<Tensor> parts, Type type) const {
  return assemble(parts, type, getLayout(type));
}

Tensor Ranks::assemble(Value value) const {
  return assemble(values.find(value)->second, value.getType());
}

Tensor Ranks::assemblePadded(Value value) const {
  return assemble(values.find(value)->second, value.getType(),
                  getPaddedLayout(value.getType()));
}
