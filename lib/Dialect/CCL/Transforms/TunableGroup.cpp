//===- TunableGroup.cpp - Products that move alike --------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TunableProduct.h"

#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace mlir::ccl;

TunableGroup::TunableGroup(ArrayRef<TunableProduct> products,
                           optimus::MeshOp mesh,
                           const optimus::CostModel &costs)
    : products(products), mesh(mesh), costs(costs) {
  for (const TunableProduct &product : products)
    for (const Mover &mover : product.getMovers())
      if (llvm::none_of(movers, [&](const Mover &other) {
            return other.moved == mover.moved && other.axis == mover.axis;
          }))
        movers.push_back(mover);
}

bool TunableGroup::canHave(int64_t panels) const {
  return llvm::all_of(products, [&](const TunableProduct &product) {
    return product.canHave(panels);
  });
}

bool TunableGroup::haveOwners(int64_t panels) const {
  return llvm::all_of(
      movers, [&](const Mover &mover) { return mover.hasOwners(panels); });
}

double TunableGroup::getExtraBytes(int64_t panels) const {
  double bytes = 0, result = 0;
  for (const Mover &mover : movers) {
    if (panels > 1)
      bytes += 2 * mover.bytes / panels;
    else if (mover.isResult())
      result = std::max(result, mover.bytes);
    else
      bytes += mover.bytes;
  }
  for (const TunableProduct &product : products)
    bytes += product.getSumBytes(panels);
  return bytes + result;
}

/// Of the time with nothing else to do meanwhile, and the time in a program
/// with commands for all gaps: a group alone does not know which.
static double getMean(double alone, double filled) {
  return (alone + filled) / 2;
}

double TunableGroup::pricePanels(int64_t panels) const {
  double first = 0, last = 0, slowest = 0;
  llvm::StringMap<double> busy;
  for (const Mover &mover : movers) {
    double seconds = priceMove(mover, panels);
    slowest = std::max(slowest, busy[costs.getLink(mover.axis)] += seconds);
    if (mover.isLate)
      continue;
    if (mover.isResult())
      last += seconds;
    else if (!mover.isEarly)
      first = std::max(first, seconds);
  }
  double product = priceProducts(panels);
  double busiest = std::max(product, slowest);
  return getMean(std::max(panels * slowest,
                          first + (panels - 1) * busiest + product + last),
                 panels * busiest);
}

double TunableGroup::priceWhole() const {
  double operands = 0, results = 0, slowest = 0;
  llvm::StringMap<double> busy, due;
  for (const Mover &mover : movers) {
    double seconds = priceMove(mover, 1);
    StringRef link = costs.getLink(mover.axis);
    slowest = std::max(slowest, busy[link] += seconds);
    if (mover.isLate)
      continue;
    if (mover.isResult())
      results += seconds;
    else if (!mover.isEarly)
      operands = std::max(operands, due[link] += seconds);
  }
  double product = priceProducts(1);
  return getMean(std::max(slowest, operands + product + results),
                 std::max(slowest, product));
}

double TunableGroup::priceMove(const Mover &mover, int64_t panels) const {
  return costs.getCollectiveSeconds(mover.getKind(panels),
                                    optimus::getRankGroup(mesh, mover.axis),
                                    mover.bytes / panels);
}

/// One panel of all products.
double TunableGroup::priceProducts(int64_t panels) const {
  double seconds = 0;
  for (const TunableProduct &product : products)
    seconds += product.price(panels);
  for (const Mover &mover : movers)
    seconds += pricePacking(mover, panels);
  return seconds;
}

/// Copies that pack and unpack columns for collectives of stretches: an
/// owner's panel, or a rank's part of one and the blocks of all ranks.
double TunableGroup::pricePacking(const Mover &mover, int64_t panels) const {
  if (mover.isContiguous || !costs.packsColumns())
    return 0;
  double bytes = mover.bytes / panels;
  if (mover.hasOwners(panels))
    return costs.getCopySeconds(bytes);
  int64_t copies = mover.ranks + (panels > 1 ? 1 : 0);
  return copies * costs.getCopySeconds(bytes / mover.ranks);
}
