//===- NearestName.h - What was meant by an unknown name --------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_SUPPORT_NEARESTNAME_H
#define OPTIMUS_SUPPORT_NEARESTNAME_H

#include <string>
#include <string_view>
#include <vector>

namespace optimus_support {

/// The known name that the fewest slips of the finger lead to: letters missing,
/// superfluous, wrong, or swapped with the next, or letters missing at its end.
/// Of flags, what follows their dashes counts. Empty where all are further away
/// than a third of the name's letters.
std::string nearestName(std::string_view name,
                        const std::vector<std::string> &known);

/// The end of a message about an unknown name: "; did you mean 'summa'?", or
/// "" where none is near; `quote` stands around the name.
std::string didYouMean(std::string_view name,
                       const std::vector<std::string> &known,
                       char quote = '\'');

} // namespace optimus_support

#endif // OPTIMUS_SUPPORT_NEARESTNAME_H
