//===- RunProfile.cpp - What a training run measured ------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Prices/RunProfile.h"

#include "optimus-support/InputFile.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <span>
#include <sqlite3.h>
#include <string_view>
#include <tuple>

using namespace optimus_prices;
using optimus_support::concat;
using optimus_support::dataLoss;
using optimus_support::InputFile;
using optimus_support::invalidArgument;
using optimus_support::okStatus;
using optimus_support::Status;
using optimus_support::StatusCode;
using optimus_support::StatusOr;

/// As docs/profile.md says: "OPTF" and the version of the tables.
static constexpr int64_t kApplication = 0x4F505446, kVersion = 2;
/// A machine changes while it trains; so many steps say what one takes.
static constexpr int64_t kMostSteps = 32;

namespace {
using Row = sqlite3_stmt *;

int64_t getInteger(Row row, int column) {
  return sqlite3_column_int64(row, column);
}

std::string getText(Row row, int column) {
  auto text = reinterpret_cast<const char *>(sqlite3_column_text(row, column));
  return text ? std::string(text, sqlite3_column_bytes(row, column))
              : std::string();
}

bool parseInteger(std::string_view text, int64_t &number) {
  const char *end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end;
}

/// What stands between separators.
std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(separator, at), text.size());
    parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

double getMedian(std::vector<int64_t> &values) {
  auto middle = values.begin() + values.size() / 2;
  std::nth_element(values.begin(), middle, values.end());
  return double(*middle);
}

/// A command of a function.
using Place = std::pair<int64_t, int64_t>;

/// Of a function on a rank, in a step.
struct Call {
  int64_t rank, function, step;
  RunSpan span;
};

/// When a command of a call that counts took place.
struct TimedCommand {
  int64_t call, step;
  CommandSpan time;
  /// Its place in the profile's commands; nothing for a wait, and where the
  /// clock went backward.
  std::optional<size_t> number = {};

  int64_t getDuration() const { return time.span.end - time.span.begin; }
};

class ProfileReader {
public:
  ~ProfileReader() {
    sqlite3_finalize(statement);
    sqlite3_close(database);
  }

  Status read(const std::string &path);
  RunProfile take() { return std::move(profile); }

private:
  Status fail() const { return dataLoss(sqlite3_errmsg(database)); }
  Status open(const std::string &path);
  Status checkWhole();
  /// Calls `visit` with each row.
  template <typename Visit>
  Status query(const char *sql, Visit visit);
  /// Calls `visit` with each TimedCommand of kTimes or kTransfers.
  template <typename Visit>
  Status queryTimes(const char *rows, Visit visit);
  Status checkKind();
  Status readTrace();
  Status readCalls();
  Status readHeld();
  Status readCommands();
  Status readTimes();
  Status readTransfers();
  std::vector<std::vector<TimedCommand>>
  byLink(std::span<const TimedCommand> transfers) const;
  Status keepSteps(std::span<const TimedCommand> transfers);
  Status readIdle();

  sqlite3 *database = nullptr;
  sqlite3_stmt *statement = nullptr;
  RunProfile profile;
  /// The calls that count, and the first.
  std::map<int64_t, Call> calls;
  int64_t firstCall = 0;
  /// By function and command, the place in `profile.commands`.
  std::map<Place, size_t> numbers;
  /// By call, when its commands began and ended, by command.
  std::map<int64_t, std::vector<CommandSpan>> timesOf;
};
} // namespace

/// From the first call's begin to the last one's end.
static double getLength(const RunStep &step) {
  RunSpan all = step.calls.front().span;
  for (const RunCall &call : step.calls)
    all = {std::min(all.begin, call.span.begin),
           std::max(all.end, call.span.end)};
  return double(all.end - all.begin) / 1e9;
}

/// The time of a command of a call, or null.
static RunSpan *findTime(std::vector<CommandSpan> &times, int64_t command) {
  auto found =
      std::ranges::lower_bound(times, command, {}, &CommandSpan::command);
  bool isFound = found != times.end() && found->command == command;
  return isFound ? &found->span : nullptr;
}

template <typename Visit>
Status ProfileReader::query(const char *sql, Visit visit) {
  if (sqlite3_prepare_v2(database, sql, -1, &statement, nullptr) != SQLITE_OK)
    return fail();
  int code = SQLITE_DONE;
  while ((code = sqlite3_step(statement)) == SQLITE_ROW)
    visit(statement);
  Status status = code == SQLITE_DONE ? okStatus() : fail();
  sqlite3_finalize(statement);
  statement = nullptr;
  return status;
}

