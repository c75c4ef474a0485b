//===- GreetingTest.cpp - What ranks say when they meet -------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ccl/tcp/Greeting.h"

#include "ccl/peers/PeerSockets.h"

#include <gtest/gtest.h>

using namespace optrt;
using State = HostGreeting::State;

namespace {

const JobKey kKey("a secret"), kOther("another");
const Greeting kRank2{"optimus-run 1", "job", 4, 2, {"process 2", "h", "a"}};

std::string textOf(const std::string &message) {
  return message.substr(kMessageHeader);
}

/// A guest's introduction to a host, which has heard its hello.
std::string introduceTo(HostGreeting &host, GuestGreeting &guest) {
  EXPECT_EQ(host.receive(guest.hello()), State::Listening);
  return guest.introduce(textOf(host.takeAnswer())).value();
}

TEST(JobKey, HashesDependOnSecretAndOnEachPart) {
  const std::string hash = kKey.sign({"as", "text"});
  EXPECT_EQ(hash.size(), JobKey::kDigits);
  EXPECT_EQ(JobKey("a secret").sign({"as", "text"}), hash);
  EXPECT_TRUE(kKey.verify(hash, {"as", "text"}));
  EXPECT_FALSE(kOther.verify(hash, {"as", "text"}));
  EXPECT_FALSE(kKey.verify(hash, {"ast", "ext"}));
  EXPECT_FALSE(kKey.verify(hash, {"text", "as"}));
  EXPECT_FALSE(kKey.verify("", {"as", "text"}));
  EXPECT_NE(randomDigits(), randomDigits());
}

TEST(Greeting, BothEndsKnowEachOther) {
  HostGreeting host(kKey, "job", "process 1 on here");
  GuestGreeting guest(kKey, kRank2);
  // However it is cut into pieces.
  for (char byte : guest.hello())
    EXPECT_EQ(host.receive({&byte, 1}), State::Listening);
  const std::string said = *guest.introduce(textOf(host.takeAnswer()));
  for (std::size_t i = 0; i + 1 != said.size(); ++i)
    EXPECT_EQ(host.receive({&said[i], 1}), State::Listening);
  EXPECT_EQ(host.receive({&said.back(), 1}), State::Known);
  EXPECT_EQ(host.greeting().toText(), kRank2.toText());
  EXPECT_EQ(guest.hostPlace(), "process 1 on here");
  EXPECT_EQ(guest.understandReply(textOf(host.takeAnswer())), Reply::Welcome);
  EXPECT_EQ(guest.open(textOf(host.seal("the cards\n"))), "the cards\n");
  std::string changed = host.seal("the cards\n");
  changed.back() ^= 1;
  EXPECT_FALSE(guest.open(textOf(changed)));
}

TEST(Greeting, AnotherSecretIsNoticedByBoth) {
  HostGreeting host(kKey, "job", "process 1 on here");
  GuestGreeting guest(kOther, kRank2);
  EXPECT_EQ(host.receive(introduceTo(host, guest)), State::OtherSecret);
  EXPECT_EQ(host.greeting().rank, 2);
  EXPECT_EQ(guest.understandReply(textOf(host.takeAnswer())),
            Reply::OtherSecret);
}

TEST(Greeting, AnotherJobIsToldSo) {
  HostGreeting host(kKey, "other", "process 1 on here");
  GuestGreeting guest(kKey, kRank2);
  EXPECT_EQ(host.receive(introduceTo(host, guest)), State::OtherJob);
  EXPECT_EQ(guest.understandReply(textOf(host.takeAnswer())), Reply::OtherJob);
}

TEST(Greeting, WhatWasOverheardIsOfNoUse) {
  HostGreeting host(kKey, "job", "here"), later(kKey, "job", "here");
  GuestGreeting guest(kKey, kRank2);
  const std::string said = introduceTo(host, guest);
  EXPECT_EQ(host.receive(said), State::Known);
  EXPECT_EQ(later.receive(guest.hello()), State::Listening);
  EXPECT_EQ(later.receive(said), State::OtherSecret);
  // Nor is what rank 0 said to another guest.
  GuestGreeting again(kKey, kRank2);
  again.introduce(textOf(later.takeAnswer()));
  EXPECT_FALSE(again.understandReply(textOf(host.takeAnswer())));
}

TEST(Greeting, EachFlippedBitIsNoticed) {
  HostGreeting host(kKey, "job", "here");
  GuestGreeting guest(kKey, kRank2);
  const std::string hello = guest.hello();
  EXPECT_EQ(host.receive(hello), State::Listening);
  const std::string said = *guest.introduce(textOf(host.takeAnswer()));
  for (std::size_t bit = 0; bit != 8 * said.size(); ++bit) {
    HostGreeting copy = host;
    std::string changed = said;
    changed[bit / 8] ^= char(1 << bit % 8);
    EXPECT_NE(copy.receive(changed), State::Known) << bit;
  }
}

TEST(Greeting, StrangersAreSentAwayAtOnce) {
  for (const char *text : {"GET / HTTP/1.1\r\n\r\n", "O?", "OPTIMUS\nffffffff",
                           "OPTIMUS\n0000-001x", "OPTIMUS\n00000001x"})
    EXPECT_EQ(HostGreeting(kKey, "job", "here").receive(text), State::Stranger)
        << text;
}

TEST(PeerListener, TakesEachConnectionOnceAndOnlyOfPeers) {
  StatusOr<PeerListener> listener = PeerListener::open({kKey, "127.0.0.1"});
  ASSERT_TRUE(listener.ok());
  const std::string address = listener->address();
  using Line = PeerListener::Line;
  std::vector<Socket> ends;
  ends.push_back(PeerListener::reach(kOther, 1, Line::ToPeer, address));
  ends.push_back(PeerListener::reach(kKey, 9, Line::ToPeer, address));
  ends.push_back(PeerListener::reach(kKey, 1, Line::ToPeer, address));
  ends.push_back(PeerListener::reach(kKey, 1, Line::ToPeer, address));
  ends.push_back(PeerListener::reach(kKey, 1, Line::Straight, address));
  EXPECT_EQ(listener->acceptPeer(4, Deadline(5)).first, 1);
  EXPECT_EQ(listener->acceptPeer(4, Deadline(5)).first, 1);
  EXPECT_EQ(listener->acceptPeer(4, Deadline(0.1)).first, -1);
}

} // namespace
