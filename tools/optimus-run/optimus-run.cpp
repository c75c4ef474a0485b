//===- optimus-run.cpp - Runs compiled models -----------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Commands.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <cstdio>
#include <cstdlib>
#include <functional>

using namespace optrt;
using namespace optimus_run;

namespace {

/// This process's place in an mpirun job, before MPI is started.
int mpiSetting(const char *variable, int otherwise) {
  const char *text = std::getenv(variable);
  return text ? std::atoi(text) : otherwise;
}

/// What train and eval share.
struct JobOptions {
  std::string backend; ///< empty: found by itself
  std::string device = "cpu";
};

StatusOr<std::unique_ptr<World>> createWorld(const JobOptions &options) {
  int processes = mpiSetting("OMPI_COMM_WORLD_SIZE", 1);
  bool overMpi =
      options.backend.empty() ? startedByMpirun() : options.backend == "mpi";
  if (overMpi)
    return createMpiWorld();
  if (processes > 1)
    return invalidArgument(concat(
        "--backend local runs all ranks in one process, but mpirun started ",
        processes, " processes; leave mpirun or --backend local out"));
  return createLocalWorld();
}

/// Runs a command that needs the ranks of a job; returns the exit code.
int runJob(const JobOptions &options,
           const std::function<Status(World &)> &command) {
  StatusOr<std::unique_ptr<World>> world = createWorld(options);
  if (!world.ok()) {
    if (mpiSetting("OMPI_COMM_WORLD_RANK", 0) == 0)
      printFailure(world.status());
    return world.status().exitCode();
  }
  Status status = command(**world);
  if (!status.ok() && (*world)->isRoot())
    printFailure(status);
  return status.exitCode();
}

void addJobOptions(CLI::App *app, JobOptions &job, int &threads) {
  app->add_option("--backend", job.backend,
                  "How ranks communicate: local (threads of one process) or "
                  "mpi; found by itself under mpirun")
      ->check(CLI::IsMember({"local", "mpi"}));
  app->add_option("--device", job.device, "What ranks compute on: cpu")
      ->check(CLI::IsMember({"cpu"}));
  app->add_option("--threads-per-rank", threads,
                  "Threads of each rank; by default cores / ranks")
      ->check(CLI::PositiveNumber);
}

CLI::Option *addLibrary(CLI::App *app, const std::string &name,
                        std::string &path) {
  return app->add_option(name, path, "Model library that optimus-compile wrote")
      ->required();
}

void addData(CLI::App *app, std::string &path) {
  app->add_option("--data", path,
                  "FILE.txt (one token a byte) or FILE.bin (little-endian "
                  "uint16 tokens)")
      ->required();
}

const CLI::Range kFraction(0.0, 1.0);
constexpr const char *kOrderHelp =
    "Order of the data's windows: shuffled each epoch, or sequential";

void addTrain(CLI::App &app, TrainOptions &options, JobOptions &job) {
  CLI::App *train = app.add_subcommand("train", "Train a model");
  addLibrary(train, "library", options.library);
  addData(train, options.data);
  train
      ->add_option("--steps", options.steps,
                   "Number of the last step, after --load too; 0 trains "
                   "nothing (default 100)")
      ->check(CLI::NonNegativeNumber);
  train->add_option("--seed", options.seed,
                    "Seed of initial values and of the data's order (default "
                    "0, or the loaded checkpoint's)");
  train->add_option("--lr", options.learningRate.peak, "Learning rate")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  train
      ->add_option_function<std::string>(
          "--schedule",
          [&](const std::string &name) {
            options.learningRate.schedule =
                name == "cosine" ? LearningRate::Schedule::Cosine
                                 : LearningRate::Schedule::Constant;
          },
          "Learning rate after the warm-up: constant (default), or cosine: "
          "down to a tenth at the last step")
      ->check(CLI::IsMember({"constant", "cosine"}));
  train
      ->add_option("--warmup", options.learningRate.warmup,
                   "Steps over which the learning rate rises from 0")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  train
      ->add_option("--weight-decay", options.weightDecay,
                   "AdamW's weight decay")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  train->add_option("--clip", options.clip, "Largest norm of the gradient")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  train->add_option("--beta1", options.beta1, "AdamW's first beta")
      ->capture_default_str()
      ->check(kFraction);
  train->add_option("--beta2", options.beta2, "AdamW's second beta")
      ->capture_default_str()
      ->check(kFraction);
  train->add_option("--epsilon", options.epsilon, "AdamW's epsilon")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  train->add_option("--order", options.order, kOrderHelp)
      ->check(CLI::IsMember({"shuffled", "sequential"}));
  addJobOptions(train, job, options.threadsPerRank);
  CLI::Option *save = train->add_option("--save", options.save,
                                        "Folder of the checkpoint to write");
  train
      ->add_option("--save-every", options.saveEvery,
                   "Write the checkpoint every so many steps too")
      ->needs(save)
      ->check(CLI::PositiveNumber);
  train->add_option("--load", options.load,
                    "Folder of the checkpoint to go on from");
  train->add_option("--log-json", options.logJson,
                    "File for one JSON object a step");
  CLI::Option *evalData = train->add_option(
      "--eval-data", options.evalData,
      "File whose mean loss is reported at the end and every --eval-every "
      "steps");
  train
      ->add_option("--eval-every", options.evalEvery,
                   "Evaluate every so many steps")
      ->needs(evalData)
      ->check(CLI::PositiveNumber);
}

void addEval(CLI::App &app, EvalOptions &options, JobOptions &job) {
  CLI::App *eval = app.add_subcommand(
      "eval", "Mean cross-entropy over all windows of a file");
  addLibrary(eval, "library", options.library);
  addData(eval, options.data);
  eval->add_option("--load", options.load,
                   "Folder of the checkpoint; without it the initial "
                   "parameters are evaluated");
  eval->add_option("--seed", options.seed, "Seed of the initial parameters")
      ->capture_default_str();
  eval->add_flag("--json", options.json,
                 "Print {\"loss\": ..., \"tokens\": "
                 "...}");
  addJobOptions(eval, job, options.threadsPerRank);
}

void addInspect(CLI::App &app, InspectOptions &options) {
  CLI::App *inspect =
      app.add_subcommand("inspect", "What a model library contains");
  addLibrary(inspect, "library", options.library);
  inspect->add_flag("--json", options.json, "Print the manifest");
}

void addVerify(CLI::App &app, VerifyOptions &options) {
  CLI::App *verify = app.add_subcommand(
      "verify", "Compare the gradients of two compilations of one model");
  addLibrary(verify, "a", options.first);
  addLibrary(verify, "b", options.second);
  addData(verify, options.data);
  verify
      ->add_option("--seed", options.seed,
                   "Seed of initial values and of the data's order")
      ->capture_default_str();
  verify->add_option("--load", options.load,
                     "Folder of the checkpoint with the parameters");
  verify->add_option("--order", options.order, kOrderHelp)
      ->check(CLI::IsMember({"shuffled", "sequential"}));
  verify
      ->add_option("--step-index", options.stepIndex,
                   "Which batch of the data, from 0")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  verify
      ->add_option("--threads-per-rank", options.threadsPerRank,
                   "Threads of each rank; by default cores / ranks")
      ->check(CLI::PositiveNumber);
  verify->add_flag("--json", options.json, "Print the comparison as JSON");
}

int run(int argc, char **argv) {
  CLI::App app("Trains and examines models that optimus-compile compiled.\n"
               "optimus-run COMMAND --help explains a command.",
               "optimus-run");
  app.require_subcommand(1);
  app.set_version_flag("--version", "optimus-run " OPTIMUS_VERSION);

  TrainOptions trainOptions;
  EvalOptions evalOptions;
  InspectOptions inspectOptions;
  VerifyOptions verifyOptions;
  JobOptions job;
  addTrain(app, trainOptions, job);
  addEval(app, evalOptions, job);
  addInspect(app, inspectOptions);
  addVerify(app, verifyOptions);

  bool speaks = mpiSetting("OMPI_COMM_WORLD_RANK", 0) == 0;
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    // Help and version are "errors" with code 0.
    if (speaks)
      app.exit(error);
    return error.get_exit_code() == 0 ? 0 : 1;
  }

