//===- Rendezvous.cpp - How processes find each other ---------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Rendezvous.h"

#include "../peers/Socket.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <optional>
#include <poll.h>
#include <sstream>
#include <thread>

namespace optrt {
namespace {
using namespace std::chrono_literals;

// A message is kMagic, eight digits of its length, and its text.
constexpr std::string_view kMagic = "OPTIMUS\n";
constexpr std::size_t kHeader = 16;
// What rank 0 says to whom it hears: that it waits for the others too, with the
// cards or a failure to follow, or that there is nothing to wait for.
constexpr std::string_view kWelcome = "WELCOME\n", kOtherJob = "ELSEJOB\n";
constexpr std::size_t kMostText = std::size_t(1) << 24;

/// For a connection that is there to say who it is, and for rank 0 to answer.
constexpr double kAnswerSeconds = 5;

std::string framed(const std::string &text) {
  char length[16];
  std::snprintf(length, sizeof(length), "%08zx", text.size());
  return std::string(kMagic) + length + text;
}

/// The length of the text behind a header, or nothing for a stranger's.
std::optional<std::size_t> lengthIn(std::string_view header) {
  std::size_t length = 0;
  const char *end = header.data() + kHeader;
  auto [stop, error] =
      std::from_chars(header.data() + kMagic.size(), end, length, 16);
  if (header.substr(0, kMagic.size()) != kMagic || error != std::errc() ||
      stop != end || length > kMostText)
    return std::nullopt;
  return length;
}

std::optional<std::string> receiveMessage(const Socket &from,
                                          Deadline deadline) {
  std::string header = receiveText(from, kHeader, deadline);
  if (header.size() != kHeader)
    return std::nullopt;
  std::optional<std::size_t> length = lengthIn(header);
  if (!length)
    return std::nullopt;
  std::string text = receiveText(from, *length, deadline);
  return text.size() == *length ? std::optional(text) : std::nullopt;
}

/// What a rank says of itself, a line each; the card has several.
struct Greeting {
  std::string version, job;
  int size = 0, rank = -1;
  Card card;

  std::string toText() const {
    return concat(version, '\n', job, '\n', size, ' ', rank, '\n',
                  card.toText());
  }
  static Greeting fromText(const std::string &text) {
    std::istringstream stream(text);
    Greeting greeting;
    std::getline(stream, greeting.version);
    std::getline(stream, greeting.job);
    stream >> greeting.size >> greeting.rank;
    stream.ignore(1);
    greeting.card = Card::read(stream);
    return greeting;
  }
};

std::string seconds(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%g s", value);
  return text;
}

/// "2, 5 and 9", of many only the first.
std::string listOf(const std::vector<int> &ranks) {
  constexpr std::size_t kMost = 8;
  std::string text;
  for (std::size_t i = 0; i != std::min(ranks.size(), kMost); ++i)
    text += concat(i == 0                  ? ""
                   : i + 1 == ranks.size() ? " and "
                                           : ", ",
                   ranks[i]);
  return ranks.size() > kMost
             ? concat(text, " and ", ranks.size() - kMost, " more")
             : text;
}

//===----------------------------------------------------------------------===//
// Rank 0
//===----------------------------------------------------------------------===//

class Host {
public:
  Host(const TcpJob &job, const Card &own)
      : job(job), guests(job.size), cards(job.size),
        deadline(job.timeoutSeconds) {
    cards[0] = own;
  }

  StatusOr<std::vector<Card>> run() {
    OPTRT_RETURN_IF_ERROR(listen());
    Status status = gather();
    // Everybody hears the same.
    std::string answer = ControlPlane::encode(status) + '\n';
    if (status.ok())
      for (const Card &card : cards)
        answer += card.toText();
    answer = framed(answer);
    for (Socket &guest : guests)
      if (guest.isOpen())
        sendAll(guest, answer, Deadline(kAnswerSeconds));
    for (Pending &one : pending)
      if (one.isKnown)
        sendAll(one.socket, answer, Deadline(kAnswerSeconds));
    if (!status.ok())
      return status;
    return cards;
  }

private:
  struct Pending {
    Socket socket;
    Deadline deadline;
    std::string text;
    bool isKnown = false; ///< it is of this job
  };

