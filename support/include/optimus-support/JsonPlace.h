//===- JsonPlace.h - Reading JSON by its paths ------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A place walks a JSON document and checks types and ranges as it reads. The
// first mistake is kept in the document. A reader is written straight on and
// asks for the mistake once.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_SUPPORT_JSONPLACE_H
#define OPTIMUS_SUPPORT_JSONPLACE_H

#include "optimus-support/Status.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace optimus_support {

class JsonPlace;

/// "not valid JSON: parse error at line 2, column 1: …": what the parser says,
/// without its number for it.
inline std::string describeJsonError(const nlohmann::json::exception &error) {
  const std::string_view text = error.what();
  const std::size_t label = text.find("] ");
  return concat("not valid JSON: ",
                label == text.npos ? text : text.substr(label + 2));
}

/// A parsed text and the first mistake met in it: "expected an array at
/// profile.gemm".
class JsonText {
public:
  /// `name` is that of the file, in messages about brackets; `root` begins
  /// every path.
  JsonText(std::string_view text, const std::string &name, std::string root);
  JsonText(const JsonText &) = delete;
  JsonText &operator=(const JsonText &) = delete;

  JsonPlace getRoot();
  /// Empty for none.
  const std::string &getMistake() const { return mistake; }

private:
  friend class JsonPlace;
  void fail(std::string message) {
    if (mistake.empty())
      mistake = std::move(message);
  }

  nlohmann::json value;
  std::string root, mistake;
};

/// A place in a document, or nowhere: an absent member.
class JsonPlace {
public:
  bool exists() const { return value; }
  bool isObject() const { return value && value->is_object(); }
  bool isNumber(int64_t number) const {
    return value && value->is_number() &&
           value->get<double>() == double(number);
  }

  /// A member of an object; nowhere where this is none.
  JsonPlace operator[](const char *key) const;

  /// Calls `read` with each member of an array of objects, if one is there.
  /// `expected` tells of what is no object.
  void forEach(const std::function<void(JsonPlace)> &read,
               const char *expected = "expected an object") const;

  /// Calls `read` with the name and the place of each member of an object.
  void forEachMember(
      const std::function<void(const std::string &, JsonPlace)> &read) const;

  /// Reads a time or a rate: 0, or a number from 1e-30 to 1e30, of which sums
  /// and quotients are finite too. What is absent stays as it is.
  void readNumber(double &number) const;
  /// The same of a number above 0.
  void readPositive(double &number) const;
  /// Reads an extent or a count, of at most 2^40.
  void readCount(int64_t &count, int64_t least = 1) const;
  void readBoolean(bool &flag) const;
  /// False where nothing is there, or something else.
  bool getBoolean() const { return value && value->is_boolean() && *value; }
  /// Null where nothing is there, or something else.
  const std::string *getString() const {
    return value ? value->get_ptr<const std::string *>() : nullptr;
  }

  /// Refuses members of an object other than these, with the nearest name.
  void refuseOthers(const std::vector<std::string> &known) const;

  /// The place, which must be there.
  const JsonPlace &require() const {
    if (!value)
      fail("missing");
    return *this;
  }
  /// Records a mistake here.
  void fail(const std::string &message) const {
    text->fail(message + " at " + path);
  }

private:
  friend class JsonText;
  JsonPlace(JsonText *text, const nlohmann::json *value, std::string path)
      : text(text), value(value), path(std::move(path)) {}

  JsonText *text;
  const nlohmann::json *value;
  std::string path;
};

} // namespace optimus_support

#endif // OPTIMUS_SUPPORT_JSONPLACE_H
