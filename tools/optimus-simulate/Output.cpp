//===- Output.cpp - The answer, for people and programs ---------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Output.h"

#include "PriceShares.h"

#include "Format.h"
#include "SlackOutput.h"

#include "optimus/Prices/DescribeCarried.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>

using namespace optimus_simulate;
using namespace optimus_simulation;
using nlohmann::ordered_json;
using optimus_run::format;
using optimus_run::formatBytes;
using optimus_run::Table;

static std::string formatMs(Picoseconds seconds) {
  return format("%.3f ms", toMs(seconds));
}

double Answer::getTokensPerSecond() const {
  const Picoseconds step = simulation.getStep();
  return step > 0 ? double(tokens) / (double(step) * 1e-12) : 0;
}

double Answer::getUtilisation() const {
  Picoseconds atPeak = 0;
  for (const std::string &call : getCalls(simulation.slowest))
    for (const TimedCommand &command :
         timed->getFunction(simulation.slowest, call).commands)
      atPeak += command.atPeak;
  const Picoseconds step = simulation.getStep();
  return step > 0 ? double(atPeak) / double(step) : 0;
}

/// The numbers of a list's entries that are not 0, the largest first.
template <typename Entry, typename Get>
static std::vector<size_t> sortByTime(const std::vector<Entry> &list, Get get) {
  std::vector<size_t> order;
  for (size_t i = 0; i != list.size(); ++i)
    if (get(list[i]) > 0)
      order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return get(list[a]) > get(list[b]);
  });
  return order;
}

static std::vector<size_t> sortParts(const Simulation &simulation) {
  return sortByTime(simulation.parts, [](Picoseconds part) { return part; });
}

static std::vector<size_t> sortExposures(const Simulation &simulation) {
  return sortByTime(simulation.exposures,
                    [](const Exposure &one) { return one.all; });
}

//===----------------------------------------------------------------------===//
// For people
//===----------------------------------------------------------------------===//

/// Beyond this what is said of changes is doubtful.
static constexpr double kMostError = 0.02;

/// Before all else, where the run itself is not met.
static void printDoubt(const RunShare &run, std::ostream &out) {
  if (run.unchanged && std::abs(run.getError()) > kMostError)
    out << format("beware       the unchanged program is simulated in %.3f ms, "
                  "%+.1f %% off the %.3f ms of its run\n",
                  toMs(*run.unchanged), 100 * run.getError(), toMs(run.step));
}

static void printRun(const RunShare &run, std::ostream &out) {
  const double share =
      run.seconds > 0 ? 100 * double(run.measuredSeconds) / double(run.seconds)
                      : 0;
  out << "run          " << run.path
      << format(": %lld of %lld commands, %.1f %% of their time",
                static_cast<long long>(run.measured),
                static_cast<long long>(run.commands), share);
  if (run.unchanged)
    out << format("; unchanged, its step of %.3f ms is simulated in %.3f ms",
                  toMs(run.step), toMs(*run.unchanged));
  else
    out << format("; its step of %.3f ms was of another plan", toMs(run.step));
  out << "\n";
}

void optimus_simulate::printQuestion(const Answer &answer, std::ostream &out) {
  if (answer.run)
    printDoubt(*answer.run, out);
  out << "simulated    " << answer.name << " of " << answer.library << " for "
      << answer.target << "\nmachine      "
      << (answer.machine.empty() ? "the built-in profile, which no machine has"
                                 : answer.machine)
      << "\n";
  if (!answer.cluster.empty())
    out << "cluster      " << answer.cluster << "\n";
  if (const auto &factors = answer.timed->getInterference())
    out << "beside       computing and collectives slow each other on a "
           "device, "
           "as measured: "
        << factors->source << "\n";
  if (answer.run)
    printRun(*answer.run, out);
  for (const std::string &change : answer.whatIf)
    out << "what if      " << change << "\n";
}

static void printMesh(const Answer &answer, std::ostream &out) {
  const optimus_support::Mesh &mesh = answer.timed->getMesh();
  out << "mesh         " << mesh.toString() << (mesh.numAxes() > 0 ? ", " : "")
      << mesh.numRanks() << (mesh.numRanks() == 1 ? " rank" : " ranks") << "\n";
}

