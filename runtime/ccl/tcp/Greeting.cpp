//===- Greeting.cpp - What ranks say when they meet -----------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Greeting.h"

#include "optimus-runtime/Status.h"

#include <charconv>
#include <cstdio>
#include <sstream>
#include <utility>

namespace optrt {
namespace {

constexpr std::string_view kMagic = "OPTIMUS\n";
constexpr std::string_view kOtherJob = "other job", kOtherSecret = "secret";
/// What hashes stand for.
constexpr std::string_view kByGuest = "guest", kByHost = "host",
                           kAnswer = "answer";

/// Takes a line from a text.
std::string_view takeLine(std::string_view &text) {
  const std::size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

} // namespace

std::string Card::toText() const {
  return concat(place, '\n', host, '\n', address, '\n');
}

Card Card::read(std::istream &lines) {
  Card card;
  std::getline(lines, card.place);
  std::getline(lines, card.host);
  std::getline(lines, card.address);
  return card;
}

std::string Greeting::toText() const {
  return concat(version, '\n', job, '\n', size, ' ', rank, '\n', card.toText());
}

Greeting Greeting::fromText(const std::string &text) {
  std::istringstream stream(text);
  Greeting greeting;
  std::getline(stream, greeting.version);
  std::getline(stream, greeting.job);
  stream >> greeting.size >> greeting.rank;
  stream.ignore(1);
  greeting.card = Card::read(stream);
  return greeting;
}

std::string framed(std::string_view text) {
  char length[16];
  std::snprintf(length, sizeof(length), "%08zx", text.size());
  return concat(kMagic, length, text);
}

std::optional<std::size_t> lengthIn(std::string_view header, std::size_t most) {
  std::size_t length = 0;
  if (header.size() < kMessageHeader)
    return std::nullopt;
  const char *end = header.data() + kMessageHeader;
  auto [stop, error] =
      std::from_chars(header.data() + kMagic.size(), end, length, 16);
  if (header.substr(0, kMagic.size()) != kMagic || error != std::errc() ||
      stop != end || length > most)
    return std::nullopt;
  return length;
}

//===----------------------------------------------------------------------===//
// Rank 0
//===----------------------------------------------------------------------===//

HostGreeting::HostGreeting(const JobKey &key, std::string ownJob,
                           std::string ownPlace)
    : key(key), ownJob(std::move(ownJob)), ownPlace(std::move(ownPlace)),
      ownNumber(randomDigits()) {}

HostGreeting::State HostGreeting::receive(std::string_view bytes) {
  received += bytes;
  while (now == State::Listening) {
    const std::string_view begin = kMagic.substr(0, received.size());
    if (received.compare(0, kMagic.size(), begin) != 0)
      return now = State::Stranger;
    if (received.size() < kMessageHeader)
      break;
    const std::optional<std::size_t> length =
        lengthIn(received, kMostOfGreeting);
    if (!length)
      return now = State::Stranger;
    if (received.size() < kMessageHeader + *length)
      break;
    const std::string text = received.substr(kMessageHeader, *length);
    received.erase(0, kMessageHeader + *length);
    now = understand(text);
  }
  return now;
}

HostGreeting::State HostGreeting::understand(std::string_view text) {
  if (number.empty()) {
    if (text.size() != JobKey::kDigits)
      return State::Stranger;
    number = text;
    answer += framed(concat(ownNumber, '\n', ownPlace));
    return State::Listening;
  }
  const std::string_view hash = takeLine(text);
  said = Greeting::fromText(std::string(text));
  if (said.job != ownJob) {
    answer += framed(kOtherJob);
    return State::OtherJob;
  }
  if (!key.verify(hash, {kByGuest, number, ownNumber, text})) {
    answer += framed(kOtherSecret);
    return State::OtherSecret;
  }
  answer += framed(key.sign({kByHost, number, ownNumber}));
  return State::Known;
}

std::string HostGreeting::seal(std::string_view text) const {
  return framed(
      concat(key.sign({kAnswer, number, ownNumber, text}), '\n', text));
}

//===----------------------------------------------------------------------===//
// The others
//===----------------------------------------------------------------------===//

GuestGreeting::GuestGreeting(const JobKey &key, Greeting own)
    : key(key), own(std::move(own)), ownNumber(randomDigits()) {}

std::string GuestGreeting::hello() const { return framed(ownNumber); }

std::optional<std::string>
GuestGreeting::introduce(std::string_view challenge) {
  number = takeLine(challenge);
  place = challenge;
  if (number.size() != JobKey::kDigits)
    return std::nullopt;
  const std::string text = own.toText();
  return framed(
      concat(key.sign({kByGuest, ownNumber, number, text}), '\n', text));
}

std::optional<Reply>
GuestGreeting::understandReply(std::string_view text) const {
  if (text == kOtherJob)
    return Reply::OtherJob;
  if (text == kOtherSecret)
    return Reply::OtherSecret;
  if (key.verify(text, {kByHost, ownNumber, number}))
    return Reply::Welcome;
  return std::nullopt;
}

std::optional<std::string> GuestGreeting::open(std::string_view text) const {
  const std::string_view hash = takeLine(text);
  if (!key.verify(hash, {kAnswer, ownNumber, number, text}))
    return std::nullopt;
  return std::string(text);
}

} // namespace optrt
