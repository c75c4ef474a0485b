//===- CommandLine.cpp - The flags of optimus-simulate ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CommandLine.h"

#include "CommandLine/Parser.h"
#include "CommandLine/Values.h"

#include "optimus/Simulation/Cluster.h"

using namespace optimus_simulate;
using optimus_command_line::addList;
using optimus_command_line::ByteCount;
using optimus_command_line::Number;
using optimus_command_line::oneOf;
using optimus_command_line::Word;
using optimus_support::StatusOr;

static void addOptions(CLI::App &app, Arguments &arguments,
                       std::string &bytes) {
  app.add_option("LIBRARY", arguments.library,
                 "The model library or plan, of which nothing runs; with --try "
                 "the program, PROGRAM.mlir");
  addList(app, "--try", arguments.trials,
          "FLAGS of optimus-compile: compile the program to a plan with them "
          "and simulate it; several are compared");
  CLI::Option *function =
      app.add_option("--function", arguments.function,
                     "Simulate one call of this function, by its name or kind")
          ->type_name("NAME");
  app.add_option("--sequence", arguments.sequence,
                 "Simulate this sequence of calls (default: train, or of a "
                 "library without the first function that is no prepare)")
      ->type_name("NAME")
      ->excludes(function);
  app.add_option("--microbatches", arguments.microbatches,
                 "How often a sequence repeats what it repeats as often as a "
                 "step has microbatches")
      ->capture_default_str()
      ->check(
          oneOf(Number<int64_t>{"a whole number from 1 to 65536", 1, 65536}));
  CLI::Option *collective =
      app.add_option("--collective", arguments.collective,
                     "In place of a library: all_reduce, broadcast, … among "
                     "--ranks ranks, in many sizes or of --bytes bytes of the "
                     "whole tensor")
          ->type_name("KIND")
          ->check(oneOf(Word{{"broadcast", "reduce", "all_reduce", "all_gather",
                              "reduce_scatter", "all_to_all"}}))
          ->excludes(function);
  app.add_option("--ranks", arguments.ranks, "Of --collective")
      ->capture_default_str()
      ->needs(collective)
      ->check(
          oneOf(Number<int64_t>{"a whole number from 2 to 16384", 2, 16384}));
  app.add_option("--bytes", bytes, "Of --collective, as 1MiB")
      ->type_name("SIZE")
      ->needs(collective)
      ->check(oneOf(ByteCount()));
  app.add_option("--machine-profile", arguments.machineProfile,
                 "What the machine takes: a file of `optimus-run bench --gemm "
                 "--profile`, a known GPU as h100x8, or none for a built-in "
                 "one, which no machine has (default: for GPUs h100x8; for "
                 "processors this machine, which the first prediction "
                 "measures; on a --cluster none)")
      ->type_name("FILE");
  app.add_option("--run", arguments.run,
                 "A profile of `optimus-run train --profile`, of this library "
                 "or another plan of its program on the mesh: commands take "
                 "what they took there")
      ->type_name("FILE");
  app.add_option("--cluster", arguments.cluster,
                 "Nodes and the links that ranks share: a file, or " +
                     optimus_simulation::describeKnownClusters() +
                     " (default: each rank has links of its own, as the "
                     "machine profile prices them)")
      ->type_name("FILE");
  app.add_option("--placement", arguments.placement,
                 "row:2,col:4: the part of the mesh on a node of --cluster "
                 "(default: its file's, the library's, or consecutive ranks)")
      ->type_name("TILE");
  app.add_option("--messages", arguments.messages,
                 "With --cluster: every message of a collective as a flow of "
                 "its own, or phases, all of them as one flow after a time for "
                 "their steps")
      ->capture_default_str()
      ->check(oneOf(Word{{"phases", "every"}}));
  app.add_option("--print-cluster", arguments.printedCluster,
                 "In place of a library: write this cluster as a file, with "
                 "all of its fields, to change")
      ->type_name("FILE");
  addList(app, "--straggler", arguments.stragglers,
          "RANK=FACTOR: this rank computes so many times as long; or "
          "spread=0.1,seed=7: every rank does, by a factor that is drawn");
  addList(app, "--scale", arguments.scalings,
          "GLOB=FACTOR: commands whose path (with ' backward'), kind, kernel "
          "or collective matches take so many times as long; rank=3/GLOB: "
          "those of a rank");
  addList(app, "--remove", arguments.removals,
          "GLOB: such commands take no time");
  addList(app, "--insert", arguments.insertions,
          "GLOB=TIME: before each such command the rank computes so long, as "
          "20us");
  addList(app, "--fuse", arguments.fusions,
          "GLOB: such kernels in a row are one, which starts once and reads "
          "nothing of its own");
  addList(app, "--bucket", arguments.buckets,
          "GLOB=SIZE: such collectives in a row move together, up to 25MiB");
  addList(app, "--priority", arguments.priorities,
          "GLOB: of such collectives that wait for links, those of the first "
          "layers go first");
  app.add_option("--network", arguments.network,
                 "bandwidth=FACTOR,latency=FACTOR: links have so many times of "
                 "it")
      ->type_name("CHANGE");
  app.add_option("--device", arguments.device,
                 "Devices of another machine profile, as h200x8 or a file, "
                 "with the links as they are")
      ->type_name("PROFILE");
  app.add_option("--overlap", arguments.overlap,
                 "How far communication goes on beside computing: as "
                 "scheduled, none, or perfect, limited by links alone")
      ->capture_default_str()
      ->check(oneOf(Word{{"scheduled", "none", "perfect"}}));
  app.add_option("--what-if", arguments.whatIf,
                 "Changes, one a line, by the names of these flags: scale "
                 "GLOB=FACTOR, remove GLOB; they come after those of flags")
      ->type_name("FILE");
  app.add_option("--fail", arguments.failures,
                 "mtbf=3h,checkpoint=30s,restart=5min: the part of the time "
                 "that failures of the job leave, and the best interval "
                 "between checkpoints")
      ->type_name("TIMES");
  app.add_flag("--sensitivity", arguments.sensitivity,
               "Also what 1 % more of each kind of command, collective and "
               "link would give: a simulation for each");
  app.add_flag("--interval", arguments.interval,
               "Also the interval of 90 % of the step, by how far formulas of "
               "--machine-profile are from its points");
  app.add_flag("--slack", arguments.slack,
               "Also by how much commands may end later without a longer step");
  app.add_option("--profile", arguments.profile,
                 "Write the times of all commands there, as `optimus-run train "
                 "--profile` does: of a rank for each of those that do the "
                 "same")
      ->type_name("FILE");
  app.add_option("--json", arguments.json,
                 "Write the answer there, too; - is standard output, in place "
                 "of the table")
      ->type_name("FILE");
}

