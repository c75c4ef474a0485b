//===- NamedValues.h - NAME=VALUE,NAME=VALUE --------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_LIB_SIMULATION_NAMEDVALUES_H
#define OPTIMUS_LIB_SIMULATION_NAMEDVALUES_H

#include "optimus-support/NearestName.h"
#include "optimus-support/Status.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace optimus_simulation {

/// What stands before and after the last '='; `form` is what is expected.
optimus_support::StatusOr<std::pair<std::string, std::string_view>>
splitAssignment(std::string_view text, const std::string &form);

/// Times or sizes that are taken: in units by name, in seconds or bytes, and in
/// words.
struct QuantityRange {
  std::vector<std::pair<std::string_view, double>> units;
  double least, most;
  std::string expected;
};

/// "20us" in seconds, "25MiB" in bytes.
optimus_support::StatusOr<double> parseQuantity(std::string_view text,
                                                const QuantityRange &range);

/// The values of "NAME=VALUE,NAME=VALUE" in the order of `names`, each at most
/// once; `kind` is what a value is called, `parse` makes a number of its text.
template <typename Parse>
optimus_support::StatusOr<std::vector<std::optional<double>>>
parseNamedValues(std::string_view text, const std::vector<std::string> &names,
                 const std::string &kind, Parse parse) {
  std::string forms, plain;
  for (size_t i = 0; i != names.size(); ++i) {
    const char *before = i == 0 ? "" : i + 1 == names.size() ? " or " : ", ";
    forms += before + names[i] + "=" + kind;
    plain += before + names[i];
  }
  std::vector<std::optional<double>> values(names.size());
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    OPTRT_ASSIGN_OR_RETURN(auto assigned,
                           splitAssignment(text.substr(at, end - at), forms));
    const auto &[name, value] = assigned;
    const size_t number =
        std::find(names.begin(), names.end(), name) - names.begin();
    if (number == names.size())
      return optimus_support::invalidArgument(
          optimus_support::concat("expected ", plain, ", found '", name, "'",
                                  optimus_support::didYouMean(name, names)));
    if (values[number])
      return optimus_support::invalidArgument(
          optimus_support::concat("expected ", name, " once, found it twice"));
    OPTRT_ASSIGN_OR_RETURN(values[number], parse(value));
    at = end + 1;
  }
  return values;
}

} // namespace optimus_simulation

#endif // OPTIMUS_LIB_SIMULATION_NAMEDVALUES_H
