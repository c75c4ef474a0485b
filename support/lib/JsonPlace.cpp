//===- JsonPlace.cpp - Reading JSON by its paths ----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/JsonPlace.h"

#include "optimus-support/NearestName.h"
#include "optimus-support/Nesting.h"

#include <algorithm>
#include <cmath>

using nlohmann::json;

namespace optimus_support {

namespace {
/// Where a parser is: in these arrays and objects, one in the other.
class ParserPath {
public:
  void note(json::parse_event_t event, const json &parsed) {
    switch (event) {
    case json::parse_event_t::object_start:
    case json::parse_event_t::array_start:
      levels.push_back({event == json::parse_event_t::array_start, 0, ""});
      return;
    case json::parse_event_t::key:
      levels.back().key = parsed.get<std::string>();
      return;
    case json::parse_event_t::object_end:
    case json::parse_event_t::array_end:
      levels.pop_back();
      break;
    case json::parse_event_t::value:
      break;
    }
    if (!levels.empty())
      ++levels.back().index;
  }

  std::string toString(std::string root) const {
    for (const Level &level : levels)
      root += level.isArray ? concat("[", level.index, "]") : "." + level.key;
    return root;
  }

private:
  struct Level {
    bool isArray;
    size_t index;
    std::string key;
  };
  std::vector<Level> levels;
};
} // namespace

JsonText::JsonText(std::string_view text, const std::string &name,
                   std::string root)
    : root(std::move(root)) {
  if (optimus_support::Status nesting =
          optimus_support::checkNesting(text, name);
      !nesting.ok()) {
    fail(nesting.message());
    return;
  }
  ParserPath path;
  try {
    value =
        json::parse(text, [&](int, json::parse_event_t event, json &parsed) {
          path.note(event, parsed);
          return true;
        });
  } catch (const json::out_of_range &) {
    // A number beyond what a double has.
    fail("expected a finite number from 0 at " + path.toString(this->root));
  } catch (const json::exception &error) {
    fail(describeJsonError(error));
  }
}

JsonPlace JsonText::getRoot() { return JsonPlace(this, &value, root); }

JsonPlace JsonPlace::operator[](const char *key) const {
  const json *member = nullptr;
  if (isObject())
    if (auto found = value->find(key); found != value->end())
      member = &*found;
  return JsonPlace(text, member, concat(path, ".", key));
}

void JsonPlace::forEach(const std::function<void(JsonPlace)> &read,
                        const char *expected) const {
  if (!value)
    return;
  if (!value->is_array())
    return fail("expected an array");
  for (size_t i = 0; i != value->size(); ++i) {
    JsonPlace entry(text, &(*value)[i], concat(path, "[", i, "]"));
    if (!entry.isObject())
      return entry.fail(expected);
    read(entry);
  }
}

void JsonPlace::forEachMember(
    const std::function<void(const std::string &, JsonPlace)> &read) const {
  if (!isObject())
    return fail("expected an object");
  for (const auto &[key, member] : value->items())
    read(key, JsonPlace(text, &member, concat(path, ".", key)));
}

void JsonPlace::readNumber(double &number) const {
  if (!value)
    return;
  if (!value->is_number() || !std::isfinite(value->get<double>()) ||
      value->get<double>() < 0)
    return fail("expected a finite number from 0");
  const double found = value->get<double>();
  if (found != 0 && (found < 1e-30 || found > 1e30))
    return fail("expected 0 or a number from 1e-30 to 1e30");
  number = found;
}

void JsonPlace::readPositive(double &number) const {
  readNumber(number);
  if (number == 0)
    fail("expected more than 0");
}

void JsonPlace::readBoolean(bool &flag) const {
  if (value && !value->is_boolean())
    fail("expected true or false");
  else if (value)
    flag = *value;
}

void JsonPlace::readCount(int64_t &count, int64_t least) const {
  if (!value)
    return;
  constexpr double kMost = double(int64_t(1) << 40);
  // 8.0 is an integer, too.
  const double found = value->is_number() ? value->get<double>() : -1;
  if (std::trunc(found) != found || found < double(least) || found > kMost)
    return fail(concat("expected an integer from ", least));
  count = static_cast<int64_t>(found);
}

void JsonPlace::refuseOthers(const std::vector<std::string> &known) const {
  if (!isObject())
    return fail("expected an object");
  for (const auto &[key, member] : value->items())
    if (std::find(known.begin(), known.end(), key) == known.end())
      return fail(
          concat("nothing is known of '", key, "'", didYouMean(key, known)));
}

} // namespace optimus_support
