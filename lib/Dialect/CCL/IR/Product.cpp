//===- Product.cpp - The form of a distributed product ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/CCL/IR/CCL.h"
#include "optimus/Dialect/Optimus/IR/MeshRanks.h"
#include "optimus/Dialect/Optimus/IR/SymbolicValues.h"

#include "mlir/IR/OpImplementation.h"
#include "llvm/ADT/StringExtras.h"

#include <array>
#include <numeric>

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

/// The group without dimensions in a tensor, streamed where the tensor stays:
/// A[M,K] lacks N, and so on.
static constexpr int streamedOf[3] = {2, 0, 1};

static ProductGroups getProductGroups(int64_t m, int64_t k, int64_t n,
                                      bool transposeA, bool transposeB) {
  ProductGroups groups;
  groups[0] = {{{transposeA ? k : 0, m}, {transposeA ? 0 : m, k}, {}}};
  groups[1] = {{{}, {transposeB ? n : 0, k}, {transposeB ? 0 : k, n}}};
  groups[2] = {{{0, m}, {}, {m, n}}};
  return groups;
}

static int64_t getRank(Value tensor) {
  return cast<RankedTensorType>(tensor.getType()).getRank();
}

static ProductGroups getProductGroups(MatmulOp op) {
  int64_t k = op.getContracting();
  return getProductGroups(getRank(op.getA()) - k, k, getRank(op.getB()) - k,
                          op.getTransposeA(), op.getTransposeB());
}

bool ProductSharding::isAlike(int group) const {
  return llvm::all_of(
      axes, [&](const StringRef(&tensor)[3]) { return tensor[group].empty(); });
}

std::optional<ProductForm::Tensor> ProductSharding::getStationary() const {
  std::optional<ProductForm::Tensor> stationary;
  for (auto tensor : {ProductForm::A, ProductForm::B, ProductForm::C}) {
    if (isAlike(streamedOf[tensor]))
      continue;
    // Two groups are sharded differently.
    if (stationary)
      return std::nullopt;
    stationary = tensor;
  }
  if (!stationary || *stationary == ProductForm::C)
    return stationary;
  StringRef moves = axes[ProductForm::C][streamedOf[*stationary]];
  if (!moves.empty() && !llvm::is_contained(shared[1], moves))
    return std::nullopt;
  return stationary;
}

SmallVector<StringRef>
ProductSharding::getUnreduced(ProductForm::Tensor stationary) const {
  SmallVector<StringRef> unreduced(shared[1]);
  if (stationary != ProductForm::C)
    llvm::erase(unreduced, axes[ProductForm::C][streamedOf[stationary]]);
  return unreduced;
}

FailureOr<ProductSharding> ccl::getProductSharding(int64_t numM, int64_t numK,
                                                   int64_t numN,
                                                   bool transposeA,
                                                   bool transposeB, MeshOp mesh,
                                                   GetProductAxes getAxes) {
  ProductGroups groups =
      getProductGroups(numM, numK, numN, transposeA, transposeB);
  constexpr int tensorsOf[3][2] = {{0, 2}, {0, 1}, {1, 2}};
  ProductSharding sharding;
  llvm::fill(llvm::MutableArrayRef(&sharding.dims[0][0], 9), -1);
  for (int group = 0; group < 3; ++group)
    for (int64_t i = 0; i < groups[tensorsOf[group][0]][group].size; ++i) {
      SmallVector<StringRef> axes[2];
      for (int side : {0, 1}) {
        int tensor = tensorsOf[group][side];
        axes[side] = getAxes(tensor, groups[tensor][group].begin + i);
        llvm::erase_if(axes[side], [&](StringRef axis) {
          return optimus::getRanksAlong(mesh, axis) == 1;
        });
      }
      size_t numShared = 0;
      while (numShared < std::min(axes[0].size(), axes[1].size()) &&
             axes[0][numShared] == axes[1][numShared])
        sharding.shared[group].push_back(axes[0][numShared++]);
      for (int side : {0, 1}) {
        int tensor = tensorsOf[group][side], other = tensorsOf[group][1 - side];
        if (axes[side].size() == numShared)
          continue;
        int64_t dim = groups[tensor][group].begin + i;
        int64_t otherDim = groups[other][group].begin + i;
        if (axes[side].size() > numShared + 1 ||
            sharding.dims[tensor][group] >= 0)
          return failure();
        // Both are streamed along one dimension.
        if (sharding.dims[other][group] >= 0 &&
            sharding.dims[other][group] != otherDim)
          return failure();
        sharding.axes[tensor][group] = axes[side].back();
        sharding.dims[tensor][group] = dim;
      }
    }
  return sharding;
}