Status ProfileReader::checkKind() {
  int64_t application = 0, version = 0;
  OPTRT_RETURN_IF_ERROR(query("PRAGMA application_id", [&](Row row) {
    application = getInteger(row, 0);
  }));
  OPTRT_RETURN_IF_ERROR(query("PRAGMA user_version",
                              [&](Row row) { version = getInteger(row, 0); }));
  if (application != kApplication)
    return invalidArgument("expected a profile, found another database");
  if (version != kVersion)
    return invalidArgument(concat("expected version ", kVersion,
                                  " of a profile, found ", version));
  // A view or a virtual table, whose code is the file's choice, has no page.
  std::string other;
  OPTRT_RETURN_IF_ERROR(query(
      "SELECT name FROM sqlite_master WHERE rootpage = 0 AND name IN "
      "('trace', 'functions', 'queues', 'commands', 'blocks', 'accesses', "
      "'calls', 'spans')",
      [&](Row row) { other = getText(row, 0); }));
  if (!other.empty())
    return invalidArgument(concat("expected that '", other,
                                  "' is a table, found a view or a virtual "
                                  "table"));
  return okStatus();
}

Status ProfileReader::readTrace() {
  std::map<std::string, std::string> trace;
  OPTRT_RETURN_IF_ERROR(query("SELECT key, value FROM trace", [&](Row row) {
    trace[getText(row, 0)] = getText(row, 1);
  }));
  if (trace["complete"] != "1")
    return dataLoss("expected a closed profile, found one of a run that still "
                    "writes it or was killed");
  profile.mesh = trace["mesh"];
  profile.strategy = trace["strategy"];
  profile.device = trace["device"];
  profile.backend = trace["backend"];
  profile.modelHash = trace["model_hash"];
  profile.hosts.insert(trace["host"]);
  auto read = [&](const char *key, auto &number) {
    return parseInteger(trace[key], number)
               ? okStatus()
               : dataLoss(concat("expected a number of ", key, ", found '",
                                 trace[key], "'"));
  };
  OPTRT_RETURN_IF_ERROR(read("ranks", profile.numRanks));
  if (trace.contains("origin_unix_ns"))
    OPTRT_RETURN_IF_ERROR(read("origin_unix_ns", profile.originUnix));
  if (!trace.contains("processes"))
    return okStatus();
  OPTRT_RETURN_IF_ERROR(read("processes", profile.numProcesses));
  return read("process", profile.process);
}

Status ProfileReader::readCalls() {
  OPTRT_RETURN_IF_ERROR(
      query("SELECT function, name FROM functions", [&](Row row) {
        profile.functions[getInteger(row, 0)].name = getText(row, 1);
      }));
  std::map<int64_t, std::vector<std::pair<int64_t, Call>>> bySteps;
  std::set<int64_t> ranks;
  OPTRT_RETURN_IF_ERROR(query(
      "SELECT step, call, function, begin, end, rank FROM calls", [&](Row row) {
        ranks.insert(getInteger(row, 5));
        const int64_t step = getInteger(row, 0);
        bySteps[step].push_back({getInteger(row, 1),
                                 {getInteger(row, 5),
                                  getInteger(row, 2),
                                  step,
                                  {getInteger(row, 3), getInteger(row, 4)}}});
      }));
  if (bySteps.empty())
    return invalidArgument("expected at least one step, found none");
  // The first one warms caches up and touches pages.
  if (bySteps.size() > 1)
    bySteps.erase(bySteps.begin());
  while (int64_t(bySteps.size()) > kMostSteps)
    bySteps.erase(bySteps.begin());
  for (const auto &[step, ofStep] : bySteps)
    calls.insert(ofStep.begin(), ofStep.end());
  firstCall = calls.begin()->first;
  profile.numSteps = int64_t(bySteps.size());
  profile.callsPerStep =
      int64_t(calls.size()) / (profile.numSteps * int64_t(ranks.size()));
  return okStatus();
}

Status ProfileReader::readHeld() {
  return query(
      "SELECT name, category, bytes FROM blocks "
      "WHERE space = 'resident' AND category IN ('parameter', 'input')",
      [&](Row row) {
        bool isParameter = getText(row, 1) == "parameter";
        (isParameter ? profile.parameters : profile.inputs)[getText(row, 0)] =
            getInteger(row, 2);
      });
}

