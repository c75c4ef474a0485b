//===- GreetingFuzzer.cpp - What strangers say to ranks -------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The first byte says whose end hears the rest, in pieces: rank 0's, or a
// guest's. Nobody who does not know the key may be taken for a rank.
//
//===----------------------------------------------------------------------===//

#include "ccl/tcp/Greeting.h"

#include <cstdlib>
#include <sstream>

using namespace optrt;

namespace {

void hearAsHost(const JobKey &key, std::string_view text) {
  HostGreeting host(key, "job", "process 1 on here");
  // Strangers may begin as a guest does, too.
  const bool isGreeted = !text.empty() && text[0] % 2;
  const std::string hello = GuestGreeting(JobKey("other"), {}).hello();
  if (isGreeted)
    host.receive(hello);
  while (!text.empty() && host.state() == HostGreeting::State::Listening) {
    const std::size_t some = std::min<std::size_t>(
        text.size(), 1 + static_cast<unsigned char>(text[0]));
    host.receive(text.substr(0, some));
    text.remove_prefix(some);
  }
  if (host.state() == HostGreeting::State::Known)
    std::abort();
  (void)host.takeAnswer();
}

void hearAsGuest(const JobKey &key, const std::string &text) {
  GuestGreeting guest(key, {"optimus-run", "job", 2, 1, {"here", "h", "a"}});
  (void)guest.introduce(text);
  if (guest.understandReply(text) == Reply::Welcome || guest.open(text))
    std::abort();
  // As if they were sealed.
  std::istringstream lines(text);
  for (int i = 0; i != 4; ++i)
    (void)Card::read(lines);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const JobKey key("a secret that mutants do not know");
  if (size == 0)
    return 0;
  const std::string_view text(reinterpret_cast<const char *>(data) + 1,
                              size - 1);
  if (data[0] % 2)
    hearAsHost(key, text);
  else
    hearAsGuest(key, std::string(text));
  return 0;
}
