//===- ModelRecord.cpp - What a checkpoint keeps of its model -------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-runtime/ModelRecord.h"

#include "ModelRecordJson.h"
#include "optimus-runtime/Status.h"
#include "optimus-support/Hash.h"

#include <algorithm>
#include <set>

using namespace optrt;
using nlohmann::json;

bool optrt::areComparable(const std::optional<ModelFunction> &first,
                          const std::optional<ModelFunction> &second) {
  return first && second && first->version == second->version;
}

/// Calls `visit(name, ofFirst, ofSecond)` for what differs; the facts are null
/// where there is none.
template <typename Visit>
static void forEachDifference(const ModelFacts &first, const ModelFacts &second,
                              Visit visit) {
  std::set<std::string> names;
  for (const ModelFacts *facts : {&first, &second})
    for (const auto &[name, fact] : *facts)
      names.insert(name);
  auto find = [](const ModelFacts &facts, const std::string &name) {
    auto found = facts.find(name);
    return found == facts.end() ? nullptr : &found->second;
  };
  for (const std::string &name : names) {
    const ModelFact *one = find(first, name), *other = find(second, name);
    if (!one || !other || one->value != other->value)
      visit(name, one, other);
  }
}

/// For people: without the quotes of a string.
static std::string print(const ModelFact *fact) {
  if (!fact)
    return "none";
  const std::string &value = fact->value;
  bool isString = value.size() >= 2 && value.front() == '"';
  return isString ? value.substr(1, value.size() - 2) : value;
}

/// "--heads 6", "--untied".
static std::string printFlag(const ModelFact &fact) {
  if (fact.value == "true")
    return fact.flag;
  if (fact.value == "false")
    return concat("--un",
                  fact.flag.substr(std::min<size_t>(2, fact.flag.size())));
  return concat(fact.flag, " ", print(&fact));
}

std::string optrt::toString(const ModelFacts &facts) {
  std::string text;
  for (const auto &[name, fact] : facts)
    text += concat(text.empty() ? "" : ", ", name, " ", print(&fact));
  return text;
}

std::string optrt::describeDifference(const ModelFunction &first,
                                      std::string_view nameOfFirst,
                                      const ModelFunction &second,
                                      std::string_view nameOfSecond) {
  std::string differences, flags;
  auto add = [&](const std::string &name, const ModelFact *one,
                 const ModelFact *other) {
    differences +=
        concat(differences.empty() ? "" : "; ", name, ": ", nameOfFirst, " ",
               print(one), ", ", nameOfSecond, " ", print(other));
    if (one && !one->flag.empty())
      flags += concat(" ", printFlag(*one));
  };
  forEachDifference(first.facts, second.facts, add);
  if (differences.empty() && first.hash != second.hash)
    differences = concat("what computes the loss: ", nameOfFirst, " has hash ",
                         first.hash, ", ", nameOfSecond, " ", second.hash);
  if (flags.empty())
    return differences;
  return concat(differences, "; compile a program built with", flags);
}

std::string optrt::describeChanges(const ModelFacts &now,
                                   const ModelFacts &before) {
  std::string changes;
  forEachDifference(
      now, before,
      [&](const std::string &name, const ModelFact *one, const ModelFact *old) {
        changes += concat(changes.empty() ? "" : ", ", name, " ", print(one),
                          " (was ", print(old), ")");
      });
  return changes;
}

std::string optrt::readHashDigits(const JsonCursor &cursor) {
  std::string text = cursor.string();
  if (!optimus_support::hashFromHex(text))
    cursor.fail(concat("expected 16 lower-case hexadecimal digits, found \"",
                       text, "\""));
  return text;
}

ModelFacts optrt::readFacts(const JsonCursor &cursor) {
  ModelFacts facts;
  for (const auto &[name, member] : cursor.members()) {
    ModelFact &fact = facts[name];
    fact.value = member["value"].dump();
    if (JsonCursor flag = member.find("flag"))
      fact.flag = flag.string();
  }
  return facts;
}

ModelFunction optrt::readModelFunction(const JsonCursor &cursor) {
  ModelFunction function;
  function.version = cursor["version"].integer(0, INT64_MAX);
  function.hash = readHashDigits(cursor["hash"]);
  function.facts = readFacts(cursor["facts"]);
  return function;
}

ModelRecord optrt::readModelRecord(const JsonCursor &cursor) {
  ModelRecord record;
  if (JsonCursor function = cursor.find("function"))
    record.function = readModelFunction(function);
  record.optimizer = cursor["optimizer"].string();
  record.compilation = readFacts(cursor["compilation"]);
  return record;
}

static json factsToJson(const ModelFacts &facts) {
  json object = json::object();
  for (const auto &[name, fact] : facts) {
    object[name] = {{"value", json::parse(fact.value)}};
    if (!fact.flag.empty())
      object[name]["flag"] = fact.flag;
  }
  return object;
}

json optrt::toJson(const ModelRecord &record) {
  json object = {{"optimizer", record.optimizer},
                 {"compilation", factsToJson(record.compilation)}};
  if (record.function)
    object["function"] = {{"version", record.function->version},
                          {"hash", record.function->hash},
                          {"facts", factsToJson(record.function->facts)}};
  return object;
}
