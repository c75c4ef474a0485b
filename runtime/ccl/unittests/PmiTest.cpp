//===- PmiTest.cpp - Asks MPICH's mpiexec where ranks meet ----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ccl/tcp/Pmi.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/socket.h>
#include <thread>
#include <vector>

using namespace optrt;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

/// The two ends of a connection.
std::pair<Socket, Socket> connection() {
  int ends[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  return {Socket(ends[0]), Socket(ends[1])};
}

std::string lineFrom(const Socket &client) {
  std::string line;
  for (std::string byte; (byte = receiveText(client, 1, Deadline(20))) != "";)
    if (byte == "\n")
      break;
    else
      line += byte;
  return line;
}

/// Answers with these lines, as Hydra's proxy; what it was asked.
std::vector<std::string> answer(const Socket &client,
                                const std::vector<std::string> &lines) {
  std::vector<std::string> asked;
  for (const std::string &line : lines) {
    asked.push_back(lineFrom(client));
    sendAll(client, line + "\n", Deadline(20));
  }
  return asked;
}

TEST(Pmi, TheFirstRankSaysWhereItIs) {
  auto [proxy, client] = connection();
  std::vector<std::string> asked;
  std::thread serves([&, &far = proxy] {
    // As MPICH 4.0's mpiexec does.
    asked =
        answer(far, {"cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0",
                     "cmd=my_kvsname kvsname=kvs_17_0_5_host",
                     "cmd=put_result rc=0 msg=success", "cmd=barrier_out",
                     "cmd=get_result rc=0 msg=success value=10.0.0.1,10.1.0.1",
                     "cmd=finalize_ack"});
  });
  StatusOr<PmiAnswer> found =
      askPmi(std::move(client), 0, "10.0.0.1,10.1.0.1", Deadline(20));
  serves.join();
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(found->job, "kvs_17_0_5_host");
  EXPECT_EQ(found->hosts, "10.0.0.1,10.1.0.1");
  EXPECT_THAT(
      asked,
      ElementsAre("cmd=init pmi_version=1 pmi_subversion=1",
                  "cmd=get_my_kvsname",
                  "cmd=put kvsname=kvs_17_0_5_host key=optimus_rendezvous "
                  "value=10.0.0.1,10.1.0.1",
                  "cmd=barrier_in",
                  "cmd=get kvsname=kvs_17_0_5_host key=optimus_rendezvous",
                  "cmd=finalize"));
}

TEST(Pmi, TheOthersHearIt) {
  auto [proxy, client] = connection();
  std::vector<std::string> asked;
  std::thread serves([&, &far = proxy] {
    asked = answer(
        far, {"cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1",
              "cmd=my_kvsname kvsname=job rc=0", "cmd=barrier_out rc=0",
              "cmd=get_result value=10.0.0.1 rc=0", "cmd=finalize_ack rc=0"});
  });
  StatusOr<PmiAnswer> found =
      askPmi(std::move(client), 3, "10.0.0.3", Deadline(20));
  serves.join();
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(found->hosts, "10.0.0.1");
  EXPECT_EQ(found->job, "job");
  EXPECT_EQ(asked.size(), 5u);
}

TEST(Pmi, SomethingElseIsRefused) {
  for (const char *line :
       {"cmd=response_to_init rc=-1", "cmd=ack", "HTTP/1.1 400"}) {
    auto [proxy, client] = connection();
    std::thread serves([&, &far = proxy] { answer(far, {line}); });
    StatusOr<PmiAnswer> found =
        askPmi(std::move(client), 1, "here", Deadline(20));
    serves.join();
    EXPECT_THAT(found.status().message(),
                AllOf(HasSubstr(concat("answered `", line, "`")),
                      HasSubstr("--rendezvous HOST:PORT")));
  }
}

TEST(Pmi, AProxyThatIsGoneIsNamed) {
  auto [proxy, client] = connection();
  proxy.close();
  EXPECT_THAT(
      askPmi(std::move(client), 1, "here", Deadline(20)).status().message(),
      HasSubstr("answered ``"));
}

} // namespace
