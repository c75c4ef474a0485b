//===- TcpControl.cpp - The control plane over TCP ------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TcpControl.h"

#include "../InControlPlane.h"
#include "../peers/PeerMonitor.h"
#include "Pmi.h"
#include "Rendezvous.h"
#include "TcpCollectives.h"
#include "optimus-runtime/Exception.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <optional>
#include <poll.h>
#include <thread>

namespace optrt {
namespace {

/// A text of any length: first its length, then itself.
class IncomingText {
public:
  /// Reads what is there. False when the connection is gone.
  bool receive(const Socket &from) {
    while (!isWhole()) {
      bool isLength = have < sizeof(length);
      char *to = isLength ? reinterpret_cast<char *>(&length) + have
                          : &text[have - sizeof(length)];
      std::size_t wanted = isLength ? sizeof(length) - have
                                    : text.size() + sizeof(length) - have;
      std::ptrdiff_t got = receiveSome(from, to, wanted);
      if (got <= 0)
        return got == 0;
      have += got;
      if (have == sizeof(length))
        text.resize(length);
    }
    return true;
  }
  bool isWhole() const {
    return have >= sizeof(length) && have == sizeof(length) + text.size();
  }

  std::string text;

private:
  uint64_t length = 0;
  std::size_t have = 0;
};

std::string withLength(const std::string &text) {
  uint64_t length = text.size();
  return std::string(reinterpret_cast<const char *>(&length), sizeof(length)) +
         text;
}

class TcpControl final : public ControlPlane {
public:
  TcpControl(TcpJob newJob, const PeerTerms &terms)
      : job(std::move(newJob)), terms(terms) {}

  Status join(bool &isSaidElsewhere) {
    StatusOr<PeerListener> opened = PeerListener::open(terms);
    OPTRT_RETURN_IF_ERROR(opened.status());
    listener = std::move(opened).value();
    const Card own{ownPlace(), networkIdentity(), listener->address()};
    OPTRT_ASSIGN_OR_RETURN(cards, meet(job, terms.key, own, isSaidElsewhere));
    std::vector<std::string> addresses;
    for (const Card &card : cards)
      addresses.push_back(card.address);
    OPTRT_ASSIGN_OR_RETURN(
        overlay, listener->connect(job.rank, overlayPeers(job.rank, job.size),
                                   addresses));
    return watchDeaths();
  }

  Status layOut(const optimus_support::Mesh &newMesh) override {
    OPTRT_RETURN_IF_ERROR(agree(checkFits(job, newMesh)));
    mesh = newMesh;
    std::unique_ptr<RankActivity> former = std::move(ownActivity);
    ownActivity = std::make_unique<RankActivity>();
    // What was watched is looked at until somebody else looks.
    return watchesActivity ? watchDeaths() : okStatus();
  }

  int size() const override { return job.size; }
  int firstRank() const override { return job.rank; }
  int numLocalRanks() const override { return 1; }

  /// Bruck's: after a round with ranks at distance d, a rank has the texts of
  /// the 2d ranks from itself on.
  std::vector<std::string> allGather(const std::string &own) override {
    InControlPlane here(ownActivity.get(), place());
    std::vector<std::string> texts{own};
    for (int distance = 1; distance < size(); distance *= 2) {
      int some = std::min(distance, size() - distance);
      std::string message;
      for (int i = 0; i != some; ++i)
        message += withLength(texts[i]);
      message = exchangeTexts((job.rank + size() - distance) % size(), message,
                              (job.rank + distance) % size());
      for (std::size_t at = 0; at != message.size();) {
        uint64_t length;
        std::memcpy(&length, &message[at], sizeof(length));
        texts.push_back(message.substr(at + sizeof(length), length));
        at += sizeof(length) + length;
      }
    }
    std::rotate(texts.begin(), texts.end() - job.rank, texts.end());
    return texts;
  }

