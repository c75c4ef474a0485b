//===- Tuning.cpp - What is known of the fastest products -----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-runtime/Tuning.h"

#include <cmath>
#include <nlohmann/json.hpp>

using Json = nlohmann::ordered_json;

namespace optrt {

static constexpr int kVersion = 1;
/// Texts have three; more would overflow the stack where they are printed.
static constexpr int kMostLevels = 16;

std::string Tuning::toJson() const {
  Json list = Json::array();
  for (const auto &[product, found] : products)
    list.push_back({{"product", product},
                    {"algorithm", found.algorithm},
                    {"seconds", found.seconds}});
  return Json{{"optimus_tuning", kVersion},
              {"machine", machine},
              {"products", list}}
             .dump(2, ' ', /*ensure_ascii=*/true) +
         "\n";
}

StatusOr<Tuning> Tuning::parse(std::string_view text) {
  bool tooDeep = false;
  const Json whole = Json::parse(
      text,
      [&](int level, Json::parse_event_t, Json &) {
        tooDeep |= level > kMostLevels;
        return !tooDeep;
      },
      /*allow_exceptions=*/false);
  if (tooDeep || !whole.is_object())
    return invalidArgument("expected a JSON object of tuned products");
  auto version = whole.find("optimus_tuning");
  if (version == whole.end() || *version != kVersion)
    return invalidArgument(
        concat("expected \"optimus_tuning\": ", kVersion, ", found ",
               version == whole.end() ? "none" : version->dump()));
  auto textOf = [](const Json &object, const char *key) {
    return object.is_object() && object.contains(key) && object[key].is_string()
               ? object[key].get<std::string>()
               : std::string();
  };
  Tuning tuning{textOf(whole, "machine"), {}};
  if (tuning.machine.empty() || !whole.contains("products") ||
      !whole["products"].is_array())
    return invalidArgument("expected the text \"machine\" and the list "
                           "\"products\"");
  for (const Json &entry : whole["products"]) {
    const std::string product = textOf(entry, "product"),
                      algorithm = textOf(entry, "algorithm");
    const bool isTimed = entry.is_object() && entry.contains("seconds") &&
                         entry["seconds"].is_number();
    const double seconds = isTimed ? entry["seconds"].get<double>() : -1;
    if (product.empty() || algorithm.empty() || !(seconds >= 0))
      return invalidArgument(
          concat("product ", tuning.products.size(),
                 ": expected the texts \"product\" and \"algorithm\" and "
                 "\"seconds\" of at least 0"));
    if (!tuning.products.try_emplace(product, algorithm, seconds).second)
      return invalidArgument(concat("lists ", product, " twice"));
  }
  return tuning;
}

} // namespace optrt