/// Sets the ranks of a command on a queue for `axes` of a mesh, "row+col" of
/// "row:2,col:3". The last axis is the one along which ranks are numbered.
static void setGroup(MeasuredCommand &command, std::string_view mesh,
                     std::string_view axes) {
  const std::vector<std::string_view> members = split(axes, '+');
  for (std::string_view axis : split(mesh, ',')) {
    const size_t colon = std::min(axis.find(':'), axis.size());
    const std::string_view name = axis.substr(0, colon);
    int64_t size = 1;
    if (!parseInteger(axis.substr(std::min(colon + 1, axis.size())), size))
      continue;
    if (std::find(members.begin(), members.end(), name) != members.end())
      command.ranks *= size, command.stride = 1;
    else if (command.ranks > 1)
      command.stride *= size;
  }
}

Status ProfileReader::readCommands() {
  std::map<Place, std::pair<int64_t, int64_t>> written;
  OPTRT_RETURN_IF_ERROR(
      query("SELECT function, command, sum(iif(access >= 2, bytes, 0)), "
            "max(bytes) FROM accesses GROUP BY function, command",
            [&](Row row) {
              written[{getInteger(row, 0), getInteger(row, 1)}] = {
                  getInteger(row, 2), getInteger(row, 3)};
            }));
  OPTRT_RETURN_IF_ERROR(
      query("SELECT function, command, waits_for FROM commands "
            "WHERE waits_for IS NOT NULL",
            [&](Row row) {
              profile.functions[getInteger(row, 0)].waits[getInteger(row, 1)] =
                  getInteger(row, 2);
            }));
  return query("SELECT function, command, commands.kind, name, path, bytes, "
               "flops, axes, "
               "queues.kind "
               "FROM commands LEFT JOIN queues USING (function, queue) "
               "WHERE commands.kind <> 'wait'",
               [&](Row row) {
                 Place place{getInteger(row, 0), getInteger(row, 1)};
                 numbers[place] = profile.commands.size();
                 MeasuredCommand command;
                 RunFunction &function = profile.functions[place.first];
                 function.places[place.second] = profile.commands.size();
                 command.function = function.name;
                 command.number = place.second;
                 command.kind = getText(row, 2);
                 command.kernel = getText(row, 3);
                 command.path = getText(row, 4);
                 command.bytes = getInteger(row, 5);
                 command.flops = getInteger(row, 6);
                 std::tie(command.written, command.largest) = written[place];
                 command.axes = getText(row, 7);
                 setGroup(command, profile.mesh, command.axes);
                 command.isBeside = getText(row, 8) == "copies";
                 profile.commands.push_back(std::move(command));
               });
}

/// The rows of the views `times` and `transfers`, whose own SQL is the file's.
static constexpr const char *kTimes =
    "SELECT call, key, begin + (value ->> 0), begin + (value ->> 1) "
    "FROM spans JOIN calls USING (call), json_each(spans.commands)";
static constexpr const char *kTransfers =
    "SELECT call, value ->> 0, begin + (value ->> 1), begin + (value ->> 2) "
    "FROM spans JOIN calls USING (call), json_each(spans.transfers)";

template <typename Visit>
Status ProfileReader::queryTimes(const char *rows, Visit visit) {
  std::string sql = concat(rows, " WHERE call >= ", firstCall);
  return query(sql.c_str(), [&](Row row) {
    auto call = calls.find(getInteger(row, 0));
    if (call == calls.end())
      return;
    TimedCommand timed{
        call->first,
        call->second.step,
        {getInteger(row, 1), {getInteger(row, 2), getInteger(row, 3)}}};
    auto number = numbers.find({call->second.function, timed.time.command});
    if (number != numbers.end() && timed.getDuration() >= 0)
      timed.number = number->second;
    visit(timed);
  });
}

Status ProfileReader::readTimes() {
  std::vector<std::vector<int64_t>> durations(profile.commands.size());
  OPTRT_RETURN_IF_ERROR(queryTimes(kTimes, [&](const TimedCommand &timed) {
    timesOf[timed.call].push_back(timed.time);
    if (timed.number)
      durations[*timed.number].push_back(timed.getDuration());
  }));
  for (auto &[call, times] : timesOf)
    std::ranges::sort(times, {}, &CommandSpan::command);
  for (size_t i = 0; i < durations.size(); ++i)
    if (!durations[i].empty())
      profile.commands[i].seconds = getMedian(durations[i]) / 1e9;
  return okStatus();
}

