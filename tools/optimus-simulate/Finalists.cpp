//===- Finalists.cpp - Which layout is the fastest --------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Finalists.h"

#include "Format.h"

#include <CLI/StringTools.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>

using namespace optimus_simulate;
using nlohmann::ordered_json;
using optimus_run::format;
using optimus_support::concat;
using optimus_support::invalidArgument;
using optimus_support::StatusOr;

/// The flags without those of the choice, as they were quoted.
static std::string removeChoice(const std::string &flags) {
  const std::vector<std::string> words = CLI::detail::split_up(flags);
  std::string kept;
  for (size_t i = 0; i != words.size(); ++i) {
    bool isChoice = false;
    for (const char *name : {"--strategy", "--ranks", "--mesh", "--recompute"})
      if (words[i] == name || words[i].starts_with(concat(name, "="))) {
        isChoice = true;
        // The next word is its value.
        i += words[i] == name && i + 1 != words.size();
        break;
      }
    if (!isChoice)
      kept += " " + words[i];
  }
  return kept;
}

StatusOr<std::vector<Layout>>
optimus_simulate::listLayouts(const std::string &flags,
                              const std::string &reportJson, int64_t most) {
  const auto report = nlohmann::json::parse(reportJson, nullptr,
                                            /*allow_exceptions=*/false);
  const auto found = report.find("layouts");
  if (!report.is_object() || found == report.end())
    return invalidArgument(concat("--finalists: expected --strategy auto in "
                                  "--try '",
                                  flags, "', which leaves nothing to choose"));
  const std::string kept = removeChoice(flags);
  std::vector<Layout> layouts;
  for (const auto &one : *found)
    if (one["fits"] && int64_t(layouts.size()) < most)
      layouts.push_back(
          {concat("--mesh ", one["mesh"].get<std::string>(), " --strategy ",
                  one["strategy"].get<std::string>(), " --recompute ",
                  one["recompute"].get<std::string>(), kept),
           one["step_ms"]});
  if (layouts.empty())
    return invalidArgument(
        concat("--finalists: no layout of --try '", flags, "' fits"));
  return layouts;
}

void optimus_simulate::sortFinalists(std::vector<Finalist> &finalists) {
  std::stable_sort(finalists.begin(), finalists.end(),
                   [](const Finalist &a, const Finalist &b) {
                     return a.answer.simulation.getStep() <
                            b.answer.simulation.getStep();
                   });
}

void optimus_simulate::printFinalists(const std::vector<Finalist> &finalists,
                                      std::ostream &out) {
  constexpr double kMiB = 1 << 20;
  printQuestion(finalists.front().answer, out);
  optimus_run::Table table({"finalist", "flags", "on a node", "closed form, ms",
                            "step, ms", "tokens/s", "a rank, MiB"},
                           {1, 2});
  for (size_t i = 0; i != finalists.size(); ++i) {
    const auto &[layout, placement, answer] = finalists[i];
    table.addRow({std::to_string(i + 1), layout.flags,
                  placement.empty() ? "consecutive ranks" : placement,
                  format("%.3f", layout.predictedMs),
                  format("%.3f", toMs(answer.simulation.getStep())),
                  format("%.0f", answer.getTokensPerSecond()),
                  format("%.1f", double(answer.memory->getTotal()) / kMiB)});
  }
  out << "\n";
  table.print(out);
}

ordered_json
optimus_simulate::describeFinalists(const std::vector<Finalist> &finalists) {
  ordered_json list = ordered_json::array();
  for (const auto &[layout, placement, answer] : finalists) {
    ordered_json one{{"flags", layout.flags},
                     {"placement", placement},
                     {"closed_form_ms", layout.predictedMs}};
    one.update(describe(answer));
    list.push_back(std::move(one));
  }
  return {{"program", finalists.front().answer.library},
          {"finalists", std::move(list)}};
}