  Status listen() {
    Status failure;
    for (int i = 0; i != job.meetingPoint.numPorts; ++i) {
      StatusOr<Socket> opened = listenOn(job.meetingPoint.port + i);
      if (opened.ok()) {
        listener = std::move(opened).value();
        return okStatus();
      }
      failure = opened.status();
    }
    return failure.withContext("rank 0").withAdvice(
        "another job or another rank 0 may be there: choose a port that is "
        "free on its host");
  }

  std::vector<int> missing() const {
    std::vector<int> ranks;
    for (int rank = 1; rank != job.size; ++rank)
      if (!guests[rank].isOpen())
        ranks.push_back(rank);
    return ranks;
  }

  Status gather() {
    while (!missing().empty()) {
      std::vector<pollfd> watched{{listener.get(), POLLIN, 0}};
      for (const Pending &one : pending)
        watched.push_back({one.socket.get(), POLLIN, 0});
      // Those who are here say nothing more, but may end.
      for (const Socket &guest : guests)
        watched.push_back({guest.get(), POLLIN, 0});
      poll(watched.data(), watched.size(), /*milliseconds=*/100);
      for (std::size_t i = 0; i != pending.size(); ++i)
        if (watched[i + 1].revents || pending[i].deadline.hasPassed())
          OPTRT_RETURN_IF_ERROR(receiveFrom(pending[i]));
      for (std::size_t rank = 0; rank != guests.size(); ++rank)
        if (char byte; watched[1 + pending.size() + rank].revents &&
                       receiveSome(guests[rank], &byte, 1) < 0)
          guests[rank].close();
      std::erase_if(pending,
                    [](const Pending &one) { return !one.socket.isOpen(); });
      if (watched[0].revents)
        for (Socket guest = acceptFrom(listener); guest.isOpen();
             guest = acceptFrom(listener))
          pending.push_back({std::move(guest), Deadline(kAnswerSeconds), {}});
      if (deadline.hasPassed()) {
        std::vector<int> ranks = missing();
        return unavailable(concat(
            ranks.size() == 1 ? "rank " : "ranks ", listOf(ranks), " of ",
            job.size, " did not come to ", job.meetingPoint.host, ":",
            portOf(listener), " within ", seconds(job.timeoutSeconds),
            "; start all of them with the same meeting point, and let them "
            "reach it over TCP (--timeout gives them longer)"));
      }
    }
    return okStatus();
  }

  /// Closes the connection of a stranger.
  Status receiveFrom(Pending &from) {
    char buffer[4096];
    std::ptrdiff_t got = 1;
    while (got > 0 &&
           (got = receiveSome(from.socket, buffer, sizeof(buffer))) > 0)
      from.text.append(buffer, got);
    if (got < 0 || from.deadline.hasPassed() ||
        from.text.compare(0, kMagic.size(),
                          kMagic.substr(0, from.text.size())) != 0) {
      from.socket.close();
      return okStatus();
    }
    if (from.text.size() < kHeader)
      return okStatus();
    std::optional<std::size_t> length = lengthIn(from.text);
    if (!length) {
      from.socket.close();
      return okStatus();
    }
    if (from.text.size() < kHeader + *length)
      return okStatus();
    return welcome(from, Greeting::fromText(from.text.substr(kHeader)));
  }

  Status welcome(Pending &from, const Greeting &greeting) {
    if (greeting.job != job.job) {
      sendAll(from.socket, kOtherJob, Deadline(kAnswerSeconds));
      from.socket.close();
      return okStatus();
    }
    from.isKnown = true;
    sendAll(from.socket, kWelcome, Deadline(kAnswerSeconds));
    const Card &card = greeting.card;
    const std::string who =
        concat("rank ", greeting.rank, " (", card.place, ")");
    if (greeting.version != job.version)
      return invalidArgument(concat(
          who, " runs ", greeting.version, ", and rank 0 (", cards[0].place,
          ") ", job.version, "; start the same program on all hosts"));
    if (greeting.size != job.size)
      return invalidArgument(concat(who, " was started as one of ",
                                    greeting.size, " ranks, and rank 0 (",
                                    cards[0].place, ") as one of ", job.size,
                                    "; give all the same number"));
    if (greeting.rank < 0 || greeting.rank >= job.size)
      return invalidArgument(concat(who, " is not from 0 to ", job.size - 1));
    const Card &other = cards[greeting.rank];
    if (greeting.rank == 0 ||
        (guests[greeting.rank].isOpen() && other.place != card.place))
      return invalidArgument(concat("two processes are rank ", greeting.rank,
                                    ": ", other.place, " and ", card.place,
                                    "; give each a number of its own, from 0 "
                                    "to ",
                                    job.size - 1));
    // Who comes again has lost its first connection.
    guests[greeting.rank] = std::move(from.socket);
    cards[greeting.rank] = card;
    return okStatus();
  }