/// While the ends of commands are their own. The file may say anything: what is
/// no time within a year is left out.
Status ProfileReader::keepSteps(std::span<const TimedCommand> transfers) {
  constexpr int64_t kYear = int64_t(1) << 55;
  auto isTime = [](const RunSpan &span) {
    return span.begin >= 0 && span.begin <= span.end && span.end <= kYear;
  };
  std::map<int64_t, std::vector<CommandSpan>> transfersOf;
  for (const TimedCommand &one : transfers)
    if (isTime(one.time.span))
      transfersOf[one.call].push_back(one.time);
  for (const auto &[number, call] : calls) {
    if (!isTime(call.span))
      continue;
    RunCall &kept = profile.steps[call.step].calls.emplace_back(RunCall{
        .rank = call.rank, .function = call.function, .span = call.span});
    kept.transfers = std::move(transfersOf[number]);
    for (const CommandSpan &one : timesOf[number])
      if (isTime(one.span))
        kept.commands.push_back(one);
  }
  if (profile.steps.empty())
    return invalidArgument("expected steps of at most a year, found none");
  for (auto &[number, step] : profile.steps) {
    std::ranges::stable_sort(step.calls, {}, [](const RunCall &call) {
      return std::pair(call.rank, call.span.begin);
    });
    step.seconds = getLength(step);
  }
  return okStatus();
}

/// Those of each call among the same ranks, by when they begin.
std::vector<std::vector<TimedCommand>>
ProfileReader::byLink(std::span<const TimedCommand> transfers) const {
  std::map<std::tuple<int64_t, int64_t, int64_t>, std::vector<TimedCommand>>
      links;
  for (const TimedCommand &timed : transfers) {
    const MeasuredCommand &command = profile.commands[*timed.number];
    links[{timed.call, command.ranks, command.stride}].push_back(timed);
  }
  std::vector<std::vector<TimedCommand>> result;
  for (auto &[link, together] : links) {
    std::sort(together.begin(), together.end(),
              [](const TimedCommand &a, const TimedCommand &b) {
                return a.time.span.begin < b.time.span.begin;
              });
    result.push_back(std::move(together));
  }
  return result;
}

/// The time of each, out of the time with any under way: transfers at the same
/// time have equal shares of it.
static std::vector<int64_t> shareTime(std::span<const TimedCommand> transfers) {
  std::vector<int64_t> moments;
  for (const TimedCommand &timed : transfers)
    moments.insert(moments.end(), {timed.time.span.begin, timed.time.span.end});
  std::sort(moments.begin(), moments.end());
  std::vector<int64_t> shares(transfers.size());
  std::vector<size_t> active;
  size_t next = 0;
  for (size_t i = 0; i + 1 < moments.size(); ++i) {
    for (; next < transfers.size() &&
           transfers[next].time.span.begin <= moments[i];
         ++next)
      active.push_back(next);
    std::erase_if(active, [&](size_t which) {
      return transfers[which].time.span.end <= moments[i];
    });
    for (size_t which : active)
      shares[which] += (moments[i + 1] - moments[i]) / int64_t(active.size());
  }
  return shares;
}

Status ProfileReader::readTransfers() {
  std::vector<TimedCommand> transfers;
  OPTRT_RETURN_IF_ERROR(queryTimes(kTransfers, [&](const TimedCommand &timed) {
    if (timed.number)
      transfers.push_back(timed);
  }));
  OPTRT_RETURN_IF_ERROR(keepSteps(transfers));
  // Its buffers are touched until it has ended.
  for (const TimedCommand &timed : transfers)
    if (RunSpan *time = findTime(timesOf[timed.call], timed.time.command))
      time->end = timed.time.span.end;
  // By command and step, of all ranks the least.
  std::map<size_t, std::map<int64_t, int64_t>> least;
  for (const std::vector<TimedCommand> &together : byLink(transfers)) {
    const std::vector<int64_t> shares = shareTime(together);
    for (size_t i = 0; i != together.size(); ++i) {
      const TimedCommand &timed = together[i];
      auto [entry, isNew] =
          least[*timed.number].insert({timed.step, shares[i]});
      entry->second = std::min(entry->second, shares[i]);
    }
  }
  for (auto &[number, bySteps] : least) {
    profile.commands[number].isCollective = true;
    std::vector<int64_t> durations;
    for (auto [step, duration] : bySteps)
      durations.push_back(duration);
    profile.commands[number].seconds = getMedian(durations) / 1e9;
  }
  return okStatus();
}

