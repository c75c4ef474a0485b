//===- ControlPlane.cpp - How processes agree -----------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-runtime/ControlPlane.h"

#include <charconv>
#include <cstdio>
#include <sstream>

namespace optrt {

std::string ControlPlane::nameOf(int rank, CommandId command) const {
  return names ? names(rank, command) : concat("command ", command.number);
}

void ControlPlane::endJob(const Status &status) {
  if (tellEnd)
    tellEnd(status, /*speaks=*/true);
  else
    std::fprintf(stderr, "%s\n", status.message().c_str());
  exitJob(status.exitCode());
  // With sanitizers g++ does not believe it of a virtual function.
  __builtin_unreachable();
}

std::string ControlPlane::encode(const Status &status) {
  return status.ok()
             ? std::string()
             : concat(static_cast<int>(status.code()), " ", status.message());
}

Status ControlPlane::decode(std::string_view text) {
  if (text.empty())
    return okStatus();
  int code = 0;
  const char *end = text.data() + text.size();
  auto [stop, error] = std::from_chars(text.data(), end, code);
  if (error != std::errc() || stop == end || *stop != ' ' ||
      code <= static_cast<int>(StatusCode::Ok) ||
      code > static_cast<int>(StatusCode::Internal))
    return internal(
        concat("a rank said what the others do not understand: ", text));
  return Status(static_cast<StatusCode>(code), std::string(stop + 1, end));
}

Status ControlPlane::agree(Status own) {
  for (const std::string &text : allGather(encode(own)))
    OPTRT_RETURN_IF_ERROR(decode(text));
  return okStatus();
}

Status ControlPlane::agreeOnFiles(Status own) {
  return agree(own.ok() || isRoot()
                   ? std::move(own)
                   : own.withContext(concat("rank ", firstRank())));
}

Status ControlPlane::agreeInTime(Status own) {
  here = RankActivity::kMeeting;
  Status status = agree(std::move(own));
  here = RankActivity::kAgreement;
  return status;
}

Status ControlPlane::checkSame(std::span<const Setting> settings) {
  std::string own;
  for (const Setting &setting : settings)
    own += setting.value + '\n';
  std::vector<std::string> all = allGather(own);
  auto linesOf = [](const std::string &text) {
    std::istringstream stream(text);
    std::vector<std::string> lines;
    for (std::string line; std::getline(stream, line);)
      lines.push_back(line);
    return lines;
  };
  std::vector<std::string> expected = linesOf(all[0]);
  for (std::size_t rank = 1; rank != all.size(); ++rank) {
    std::vector<std::string> found = linesOf(all[rank]);
    for (std::size_t i = 0; i != settings.size(); ++i)
      if (i >= found.size() || i >= expected.size() || found[i] != expected[i])
        return invalidArgument(
            concat("rank ", rank, " and rank 0 disagree on ", settings[i].name,
                   ": ", i < found.size() ? found[i] : "nothing", " on rank ",
                   rank, ", ", i < expected.size() ? expected[i] : "nothing",
                   " on rank 0; start all ranks with the same options and "
                   "files"));
  }
  return okStatus();
}

} // namespace optrt