  if (app.got_subcommand("train"))
    return runJob(job,
                  [&](World &world) { return train(trainOptions, world); });
  if (app.got_subcommand("eval"))
    return runJob(job, [&](World &world) { return eval(evalOptions, world); });

  // These use no other process.
  if (!speaks)
    return 0;
  Status status = app.got_subcommand("verify") ? verify(verifyOptions)
                                               : inspect(inspectOptions);
  if (!status.ok())
    printFailure(status);
  return status.exitCode();
}

} // namespace

void optimus_run::printFailure(const Status &status) {
  std::fflush(stdout);
  if (status.code() == StatusCode::Internal)
    std::fprintf(stderr,
                 "optimus-run: internal error: %s [%s:%d]\nThis is a fault of "
                 "Optimus; please report it.\n",
                 status.message().c_str(), std::string(status.file()).c_str(),
                 status.line());
  else
    std::fprintf(stderr, "optimus-run: error: %s\n", status.message().c_str());
}

Status optimus_run::failJob(World &world, Status status) {
  if (world.numLocalRanks() == world.size())
    return status;
  printFailure(status);
  world.exitJob(status.exitCode());
  return status;
}

int main(int argc, char **argv) {
  // Nothing of ours throws; the standard library may, without memory.
  try {
    return run(argc, argv);
  } catch (const std::bad_alloc &) {
    printFailure(unavailable("out of memory"));
    return 1;
  } catch (const std::exception &error) {
    printFailure(internal(concat("unexpected exception: ", error.what())));
    return 2;
  }
}
