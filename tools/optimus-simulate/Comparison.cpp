//===- Comparison.cpp - Plans of one program, term by term ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Comparison.h"

#include "Format.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

using namespace optimus_simulate;
using namespace optimus_simulation;
using nlohmann::ordered_json;
using optimus_run::format;
using optimus_run::Table;

static constexpr double kMiB = 1 << 20;

Comparison::Comparison(const std::vector<std::string> &flags,
                       const std::vector<Answer> &answers)
    : flags(flags), answers(answers) {
  for (size_t plan = 0; plan != answers.size(); ++plan) {
    addTimes(plan);
    addMemory(plan);
  }
  // The largest of any plan first, within what they are of.
  std::stable_sort(
      times.begin(), times.end(), [](const Term &a, const Term &b) {
        if (a.what != b.what)
          return a.what < b.what;
        return *std::max_element(a.values.begin(), a.values.end()) >
               *std::max_element(b.values.begin(), b.values.end());
      });
}

void Comparison::add(std::vector<Term> &terms, const std::string &what,
                     const std::string &name, size_t plan, double value) const {
  if (value == 0)
    return;
  auto found = std::find_if(terms.begin(), terms.end(), [&](const Term &term) {
    return term.what == what && term.name == name;
  });
  if (found == terms.end())
    found =
        terms.insert(found, {what, name, std::vector<double>(answers.size())});
  found->values[plan] += value;
}

void Comparison::addTimes(size_t plan) {
  const Answer &answer = answers[plan];
  const Simulation &simulation = answer.simulation;
  const RankTimes &slowest = simulation.last;
  for (size_t part = 0; part != simulation.parts.size(); ++part)
    add(times, "computing", answer.timed->getParts()[part], plan,
        toMs(simulation.parts[part]));
  Picoseconds explained = 0;
  for (size_t number = 0; number != simulation.exposures.size(); ++number) {
    const ExposureName &name = answer.timed->getExposures()[number];
    const Exposure &one = simulation.exposures[number];
    explained += one.all;
    add(times, "waiting", name.kind + " over " + name.axis, plan,
        toMs(one.all));
  }
  // With perfect overlap, no wait has a name.
  add(times, "waiting", "the busiest link", plan,
      toMs(slowest.exposed - explained));
  add(times, "copying", "between memories", plan, toMs(slowest.copying));
}

void Comparison::addMemory(size_t plan) {
  for (const auto &[part, bytes] : answers[plan].memory->getParts())
    add(memory, "memory", part, plan, double(bytes));
}

//===----------------------------------------------------------------------===//
// For people
//===----------------------------------------------------------------------===//

void Comparison::printTerms(const std::vector<Term> &terms,
                            const std::string &unit, double size,
                            std::ostream &out) const {
  std::vector<std::string> header{
      terms.front().what == "memory" ? "memory of a rank" : "a step", unit};
  for (size_t plan = 0; plan != answers.size(); ++plan) {
    header.push_back(std::to_string(plan + 1));
    if (plan > 0)
      header.push_back("change");
  }
  Table table(header, {1});
  auto addRow = [&](const Term &term) {
    std::vector<std::string> cells{term.what, term.name};
    for (size_t plan = 0; plan != answers.size(); ++plan) {
      cells.push_back(format("%.3f", term.values[plan] / size));
      if (plan > 0)
        cells.push_back(format("%+.3f", term.getChange(plan) / size));
    }
    table.addRow(cells);
  };
  Term all{"all", "", std::vector<double>(answers.size())};
  for (const Term &term : terms) {
    addRow(term);
    for (size_t plan = 0; plan != answers.size(); ++plan)
      all.values[plan] += term.values[plan];
  }
  addRow(all);
  out << "\n";
  table.print(out);
}

