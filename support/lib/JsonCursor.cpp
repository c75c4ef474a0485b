//===- JsonCursor.cpp - Reading JSON that nobody vouches for --------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/JsonCursor.h"

#include "optimus-support/NearestName.h"

#include <algorithm>
#include <cmath>
#include <set>

using namespace optimus_support;
using nlohmann::json;

namespace {
/// Where a parser is: in these arrays and objects, one in the other.
class ParserPath {
public:
  /// False where an object has a key twice.
  bool note(json::parse_event_t event, const json &parsed) {
    switch (event) {
    case json::parse_event_t::object_start:
    case json::parse_event_t::array_start:
      levels.push_back({event == json::parse_event_t::array_start});
      return true;
    case json::parse_event_t::key: {
      auto [key, isNew] =
          levels.back().keys.insert(parsed.get_ref<const std::string &>());
      levels.back().key = &*key;
      return isNew;
    }
    case json::parse_event_t::object_end:
    case json::parse_event_t::array_end:
      levels.pop_back();
      break;
    case json::parse_event_t::value:
      break;
    }
    if (!levels.empty())
      ++levels.back().index;
    return true;
  }

  std::string toString() const {
    std::string path;
    for (const Level &level : levels)
      if (level.isArray)
        path += concat("[", level.index, "]");
      else if (level.key)
        path += (path.empty() ? "" : ".") + *level.key;
    return path;
  }

private:
  struct Level {
    bool isArray;
    size_t index = 0;
    const std::string *key = nullptr;
    std::set<std::string> keys = {};
  };
  std::vector<Level> levels;
};
} // namespace

/// "not valid JSON: parse error at line 2, column 1: …": what the parser says,
/// without its number for it.
static std::string describe(const json::exception &error) {
  const std::string_view text = error.what();
  const size_t label = text.find("] ");
  return concat("not valid JSON: ",
                label == text.npos ? text : text.substr(label + 2));
}

JsonDocument::JsonDocument(std::string_view text, std::string what,
                           StatusCode code)
    : what(std::move(what)), code(code) {
  // What is written for us has five levels. Printing a value that has a million
  // takes a million frames of the stack.
  constexpr int kMostLevels = 64;
  bool tooDeep = false;
  ParserPath path;
  std::string repeated;
  auto note = [&](int level, json::parse_event_t event, json &parsed) {
    tooDeep |= level > kMostLevels;
    if (tooDeep)
      return false;
    if (!path.note(event, parsed) && repeated.empty())
      repeated = parsed.get_ref<const std::string &>();
    return true;
  };
  std::string mistake;
  try {
    value = json::parse(text, note);
  } catch (const json::out_of_range &error) {
    // A number beyond what a double has.
    fail(path.toString(), describe(error));
  } catch (const json::exception &error) {
    mistake = describe(error);
  }
  if (tooDeep)
    fail("", concat("values lie more than ", kMostLevels, " deep"));
  else if (!mistake.empty())
    fail("", mistake);
  else if (!repeated.empty())
    fail("", concat("an object has the key \"", repeated, "\" twice"));
}

void JsonDocument::fail(const std::string &path, const std::string &message) {
  if (!failure.ok())
    return;
  failure =
      Status(code, concat(what, ": ", path, path.empty() ? "" : ": ", message));
}

JsonCursor JsonDocument::root() {
  return JsonCursor(this, failure.ok() ? &value : nullptr, "");
}

void JsonCursor::fail(const std::string &message) const {
  document->fail(place, message);
}

void JsonCursor::failExpected(const std::string &expected) const {
  if (value)
    fail(concat("expected ", expected, ", found ",
                value->is_number() ? value->dump() : value->type_name()));
}

void JsonCursor::refuseOthers(const std::vector<std::string> &known) const {
  for (const auto &[key, member] : members())
    if (std::ranges::find(known, key) == known.end())
      return fail(
          concat("nothing is known of '", key, "'", didYouMean(key, known)));
}