/// What goes on behind the step, and how much of it passes unnoticed.
static void printCarried(const CarriedTimes &carried, std::ostream &out) {
  if (carried.count == 0)
    return;
  auto toSeconds = [](Picoseconds time) { return double(time) * 1e-12; };
  out << "carried      "
      << optimus_prices::describeCarried(
             {carried.count, toSeconds(carried.all), toSeconds(carried.after),
              toSeconds(carried.exposed)},
             [](double ms) { return format("%.3f ms", ms); })
      << "\n";
}

static void printTimes(const Answer &answer, std::ostream &out) {
  const Simulation &simulation = answer.simulation;
  const RankTimes &slowest = simulation.last;
  out << "step         " << formatMs(slowest.end);
  if (answer.tokens > 0)
    out << format(", %.0f tokens/s", answer.getTokensPerSecond());
  out << format(", %.1f %% of the rate of large products",
                100 * answer.getUtilisation());
  out << "\ncomputing    " << formatMs(slowest.computing);
  const char *before = ": ";
  for (size_t part : sortParts(simulation)) {
    out << before << formatMs(simulation.parts[part]) << " of "
        << answer.timed->getParts()[part];
    before = ", ";
  }
  out << "\nwaiting      " << formatMs(slowest.exposed) << " for "
      << formatMs(slowest.communicating) << " of communication\n";
  printCarried(slowest.carried, out);
  if (slowest.copying > 0)
    out << "copies       " << formatMs(slowest.copying)
        << " are waited for between memories\n";
  const auto [least, most] =
      std::minmax_element(simulation.ranks.begin(), simulation.ranks.end(),
                          [](const RankTimes &a, const RankTimes &b) {
                            return a.computing < b.computing;
                          });
  if (least->computing != most->computing)
    out << "ranks        compute from " << formatMs(least->computing)
        << " (rank " << least - simulation.ranks.begin() << ") to "
        << formatMs(most->computing) << " (rank "
        << most - simulation.ranks.begin() << "); rank " << simulation.slowest
        << " ends last\n";
}

static void printPrices(const Answer &answer, std::ostream &out) {
  const PriceShares shares(answer);
  if (shares.run + shares.points + shares.formulas == 0)
    return;
  out << "prices      ";
  if (answer.run)
    out << format(" %.1f %% of the time by the run,", 100 * shares.run);
  out << format(" %.1f %% by points of just this shape, %.1f %% by "
                "formulas\n",
                100 * shares.points, 100 * shares.formulas);
}

/// "4 GiB: 3 GiB of parameters, 1 GiB of arena"
static void printMemory(const RankMemory &memory, std::ostream &out) {
  out << formatBytes(memory.getTotal());
  const char *before = ": ";
  for (const auto &[part, bytes] : memory.getParts())
    if (bytes > 0) {
      out << before << formatBytes(bytes) << " of " << part;
      before = ", ";
    }
  out << "\n";
}

static void printMisfit(const Answer &answer, std::ostream &out) {
  if (!answer.misfit)
    return;
  out << "does not fit rank " << answer.misfit->rank
      << " on its device, which has " << formatBytes(answer.misfit->usable)
      << " for it; at its peak it holds ";
  printMemory(answer.misfit->memory, out);
}

/// The busiest links of a cluster.
static void printLinks(const Answer &answer, std::ostream &out) {
  constexpr size_t kMostListed = 3;
  const std::vector<LinkUse> &links = answer.simulation.links;
  for (size_t i = 0; i != std::min(kMostListed, links.size()); ++i)
    out << (i == 0 ? "links        " : ", ") << links[i].name
        << format(" busy for %.1f %%", 100 * links[i].share);
  if (!links.empty())
    out << "\n";
  const char *before = "protocols    ";
  for (const ProtocolUse &protocol : answer.simulation.protocols) {
    out << before << protocol.count << " by " << protocol.name;
    before = ", ";
  }
  if (!answer.simulation.protocols.empty())
    out << "\n";
  if (answer.simulation.cores > 0)
    out << format("cores        busy for %.1f %%\n",
                  100 * answer.simulation.cores);
}

