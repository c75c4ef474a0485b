//===- Product.cpp - The form of a distributed product ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/CCL/IR/CCL.h"

#include "mlir/IR/OpImplementation.h"

#include <array>

using namespace mlir;
using namespace mlir::ccl;
using optimus::MeshOp;

namespace {
/// A group of dimensions of one tensor, [begin, begin + size).
struct DimGroup {
  int64_t begin = 0, size = 0;
};

/// Element [t][g] says where group g (0 M, 1 K, 2 N) lies in tensor t (0 A,
/// 1 B, 2 C); of size 0 where the group is not the tensor's.
using ProductGroups = std::array<std::array<DimGroup, 3>, 3>;
} // namespace

/// The group that a tensor lacks, which is streamed where the tensor stays:
/// A[M,K] lacks N, and so on.
static constexpr int streamedOf[3] = {2, 0, 1};

static ProductGroups getProductGroups(Type a, Type b, int64_t contracting,
                                      bool transposeA, bool transposeB) {
  auto rank = [](Type type) { return cast<RankedTensorType>(type).getRank(); };
  int64_t k = contracting, m = rank(a) - k, n = rank(b) - k;
  ProductGroups groups;
  groups[0] = {{{transposeA ? k : 0, m}, {transposeA ? 0 : m, k}, {}}};
  groups[1] = {{{}, {transposeB ? n : 0, k}, {transposeB ? 0 : k, n}}};
  groups[2] = {{{0, m}, {}, {m, n}}};
  return groups;
}

FailureOr<ProductAxes> ccl::getProductAxes(Type a, Type b, Type c,
                                           int64_t contracting, bool transposeA,
                                           bool transposeB) {
  ProductGroups groups =
      getProductGroups(a, b, contracting, transposeA, transposeB);
  Type types[3] = {a, b, c};
  ProductAxes result;
  for (int t = 0; t < 3; ++t)
    for (int g = 0; g < 3; ++g) {
      result.dims[t][g] = -1;
      for (int64_t i = 0; i < groups[t][g].size; ++i) {
        int64_t dim = groups[t][g].begin + i;
        SmallVector<StringRef> axes = getDimAxes(types[t], dim);
        if (axes.empty())
          continue;
        if (axes.size() > 1 || result.dims[t][g] >= 0)
          return failure();
        result.axes[t][g] = axes.front();
        result.dims[t][g] = dim;
      }
    }
  return result;
}

FailureOr<ProductForm> ccl::getProductForm(MatmulOp op) {
  FailureOr<ProductAxes> axes = getProductAxes(
      op.getA().getType(), op.getB().getType(), op.getResult().getType(),
      op.getContracting(), op.getTransposeA(), op.getTransposeB());
  if (failed(axes))
    return failure();
  ProductForm form;
  StringRef name = op.getStationary();
  if (name != "a" && name != "b" && name != "c")
    return failure();
  form.stationary = name == "a"   ? ProductForm::A
                    : name == "b" ? ProductForm::B
                                  : ProductForm::C;
  int streamed = streamedOf[form.stationary];
  MeshOp mesh = optimus::getMesh(op);
  for (int t = 0; t < 3; ++t) {
    StringRef axis = axes->axes[t][streamed];
    if (t != form.stationary && mesh && mesh.getAxisSize(axis).value_or(1) > 1)
      form.moves[t] = axis;
  }
  form.panels = op.getPanels();
  return form;
}

//===----------------------------------------------------------------------===//
// Verification
//===----------------------------------------------------------------------===//

namespace {
/// Checks a product whose ranks agree, on a mesh that has its axes. Axes of
/// one rank cut nothing here.
class ProductVerifier {
public:
  ProductVerifier(MatmulOp op, MeshOp mesh, const ProductAxes &productAxes,
                  int stationary)
      : op(op), mesh(mesh), stationary(stationary),
        streamed(streamedOf[stationary]),
        groups(getProductGroups(op.getA().getType(), op.getB().getType(),
                                op.getContracting(), op.getTransposeA(),
                                op.getTransposeB())),
        types{cast<RankedTensorType>(op.getA().getType()),
              cast<RankedTensorType>(op.getB().getType()),
              cast<RankedTensorType>(op.getResult().getType())} {
    for (int t = 0; t < 3; ++t)
      for (int g = 0; g < 3; ++g) {
        StringRef axis = productAxes.axes[t][g];
        if (mesh.getAxisSize(axis).value_or(1) == 1)
          continue;
        axes[t][g] = axis;
        positions[t][g] = productAxes.dims[t][g] - groups[t][g].begin;
      }
  }

  LogicalResult verify() {
    if (failed(verifyExtents()) || failed(verifyCuts()) ||
        failed(verifyPanels()))
      return failure();
    return verifyAddends();
  }

private:
  static StringRef getName(int tensor) {
    return StringRef("abc").substr(tensor, 1);
  }
  static StringRef getGroupName(int group) {
    return StringRef("MKN").substr(group, 1);
  }

  int64_t getWhole(int t, int g, int64_t position) {
    return getGlobalShape(types[t])[groups[t][g].begin + position];
  }
  int64_t getPadded(int t, int g, int64_t position) {
    int64_t dim = groups[t][g].begin + position;
    return types[t].getDimSize(dim) *
           mesh.getProduct(getDimAxes(types[t], dim));
  }