Status ProfileReader::readIdle() {
  struct Block {
    std::string name;
    int64_t bytes;
    std::vector<int64_t> commands;
  };
  std::map<int64_t, std::map<int64_t, Block>> blocksOf;
  OPTRT_RETURN_IF_ERROR(
      query("SELECT DISTINCT function, block, name, blocks.bytes, command "
            "FROM blocks JOIN accesses USING (block, function) "
            "WHERE space = 'arena' AND name IS NOT NULL ORDER BY command",
            [&](Row row) {
              Block &block = blocksOf[getInteger(row, 0)][getInteger(row, 1)];
              block.name = getText(row, 2);
              block.bytes = getInteger(row, 3);
              block.commands.push_back(getInteger(row, 4));
            }));
  std::map<std::string, std::vector<int64_t>> longest;
  for (auto &[call, times] : timesOf)
    for (const auto &[number, block] : blocksOf[calls[call].function]) {
      int64_t most = 0, last = -1;
      for (int64_t command : block.commands) {
        RunSpan *time = findTime(times, command);
        if (!time)
          continue;
        if (last >= 0)
          most = std::max(most, time->begin - last);
        last = std::max(last, time->end);
      }
      longest[block.name].push_back(most);
      profile.idle[block.name].bytes = block.bytes;
    }
  for (auto &[name, durations] : longest)
    profile.idle[name].seconds = getMedian(durations) / 1e9;
  return okStatus();
}

/// What statements may do: ours read tables and split JSON. SQLite asks for each
/// thing, also where it is the file's SQL that would do it.
static int authorize(void *, int action, const char *, const char *name,
                     const char *, const char *) {
  switch (action) {
  case SQLITE_SELECT:
  case SQLITE_READ:
  case SQLITE_PRAGMA: // the file's SQL has none
    return SQLITE_OK;
  case SQLITE_FUNCTION:
    for (const std::string_view known : {"sum", "max", "iif", "->>"})
      if (known == name)
        return SQLITE_OK;
    return SQLITE_DENY;
  default:
    return SQLITE_DENY;
  }
}

