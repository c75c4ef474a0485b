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
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <poll.h>
#include <sstream>
#include <thread>

namespace optrt {
namespace {
using namespace std::chrono_literals;

/// For a connection to introduce itself, and for rank 0 to answer.
constexpr double kAnswerSeconds = 5;

constexpr const char *kSecretAdvice =
    "give all ranks the same OPTIMUS_JOB_SECRET or --secret-file";

/// A message's text.
std::optional<std::string> receiveMessage(const Socket &from,
                                          Deadline deadline) {
  const std::string header = receiveText(from, kMessageHeader, deadline);
  const std::optional<std::size_t> length = lengthIn(header, kMostOfAnswer);
  if (!length)
    return std::nullopt;
  std::string text = receiveText(from, *length, deadline);
  return text.size() == *length ? std::optional(text) : std::nullopt;
}

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
  Host(const TcpJob &job, const JobKey &key, const Card &own)
      : job(job), key(key), guests(job.size), cards(job.size),
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
    for (const Guest &guest : guests)
      if (guest.socket.isOpen())
        sendAll(guest.socket, guest.greeting->seal(answer),
                Deadline(kAnswerSeconds));
    // A refusal leaves behind who has just become a guest, closed.
    for (const Guest &one : pending)
      if (one.socket.isOpen() &&
          one.greeting->state() == HostGreeting::State::Known)
        sendAll(one.socket, one.greeting->seal(answer),
                Deadline(kAnswerSeconds));
    if (!status.ok())
      return status;
    return cards;
  }

private:
  struct Guest {
    Socket socket;
    Deadline deadline{0};
    std::unique_ptr<HostGreeting> greeting;
  };

  Status listen() {
    Status failure;
    for (int i = 0; i != job.meetingPoint.numPorts; ++i) {
      StatusOr<Socket> opened = listenOn(job.meetingPoint.port + i, job.bind);
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
      if (!guests[rank].socket.isOpen())
        ranks.push_back(rank);
    return ranks;
  }

  Status gather() {
    while (!missing().empty()) {
      // However many strangers there are, the others wait in the queue.
      const bool isFull = pending.size() >= guests.size() + kMostStrangers;
      std::vector<pollfd> watched{{isFull ? -1 : listener.get(), POLLIN, 0}};
      for (const Guest &one : pending)
        watched.push_back({one.socket.get(), POLLIN, 0});
      // Those who are here say nothing more, but may end.
      for (const Guest &guest : guests)
        watched.push_back({guest.socket.get(), POLLIN, 0});
      poll(watched.data(), watched.size(), /*milliseconds=*/100);
      for (std::size_t i = 0; i != pending.size(); ++i)
        if (watched[i + 1].revents || pending[i].deadline.hasPassed())
          OPTRT_RETURN_IF_ERROR(receiveFrom(pending[i]));
      for (std::size_t rank = 0; rank != guests.size(); ++rank)
        if (char byte; watched[1 + pending.size() + rank].revents &&
                       receiveSome(guests[rank].socket, &byte, 1) < 0)
          guests[rank].socket.close();
      std::erase_if(pending,
                    [](const Guest &one) { return !one.socket.isOpen(); });
      if (watched[0].revents)
        for (Socket guest = acceptFrom(listener); guest.isOpen();
             guest = acceptFrom(listener))
          pending.push_back(
              {std::move(guest), Deadline(kAnswerSeconds),
               std::make_unique<HostGreeting>(key, job.job, cards[0].place)});
      std::vector<int> ranks = missing();
      if (isOver(ranks))
        return saySecrets(ranks);
      if (deadline.hasPassed())
        return unavailable(concat(
            ranks.size() == 1 ? "rank " : "ranks ", listOf(ranks), " of ",
            job.size, " did not come to ", job.meetingPoint.host, ":",
            portOf(listener), " within ", seconds(job.timeoutSeconds),
            "; start all of them with the same meeting point, and let them "
            "reach it over TCP (--timeout gives them longer)"));
    }
    return okStatus();
  }

  /// Whether all that are missing came with another secret, and nobody has come
  /// in their place for a while: anybody may say that it is a rank.
  bool isOver(const std::vector<int> &ranks) const {
    return lastMistaken && lastMistaken->hasPassed() && !ranks.empty() &&
           std::all_of(ranks.begin(), ranks.end(),
                       [&](int rank) { return mistaken.count(rank) != 0; });
  }

  Status saySecrets(const std::vector<int> &ranks) const {
    const std::string &first = mistaken.at(ranks[0]);
    return unavailable(concat(ranks.size() == 1 ? "rank " : "ranks ",
                              listOf(ranks), " (", first,
                              ranks.size() == 1 ? ") has" : " and others) have",
                              " another secret of the job than rank 0 (",
                              cards[0].place, "); ", kSecretAdvice));
  }

  /// Closes the connection of a stranger.
  Status receiveFrom(Guest &from) {
    using State = HostGreeting::State;
    char buffer[4096];
    std::ptrdiff_t got = 1;
    State state = from.greeting->state();
    while (state == State::Listening &&
           (got = receiveSome(from.socket, buffer, sizeof(buffer))) > 0)
      state = from.greeting->receive(
          std::string_view(buffer, static_cast<std::size_t>(got)));
    sendAll(from.socket, from.greeting->takeAnswer(), Deadline(kAnswerSeconds));
    if (state == State::Known)
      return welcome(from);
    if (state == State::OtherSecret) {
      const Greeting &said = from.greeting->greeting();
      if (said.rank > 0 && said.rank < job.size)
        mistaken[said.rank] = said.card.place;
      lastMistaken = Deadline(kAnswerSeconds);
    }
    if (state != State::Listening || got < 0 || from.deadline.hasPassed())
      from.socket.close();
    return okStatus();
  }

  Status welcome(Guest &from) {
    const Greeting &greeting = from.greeting->greeting();
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
        (guests[greeting.rank].socket.isOpen() && other.place != card.place))
      return invalidArgument(concat("two processes are rank ", greeting.rank,
                                    ": ", other.place, " and ", card.place,
                                    "; give each a number of its own, from 0 "
                                    "to ",
                                    job.size - 1));
    // Who comes again has lost its first connection.
    const int rank = greeting.rank;
    cards[rank] = card;
    guests[rank] = std::move(from);
    return okStatus();
  }

