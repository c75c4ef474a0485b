//===- BlockComparison.cpp - Weights in blocks and parameters -------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BlockComparison.h"

#include "optimus-support/Program.h"
#include "optimus-support/WeightBlocks.h"

#include <algorithm>
#include <cmath>

using namespace optrt;
using optimus_support::BlockLayout;
using optimus_support::WeightBlocks;
using optimus_support::program::functionsOf;
using optimus_support::program::FunctionT;
using optimus_support::program::OperandT;
using optimus_support::program::PackMatrixT;

namespace optimus_run {
namespace {

/// A parameter and the blocks that are made of it.
struct Blocked {
  std::string parameter, blocks;
  const PackMatrixT *pack;
};

/// What a function makes, by its table.
std::vector<Blocked> findBlocked(const FunctionT &function) {
  auto argumentOf = [&](const OperandT &operand) -> const std::string & {
    const auto &place =
        *function.addresses[operand.address]->location.AsPlace();
    return function.arguments[place.index]->buffer;
  };
  std::vector<Blocked> found;
  for (const auto &command : function.commands)
    if (const PackMatrixT *pack = command->action.AsPackMatrix();
        pack && pack->blocks != WeightBlocks::None)
      found.push_back({argumentOf(*command->operands[0]),
                       argumentOf(*command->operands[1]), pack});
  return found;
}

/// Squares of norms, and what differs most.
struct Sums {
  double difference = 0, bound = 0, given = 0, found = 0, most = 0;
  bool isWithin = true;

  /// One rank's.
  void add(const PackMatrixT &pack, const float *elements, const void *blocks) {
    const BlockLayout layout{pack.blocks, pack.rows, pack.cols};
    std::vector<float> values(pack.rows);
    std::vector<double> bounds(pack.rows);
    for (int64_t col = 0; col != pack.cols; ++col) {
      readBlocks(layout, blocks, col, 0, pack.rows, values.data(),
                 bounds.data());
      for (int64_t row = 0; row != pack.rows; ++row)
        add(elements[pack.trans ? col * pack.ld + row : row * pack.ld + col],
            values[row], bounds[row]);
    }
  }
  TensorComparison compare(std::string name) const {
    TensorComparison result{std::move(name), most};
    const double norm = std::sqrt(std::max(given, found));
    if (norm > 0) {
      result.relativeDifference = std::sqrt(difference) / norm;
      result.bound = std::sqrt(bound) / norm;
    }
    result.same = isWithin;
    return result;
  }

private:
  void add(double element, double value, double allowed) {
    const double off = std::fabs(element - value);
    difference += off * off;
    bound += allowed * allowed;
    given += element * element;
    found += value * value;
    most = std::max(most, off);
    // What is no number is not within it.
    isWithin &= off <= allowed;
  }
};

} // namespace

std::vector<const Function *> findBlockPreparers(const ModelLibrary &library) {
  std::vector<const Function *> found;
  for (const auto *function : functionsOf(library.target()))
    if (function->prepares && !findBlocked(*function).empty())
      found.push_back(library.manifest().findFunction(function->name));
  return found;
}

StatusOr<std::vector<TensorComparison>> compareBlocks(Session &session) {
  const ModelLibrary &library = session.model();
  std::vector<TensorComparison> results;
  for (const Function *function : findBlockPreparers(library)) {
    OPTRT_RETURN_IF_ERROR(session.run(function->name).status());
    const auto functions = functionsOf(library.target());
    for (const Blocked &one : findBlocked(**std::ranges::find(
             functions, function->name, &FunctionT::name))) {
      Sums sums;
      for (int rank = 0; rank != library.manifest().mesh.numRanks(); ++rank) {
        std::vector<uint8_t> copies[2];
        OPTRT_ASSIGN_OR_RETURN(auto given,
                               session.shardOf(one.parameter, rank, copies[0]));
        OPTRT_ASSIGN_OR_RETURN(auto blocks,
                               session.shardOf(one.blocks, rank, copies[1]));
        sums.add(*one.pack, reinterpret_cast<const float *>(given.data()),
                 blocks.data());
      }
      results.push_back(sums.compare(
          concat(one.parameter, " in ", toString(one.pack->blocks))));
    }
  }
  return results;
}

} // namespace optimus_run