/// Opens a file that may be made to harm: its SQL (views, triggers, defaults)
/// runs in this process, and its pages may be anything. What SQLite's
/// documentation recommends for such files.
Status ProfileReader::open(const std::string &path) {
  // Without locks: nobody writes to a profile in its place.
  if (sqlite3_open_v2(path.c_str(), &database, SQLITE_OPEN_READONLY,
                      "unix-none") != SQLITE_OK)
    return fail();
  for (auto [option, value] : {std::pair(SQLITE_DBCONFIG_DEFENSIVE, 1),
                               {SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0},
                               {SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0},
                               {SQLITE_DBCONFIG_ENABLE_TRIGGER, 0}})
    sqlite3_db_config(database, option, value, nullptr);
  for (auto [limit, most] : {std::pair(SQLITE_LIMIT_SQL_LENGTH, 100'000),
                             {SQLITE_LIMIT_LENGTH, 1 << 28},
                             {SQLITE_LIMIT_COLUMN, 100},
                             {SQLITE_LIMIT_EXPR_DEPTH, 20},
                             {SQLITE_LIMIT_COMPOUND_SELECT, 3},
                             {SQLITE_LIMIT_VDBE_OP, 25'000},
                             {SQLITE_LIMIT_FUNCTION_ARG, 8},
                             {SQLITE_LIMIT_ATTACHED, 0},
                             {SQLITE_LIMIT_VARIABLE_NUMBER, 10},
                             {SQLITE_LIMIT_TRIGGER_DEPTH, 1}})
    sqlite3_limit(database, limit, most);
  auto ignore = [](Row) {};
  OPTRT_RETURN_IF_ERROR(query("PRAGMA query_only = 1", ignore));
  OPTRT_RETURN_IF_ERROR(query("PRAGMA cell_size_check = 1", ignore));
  // A mapped file that is cut short is a bus error.
  OPTRT_RETURN_IF_ERROR(query("PRAGMA mmap_size = 0", ignore));
  // Its first use declares a table.
  OPTRT_RETURN_IF_ERROR(query("SELECT value FROM json_each('[]')", ignore));
  if (sqlite3_set_authorizer(database, authorize, nullptr) != SQLITE_OK)
    return fail();
  return okStatus();
}

/// Reads all pages once, as what follows does.
Status ProfileReader::checkWhole() {
  std::string found;
  OPTRT_RETURN_IF_ERROR(query("PRAGMA quick_check(1)",
                              [&](Row row) { found = getText(row, 0); }));
  if (found != "ok")
    return dataLoss(concat("it is damaged: ", found));
  return okStatus();
}

Status ProfileReader::read(const std::string &path) {
  // SQLite takes whatever it is given for a file.
  OPTRT_ASSIGN_OR_RETURN(InputFile file,
                         InputFile::open(path, StatusCode::InvalidArgument));
  OPTRT_RETURN_IF_ERROR(open(path));
  OPTRT_RETURN_IF_ERROR(checkKind());
  OPTRT_RETURN_IF_ERROR(checkWhole());
  OPTRT_RETURN_IF_ERROR(readTrace());
  OPTRT_RETURN_IF_ERROR(readCalls());
  OPTRT_RETURN_IF_ERROR(readHeld());
  OPTRT_RETURN_IF_ERROR(readCommands());
  OPTRT_RETURN_IF_ERROR(readTimes());
  OPTRT_RETURN_IF_ERROR(readTransfers());
  return readIdle();
}

StatusOr<RunProfile> RunProfile::read(const std::string &path) {
  ProfileReader reader;
  if (Status status = reader.read(path); !status.ok())
    return Status(status.code(),
                  concat("profile '", path, "': ", status.message(),
                         "; optimus-run train --profile writes one"));
  RunProfile profile = reader.take();
  profile.chooseMiddle();
  return profile;
}

double RunProfile::getFlopsPerSecond() const {
  double flops = 0, seconds = 0;
  for (const MeasuredCommand &command : commands)
    if (command.kind == "gemm" && command.seconds > 0) {
      flops += double(command.flops);
      seconds += command.seconds;
    }
  return seconds > 0 ? flops / seconds : 0;
}

Status RunProfile::add(const RunProfile &other) {
  auto isSame = [](const MeasuredCommand &a, const MeasuredCommand &b) {
    return a.function == b.function && a.kind == b.kind && a.path == b.path;
  };
  if (mesh != other.mesh || numProcesses != other.numProcesses ||
      !std::equal(commands.begin(), commands.end(), other.commands.begin(),
                  other.commands.end(), isSame))
    return invalidArgument("expected profiles of the processes of one run, "
                           "found ones of different programs");
  hosts.insert(other.hosts.begin(), other.hosts.end());
  for (size_t i = 0; i != commands.size(); ++i) {
    MeasuredCommand &own = commands[i];
    const MeasuredCommand &its = other.commands[i];
    own.seconds = own.isCollective ? std::min(own.seconds, its.seconds)
                                   : std::max(own.seconds, its.seconds);
  }
  addSteps(other);
  if (steps.empty())
    return invalidArgument("expected a step that all processes have, found "
                           "none");
  return okStatus();
}

/// Of steps that both have, on the clock of this one.
void RunProfile::addSteps(const RunProfile &other) {
  constexpr int64_t kYear = int64_t(1) << 55;
  auto isTime = [](int64_t time) { return time >= 0 && time <= 100 * kYear; };
  const int64_t later = isTime(originUnix) && isTime(other.originUnix)
                            ? other.originUnix - originUnix
                            : 0;
  auto shift = [&](RunSpan &span) {
    span = {span.begin + later, span.end + later};
  };
  std::erase_if(
      steps, [&](const auto &one) { return !other.steps.contains(one.first); });
  for (auto &[number, step] : steps) {
    const RunStep &its = other.steps.at(number);
    for (RunCall call : its.calls) {
      shift(call.span);
      for (auto *list : {&call.commands, &call.transfers})
        for (CommandSpan &one : *list)
          shift(one.span);
      step.calls.push_back(std::move(call));
    }
    step.seconds =
        hasOneClock() ? getLength(step) : std::max(step.seconds, its.seconds);
  }
  chooseMiddle();
}

void RunProfile::chooseMiddle() {
  std::vector<std::pair<double, int64_t>> lengths;
  for (const auto &[number, step] : steps)
    lengths.push_back({step.seconds, number});
  std::ranges::sort(lengths);
  middle.clear();
  stepSeconds = 0;
  const size_t quarter = lengths.size() / 4;
  for (size_t i = quarter; i != lengths.size() - quarter; ++i) {
    middle.push_back(lengths[i].second);
    stepSeconds += lengths[i].first;
  }
  if (!middle.empty())
    stepSeconds /= double(middle.size());
}
