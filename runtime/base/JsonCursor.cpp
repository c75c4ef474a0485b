//===- JsonCursor.cpp - Reading JSON that nobody vouches for --------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "base/JsonCursor.h"

#include "optimus-support/JsonPlace.h"

#include <set>

using namespace optrt;
using nlohmann::json;

JsonDocument::JsonDocument(std::string_view text, std::string what,
                           StatusCode code)
    : what(std::move(what)), code(code) {
  // What is written for us has five levels. Printing a value that has a million
  // takes a million frames of the stack.
  constexpr int kMostLevels = 64;
  bool tooDeep = false;
  std::vector<std::set<std::string>> keys;
  std::string repeated;
  auto noteKeys = [&](int level, json::parse_event_t event, json &parsed) {
    tooDeep |= level > kMostLevels;
    if (event == json::parse_event_t::object_start)
      keys.emplace_back();
    else if (event == json::parse_event_t::object_end)
      keys.pop_back();
    else if (event == json::parse_event_t::key) {
      const std::string &key = parsed.get_ref<const std::string &>();
      if (!keys.back().insert(key).second && repeated.empty())
        repeated = key;
    }
    return !tooDeep;
  };
  try {
    value = json::parse(text, noteKeys);
  } catch (const json::exception &error) {
    value = json();
    fail("", optimus_support::describeJsonError(error));
    return;
  }
  if (tooDeep)
    fail("", concat("values lie more than ", kMostLevels, " deep"));
  if (!repeated.empty())
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

void JsonCursor::failExpected(const char *expected) const {
  if (value)
    fail(concat("expected ", expected, ", found ", value->type_name()));
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