static void printExposures(const Answer &answer, std::ostream &out) {
  const std::vector<size_t> order = sortExposures(answer.simulation);
  if (order.empty())
    return;
  Table table({"waits over", "for", "count", "ms", "late neighbour",
               "earlier on the link", "shared link", "nothing to compute",
               "too short"},
              {1});
  for (size_t number : order) {
    const Exposure &one = answer.simulation.exposures[number];
    const ExposureName &name = answer.timed->getExposures()[number];
    auto cell = [](Picoseconds seconds) {
      return format("%.3f", toMs(seconds));
    };
    table.addRow({name.axis, name.kind, std::to_string(one.count),
                  cell(one.all), cell(one.late), cell(one.queued),
                  cell(one.shared), cell(one.idle), cell(one.getShort())});
  }
  out << "\n";
  table.print(out);
}

static void printCriticalPath(const Answer &answer, std::ostream &out) {
  constexpr size_t kMostListed = 10;
  const std::vector<CriticalPart> &path = answer.simulation.criticalPath;
  if (path.empty())
    return;
  Table table({"critical path", "line", "by", "ms", "of the step"}, {1, 2});
  auto addRow = [&](const std::string &name, const std::string &line,
                    const std::string &what, Picoseconds seconds) {
    table.addRow({name, line, what, format("%.3f", toMs(seconds)),
                  format("%.1f %%", 100.0 * double(seconds) /
                                        double(answer.simulation.getStep()))});
  };
  for (size_t i = 0; i != std::min(kMostListed, path.size()); ++i)
    addRow(path[i].path, path[i].line, path[i].what, path[i].seconds);
  if (path.size() > kMostListed)
    addRow(format("%zu others", path.size() - kMostListed), "", "",
           std::accumulate(path.begin() + kMostListed, path.end(),
                           Picoseconds(0),
                           [](Picoseconds sum, const CriticalPart &part) {
                             return sum + part.seconds;
                           }));
  out << "\n";
  table.print(out);
}

static void printGains(const Answer &answer, std::ostream &out) {
  if (answer.gains.empty())
    return;
  Table table({"1 % more of", "saves, ms", "of the step"}, {0});
  for (const Gain &gain : answer.gains)
    table.addRow({gain.what, format("%.6f", toMs(gain.seconds)),
                  format("%.3f %%", 100.0 * double(gain.seconds) /
                                        double(answer.simulation.getStep()))});
  out << "\n";
  table.print(out);
}

static void printFailures(const Answer &answer, std::ostream &out) {
  if (!answer.failures)
    return;
  const Goodput best = getBestGoodput(*answer.failures);
  out << format("failures     leave %.1f %% of the time, with a checkpoint "
                "every %.0f s",
                100 * best.share, best.interval);
  if (answer.tokens > 0)
    out << format(": %.0f tokens/s", best.share * answer.getTokensPerSecond());
  out << "\n";
}

static void printInterval(const Answer &answer, std::ostream &out) {
  if (!answer.interval)
    return;
  out << format("interval     %.3f to %.3f ms (90 %%), by residuals of "
                "formulas",
                toMs(answer.interval->low), toMs(answer.interval->high));
  const char *before = "; nothing is known of ";
  for (const std::string &kind : answer.interval->without) {
    out << before << kind;
    before = ", ";
  }
  out << "\n";
}

void optimus_simulate::print(const Answer &answer, std::ostream &out) {
  printQuestion(answer, out);
  printMesh(answer, out);
  printTimes(answer, out);
  printInterval(answer, out);
  printFailures(answer, out);
  printPrices(answer, out);
  out << "memory       ";
  printMemory(*answer.memory, out);
  printMisfit(answer, out);
  printLinks(answer, out);
  printExposures(answer, out);
  printCriticalPath(answer, out);
  printSlack(answer, out);
  printGains(answer, out);
}

//===----------------------------------------------------------------------===//
// For programs
//===----------------------------------------------------------------------===//

static ordered_json describeWaits(const Answer &answer) {
  ordered_json waits = ordered_json::array();
  for (size_t number : sortExposures(answer.simulation)) {
    const Exposure &one = answer.simulation.exposures[number];
    const ExposureName &name = answer.timed->getExposures()[number];
    waits.push_back({{"axis", name.axis},
                     {"collective", name.kind},
                     {"count", one.count},
                     {"ms", toMs(one.all)},
                     {"late_ms", toMs(one.late)},
                     {"queued_ms", toMs(one.queued)},
                     {"shared_ms", toMs(one.shared)},
                     {"idle_ms", toMs(one.idle)},
                     {"short_ms", toMs(one.getShort())}});
  }
  return waits;
}

