//===- Residuals.h - How far prices are from measurements -------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_PRICES_RESIDUALS_H
#define OPTIMUS_PRICES_RESIDUALS_H

#include "optimus/Prices/MachineProfile.h"

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace optimus_prices {

/// Errors of a formula between measured points: each point beside its price by
/// a profile without it.
///
///   points of products at 64, 128 and 256 take 1, 2 and 5
///   without the second, its formula says 2.3: ln(2.3 / 2) = 0.14, and so on
struct Residual {
  /// The root of the mean square of the logarithms of their ratio, points
  /// counting by their time, as in steps; 0.05 is about 5 %. The spread of a
  /// point itself is part of that, as far as points differ by it. A logarithm
  /// beyond three deviations of all, found by their median, counts as three.
  double size = 0;
  /// How far neighbouring points err alike: the correlation of their errors,
  /// from 0 to 1.
  double correlation = 0;

  /// The error of a sum of commands, by what those of each shape take. Commands
  /// of one shape err together, those of two shapes alike by the correlation:
  /// of n with as much time each and without a correlation it is size / √n.
  double ofSum(std::span<const double> shapes) const;

  bool operator==(const Residual &other) const = default;
};

struct Residuals {
  /// Nothing where fewer than two points were measured.
  std::optional<Residual> products, attention, packing, traffic;
  /// By kind, "all_reduce".
  std::map<std::string, Residual, std::less<>> collectives;

  /// Of a kind of command by getWorkName(), or of a collective or a message.
  std::optional<Residual> get(std::string_view kind) const;
};

/// Of the prices for so many ranks.
Residuals findResiduals(const MachineProfile &machine, int64_t numRanks);

} // namespace optimus_prices

#endif // OPTIMUS_PRICES_RESIDUALS_H
