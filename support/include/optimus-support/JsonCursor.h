//===- JsonCursor.h - Reading JSON that nobody vouches for ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A cursor walks a JSON document and checks types and ranges as it reads. The
// first mistake is kept in the document and everything read after it is a
// default value, so that a reader is written straight on and asks for the
// status once.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_SUPPORT_JSONCURSOR_H
#define OPTIMUS_SUPPORT_JSONCURSOR_H

#include "optimus-support/Status.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace optimus_support {

class JsonCursor;

/// A parsed text and the first mistake met in it.
class JsonDocument {
public:
  /// `what` names the text in messages ("the manifest"); failures have `code`.
  /// An object that has a key twice is a mistake too.
  JsonDocument(std::string_view text, std::string what, StatusCode code);
  JsonDocument(const JsonDocument &) = delete;
  JsonDocument &operator=(const JsonDocument &) = delete;

  JsonCursor root();
  /// The first mistake, or success.
  const Status &status() const { return failure; }
  const nlohmann::json &contents() const { return value; }

private:
  friend class JsonCursor;
  void fail(const std::string &path, const std::string &message);

  nlohmann::json value;
  std::string what;
  StatusCode code;
  Status failure;
};

/// A place in a document, or nowhere (after a mistake, or an absent member).
class JsonCursor {
public:
  explicit operator bool() const { return value; }
  bool isString() const { return value && value->is_string(); }
  bool isArray() const { return value && value->is_array(); }
  /// For instance "params[3].local_shape[1]".
  const std::string &path() const { return place; }

  /// A member that must be there.
  JsonCursor operator[](const char *key) const;
  /// A member that may be missing.
  JsonCursor find(const char *key) const;
  /// The elements of an array.
  std::vector<JsonCursor> elements() const;
  /// The members of an object, sorted by key.
  std::vector<std::pair<std::string, JsonCursor>> members() const;

  int64_t integer(int64_t least, int64_t most) const;
  /// An extent or a count of at most 2^40; 8.0 is one, too.
  int64_t count(int64_t least = 1) const;
  uint64_t unsignedInteger() const;
  double number() const;
  /// A time or a rate: 0, or a number from 1e-30 to 1e30, of which sums and
  /// quotients are finite too.
  double numberFromZero() const;
  /// The same above 0.
  double positiveNumber() const;
  bool boolean() const;
  std::string string() const;
  /// A string, or a number as it would be written as one.
  std::string text() const;
  /// Whatever is there, as compact JSON; `null` after a mistake.
  std::string dump() const;
  std::vector<int64_t> integers(int64_t least, int64_t most) const;

  /// Refuses members of an object other than these, with the nearest name.
  void refuseOthers(const std::vector<std::string> &known) const;

  /// Records a mistake here: "WHAT: PATH: MESSAGE".
  void fail(const std::string &message) const;

private:
  friend class JsonDocument;
  JsonCursor(JsonDocument *document, const nlohmann::json *value,
             std::string place)
      : document(document), value(value), place(std::move(place)) {}
  JsonCursor child(const nlohmann::json &value, std::string_view key) const;
  void failExpected(const std::string &expected) const;

  JsonDocument *document;
  const nlohmann::json *value;
  std::string place;
};

} // namespace optimus_support

#endif // OPTIMUS_SUPPORT_JSONCURSOR_H