std::string Comparison::explain(const std::vector<Term> &terms, size_t plan,
                                const std::string &unit, double size) {
  constexpr size_t kMostNamed = 3;
  // Less than this is none.
  constexpr double kLeast = 5e-4;
  std::vector<const Term *> changed;
  double all = 0;
  for (const Term &term : terms) {
    all += term.getChange(plan) / size;
    if (std::abs(term.getChange(plan)) >= kLeast * size)
      changed.push_back(&term);
  }
  if (changed.empty())
    return "";
  std::stable_sort(
      changed.begin(), changed.end(), [&](const Term *a, const Term *b) {
        return std::abs(a->getChange(plan)) > std::abs(b->getChange(plan));
      });
  std::string text = format("%+.3f %s: ", all, unit.c_str());
  for (size_t i = 0; i != std::min(kMostNamed, changed.size()); ++i)
    text += format("%s%+.3f %s %s", i == 0 ? "" : ", ",
                   changed[i]->getChange(plan) / size,
                   changed[i]->what == "waiting" ? "waiting for" : "of",
                   changed[i]->name.c_str());
  return text;
}

void Comparison::printReasons(std::ostream &out) const {
  for (size_t plan = 1; plan != answers.size(); ++plan) {
    const std::string step = explain(times, plan, "ms", 1);
    const std::string held = explain(memory, plan, "MiB", kMiB);
    out << "\n" << plan + 1 << " against 1\n";
    out << "  step    " << (step.empty() ? "the same" : step) << "\n";
    out << "  memory  " << (held.empty() ? "the same" : held) << "\n";
  }
}

void Comparison::printGains(std::ostream &out) const {
  std::vector<std::string> names;
  std::vector<std::string> header{"1 % more of"};
  for (size_t plan = 0; plan != answers.size(); ++plan) {
    header.push_back("saves " + std::to_string(plan + 1) + ", ms");
    for (const Gain &gain : answers[plan].gains)
      if (std::find(names.begin(), names.end(), gain.what) == names.end())
        names.push_back(gain.what);
  }
  if (names.empty())
    return;
  Table table(header, {0});
  for (const std::string &name : names) {
    std::vector<std::string> cells{name};
    for (const Answer &answer : answers) {
      const auto found =
          std::find_if(answer.gains.begin(), answer.gains.end(),
                       [&](const Gain &gain) { return gain.what == name; });
      cells.push_back(found == answer.gains.end()
                          ? "-"
                          : format("%.6f", toMs(found->seconds)));
    }
    table.addRow(cells);
  }
  out << "\n";
  table.print(out);
}

void Comparison::print(std::ostream &out) const {
  printQuestion(answers.front(), out);
  Table table({"try", "flags", "ranks", "step, ms", "times the first",
               "tokens/s", "a rank, MiB"},
              {1});
  const double first = toMs(answers.front().simulation.getStep());
  for (size_t plan = 0; plan != answers.size(); ++plan) {
    const Answer &answer = answers[plan];
    const double step = toMs(answer.simulation.getStep());
    table.addRow({std::to_string(plan + 1), flags[plan],
                  std::to_string(answer.timed->getMesh().numRanks()),
                  format("%.3f", step), format("%.3f", step / first),
                  format("%.0f", answer.getTokensPerSecond()),
                  format("%.1f", double(answer.memory->getTotal()) / kMiB)});
  }
  out << "\n";
  table.print(out);
  for (const auto &[terms, unit, size] :
       {std::tuple(&times, "ms", 1.0), {&memory, "MiB", kMiB}})
    if (!terms->empty())
      printTerms(*terms, unit, size, out);
  printReasons(out);
  printGains(out);
}

//===----------------------------------------------------------------------===//
// For programs
//===----------------------------------------------------------------------===//

ordered_json Comparison::describe() const {
  ordered_json tries = ordered_json::array(), terms = ordered_json::array();
  for (size_t plan = 0; plan != answers.size(); ++plan) {
    ordered_json one{{"flags", flags[plan]}};
    one.update(optimus_simulate::describe(answers[plan]));
    tries.push_back(std::move(one));
  }
  for (const auto &[list, unit] : {std::pair(&times, "ms"), {&memory, "bytes"}})
    for (const Term &term : *list)
      terms.push_back({{"what", term.what},
                       {"name", term.name},
                       {"unit", unit},
                       {"of_each", term.values}});
  return {{"program", answers.front().library},
          {"tries", std::move(tries)},
          {"terms", std::move(terms)}};
}