  /// C4: A and B share K, A and C share M, B and C share N.
  LogicalResult verifyExtents() {
    constexpr int sharing[3][2] = {{0, 2}, {0, 1}, {1, 2}};
    for (int g = 0; g < 3; ++g) {
      auto [s, t] = sharing[g];
      for (int64_t i = 0; i < groups[s][g].size; ++i)
        if (getWhole(s, g, i) != getWhole(t, g, i) ||
            getPadded(s, g, i) != getPadded(t, g, i))
          return op.emitOpError("C4: expected equal extents of ")
                 << getGroupName(g) << " in " << getName(s) << " and "
                 << getName(t) << ", found " << getWhole(s, g, i)
                 << " padded to " << getPadded(s, g, i) << " and "
                 << getWhole(t, g, i) << " padded to " << getPadded(t, g, i);
    }
    return success();
  }

  /// The second half of C2, and C5.
  LogicalResult verifyCuts() {
    int64_t position = -1;
    for (int t = 0; t < 3; ++t) {
      for (int g = 0; g < 3; ++g)
        if (t != stationary && g != streamed && groups[t][g].size > 0 &&
            groups[stationary][g].size > 0 &&
            (axes[t][g] != axes[stationary][g] ||
             positions[t][g] != positions[stationary][g]))
          return op.emitOpError("C5: expected ")
                 << getGroupName(g) << " to be cut alike in " << getName(t)
                 << " and in " << getName(stationary) << ", which stays, found "
                 << types[t] << " and " << types[stationary];
      if (t == stationary || axes[t][streamed].empty())
        continue;
      if (position >= 0 && positions[t][streamed] != position)
        return op.emitOpError("C2: expected the streamed index ")
               << getGroupName(streamed)
               << " to be cut along one dimension of its group, found "
               << position << " and " << positions[t][streamed];
      position = positions[t][streamed];
    }
    streamedPosition = position < 0 ? 0 : position;
    return success();
  }

  /// C3
  LogicalResult verifyPanels() {
    int64_t panels = op.getPanels();
    for (int t = 0; t < 3; ++t) {
      if (t == stationary || axes[t][streamed].empty())
        continue;
      int64_t size = *mesh.getAxisSize(axes[t][streamed]);
      if (panels % size != 0)
        return op.emitOpError("C3: expected a number of panels that is a "
                              "multiple of ")
               << size << ", the size of \"" << axes[t][streamed]
               << "\", found " << panels;
    }
    int t = stationary == 0 ? 1 : 0;
    // A group of no dimensions is one row or column.
    int64_t padded = groups[t][streamed].size == 0
                         ? 1
                         : getPadded(t, streamed, streamedPosition);
    if (padded % panels != 0)
      return op.emitOpError("C3: expected a number of panels that divides ")
             << padded << ", the padded extent of " << getGroupName(streamed)
             << ", found " << panels;
    return success();
  }

  /// C6
  LogicalResult verifyAddends() {
    SmallVector<StringRef> unreduced[3];
    for (int t = 0; t < 3; ++t)
      if (LocalAttr local = getLocal(types[t])) {
        unreduced[t] = local.getSharding().getUnreducedAxes();
        llvm::erase_if(unreduced[t], [&](StringRef axis) {
          return *mesh.getAxisSize(axis) == 1;
        });
      }
    for (int t : {ProductForm::A, ProductForm::B})
      if (!unreduced[t].empty())
        return op.emitOpError("C6: expected ")
               << getName(t) << " without addends, found " << types[t];
    constexpr int contracted = 1, c = ProductForm::C;
    // Where the result stays, every rank adds all panels up itself.
    StringRef summed =
        stationary == c ? StringRef() : axes[stationary][contracted];
    StringRef moves = stationary == c ? StringRef() : axes[c][streamed];
    SmallVector<StringRef> expected;
    if (moves.empty() && !summed.empty())
      expected.push_back(summed);
    if ((!moves.empty() && moves != summed) || unreduced[c] != expected)
      return op.emitOpError("C6: expected c to be reduced to its owners or "
                            "unreduced over \"")
             << summed << "\", which alone cuts the contracted index, found "
             << types[c];
    return success();
  }

  MatmulOp op;
  MeshOp mesh;
  int stationary, streamed;
  ProductGroups groups;
  RankedTensorType types[3];
  StringRef axes[3][3];
  /// Which dimension of its group is cut, or -1.
  int64_t positions[3][3] = {{-1, -1, -1}, {-1, -1, -1}, {-1, -1, -1}};
  int64_t streamedPosition = 0;
};
} // namespace

LogicalResult MatmulOp::verify() {
  StringRef name = getStationary();
  if (name != "a" && name != "b" && name != "c")
    return emitOpError(
               "C1: expected stationary \"a\", \"b\" or \"c\", found \"")
           << name << '"';
  MeshOp mesh = optimus::getMesh(*this);
  if (!mesh)
    return emitOpError("expected a mesh in the module, found none");
  if (failed(verifyLocalTypes(*this)))
    return failure();
  int64_t rankA = cast<RankedTensorType>(getA().getType()).getRank();
  int64_t rankB = cast<RankedTensorType>(getB().getType()).getRank();
  int64_t rankC = cast<RankedTensorType>(getResult().getType()).getRank();
  int64_t k = getContracting();
  if (rankA < k || rankB < k || rankC != rankA + rankB - 2 * k)
    return emitOpError("C4: expected ranks that agree with ")
           << k << " contracted dimensions, found " << getA().getType() << ", "
           << getB().getType() << " and " << getResult().getType();
  FailureOr<ProductAxes> axes =
      getProductAxes(getA().getType(), getB().getType(), getResult().getType(),
                     k, getTransposeA(), getTransposeB());
  FailureOr<ProductForm> form = getProductForm(*this);
  if (failed(axes) || failed(form))
    return emitOpError("C2: expected each group of dimensions to be cut by "
                       "one axis at most");
  return ProductVerifier(*this, mesh, *axes, form->stationary).verify();
}
