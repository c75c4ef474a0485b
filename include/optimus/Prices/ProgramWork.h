//===- ProgramWork.h - Commands of tables as prices see them ----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What passes read from `exec` operations (optimus/Analysis/CommandWork.h),
// read from the table of a model library. Both give the same prices.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_PRICES_PROGRAMWORK_H
#define OPTIMUS_PRICES_PROGRAMWORK_H

#include "optimus/Prices/CollectivePrices.h"
#include "optimus/Prices/ReuseDistances.h"

#include "optimus-support/Program.h"
#include "optimus-support/ProgramLifetimes.h"

#include <vector>

namespace optimus_prices {

/// What a command other than a collective, a message or a wait computes.
CommandWork getCommandWork(const optimus_support::program::TargetT &target,
                           const optimus_support::program::CommandT &command);

/// Its name in reports: "gemm", "launch", "copy", ...
std::string_view getWorkName(const optimus_support::program::CommandT &command);

/// Numbers that commands of one shape have: products of the same extents, the
/// same kernel, collectives of as many bytes. What their formula errs by is the
/// same.
std::vector<int64_t>
getShape(const optimus_support::program::TargetT &target,
         const optimus_support::program::CommandT &command);

/// The ranks that differ on these axes only, as seen by one of them.
RankGroup getRankGroup(const optimus_support::Mesh &mesh,
                       std::span<const uint32_t> axes);

/// The bytes of a collective's whole tensor.
double getWholeBytes(const optimus_support::program::CommandT &command,
                     int64_t ranks);

/// Follows the commands of a checked function in their order.
class ProgramReuse {
public:
  /// So many ranks take turns on a core.
  ProgramReuse(const optimus_support::program::TargetT &target,
               const optimus_support::program::FunctionT &function,
               double ranksOfCore)
      : target(target), function(function), alive(function),
        distances(ranksOfCore) {}

  /// What the next command touches.
  std::vector<Touch> advance();

private:
  /// The numbers of stretches of memory with the same contents as long as they
  /// are alive, in which an address may lie: one a choice.
  void collectBases(uint32_t address, std::vector<uint64_t> &bases) const;
  uint64_t getBase(const optimus_support::program::PlaceT &place) const;

  const optimus_support::program::TargetT &target;
  const optimus_support::program::FunctionT &function;
  uint32_t next = 0;
  optimus_support::program::LiveBuffers alive;
  ReuseDistances distances;
};

} // namespace optimus_prices

#endif // OPTIMUS_PRICES_PROGRAMWORK_H
