//===- TrainLog.cpp - The file of --log-json ------------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TrainLog.h"

#include "optimus-support/NewFile.h"
#include "optimus-support/OutputFile.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string_view>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace optrt;

namespace optimus_run {
namespace {

/// The line of a step begins so, and the first and the last line of a run.
constexpr std::string_view kStart = "{\"step\":", kBegan = "{\"began\":",
                           kEnd = "{\"ended\":";
/// Far more than a line has.
constexpr std::size_t kMostLineBytes = 1 << 16;
/// Lines of some hundred thousand steps.
constexpr std::size_t kMostPendingBytes = std::size_t(64) << 20;

/// The step of a whole line, or nothing if it is not one of a log.
std::optional<int64_t> stepOf(std::string_view line) {
  int64_t step = 0;
  if (line.starts_with(kStart) && line.ends_with('}')) {
    auto [stop, error] = std::from_chars(line.data() + kStart.size(),
                                         line.data() + line.size(), step);
    if (error == std::errc() && (*stop == ',' || *stop == '}'))
      return step;
  }
  nlohmann::json value =
      nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!value.is_object() || !value.contains("step") ||
      !value["step"].is_number_integer())
    return std::nullopt;
  return value["step"].get<int64_t>();
}

bool isBeginning(std::string_view line) {
  for (std::string_view start : {kStart, kBegan, kEnd})
    if (line.starts_with(start) || start.starts_with(line))
      return true;
  return false;
}

/// The lines of a file, one after the other.
class LineReader {
public:
  explicit LineReader(int handle) : handle(handle) {}

  /// The next line without its end; of the last, and of one far too long for a
  /// log, its bytes so far. False at the end of the file.
  bool next(std::string_view &line) {
    begin = end;
    std::size_t stop;
    while ((stop = buffer.find('\n', end - base)) == std::string::npos &&
           base + buffer.size() - begin <= kMostLineBytes && fill())
      ;
    isWhole = stop != std::string::npos;
    end = base + (isWhole ? stop + 1 : buffer.size());
    line = std::string_view(buffer).substr(begin - base, end - begin - isWhole);
    return end != begin;
  }

  std::size_t begin = 0, end = 0; ///< of the line, in the file
  bool isWhole = false;           ///< it has an end

private:
  bool fill() {
    // Only the line's beginning is still needed.
    buffer.erase(0, begin - base);
    base = begin;
    char piece[1 << 16];
    ssize_t got;
    do
      got = pread(handle, piece, sizeof(piece),
                  static_cast<off_t>(base + buffer.size()));
    while (got < 0 && errno == EINTR);
    buffer.append(piece, got > 0 ? got : 0);
    return got > 0;
  }

  const int handle;
  std::string buffer;   ///< bytes of the file
  std::size_t base = 0; ///< where in the file they begin
};

} // namespace

TrainLog::~TrainLog() {
  if (handle >= 0)
    close(handle);
}

StatusOr<TrainLog> TrainLog::open(const std::string &path,
                                  std::optional<int64_t> loadedStep) {
  OPTRT_ASSIGN_OR_RETURN(optimus_support::GrowingOutput output,
                         optimus_support::openToGrow(path));
  TrainLog log;
  log.name = path;
  log.handle = output.descriptor;
  if (!output.isRegular)
    return log;
  // File systems without locks say so with another error.
  if (flock(log.handle, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    return invalidArgument(concat("another run is writing to '", path,
                                  "'; wait for its end, or name another file"));
  OPTRT_RETURN_IF_ERROR(log.findCut(loadedStep));
  return log;
}

/// Reads the log that is there.
Status TrainLog::findCut(std::optional<int64_t> loadedStep) {
  auto refuse = [&](const std::string &why) {
    return invalidArgument(concat("'", name, "' is not the log of a run: ", why,
                                  "; it stays as it is: name another file"));
  };
  LineReader lines(handle);
  std::string_view line;
  int64_t number = 0, last = 0, lastKept = 0;
  keptBytes = 0;
  while (lines.next(line)) {
    ++number;
    std::optional<int64_t> step = lines.isWhole ? stepOf(line) : std::nullopt;
    // A killed run leaves half a line, a machine that went down zeros.
    bool isZeros = line.find_first_not_of('\0') == line.npos;
    bool isTorn = !lines.isWhole && line.size() <= kMostLineBytes &&
                  (isBeginning(line) || (number > 1 && isZeros));
    if (!step && !isTorn)
      return refuse(
          concat("line ", number, " is no JSON object with a \"step\""));
    // The first line tells.
    if (!loadedStep) {
      whatChanges =
          concat("'", name, "': the log of an earlier run is replaced");
      return okStatus();
    }
    if (!step)
      break;
    // Of a run that this one goes on from.
    if (line.starts_with(kBegan) || line.starts_with(kEnd))
      continue;
    if (*step <= last)
      return refuse(
          concat("in line ", number, " step ", *step, " follows step ", last));
    last = *step;
    if (*step <= *loadedStep) {
      lastKept = *step;
      keptBytes = lines.end;
    }
  }
  if (number != 0 && lastKept < *loadedStep)
    whatChanges = concat("'", name, "' has no lines of steps ", lastKept + 1,
                         " to ", *loadedStep);
  else if (last > lastKept)
    whatChanges = concat("'", name, "': the lines after step ", lastKept,
                         " make room for new ones");
  return okStatus();
}

Status TrainLog::begin() {
  hasBegun = true;
  if (!keptBytes)
    return okStatus();
  struct stat info;
  if (fstat(handle, &info) != 0 ||
      (info.st_size > *keptBytes && ftruncate(handle, *keptBytes) != 0))
    return optimus_support::cannotWrite(name, errno);
  return okStatus();
}

Status TrainLog::write() {
  while (!pending.empty()) {
    ssize_t put = ::write(handle, pending.data(), pending.size());
    if (put < 0 && errno == EINTR)
      continue;
    if (put < 0)
      return optimus_support::cannotWrite(name, errno);
    pending.erase(0, put);
  }
  return okStatus();
}

Status TrainLog::append(std::string line) {
  bool failedBefore = !pending.empty();
  if (pending.size() + line.size() < kMostPendingBytes)
    pending += line + '\n';
  else
    ++lostLines;
  Status status = write();
  return failedBefore ? okStatus() : status;
}

Status TrainLog::appendEnd(std::string line) {
  struct stat info;
  if (!isOpen() || (!hasBegun && keptBytes &&
                    (fstat(handle, &info) != 0 || info.st_size != 0)))
    return okStatus();
  return append(std::move(line));
}

Status TrainLog::finish() {
  Status status = write();
  int64_t missing =
      lostLines + std::count(pending.begin(), pending.end(), '\n');
  if (missing == 0)
    return okStatus();
  return unavailable(concat(missing, missing == 1 ? " line is" : " lines are",
                            " missing in '", name, "'", status.ok() ? "" : ": ",
                            status.ok() ? "" : status.message()));
}

} // namespace optimus_run