FailureOr<ProductSharding> ccl::getProductSharding(MatmulOp op) {
  MeshOp mesh = optimus::getMesh(op);
  if (!mesh)
    return failure();
  int64_t k = op.getContracting();
  Value values[3] = {op.getA(), op.getB(), op.getResult()};
  return getProductSharding(getRank(op.getA()) - k, k, getRank(op.getB()) - k,
                            op.getTransposeA(), op.getTransposeB(), mesh,
                            [&](int tensor, int64_t dim) {
                              return getDimAxes(values[tensor].getType(), dim);
                            });
}

FailureOr<ProductForm> ccl::getProductForm(MatmulOp op) {
  FailureOr<ProductSharding> sharding = getProductSharding(op);
  if (failed(sharding))
    return failure();
  ProductForm form;
  StringRef name = op.getStationary();
  if (name != "a" && name != "b" && name != "c")
    return failure();
  form.stationary = name == "a"   ? ProductForm::A
                    : name == "b" ? ProductForm::B
                                  : ProductForm::C;
  MeshOp mesh = optimus::getMesh(op);
  for (int tensor = 0; tensor < 3; ++tensor) {
    if (tensor == form.stationary)
      continue;
    StringRef axis = sharding->axes[tensor][streamedOf[form.stationary]];
    form.moves[tensor] = axis;
    if (!axis.empty())
      form.blocks = std::lcm(form.blocks, *mesh.getAxisSize(axis));
  }
  form.panels = op.getPanels();
  return form;
}

bool ccl::canDivideIntoPanels(int64_t extent, int64_t blocks, int64_t panels) {
  int64_t parts = panels % blocks == 0 ? panels : blocks * panels;
  return extent % parts == 0;
}

SmallVector<Operation *> ccl::getProductGroup(Operation *op) {
  SmallVector<Operation *> group = {op};
  Attribute mark = op->getDiscardableAttr(kProductGroup);
  if (!mark)
    return group;
  while (Operation *next = group.back()->getNextNode()) {
    if (next->getDiscardableAttr(kProductGroup) != mark)
      break;
    group.push_back(next);
  }
  return group;
}

// The contracted group on all ranks: panels and reductions are an order of that
// sum, and any order adds a term up at most so many times.
double MatmulOp::countRoundings(unsigned result) {
  auto type = cast<RankedTensorType>(getA().getType());
  DimGroup contracted = getProductGroups(*this)[ProductForm::A][1];
  MeshOp mesh = optimus::getMesh(*this);
  double extent = 1;
  for (int64_t i = 0; i < contracted.size; ++i) {
    int64_t dim = contracted.begin + i;
    extent *= static_cast<double>(type.getDimSize(dim)) *
              mesh.getProduct(getDimAxes(type, dim));
  }
  return extent;
}

//===----------------------------------------------------------------------===//
// Verification
//===----------------------------------------------------------------------===//

namespace {
/// Checks a product on a mesh with its axes, after its ranks agree.
class ProductVerifier {
public:
  ProductVerifier(MatmulOp op, MeshOp mesh, const ProductSharding &sharding,
                  const ProductForm &form)
      : op(op), mesh(mesh), sharding(sharding), form(form),
        stationary(form.stationary), streamed(streamedOf[stationary]),
        groups(getProductGroups(op)),
        types{cast<RankedTensorType>(op.getA().getType()),
              cast<RankedTensorType>(op.getB().getType()),
              cast<RankedTensorType>(op.getResult().getType())} {}

