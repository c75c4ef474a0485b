//===- DescribeCarried.h - What goes on behind a call, as text --*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_PRICES_DESCRIBECARRIED_H
#define OPTIMUS_PRICES_DESCRIBECARRIED_H

#include "optimus/Prices/StepTimeline.h"

#include <functional>
#include <string>

namespace optimus_prices {

/// "4 collectives of 1.2 ms, until 0.3 ms behind the end; 0.1 ms waiting for
/// earlier ones: 91.7 % hidden", with milliseconds as `formatMs` has them.
std::string describeCarried(const CarriedCollectives &carried,
                            const std::function<std::string(double)> &formatMs);

} // namespace optimus_prices

#endif // OPTIMUS_PRICES_DESCRIBECARRIED_H