  const TcpJob &job;
  Socket listener;
  std::vector<Pending> pending;
  std::vector<Socket> guests; ///< by rank
  std::vector<Card> cards;
  const Deadline deadline;
};

//===----------------------------------------------------------------------===//
// The others
//===----------------------------------------------------------------------===//

class Guest {
public:
  Guest(const TcpJob &job, const Card &own, bool &isSaidElsewhere)
      : job(job), own(own), isSaidElsewhere(isSaidElsewhere),
        deadline(job.timeoutSeconds) {}

  StatusOr<std::vector<Card>> run() {
    constexpr auto kLongestPause = 500ms;
    auto pause = 10ms;
    const MeetingPoint &point = job.meetingPoint;
    do {
      std::vector<std::string> addresses;
      std::istringstream hosts(point.host);
      for (std::string host; std::getline(hosts, host, ',');)
        for (std::string &address : addressesOf(host))
          addresses.push_back(std::move(address));
      // Asking for a name may take many seconds.
      noteAwake();
      if (addresses.empty())
        lastTrouble = "nobody knows that host";
      for (const std::string &address : addresses)
        for (int i = 0; i != point.numPorts; ++i) {
          Socket host = greet(address, point.port + i);
          if (host.isOpen())
            return hear(host);
        }
      std::this_thread::sleep_for(pause);
      pause = std::min(pause * 2, kLongestPause);
    } while (!deadline.hasPassed());
    return unavailable(concat(
        "rank ", job.rank, " (", own.place, ") did not find rank 0 at ",
        point.host, ":", point.port,
        point.numPorts == 1 ? ""
                            : concat(" to ", point.port + point.numPorts - 1),
        " within ", seconds(job.timeoutSeconds), ": ", lastTrouble,
        "; start rank 0 there, and let the others reach it over TCP "
        "(--timeout waits longer)"));
  }

private:
  /// A connection to rank 0 of this job, which knows us; or closed.
  Socket greet(const std::string &address, int port) {
    const Deadline soon =
        Deadline::earlierOf(deadline, Deadline(kAnswerSeconds));
    Socket host = connectTo(address, port, soon);
    if (!host.isOpen()) {
      lastTrouble = "nobody listens there";
      return Socket();
    }
    Greeting greeting{job.version, job.job, job.size, job.rank, own};
    std::string answer;
    if (sendAll(host, framed(greeting.toText()), soon))
      answer = receiveText(host, kWelcome.size(), soon);
    if (answer == kWelcome)
      return host;
    lastTrouble = answer == kOtherJob
                      ? "another job meets there"
                      : "who listens there is no rank 0 of ours";
    return Socket();
  }

  /// As long as rank 0 waits for the others; it knows how long that is.
  StatusOr<std::vector<Card>> hear(const Socket &host) {
    std::optional<std::string> message = receiveMessage(host, Deadline(0));
    if (!message)
      return unavailable(concat("rank 0 at ", job.meetingPoint.host, ":",
                                job.meetingPoint.port,
                                " ended before all ranks had come; rank ",
                                job.rank, " (", own.place, ") waited for it"));
    const std::string &text = *message;
    std::size_t line = text.find('\n');
    Status status = ControlPlane::decode(text.substr(0, line));
    isSaidElsewhere = !status.ok();
    OPTRT_RETURN_IF_ERROR(status);
    std::istringstream lines(text.substr(line + 1));
    std::vector<Card> cards(job.size);
    for (Card &card : cards)
      card = Card::read(lines);
    return cards;
  }

  const TcpJob &job;
  const Card &own;
  bool &isSaidElsewhere;
  const Deadline deadline;
  std::string lastTrouble;
};

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

StatusOr<std::vector<Card>> meet(const TcpJob &job, const Card &own,
                                 bool &isSaidElsewhere) {
  isSaidElsewhere = false;
  if (job.size == 1)
    return std::vector<Card>{own};
  return job.rank == 0 ? Host(job, own).run()
                       : Guest(job, own, isSaidElsewhere).run();
}

} // namespace optrt