ordered_json optimus_simulate::describe(const Answer &answer) {
  const PriceShares shares(answer);
  const Simulation &simulation = answer.simulation;
  const RankTimes &slowest = simulation.last;
  ordered_json parts = ordered_json::object(), path = ordered_json::array(),
               links = ordered_json::array(), ranks = ordered_json::array(),
               protocols = ordered_json::object();
  for (size_t part : sortParts(simulation))
    parts[answer.timed->getParts()[part]] = toMs(simulation.parts[part]);
  for (const CriticalPart &part : simulation.criticalPath)
    path.push_back({{"path", part.path},
                    {"line", part.line},
                    {"by", part.what},
                    {"ms", toMs(part.seconds)}});
  for (const LinkUse &link : simulation.links)
    links.push_back({{"link", link.name}, {"share", link.share}});
  for (const ProtocolUse &protocol : simulation.protocols)
    protocols[protocol.name] = protocol.count;
  for (const RankTimes &rank : simulation.ranks)
    ranks.push_back({{"end_ms", toMs(rank.end)},
                     {"computing_ms", toMs(rank.computing)},
                     {"exposed_ms", toMs(rank.exposed)}});
  ordered_json memory = ordered_json::object();
  for (const auto &[part, bytes] : answer.memory->getParts())
    memory[part] = bytes;
  memory["total"] = answer.memory->getTotal();
  ordered_json json{
      {"library", answer.library},
      {"target", answer.target},
      {"mesh", answer.timed->getMesh().toString()},
      {"machine_profile", answer.machine},
      {"cluster", answer.cluster},
      {"interference", answer.timed->getInterference()
                           ? answer.timed->getInterference()->source
                           : ""},
      {"simulated", answer.name},
      {"calls", answer.getCalls(simulation.slowest).size()},
      {"what_if", answer.whatIf},
      {"step_ms", toMs(slowest.end)},
      {"tokens_per_s", answer.getTokensPerSecond()},
      {"utilisation", answer.getUtilisation()},
      {"slowest_rank", simulation.slowest},
      {"computing_ms", toMs(slowest.computing)},
      {"comm_ms", toMs(slowest.communicating)},
      {"exposed_ms", toMs(slowest.exposed)},
      {"copies_ms", toMs(slowest.copying)},
      {"parts_ms", parts},
      {"waits", describeWaits(answer)},
      {"critical_path", path},
      {"links", links},
      {"protocols", protocols},
      {"cores", simulation.cores},
      {"memory_bytes", memory},
      {"prices",
       {{"run", shares.run},
        {"points", shares.points},
        {"formulas", shares.formulas}}},
      {"simulated_ranks", simulation.simulatedRanks},
      {"events", simulation.events},
      {"ranks", ranks}};
  if (answer.misfit)
    json["misfit"] = {{"rank", answer.misfit->rank},
                      {"usable_bytes", answer.misfit->usable},
                      {"bytes", answer.misfit->memory.getTotal()}};
  if (const CarriedTimes &carried = slowest.carried; carried.count > 0)
    json["carried"] = {{"count", carried.count},
                       {"ms", toMs(carried.all)},
                       {"after_ms", toMs(carried.after)},
                       {"exposed_ms", toMs(carried.exposed)}};
  if (const std::optional<RunShare> &run = answer.run) {
    json["run"] = {{"profile", run->path},
                   {"commands", run->commands},
                   {"measured", run->measured},
                   {"measured_ms", toMs(run->measuredSeconds)},
                   {"all_ms", toMs(run->seconds)},
                   {"step_ms", toMs(run->step)}};
    if (run->unchanged)
      json["run"]["unchanged_ms"] = toMs(*run->unchanged);
  }
  if (answer.interval)
    json["interval"] = {{"low_ms", toMs(answer.interval->low)},
                        {"high_ms", toMs(answer.interval->high)},
                        {"without", answer.interval->without}};
  if (!simulation.slack.empty())
    json["slack"] = describeSlack(answer);
  for (const Gain &gain : answer.gains)
    json["gains"].push_back({{"of", gain.what}, {"ms", toMs(gain.seconds)}});
  if (answer.failures) {
    const Goodput best = getBestGoodput(*answer.failures);
    json["failures"] = {
        {"share", best.share},
        {"interval_s", best.interval},
        {"tokens_per_s", best.share * answer.getTokensPerSecond()}};
  }
  return json;
}
