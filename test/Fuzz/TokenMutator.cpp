//===- TokenMutator.cpp - Changes text where its grammar bends ------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TokenMutator.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <random>
#include <vector>

namespace {

enum class Kind { Number, Name, String, Space, Other };

struct Token {
  Kind kind;
  std::string text;
};

using Tokens = std::vector<Token>;
using Random = std::minstd_rand;

/// Numbers at which sizes, offsets, products and casts go wrong.
constexpr const char *kNumbers[] = {"0",
                                    "1",
                                    "-1",
                                    "2",
                                    "3",
                                    "7",
                                    "64",
                                    "127",
                                    "128",
                                    "255",
                                    "256",
                                    "4095",
                                    "65535",
                                    "65536",
                                    "1000000",
                                    "2147483647",
                                    "2147483648",
                                    "-2147483649",
                                    "4294967295",
                                    "4294967296",
                                    "1099511627776",
                                    "4611686018427387904",
                                    "9223372036854775807",
                                    "9223372036854775808",
                                    "-9223372036854775808",
                                    "18446744073709551615",
                                    "99999999999999999999",
                                    "0.5",
                                    "-0.0",
                                    "1e-320",
                                    "1e38",
                                    "3.5e38",
                                    "1e308",
                                    "1e999",
                                    "0x7FC00000",
                                    "0x7F800000"};

bool isNameByte(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' ||
         c == '$' || c == '%' || c == '@' || c == '#' || c == '!' || c == '-';
}

Tokens split(std::string_view text) {
  Tokens tokens;
  size_t begin = 0;
  while (begin < text.size()) {
    size_t end = begin + 1;
    Kind kind = Kind::Other;
    char c = text[begin];
    auto extend = [&](auto belongs) {
      while (end < text.size() && belongs(text[end]))
        ++end;
    };
    bool isDigit = std::isdigit(static_cast<unsigned char>(c));
    bool isSigned = c == '-' && end < text.size() &&
                    std::isdigit(static_cast<unsigned char>(text[end]));
    if (c == '"') {
      kind = Kind::String;
      while (end < text.size() && text[end] != '"')
        end += text[end] == '\\' && end + 1 < text.size() ? 2 : 1;
      end = std::min(end + 1, text.size());
    } else if (isDigit || isSigned) {
      // An x ends it: tensor<2x3xf32> has two numbers.
      kind = Kind::Number;
      extend([](char d) {
        return std::isdigit(static_cast<unsigned char>(d)) || d == '.';
      });
    } else if (std::isspace(static_cast<unsigned char>(c))) {
      kind = Kind::Space;
      if (c != '\n')
        extend([](char d) { return d == ' ' || d == '\t'; });
    } else if (isNameByte(c)) {
      kind = Kind::Name;
      // "x3xf32" of a type is "x", 3 and "xf32".
      if (c == 'x' && end < text.size() &&
          std::isdigit(static_cast<unsigned char>(text[end])))
        kind = Kind::Other;
      else
        extend(isNameByte);
    }
    tokens.push_back({kind, std::string(text.substr(begin, end - begin))});
    begin = end;
  }
  return tokens;
}

std::string join(const Tokens &tokens) {
  std::string text;
  for (const Token &token : tokens)
    text += token.text;
  return text;
}

size_t below(Random &random, size_t bound) {
  return bound ? random() % bound : 0;
}

/// A token of that kind, or the number of tokens.
size_t find(const Tokens &tokens, Kind kind, Random &random) {
  size_t start = below(random, tokens.size());
  for (size_t i = 0; i != tokens.size(); ++i)
    if (tokens[(start + i) % tokens.size()].kind == kind)
      return (start + i) % tokens.size();
  return tokens.size();
}

std::string changedNumber(const std::string &text, Random &random) {
  // An earlier change may have made it anything.
  bool isSmall = text.size() < 18 && text.find('.') == std::string::npos;
  long long value = std::strtoll(text.c_str(), nullptr, 10);
  switch (isSmall ? below(random, 8) : 7) {
  case 0:
    return std::to_string(value + 1);
  case 1:
    return std::to_string(value - 1);
  case 2:
    return std::to_string(value * 2);
  case 3:
    return std::to_string(value / 2);
  case 4:
    return std::to_string(-value);
  default:
    return kNumbers[below(random, std::size(kNumbers))];
  }
}

std::string changedString(const Tokens &tokens, size_t which, Random &random) {
  switch (below(random, 5)) {
  case 0:
    return "\"\"";
  case 1:
    return '"' + std::string(below(random, 5000), 'x') + '"';
  case 2: {
    // One letter more or less: a misspelt name.
    std::string text = tokens[which].text;
    if (text.size() > 3)
      text.erase(1 + below(random, text.size() - 2), 1);
    return text;
  }
  case 3:
    return "\"\xff\\00\n\"";
  default:
    return tokens[find(tokens, Kind::String, random)].text;
  }
}

/// The lines as ranges of tokens, without what ends them.
std::vector<std::pair<size_t, size_t>> linesOf(const Tokens &tokens) {
  std::vector<std::pair<size_t, size_t>> lines;
  size_t begin = 0;
  for (size_t i = 0; i <= tokens.size(); ++i)
    if (i == tokens.size() || tokens[i].text == "\n") {
      lines.push_back({begin, std::min(i + 1, tokens.size())});
      begin = i + 1;
    }
  return lines;
}

void changeLines(Tokens &tokens, Random &random) {
  auto lines = linesOf(tokens);
  auto [begin, end] = lines[below(random, lines.size())];
  Tokens line(tokens.begin() + long(begin), tokens.begin() + long(end));
  auto [target, targetEnd] = lines[below(random, lines.size())];
  switch (below(random, 3)) {
  case 0:
    tokens.erase(tokens.begin() + long(begin), tokens.begin() + long(end));
    return;
  case 1:
    tokens.insert(tokens.begin() + long(target), line.begin(), line.end());
    return;
  default:
    tokens.insert(tokens.begin() + long(target), line.begin(), line.end());
    if (target <= begin) {
      begin += line.size();
      end += line.size();
    }
    tokens.erase(tokens.begin() + long(begin), tokens.begin() + long(end));
  }
}

void change(Tokens &tokens, Random &random) {
  if (tokens.empty()) {
    tokens.push_back({Kind::Number, "0"});
    return;
  }
  size_t some = below(random, tokens.size());
  switch (below(random, 16)) {
  case 0:
  case 1:
  case 2:
  case 3:
  case 4:
    if (size_t i = find(tokens, Kind::Number, random); i != tokens.size())
      tokens[i].text = changedNumber(tokens[i].text, random);
    return;
  case 5:
  case 6:
  case 7:
    if (size_t i = find(tokens, Kind::Name, random); i != tokens.size())
      tokens[i] = tokens[find(tokens, Kind::Name, random)];
    return;
  case 8:
    if (size_t i = find(tokens, Kind::String, random); i != tokens.size())
      tokens[i].text = changedString(tokens, i, random);
    return;
  case 9:
    tokens.erase(tokens.begin() + long(some));
    return;
  case 10:
    tokens.insert(tokens.begin() + long(some), tokens[some]);
    return;
  case 11:
    std::swap(tokens[some], tokens[below(random, tokens.size())]);
    return;
  case 12:
  case 13:
    changeLines(tokens, random);
    return;
  case 14: {
    static constexpr const char *kBrackets[] = {"[", "{", "(", "<", "]", "}",
                                                ")", ">", ",", ":", "="};
    const char *bracket = kBrackets[below(random, std::size(kBrackets))];
    size_t times = below(random, 8) ? 1 : 1 + below(random, 20000);
    std::string pile;
    for (size_t i = 0; i != times; ++i)
      pile += bracket;
    tokens.insert(tokens.begin() + long(some), {Kind::Other, pile});
    return;
  }
  default: {
    std::string &text = tokens[some].text;
    text[below(random, text.size())] = static_cast<char>(random());
  }
  }
}

} // namespace

std::string optimus_fuzz::mutate(std::string_view text, uint32_t seed) {
  Random random(seed);
  random.discard(4);
  Tokens tokens = split(text);
  for (size_t i = 1 + below(random, 4); i != 0; --i)
    change(tokens, random);
  return join(tokens);
}

std::string optimus_fuzz::cross(std::string_view text, std::string_view other,
                                uint32_t seed) {
  Random random(seed);
  random.discard(4);
  Tokens tokens = split(text), others = split(other);
  auto lines = linesOf(others);
  for (size_t i = 1 + below(random, 4); i != 0; --i) {
    auto own = linesOf(tokens);
    auto [begin, end] = own[below(random, own.size())];
    auto [from, to] = lines[below(random, lines.size())];
    if (below(random, 2))
      tokens.erase(tokens.begin() + long(begin), tokens.begin() + long(end));
    tokens.insert(tokens.begin() + long(begin), others.begin() + long(from),
                  others.begin() + long(to));
  }
  return join(tokens);
}
