//===- Greeting.h - What ranks say when they meet ---------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A guest of rank 0 sends a random number, gets another, and introduces itself
// with a hash of both numbers and its words, keyed with the job's key. Rank 0
// answers with a hash of its own. What was overheard is of no use: the next
// greeting has other numbers. No sockets in here: bytes in, bytes out.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CCL_TCP_GREETING_H
#define OPTIMUS_RUNTIME_CCL_TCP_GREETING_H

#include "../peers/JobKey.h"

#include <istream>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace optrt {

/// What a process brings to the others.
struct Card {
  std::string place;   ///< "process 17 on node4"
  std::string host;    ///< equal for processes of one host
  std::string address; ///< of its PeerListener

  std::string toText() const;
  /// Takes the next one from a text.
  static Card read(std::istream &lines);
};

/// What a rank says of itself.
struct Greeting {
  std::string version, job;
  int size = 0, rank = -1;
  Card card;

  /// A line each; the card has several.
  std::string toText() const;
  static Greeting fromText(const std::string &text);
};

// A message is kMagic, eight digits of its length, and its text.
inline constexpr std::size_t kMessageHeader = 16;

std::string framed(std::string_view text);
/// The length of the text behind a header, or nothing for a stranger's and for
/// a text longer than `most`.
std::optional<std::size_t> lengthIn(std::string_view header, std::size_t most);

/// Of a guest's messages, and of rank 0's last, which has the cards of all.
inline constexpr std::size_t kMostOfGreeting = std::size_t(1) << 14;
inline constexpr std::size_t kMostOfAnswer = std::size_t(1) << 24;

/// How rank 0 answers a greeting.
enum class Reply { Welcome, OtherJob, OtherSecret };

/// Rank 0's end of the greeting of one guest.
class HostGreeting {
public:
  HostGreeting(const JobKey &key, std::string ownJob, std::string ownPlace);

  enum class State {
    Listening,   ///< more is to come
    Stranger,    ///< does not speak as ranks do
    OtherJob,    ///< of another job, as it says
    OtherSecret, ///< what it says is not signed with our key: greeting() is
                 ///< what anybody may have said
    Known,       ///< is a rank of this job
  };
  /// Takes what was received; what is to be sent is then in takeAnswer().
  State receive(std::string_view bytes);
  State state() const { return now; }
  /// Once: what is to be sent now.
  std::string takeAnswer() { return std::exchange(answer, {}); }
  const Greeting &greeting() const { return said; }

  /// What all hear in the end, for this guest.
  std::string seal(std::string_view text) const;

private:
  State understand(std::string_view text);

  const JobKey &key;
  const std::string ownJob, ownPlace, ownNumber;
  std::string received, answer, number;
  Greeting said;
  State now = State::Listening;
};

/// A guest's end of it.
class GuestGreeting {
public:
  GuestGreeting(const JobKey &key, Greeting own);

  /// The first message.
  std::string hello() const;
  /// The second one, given the text of rank 0's first; nothing for a stranger.
  std::optional<std::string> introduce(std::string_view challenge);
  /// Rank 0's reply to the introduction, by its text; nothing for a stranger,
  /// who does not know the secret either.
  std::optional<Reply> understandReply(std::string_view text) const;
  /// What rank 0 sealed.
  std::optional<std::string> open(std::string_view text) const;
  /// "process 17 on node4", as rank 0 says.
  const std::string &hostPlace() const { return place; }

private:
  const JobKey &key;
  const Greeting own;
  const std::string ownNumber;
  std::string number, place;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CCL_TCP_GREETING_H