  Status exchange(int to, std::span<const float> out, int from,
                  std::span<float> in) override {
    InControlPlane here(ownActivity.get());
    std::span<const std::byte> left = std::as_bytes(out);
    std::span<std::byte> missing = std::as_writable_bytes(in);
    const Socket *there = nullptr, *thence = nullptr;
    if (!left.empty()) {
      OPTRT_ASSIGN_OR_RETURN(there, straightLine(to));
    }
    if (!missing.empty()) {
      OPTRT_ASSIGN_OR_RETURN(thence, straightLine(from));
    }
    while (!left.empty() || !missing.empty()) {
      pollfd both[] = {{left.empty() ? -1 : there->get(), POLLOUT, 0},
                       {missing.empty() ? -1 : thence->get(), POLLIN, 0}};
      poll(both, 2, -1);
      if (both[0].revents) {
        std::ptrdiff_t sent = sendSome(
            *there, reinterpret_cast<const char *>(left.data()), left.size());
        if (sent < 0)
          return lost(to);
        left = left.subspan(sent);
      }
      if (both[1].revents) {
        std::ptrdiff_t got = receiveSome(
            *thence, reinterpret_cast<char *>(missing.data()), missing.size());
        if (got < 0)
          return lost(from);
        missing = missing.subspan(got);
      }
    }
    return okStatus();
  }

  RankActivity &activity(int) override { return *ownActivity; }

  Status watch(WatchOptions options) override {
    if (options.timeoutSeconds <= 0) {
      monitor.reset();
      return okStatus();
    }
    watchesActivity = true;
    return startMonitor(options.timeoutSeconds, ownActivity.get(),
                        std::move(options.onStall));
  }

  [[noreturn]] void exitJob(int code) override {
    std::fflush(nullptr);
    if (monitor)
      monitor->endAll(code);
    std::_Exit(code);
  }

private:
  /// From the first to the last moment, a process that dies ends the job.
  Status watchDeaths() {
    watchesActivity = false;
    if (job.timeoutSeconds <= 0 || !job.onStall)
      return okStatus();
    return startMonitor(std::numeric_limits<double>::infinity(), &idle,
                        job.onStall);
  }

  Status startMonitor(double timeoutSeconds, const RankActivity *watched,
                      std::function<void(const Status &, bool)> onStall) {
    if (size() == 1)
      return okStatus();
    StatusOr<PeerSockets> sockets = connectOverlay(*this, terms);
    OPTRT_RETURN_IF_ERROR(agree(sockets.status()));
    std::vector<std::string> places;
    for (const Card &card : cards)
      places.push_back(card.place);
    monitor.reset();
    monitor = std::make_unique<PeerMonitor>(
        std::move(sockets).value(),
        PeerMonitor::Options{
            job.rank, size(), timeoutSeconds, mesh,
            [this](int rank, CommandId id) { return nameOf(rank, id); },
            watched, std::move(places), std::move(onStall)});
    return agree(monitor->start());
  }

  /// Sends a text to one rank and receives one from another, or the same.
  std::string exchangeTexts(int to, const std::string &text, int from) {
    std::string out = withLength(text);
    std::string_view left = out;
    IncomingText in;
    while (!left.empty() || !in.isWhole()) {
      pollfd both[] = {{left.empty() ? -1 : overlay[to].get(), POLLOUT, 0},
                       {in.isWhole() ? -1 : overlay[from].get(), POLLIN, 0}};
      poll(both, 2, -1);
      if (both[0].revents) {
        std::ptrdiff_t sent = sendSome(overlay[to], left.data(), left.size());
        if (sent < 0)
          throw StatusException(lost(to));
        left.remove_prefix(sent);
      }
      if (both[1].revents && !in.receive(overlay[from]))
        throw StatusException(lost(from));
    }
    return std::move(in.text);
  }

  /// A connection for large data, made by the higher rank when either first
  /// needs it.
  StatusOr<const Socket *> straightLine(int other) {
    lines.resize(size());
    if (job.rank > other && !lines[other].isOpen()) {
      lines[other] =
          PeerListener::reach(terms.key, job.rank, PeerListener::Line::Straight,
                              cards[other].address);
      if (!lines[other].isOpen())
        return lost(other);
    }
    while (!lines[other].isOpen()) {
      auto [rank, line] = listener->acceptPeer(size(), Deadline(0));
      if (line.isOpen())
        lines[rank] = std::move(line);
    }
    return &lines[other];
  }

