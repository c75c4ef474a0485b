//===- JsonCursorTest.cpp - Reading JSON that nobody vouches for ----------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/JsonCursor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace optimus_support;

namespace {

/// The mistake in a text that a reader looks at.
template <typename Read>
std::string mistakeIn(std::string_view text, Read read) {
  JsonDocument document(text, "file", StatusCode::DataLoss);
  read(document.root());
  EXPECT_TRUE(document.status().ok() ||
              document.status().code() == StatusCode::DataLoss);
  return document.status().message();
}

std::string mistakeIn(std::string_view text) {
  return mistakeIn(text, [](const JsonCursor &) {});
}

TEST(JsonCursor, ReadsWhatIsThere) {
  JsonDocument document(R"({"a": [1, 8.0, 0], "b": {"x": 2.5, "y": true},
                            "c": "text"})",
                        "file", StatusCode::DataLoss);
  const JsonCursor root = document.root();
  const std::vector<JsonCursor> list = root["a"].elements();
  EXPECT_EQ(list[0].integer(0, 1), 1);
  EXPECT_EQ(list[1].count(), 8);
  EXPECT_EQ(list[2].numberFromZero(), 0);
  EXPECT_EQ(list[2].path(), "a[2]");
  EXPECT_EQ(root["b"]["x"].positiveNumber(), 2.5);
  EXPECT_TRUE(root["b"]["y"].boolean());
  EXPECT_TRUE(root["c"].isString());
  EXPECT_FALSE(root.find("d"));
  root["b"].refuseOthers({"x", "y"});
  EXPECT_TRUE(document.status().ok()) << document.status().message();
}

TEST(JsonCursor, NamesTheFirstMistake) {
  EXPECT_EQ(mistakeIn(R"({"a": {"b": [0, {}]}})",
                      [](const JsonCursor &root) {
                        root["a"]["b"].elements()[1]["c"].integer(0, 1);
                        root["d"].boolean();
                      }),
            "file: a.b[1]: no member \"c\"");
  EXPECT_EQ(mistakeIn("[]", [](const JsonCursor &root) { root["a"].string(); }),
            "file: expected an object, found array");
  EXPECT_EQ(mistakeIn(R"({"rank": 1})",
                      [](const JsonCursor &root) {
                        root.refuseOthers({"ranks", "threads"});
                      }),
            "file: nothing is known of 'rank'; did you mean 'ranks'?");
}

TEST(JsonCursor, BoundsNumbers) {
  auto expect = [](const char *number, auto read, const std::string &message) {
    EXPECT_EQ(mistakeIn(R"({"n": )" + std::string(number) + "}",
                        [&](const JsonCursor &root) { read(root["n"]); }),
              "file: n: " + message);
  };
  auto count = [](const JsonCursor &n) { EXPECT_EQ(n.count(2), 2); };
  expect("1", count, "expected an integer from 2, found 1");
  expect("2.5", count, "expected an integer from 2, found 2.5");
  expect("2e12", count, "expected an integer from 2, found 2000000000000.0");
  expect("\"2\"", count, "expected an integer from 2, found string");
  auto number = [](const JsonCursor &n) { EXPECT_EQ(n.numberFromZero(), 0); };
  expect("-1", number, "expected a finite number from 0, found -1");
  expect("[]", number, "expected a finite number from 0, found array");
  expect("1e-31", number,
         "expected 0 or a number from 1e-30 to 1e30, found 1e-31");
  expect(
      "0", [](const JsonCursor &n) { n.positiveNumber(); },
      "expected more than 0, found 0");
}

TEST(JsonCursor, RefusesTexts) {
  EXPECT_EQ(mistakeIn(R"({"a": [1, {"b": 1e999}]})"),
            "file: a[1].b: not valid JSON: number overflow parsing '1e999'");
  EXPECT_EQ(mistakeIn(R"({"a": {"b": 1, "b": 2}})"),
            "file: an object has the key \"b\" twice");
  EXPECT_THAT(
      mistakeIn("{\"a\": 1\n"),
      testing::StartsWith("file: not valid JSON: parse error at line "));
  const std::string open(1 << 20, '['), close(1 << 20, ']');
  for (const std::string &text : {open, open + close})
    EXPECT_EQ(mistakeIn(text), "file: values lie more than 64 deep");
  EXPECT_EQ(mistakeIn(open.substr(0, 64) + close.substr(0, 64)), "");
}

} // namespace
