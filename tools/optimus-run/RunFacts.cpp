//===- RunFacts.cpp - What a training run is ------------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RunFacts.h"

#include "JsonLine.h"
#include "optimus-support/CpuInfo.h"
#include "optimus-support/Hash.h"

#include <ctime>
#include <nlohmann/json.hpp>
#include <string_view>
#include <unistd.h>

using namespace optrt;
using optimus_support::ElementType;

namespace optimus_run {
namespace {

/// As ISO 8601 has it, to the second.
std::string timeNow() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  char text[32] = "";
  strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
  return text;
}

nlohmann::ordered_json describeData(const std::string &path,
                                    const DataIdentity &identity) {
  nlohmann::ordered_json data;
  data["path"] = path;
  data["tokens"] = identity.tokens;
  data["type"] = toString(identity.type);
  data["sample"] = optimus_support::hashToHex(identity.sample);
  return data;
}

nlohmann::ordered_json describeFlags(const TrainOptions &options,
                                     const TrainFiles &files) {
  nlohmann::ordered_json flags;
  for (const auto &[info, value] :
       listHyperparameters(files.plan->hyperparameters))
    flags[info.flag()] = value;
  flags["--seed"] = concat(files.plan->seed);
  flags["--order"] = files.plan->order;
  flags["--until"] = options.until ? concat(*options.until) : "none";
  flags["--document-end"] = files.documentEnd ? concat(*files.documentEnd)
                            : files.library->manifest().findRole("positions")
                                ? "the store's"
                                : "none";
  flags["--eval-every"] = concat(options.evalEvery);
  flags["--patience"] = concat(options.patience);
  flags["--save-every"] = concat(options.saveEvery);
  flags["--check-replicas"] = concat(options.checkReplicas);
  return flags;
}

/// What all processes know of data at once.
std::string summarize(const DataIdentity &data) {
  return concat(data.tokens, " tokens of type ", toString(data.type),
                " with hash ", optimus_support::hashToHex(data.sample),
                " of a sample");
}

} // namespace

std::vector<std::pair<std::string, std::string>>
runFacts(const TrainOptions &options, const Manifest &manifest,
         const World &world) {
  char host[256] = "";
  (void)gethostname(host, sizeof(host) - 1);
  return {{"library", options.library},
          {"model_hash", manifest.modelHash},
          {"strategy", manifest.strategy},
          {"mesh", manifest.mesh.toString()},
          {"precision", std::string(toString(manifest.precision))},
          {"tf32", options.ranks.computing.tf32 ? "yes" : "no"},
          {"flush_subnormals",
           options.ranks.computing.flushesSubnormals ? "yes" : "no"},
          {"device", manifest.target},
          {"backend", std::string(world.collectives->name())},
          {"placement", options.ranks.placement == Placement::Dynamic
                            ? "dynamic"
                            : "planned"},
          {"optimus", OPTIMUS_VERSION},
          {"processor",
           optimus_support::findProcessorName(optimus_support::readCpuInfo())},
          {"host", host}};
}

std::string describeBeginning(const TrainOptions &options,
                              const TrainFiles &files, const World &world,
                              const Session &session) {
  const Manifest &manifest = session.manifest();
  nlohmann::ordered_json record;
  record["began"] = timeNow();
  record["step"] = files.plan->firstStep - 1;
  for (const auto &[name, value] : runFacts(options, manifest, world))
    record[name] = value;
  record["source_hash"] = manifest.sourceHash;
  record["optimizer"] = manifest.optimizer;
  record["parameters"] = manifest.numParamElements();
  record["batch"] = manifest.batch * files.plan->hyperparameters.microbatches;
  record["sequence"] = manifest.sequence;
  record["ranks"] = world.control->size();
  record["threads_per_rank"] = session.threadsPerRank();
  if (!files.start.folder.empty())
    record["from"] = files.start.folder;
  record["data"] = describeData(files.data->path(), files.data->identity());
  if (files.evalData)
    record["eval_data"] =
        describeData(files.evalData->path(), files.evalData->identity());
  record["flags"] = describeFlags(options, files);
  // A path need not be UTF-8.
  return toLine(record);
}

std::vector<Setting> listSettings(const TrainOptions &options,
                                  const TrainFiles &files) {
  const TrainingPlan &plan = *files.plan;
  std::vector<Setting> list;
  for (const auto &[info, value] : listHyperparameters(plan.hyperparameters))
    list.push_back({info.flag(), value});
  list.insert(
      list.end(),
      {{"--seed", concat(plan.seed)},
       {"--order", plan.order},
       {"--save or --save-every",
        concat(options.save.empty() ? "nowhere " : "saved ",
               options.saveEvery)},
       {"--until", options.until ? concat(*options.until) : "none"},
       {"--save-dtype or --save-shard",
        concat(toString(options.saveFormat.type.value_or(ElementType::F32)),
               ", files of ", options.saveFormat.shardBytes.value_or(0))},
       {"--save-async or --no-save-async", !options.saveAsync   ? "neither"
                                           : *options.saveAsync ? "on"
                                                                : "off"},
       {"--eval-data or --eval-every",
        concat(files.evalData ? summarize(files.evalData->identity()) : "none",
               ", every ", options.evalEvery)},
       {"--keep-best or --patience",
        concat(options.keepBest.empty() ? "nothing kept" : "the best kept",
               ", patience ", options.patience)},
       {"samples", files.samples.describe()},
       {"--check-replicas", concat(options.checkReplicas)},
       {"whether there is --log-json", concat(!options.logJson.empty())},
       {"--timeout", concat(options.ranks.timeoutSeconds)},
       {"whether --placement is dynamic",
        concat(options.ranks.placement == Placement::Dynamic)},
       {"the data", summarize(files.data->identity())},
       {"--document-end",
        files.documentEnd ? concat(*files.documentEnd) : "none"},
       {"where reading begins", concat(plan.firstPosition)}});
  return list;
}

} // namespace optimus_run