  Status lost(int rank) const {
    if (monitor)
      std::this_thread::sleep_for(std::chrono::duration<double>(kLostSeconds));
    return unavailable(concat("rank ", rank, " (", cards[rank].place,
                              ") ended before the others were done with it"));
  }

  TcpJob job;
  const PeerTerms terms;
  optimus_support::Mesh mesh;
  std::vector<Card> cards;
  std::optional<PeerListener> listener;
  PeerSockets overlay;
  std::vector<Socket> lines;
  RankActivity idle;
  std::unique_ptr<RankActivity> ownActivity;
  bool watchesActivity = false;
  std::unique_ptr<PeerMonitor> monitor; ///< last: it looks at the rank
};

} // namespace

StatusOr<std::unique_ptr<ControlPlane>>
createTcpControl(TcpJob job, const PeerTerms &terms, bool &isSaidElsewhere) {
  auto control = std::make_unique<TcpControl>(std::move(job), terms);
  OPTRT_RETURN_IF_ERROR(control->join(isSaidElsewhere));
  return std::unique_ptr<ControlPlane>(std::move(control));
}

TcpJob tcpJobOf(const Launcher &launcher) {
  TcpJob job;
  job.rank = *launcher.rank;
  job.size = *launcher.size;
  job.startedBy = launcher.name;
  job.job = launcher.job;
  job.meetingPoint = launcher.meetingPoint.value_or(MeetingPoint());
  job.pmiSocket = launcher.pmiSocket;
  job.isOneHost = launcher.isOneHost;
  return job;
}

Status checkFits(const TcpJob &job, const optimus_support::Mesh &mesh) {
  if (mesh.numRanks() == job.size)
    return okStatus();
  const bool isByHand = job.startedBy == Launcher::kByHand;
  return invalidArgument(
      concat("the library is compiled for a mesh of ", mesh.toString(), " = ",
             mesh.numRanks(), " ranks, but ",
             isByHand ? "--ranks is" : job.startedBy + " started", " ",
             job.size, "; start ", mesh.numRanks(),
             isByHand ? concat(", each with --ranks ", mesh.numRanks()) : ""));
}

std::string makeJobSecret() { return randomDigits(); }

bool staysOnThisHost(const TcpJob &job) {
  if (job.size == 1 || job.isOneHost)
    return true;
  if (job.pmiSocket)
    return false;
  const std::vector<std::string> addresses = addressesOf(job.meetingPoint.host);
  return !addresses.empty() && std::all_of(addresses.begin(), addresses.end(),
                                           [](const std::string &one) {
                                             return one.starts_with("127.");
                                           });
}

/// Asks MPICH's mpiexec, over which rank 0 also hands out a secret.
static Status askWhereToMeet(TcpJob &job) {
  constexpr char kSeparator = ';';
  std::string said = "127.0.0.1";
  if (!job.isOneHost)
    for (const std::string &address : ownAddresses())
      said += "," + address;
  said += kSeparator + randomDigits();
  OPTRT_ASSIGN_OR_RETURN(PmiAnswer answer,
                         askPmi(Socket(*job.pmiSocket), job.rank, said,
                                Deadline(job.timeoutSeconds)));
  const std::size_t end =
      std::min(answer.hosts.find(kSeparator), answer.hosts.size());
  job.job = answer.job;
  job.meetingPoint = meetingPointOf(answer.job, answer.hosts.substr(0, end));
  if (job.secret.empty())
    job.secret = answer.hosts.substr(end);
  return okStatus();
}

StatusOr<World> createTcpWorld(TcpJob job, bool &isSaidElsewhere) {
  if (job.bind.empty() && staysOnThisHost(job))
    job.bind = "127.0.0.1";
  if (job.pmiSocket && job.size > 1)
    OPTRT_RETURN_IF_ERROR(askWhereToMeet(job));
  const PeerTerms terms{JobKey(job.secret), job.bind};
  OPTRT_ASSIGN_OR_RETURN(
      std::unique_ptr<ControlPlane> control,
      createTcpControl(std::move(job), terms, isSaidElsewhere));
  return World{std::move(control), createTcpCollectives(terms)};
}

} // namespace optrt
