//===- PeerMonitor.cpp - Notices ranks that die or stall ------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PeerMonitor.h"

#include "../AwakeTime.h"
#include "base/Thread.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <poll.h>
#include <sstream>
#include <type_traits>
#include <utility>

namespace optrt {
namespace {

static_assert(std::is_trivially_copyable_v<ActivitySnapshot>,
              "it is sent as its bytes: all ranks run one program");

struct Header {
  uint32_t type, length;
};

/// What is said of a rank.
struct RankNews {
  uint64_t version = 0;
  int64_t rank = 0;
  ActivitySnapshot activity;
};
static_assert(std::is_trivially_copyable_v<RankNews>);

/// Until neighbours have heard that this rank leaves.
constexpr std::chrono::milliseconds kTimeToPart(1000);

/// How long a rank that is ready to end waits for the others. Where one has
/// died, mpirun (4.1) kills all others two seconds later.
constexpr std::chrono::milliseconds kTimeToEnd(1000);

constexpr double kLongestInterval = 0.5;

/// How often news are handed on in an interval: a few steps lead to everybody.
constexpr int kTellings = 5;

/// How long a death is not judged: others may have died with it, and all must
/// choose the same rank to speak.
constexpr std::chrono::milliseconds kSettling(30);

/// Far more than any message has: a longer one is not of a peer.
constexpr uint32_t kMostPayload = 1 << 16;
/// Of ranks, in a message of news.
constexpr std::size_t kMostNews = 256;
static_assert(kMostNews * sizeof(RankNews) < kMostPayload);

} // namespace

PeerMonitor::PeerMonitor(PeerSockets sockets, Options options)
    : options(std::move(options)),
      interval(std::min(kLongestInterval, this->options.timeoutSeconds / 5)),
      ranks(this->options.size) {
  for (Rank &rank : ranks)
    rank.lastHeard = Clock::now();
  for (std::size_t rank = 0; rank != sockets.size(); ++rank)
    if (sockets[rank].isOpen())
      neighbours.push_back({static_cast<int>(rank),
                            std::move(sockets[rank]),
                            {},
                            {},
                            std::vector<uint64_t>(ranks.size())});
}

Status PeerMonitor::start() {
  OPTRT_ASSIGN_OR_RETURN(
      thread, startThread("the thread that watches the other ranks (--timeout "
                          "0 does without it)",
                          [this] { work(); }));
  termination.hold();
  return okStatus();
}

PeerMonitor::~PeerMonitor() {
  stopping.store(true);
  if (thread.joinable())
    thread.join();
  tellAll(Goodbye, std::to_string(options.rank));
  partFromAll();
}

void PeerMonitor::endAll(int exitCode) {
  // The rank itself is the culprit, so it needs no more words.
  if (announceEnd({options.rank, options.rank, exitCode,
                   concat("rank ", options.rank, " ended the job")}))
    getReady(exitCode);
  // The monitor's thread ends the process meanwhile.
  std::this_thread::sleep_for(2 * kTimeToEnd);
}

void PeerMonitor::tell(Neighbour &to, MessageType type,
                       std::string_view payload) {
  Header header{type, static_cast<uint32_t>(payload.size())};
  to.out.append(reinterpret_cast<const char *>(&header), sizeof(header));
  to.out.append(payload);
  send(to);
}

void PeerMonitor::tellAll(MessageType type, std::string_view payload) {
  std::lock_guard lock(sending);
  for (Neighbour &to : neighbours)
    tell(to, type, payload);
}

/// What it does not take now stays: half a message would spoil those after it.
void PeerMonitor::send(Neighbour &to) {
  while (!to.out.empty()) {
    std::ptrdiff_t sent = sendSome(to.socket, to.out.data(), to.out.size());
    if (sent < 0)
      to.out.clear(); // its end is noticed where it is received from
    if (sent <= 0)
      return;
    to.out.erase(0, sent);
  }
}

/// The system resets a connection closed with unread data, and the last words
/// are lost if they are not on their way yet. So all is read, and nothing said,
/// until the others have closed theirs.
void PeerMonitor::partFromAll() {
  const Clock::time_point latest = Clock::now() + kTimeToPart;
  bool isAlone = false;
  while (!isAlone && Clock::now() < latest) {
    isAlone = true;
    std::vector<pollfd> watched;
    for (Neighbour &one : neighbours) {
      std::lock_guard lock(sending);
      send(one);
      if (one.out.empty())
        endSending(one.socket);
      watched.push_back({one.socket.get(), POLLIN, 0});
      isAlone = isAlone && !one.socket.isOpen();
    }
    constexpr int kMilliseconds = 10;
    poll(watched.data(), watched.size(), kMilliseconds);
    for (std::size_t i = 0; i != neighbours.size(); ++i) {
      char buffer[1 << 12];
      std::ptrdiff_t got = watched[i].revents ? 1 : 0;
      while (got > 0)
        got = receiveSome(neighbours[i].socket, buffer, sizeof(buffer));
      std::lock_guard lock(sending);
      if (got < 0)
        neighbours[i].socket.close();
    }
  }
}

void PeerMonitor::beat() {
  Rank &own = ranks[options.rank];
  own.activity = snapshot(*options.activity);
  ++own.version;
}

/// Tells each neighbour what it does not know. A neighbour that does not read
/// gets nothing more until it does, and then all the news so far.
void PeerMonitor::tellNews() {
  std::lock_guard lock(sending);
  for (Neighbour &to : neighbours) {
    send(to);
    if (!to.out.empty() || ranks[to.rank].gone)
      continue;
    std::string payload;
    for (std::size_t rank = 0; rank != ranks.size(); ++rank) {
      if (ranks[rank].version > to.known[rank]) {
        RankNews news{ranks[rank].version, static_cast<int64_t>(rank),
                      ranks[rank].activity};
        payload.append(reinterpret_cast<const char *>(&news), sizeof(news));
        to.known[rank] = news.version;
      }
      bool isFull = payload.size() == kMostNews * sizeof(RankNews);
      if (!payload.empty() && (isFull || rank + 1 == ranks.size())) {
        tell(to, News, payload);
        payload.clear();
      }
    }
  }
}

void PeerMonitor::receiveFrom(Neighbour &from) {
  char buffer[1 << 14];
  while (!ranks[from.rank].gone) {
    std::ptrdiff_t got = receiveSome(from.socket, buffer, sizeof(buffer));
    if (got <= 0) {
      if (got == 0)
        break;
      // Its last words may be a farewell, or news of a death.
      std::lock_guard lock(sending);
      from.socket.close();
      break;
    }
    from.in.append(buffer, got);
    ranks[from.rank].lastHeard = Clock::now();
  }
  std::string_view rest = from.in;
  Header header;
  while (rest.size() >= sizeof(header)) {
    std::memcpy(&header, rest.data(), sizeof(header));
    if (header.length > kMostPayload) {
      noteGone(from.rank);
      break;
    }
    if (rest.size() < sizeof(header) + header.length)
      break;
    understand(from, header.type, rest.substr(sizeof(header), header.length));
    rest.remove_prefix(sizeof(header) + header.length);
  }
  from.in.erase(0, from.in.size() - rest.size());
  if (!from.socket.isOpen() && !ranks[from.rank].left)
    noteGone(from.rank);
}

void PeerMonitor::readNews(Neighbour &from, std::string_view payload) {
  RankNews news;
  for (; payload.size() >= sizeof(news); payload.remove_prefix(sizeof(news))) {
    std::memcpy(&news, payload.data(), sizeof(news));
    if (news.rank < 0 || news.rank >= options.size || news.rank == options.rank)
      continue;
    from.known[news.rank] = std::max(from.known[news.rank], news.version);
    Rank &rank = ranks[news.rank];
    if (news.version <= rank.version)
      continue;
    rank.version = news.version;
    rank.activity = news.activity;
    if (!isNeighbour(static_cast<int>(news.rank)))
      rank.lastHeard = Clock::now();
  }
}

void PeerMonitor::understand(Neighbour &from, uint32_t type,
                             std::string_view payload) {
  // A rank's number, where the message is about one.
  int about = -1;
  std::from_chars(payload.data(), payload.data() + payload.size(), about);
  bool isRank = about >= 0 && about < options.size;
  switch (type) {
  case News:
    return readNews(from, payload);
  case Goodbye:
    if (isRank && !std::exchange(ranks[about].left, true))
      tellAll(Goodbye, payload);
    return;
  case Gone:
    if (isRank)
      noteGone(about);
    return;
  case Ready:
    if (isRank && !std::exchange(ranks[about].ready, true))
      tellAll(Ready, payload);
    return;
  case Verdict: {
    std::istringstream text{std::string(payload)};
    End verdict;
    text >> verdict.culprit >> verdict.speaker >> verdict.exitCode;
    text.ignore(1);
    verdict.message.assign(std::istreambuf_iterator(text), {});
    return end(verdict);
  }
  }
}

void PeerMonitor::noteGone(int rank) {
  if (ranks[rank].left || std::exchange(ranks[rank].gone, true))
    return;
  goneAt = Clock::now();
  tellAll(Gone, std::to_string(rank));
}

bool PeerMonitor::isNeighbour(int rank) const {
  return std::any_of(neighbours.begin(), neighbours.end(),
                     [&](const Neighbour &one) { return one.rank == rank; });
}

double PeerMonitor::silenceOf(int rank) const {
  return awakeSince(ranks[rank].lastHeard);
}

/// How long it has waited by now, if it still does; below 0 where it did not.
/// Where this process was suspended since, what it was told before is old.
double PeerMonitor::waitOf(int rank) const {
  const double told = ranks[rank].activity.waitedSeconds;
  if (told < 0)
    return told;
  const std::chrono::duration<double> before(told);
  return std::max(
      0.0, awakeSince(ranks[rank].lastHeard -
                      std::chrono::duration_cast<Clock::duration>(before)));
}

/// Longer than a healthy rank is.
bool PeerMonitor::isSilent(int rank) const {
  return silenceOf(rank) > std::max(1.0, 4 * interval.count());
}

void PeerMonitor::judge() {
  std::vector<RankReport> reports(ranks.size());
  for (int rank = 0; rank != options.size; ++rank) {
    reports[rank].activity = ranks[rank].activity;
    if (!options.places.empty())
      reports[rank].place = options.places[rank];
    if (ranks[rank].left || rank == options.rank)
      continue;
    reports[rank].gone = ranks[rank].gone;
    double &waited = reports[rank].activity.waitedSeconds;
    const double told = waited, sinceThen = waitOf(rank);
    // Of the others, their neighbours know it first.
    if (!isNeighbour(rank)) {
      waited = std::min(told, sinceThen);
      continue;
    }
    reports[rank].silentSeconds = silenceOf(rank);
    // The last news are as old as the silence.
    waited = sinceThen;
  }
  std::optional<Stall> stall =
      findStall(reports, options.mesh, options.names, options.timeoutSeconds);
  if (!stall)
    return;
  // Of whom nothing is heard, its neighbours will say so.
  if (!ranks[stall->rank].gone && stall->rank != options.rank &&
      !isNeighbour(stall->rank) && isSilent(stall->rank))
    return;
  const Status status = unavailable(stall->message);
  end({stall->rank, chooseSpeaker(stall->rank), status.exitCode(),
       status.message()});
}

/// The lowest rank that lives.
int PeerMonitor::chooseSpeaker(int culprit) const {
  int speaker = 0;
  while (speaker != options.rank &&
         (speaker == culprit || ranks[speaker].gone || ranks[speaker].left))
    ++speaker;
  return speaker;
}

/// False where the end has begun already.
bool PeerMonitor::announceEnd(const End &verdict) {
  if (ending.exchange(true))
    return false;
  tellAll(Verdict, concat(verdict.culprit, ' ', verdict.speaker, ' ',
                          verdict.exitCode, ' ', verdict.message));
  return true;
}

/// All end; one says why. Who hears the verdict does not choose again: the
/// speaker may have ended since.
void PeerMonitor::end(const End &verdict) {
  if (!announceEnd(verdict))
    return;
  options.onStall(unavailable(verdict.message),
                  verdict.speaker == options.rank &&
                      verdict.culprit != options.rank);
  getReady(verdict.exitCode);
}

/// What this process has to do before it ends is done.
void PeerMonitor::getReady(int exitCode) {
  termination.endWith(exitCode);
  tellAll(Ready, std::to_string(options.rank));
  ownExitCode.store(exitCode);
}

/// Ranks end together: as soon as mpirun sees the second one end, it kills what
/// is left (SIGKILL), ready or not.
bool PeerMonitor::mayEnd() {
  if (ownExitCode.load() < 0)
    return false;
  if (latestEnd == Clock::time_point())
    latestEnd = Clock::now() + kTimeToEnd;
  bool allAreReady = true;
  for (int rank = 0; rank != options.size; ++rank)
    allAreReady =
        allAreReady && (rank == options.rank || ranks[rank].ready ||
                        ranks[rank].gone || ranks[rank].left || isSilent(rank));
  std::lock_guard lock(sending);
  for (Neighbour &to : neighbours)
    send(to);
  return allAreReady || Clock::now() >= latestEnd;
}

void PeerMonitor::work() {
  auto after = [](std::chrono::duration<double> time) {
    return Clock::now() + std::chrono::duration_cast<Clock::duration>(time);
  };
  Clock::time_point nextBeat = Clock::now(), nextNews = nextBeat;
  bool isDue = false;
  // An end that has begun is the process's.
  while (!stopping.load() || ending.load()) {
    std::vector<pollfd> watched;
    for (const Neighbour &one : neighbours)
      watched.push_back(
          {ranks[one.rank].gone ? -1 : one.socket.get(), POLLIN, 0});
    const Clock::time_point looked = Clock::now();
    look();
    // Short enough that the end of the process does not wait for it.
    constexpr int kMilliseconds = 20;
    poll(watched.data(), watched.size(), kMilliseconds);
    for (std::size_t i = 0; i != neighbours.size(); ++i)
      if (watched[i].revents)
        receiveFrom(neighbours[i]);
    if (ending.load()) {
      if (mayEnd())
        return options.endProcess(ownExitCode.load());
      continue;
    }
    termination.letPass();
    bool beats = Clock::now() >= nextBeat;
    if (beats) {
      beat();
      nextBeat = after(interval);
    }
    if (beats || Clock::now() >= nextNews) {
      tellNews();
      nextNews = after(interval / kTellings);
    }
    bool died =
        goneAt != Clock::time_point() && Clock::now() - goneAt >= kSettling;
    isDue |= beats || died;
    // This process may have been stopped itself, anywhere in here: all that has
    // arrived since is read before anybody is judged.
    if (isDue && Clock::now() - looked < interval) {
      judge();
      isDue = false;
    }
  }
}

} // namespace optrt
