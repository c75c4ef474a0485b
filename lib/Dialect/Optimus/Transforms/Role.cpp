//===- Role.cpp - What a value is to a strategy -----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Dialect/Optimus/Transforms/Role.h"

#include "optimus-support/NearestName.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::optimus;

namespace {
template <typename T>
struct Word {
  StringRef text;
  T value;
};
} // namespace

static constexpr Word<Position> positions[] = {
    {"tokens", Position::Tokens},     {"vector", Position::Vector},
    {"first", Position::First},       {"second", Position::Second},
    {"unpaired", Position::Unpaired}, {"table", Position::Table},
};

static constexpr Word<DimensionClass> classes[] = {
    {"batch", DimensionClass::Batch},
    {"sequence", DimensionClass::Sequence},
    {"heads", DimensionClass::Heads},
    {"hidden", DimensionClass::Hidden},
    {"ffn", DimensionClass::Ffn},
    {"vocabulary", DimensionClass::Vocabulary},
};

static constexpr StringLiteral kNoClass = "-";
static constexpr StringLiteral kPath = " of ";

template <typename T>
static const Word<T> *findWord(ArrayRef<Word<T>> words, StringRef text) {
  auto *it = llvm::find_if(
      words, [&](const Word<T> &word) { return word.text == text; });
  return it == words.end() ? nullptr : it;
}

/// "expected …, found 'clas' in 'TEXT'".
template <typename T>
static llvm::Error unknown(StringRef what, ArrayRef<Word<T>> words,
                           StringRef found, StringRef text) {
  std::vector<std::string> known;
  for (const Word<T> &word : words)
    known.push_back(word.text.str());
  return llvm::createStringError(
      "expected " + what + ", one of " + llvm::join(known, ", ") + "; found '" +
      found + "' in the role '" + text + "'" +
      optimus_support::didYouMean(found.str(), known));
}

llvm::Expected<Role> Role::parse(StringRef text) {
  Role role;
  StringRef rest = text;
  std::tie(rest, role.path) = text.split(kPath);
  if (rest.contains(' ')) {
    auto [name, dims] = rest.split(' ');
    auto *position = findWord<Position>(positions, name);
    if (!position)
      return unknown<Position>("a position", positions, name, text);
    role.position = position->value;
    rest = dims;
  }
  for (StringRef dim : llvm::split(rest, ',')) {
    RoleDim &known = role.dims.emplace_back();
    if (dim == kNoClass)
      continue;
    StringRef name = dim;
    if (name.consume_front("in."))
      known.side = LinearSide::In;
    else if (name.consume_front("out."))
      known.side = LinearSide::Out;
    auto *word = findWord<DimensionClass>(classes, name);
    if (!word)
      return unknown<DimensionClass>("a class for each dimension", classes,
                                     name, text);
    known.dimension = word->value;
  }
  return role;
}

std::string Role::toString() const {
  std::string text;
  for (const Word<Position> &word : positions)
    if (word.value == position)
      text = word.text.str() + " ";
  for (auto [index, dim] : llvm::enumerate(dims)) {
    if (index)
      text += ",";
    auto *word = llvm::find_if(classes, [&](const Word<DimensionClass> &word) {
      return word.value == dim.dimension;
    });
    if (word == std::end(classes)) {
      text += kNoClass;
      continue;
    }
    if (dim.side != LinearSide::Neither)
      text += dim.side == LinearSide::In ? "in." : "out.";
    text += word->text;
  }
  return path.empty() ? text : text + (kPath + path).str();
}