  /// That are heard at the same time.
  static constexpr std::size_t kMostStrangers = 256;

  const TcpJob &job;
  const JobKey &key;
  Socket listener;
  std::vector<Guest> pending;
  std::vector<Guest> guests; ///< by rank
  /// The guests with another secret, by the rank they claimed.
  std::map<int, std::string> mistaken;
  std::optional<Deadline> lastMistaken; ///< until others may come
  std::vector<Card> cards;
  const Deadline deadline;
};

//===----------------------------------------------------------------------===//
// The others
//===----------------------------------------------------------------------===//

class Guest {
public:
  Guest(const TcpJob &job, const JobKey &key, const Card &own,
        bool &isSaidElsewhere)
      : job(job), key(key), own(own), isSaidElsewhere(isSaidElsewhere),
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
      if (addresses.empty()) {
        if (lastTrouble.empty())
          warnOfUnknownHost();
        lastTrouble = "nobody knows that host";
      }
      for (const std::string &address : addresses)
        for (int i = 0; i != point.numPorts; ++i) {
          GuestGreeting greeting(
              key, {job.version, job.job, job.size, job.rank, own});
          Socket host = greet(address, point.port + i, greeting);
          if (host.isOpen())
            return hear(host, greeting);
          // Elsewhere another job may be there, with a secret of its own.
          if (hasOtherSecret && point.numPorts == 1)
            return unavailable(concat("rank ", job.rank, " (", own.place,
                                      ") at ", point.host, ":", point.port,
                                      ": ", lastTrouble, "; ", kSecretAdvice));
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
  /// A name may be new, and known in a moment; a misspelt one is never.
  void warnOfUnknownHost() const {
    const std::string until = job.timeoutSeconds > 0
                                  ? concat(" for ", seconds(job.timeoutSeconds))
                                  : "";
    std::fprintf(stderr,
                 "optimus-run: warning: rank %d (%s): nobody knows the host "
                 "`%s`, where rank 0 should be; it is looked up again%s\n",
                 job.rank, own.place.c_str(), job.meetingPoint.host.c_str(),
                 until.c_str());
  }

  /// A connection to rank 0 of this job, which knows us; or closed.
  Socket greet(const std::string &address, int port, GuestGreeting &greeting) {
    const Deadline soon =
        Deadline::earlierOf(deadline, Deadline(kAnswerSeconds));
    Socket host = connectTo(address, port, soon);
    if (!host.isOpen()) {
      lastTrouble = "nobody listens there";
      return Socket();
    }
    lastTrouble = "who listens there is no rank 0 of ours";
    auto ask = [&](const std::string &message) {
      return sendAll(host, message, soon) ? receiveMessage(host, soon)
                                          : std::nullopt;
    };
    const std::optional<std::string> challenge = ask(greeting.hello());
    const std::optional<std::string> own =
        challenge ? greeting.introduce(*challenge) : std::nullopt;
    const std::optional<std::string> answer = own ? ask(*own) : std::nullopt;
    if (!answer)
      return Socket();
    const std::optional<Reply> reply = greeting.understandReply(*answer);
    if (reply == Reply::Welcome)
      return host;
    hasOtherSecret = reply != Reply::OtherJob;
    lastTrouble = hasOtherSecret ? concat("rank 0 (", greeting.hostPlace(),
                                          ") has another secret of the job")
                                 : "another job meets there";
    return Socket();
  }

  /// As long as rank 0 waits for the others; it knows how long that is.
  StatusOr<std::vector<Card>> hear(const Socket &host,
                                   const GuestGreeting &greeting) {
    std::optional<std::string> message = receiveMessage(host, Deadline(0));
    if (message)
      message = greeting.open(*message);
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
  const JobKey &key;
  const Card &own;
  bool &isSaidElsewhere;
  const Deadline deadline;
  std::string lastTrouble;
  bool hasOtherSecret = false;
};

} // namespace

StatusOr<std::vector<Card>> meet(const TcpJob &job, const JobKey &key,
                                 const Card &own, bool &isSaidElsewhere) {
  isSaidElsewhere = false;
  if (job.size == 1)
    return std::vector<Card>{own};
  return job.rank == 0 ? Host(job, key, own).run()
                       : Guest(job, key, own, isSaidElsewhere).run();
}

} // namespace optrt