/// Whether anything is to differ, or more is to be said of a library.
static bool hasChanges(const Arguments &arguments) {
  return !arguments.stragglers.empty() || !arguments.scalings.empty() ||
         !arguments.removals.empty() || !arguments.insertions.empty() ||
         !arguments.fusions.empty() || !arguments.buckets.empty() ||
         !arguments.priorities.empty() || !arguments.network.empty() ||
         !arguments.device.empty() || !arguments.run.empty() ||
         arguments.overlap != "scheduled" || !arguments.whatIf.empty() ||
         !arguments.failures.empty() || arguments.sensitivity ||
         arguments.slack || arguments.interval;
}

StatusOr<std::string> optimus_simulate::parseCommandLine(int argc, char **argv,
                                                         Arguments &arguments) {
  CLI::App app("Predicts what every rank of a model library does in time, "
               "without running it.",
               "optimus-simulate");
  optimus_command_line::prepare(app, "optimus-simulate " OPTIMUS_VERSION);
  std::string bytes;
  addOptions(app, arguments, bytes);
  OPTRT_ASSIGN_OR_RETURN(std::string asked, optimus_command_line::parse(
                                                app, {argv + 1, argv + argc}));
  if (!asked.empty())
    return asked;
  if (!bytes.empty())
    arguments.bytes = *ByteCount().parse(bytes);
  const std::vector<const CLI::Option *> given = std::as_const(app).get_options(
      [](const CLI::Option *option) { return option->count() > 0; });
  if (!arguments.printedCluster.empty() && given.size() > 1)
    return optimus_support::invalidArgument(
        "--print-cluster: expected nothing beside it, which would be ignored");
  if (!arguments.printedCluster.empty())
    return asked;
  if (arguments.library.empty() == arguments.collective.empty())
    return optimus_support::invalidArgument(
        arguments.library.empty()
            ? "LIBRARY is required, or --collective KIND in its place"
            : "--collective: expected no library beside it");
  if (arguments.messages == "every" && arguments.cluster.empty())
    return optimus_support::invalidArgument(
        "--messages: expected --cluster beside it, on whose links messages go");
  if (!arguments.collective.empty() && hasChanges(arguments))
    return optimus_support::invalidArgument(
        "--collective: expected no changes beside it, which are of libraries");
  if (!arguments.profile.empty() &&
      (!arguments.trials.empty() || !arguments.collective.empty()))
    return optimus_support::invalidArgument(
        "--profile: expected one library; no --try and no --collective beside "
        "it");
  return asked;
}