JsonCursor JsonCursor::child(const json &value, std::string_view key) const {
  return JsonCursor(document, &value,
                    concat(place, place.empty() ? "" : ".", key));
}

JsonCursor JsonCursor::find(const char *key) const {
  if (value && !value->is_object())
    failExpected("an object");
  else if (value) {
    auto found = value->find(key);
    if (found != value->end())
      return child(*found, key);
  }
  return JsonCursor(document, nullptr, place);
}

JsonCursor JsonCursor::operator[](const char *key) const {
  JsonCursor member = find(key);
  if (value && !member)
    fail(concat("no member \"", key, "\""));
  return member;
}

std::vector<JsonCursor> JsonCursor::elements() const {
  std::vector<JsonCursor> result;
  if (!value)
    return result;
  if (!value->is_array()) {
    failExpected("an array");
    return result;
  }
  for (size_t i = 0; i < value->size(); ++i)
    result.push_back(
        JsonCursor(document, &(*value)[i], concat(place, "[", i, "]")));
  return result;
}

std::vector<std::pair<std::string, JsonCursor>> JsonCursor::members() const {
  std::vector<std::pair<std::string, JsonCursor>> result;
  if (!value)
    return result;
  if (!value->is_object()) {
    failExpected("an object");
    return result;
  }
  for (auto &[key, member] : value->items())
    result.emplace_back(key, child(member, key));
  return result;
}

int64_t JsonCursor::integer(int64_t least, int64_t most) const {
  if (!value)
    return least;
  if (!value->is_number_integer()) {
    failExpected("an integer");
    return least;
  }
  bool large = value->is_number_unsigned() &&
               value->get<uint64_t>() > uint64_t(INT64_MAX);
  int64_t result = large ? INT64_MAX : value->get<int64_t>();
  if (large || result < least || result > most) {
    fail(concat("expected an integer from ", least, " to ", most, ", found ",
                value->dump()));
    return least;
  }
  return result;
}

int64_t JsonCursor::count(int64_t least) const {
  if (!value)
    return least;
  constexpr double kMost = double(int64_t(1) << 40);
  const double found = value->is_number() ? value->get<double>() : -1;
  if (std::trunc(found) != found || found < double(least) || found > kMost) {
    failExpected(concat("an integer from ", least));
    return least;
  }
  return static_cast<int64_t>(found);
}

uint64_t JsonCursor::unsignedInteger() const {
  if (!value)
    return 0;
  if (!value->is_number_unsigned()) {
    failExpected("a non-negative integer");
    return 0;
  }
  return value->get<uint64_t>();
}

double JsonCursor::number() const {
  if (!value)
    return 0;
  if (!value->is_number()) {
    failExpected("a number");
    return 0;
  }
  return value->get<double>();
}

double JsonCursor::numberFromZero() const {
  if (!value)
    return 0;
  const double found = value->is_number() ? value->get<double>() : -1;
  if (found == 0)
    return 0;
  if (!(found > 0))
    failExpected("a finite number from 0");
  else if (found < 1e-30 || found > 1e30)
    failExpected("0 or a number from 1e-30 to 1e30");
  else
    return found;
  return 0;
}

double JsonCursor::positiveNumber() const {
  const double found = numberFromZero();
  if (value && found == 0)
    failExpected("more than 0");
  return found;
}

bool JsonCursor::boolean() const {
  if (!value)
    return false;
  if (!value->is_boolean()) {
    failExpected("true or false");
    return false;
  }
  return value->get<bool>();
}

std::string JsonCursor::string() const {
  if (!value)
    return "";
  if (!value->is_string()) {
    failExpected("a string");
    return "";
  }
  return value->get<std::string>();
}

std::string JsonCursor::text() const {
  if (value && value->is_number())
    return value->dump();
  return string();
}

std::string JsonCursor::dump() const { return value ? value->dump() : "null"; }

std::vector<int64_t> JsonCursor::integers(int64_t least, int64_t most) const {
  std::vector<int64_t> result;
  for (const JsonCursor &element : elements())
    result.push_back(element.integer(least, most));
  return result;
}
