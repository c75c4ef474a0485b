//===- Pmi.cpp - Asks MPICH's mpiexec where ranks meet --------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Pmi.h"

namespace optrt {
namespace {

/// The key under which rank 0 says where it is.
constexpr std::string_view kKey = "optimus_rendezvous";

class PmiClient {
public:
  PmiClient(Socket proxy, Deadline deadline)
      : proxy(std::move(proxy)), deadline(deadline) {}

  /// The line that answers a request; it begins with `expected`.
  StatusOr<std::string> ask(const std::string &request,
                            const std::string &expected) {
    std::string line;
    bool isSent = sendAll(proxy, "cmd=" + request + "\n", deadline);
    // A byte at a time: what follows a line is not ours.
    for (std::string byte; isSent && line.size() < kLongestLine; line += byte) {
      byte = receiveText(proxy, 1, deadline);
      if (byte.empty() || byte == "\n")
        break;
    }
    bool hasFailed = line.find(" rc=") != std::string::npos &&
                     line.find(" rc=0") == std::string::npos;
    if (line.compare(0, expected.size() + 4, "cmd=" + expected) == 0 &&
        !hasFailed)
      return line;
    return unavailable(concat(
        "mpiexec was told `", request, "` over PMI_FD and answered `", line,
        "`, expected `cmd=", expected,
        "`; give all ranks --rendezvous HOST:PORT, where rank 0 listens on its "
        "host"));
  }

  /// What follows `key=` in a line, to the next space.
  static std::string valueIn(const std::string &line, const std::string &key) {
    std::size_t at = line.find(" " + key + "=");
    if (at == std::string::npos)
      return "";
    at += key.size() + 2;
    return line.substr(at, line.find(' ', at) - at);
  }

private:
  static constexpr std::size_t kLongestLine = 1 << 14;

  const Socket proxy;
  const Deadline deadline;
};

} // namespace

StatusOr<PmiAnswer> askPmi(Socket proxy, int rank, const std::string &hosts,
                           Deadline deadline) {
  PmiClient client(std::move(proxy), deadline);
  OPTRT_RETURN_IF_ERROR(
      client.ask("init pmi_version=1 pmi_subversion=1", "response_to_init")
          .status());
  OPTRT_ASSIGN_OR_RETURN(std::string named,
                         client.ask("get_my_kvsname", "my_kvsname"));
  PmiAnswer answer{PmiClient::valueIn(named, "kvsname"), hosts};
  const std::string entry = concat(" kvsname=", answer.job, " key=", kKey);
  if (rank == 0)
    OPTRT_RETURN_IF_ERROR(
        client.ask(concat("put", entry, " value=", hosts), "put_result")
            .status());
  OPTRT_RETURN_IF_ERROR(client.ask("barrier_in", "barrier_out").status());
  OPTRT_ASSIGN_OR_RETURN(std::string said,
                         client.ask("get" + entry, "get_result"));
  answer.hosts = PmiClient::valueIn(said, "value");
  OPTRT_RETURN_IF_ERROR(client.ask("finalize", "finalize_ack").status());
  return answer;
}

} // namespace optrt