  LogicalResult verify() {
    if (failed(verifyExtents()) || failed(verifyShardings()) ||
        failed(verifyPanels()))
      return failure();
    if (failed(verifyPartialSums()))
      return failure();
    return verifyElements();
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

  /// C5
  LogicalResult verifyShardings() {
    for (int t = 0; t < 3; ++t)
      for (int g = 0; g < 3; ++g)
        if (t != stationary && g != streamed && groups[t][g].size > 0 &&
            groups[stationary][g].size > 0 && !sharding.isAlike(g))
          return op.emitOpError("C5: expected ")
                 << getGroupName(g) << " to be sharded alike in " << getName(t)
                 << " and in " << getName(stationary) << ", which stays, found "
                 << types[t] << " and " << types[stationary];
    return success();
  }

  /// C3
  LogicalResult verifyPanels() {
    int64_t panels = form.panels, blocks = form.blocks;
    if (panels > kMostPanels)
      return op.emitOpError("C3: expected at most ")
             << kMostPanels << " panels, found " << panels;
    // A group of no dimensions is one row or column.
    int64_t padded = 1;
    for (int t = 0; t < 3; ++t) {
      if (t == stationary)
        continue;
      StringRef axis = form.moves[t];
      if (!axis.empty())
        padded = types[t].getDimSize(sharding.dims[t][streamed]) *
                 *mesh.getAxisSize(axis);
      else if (sharding.isAlike(streamed) && groups[t][streamed].size > 0)
        padded = types[t].getDimSize(groups[t][streamed].begin);
    }
    if (canDivideIntoPanels(padded, blocks, panels))
      return success();
    if (form.hasOwners())
      return op.emitOpError("C3: expected a number of panels that divides ")
             << padded << ", the padded extent of " << getGroupName(streamed)
             << ", found " << panels;
    return op.emitOpError("C3: expected a number of panels that divides ")
           << padded / blocks << ", what each of " << blocks
           << " blocks has of " << getGroupName(streamed)
           << ", or a multiple of " << blocks << ", found " << panels;
  }

  /// C6
  LogicalResult verifyPartialSums() {
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
               << getName(t) << " without partial sums, found " << types[t];
    StringRef moves;
    if (stationary != ProductForm::C)
      moves = sharding.axes[ProductForm::C][streamed];
    SmallVector<StringRef> expected = sharding.getUnreduced(stationary);
    llvm::sort(expected);
    if ((!moves.empty() && !llvm::is_contained(sharding.shared[1], moves)) ||
        unreduced[ProductForm::C] != expected)
      return op.emitOpError("C6: expected c to be reduced to its owners or "
                            "unreduced over {")
             << llvm::join(sharding.shared[1], ", ")
             << "}, which shard the contracted index, found "
             << types[ProductForm::C];
    return success();
  }

  /// C7
  LogicalResult verifyElements() {
    Type a = types[ProductForm::A].getElementType(),
         b = types[ProductForm::B].getElementType(),
         c = types[ProductForm::C].getElementType();
    if (a == b && (c == a || c.isF32()))
      return success();
    return op.emitOpError("C7: expected a and b of one element type, and a "
                          "result of it or f32, found ")
           << a << ", " << b << " and " << c;
  }

  MatmulOp op;
  MeshOp mesh;
  const ProductSharding &sharding;
  const ProductForm &form;
  ProductForm::Tensor stationary;
  int streamed;
  ProductGroups groups;
  RankedTensorType types[3];
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
  int64_t rankA = getRank(getA()), rankB = getRank(getB()),
          rankC = getRank(getResult());
  int64_t k = getContracting();
  if (rankA < k || rankB < k || rankC != rankA + rankB - 2 * k)
    return emitOpError("C4: expected ranks that agree with ")
           << k << " contracted dimensions, found " << getA().getType() << ", "
           << getB().getType() << " and " << getResult().getType();
  FailureOr<ProductSharding> sharding = getProductSharding(*this);
  FailureOr<ProductForm> form = getProductForm(*this);
  if (failed(sharding) || failed(form))
    return emitOpError("C2: expected each group of dimensions to be sharded by "
                       "one axis at most beyond those that shard it alike in "
                       "both tensors, along one dimension");
  return ProductVerifier(*this, mesh, *sharding, *form).verify();
}

void MatmulOp::setSymbolicValues(optimus::SymbolicValues &symbolic) {
  symbolic.use(optimus::Lemma::DistributedProduct);
  symbolic.set(getResult(),
               optimus::detail::makeProduct(symbolic, getA(), getB(),
                                            getResult(), getContracting(),
                                            getTransposeA(), getTransposeB()));
}
