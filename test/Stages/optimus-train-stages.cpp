//===- optimus-train-stages.cpp - Trains a model in two stages ------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// optimus-train-stages MODEL.so serial|LAST_BLOCK local|mpi|tcp|nccl
//                      MICROBATCHES gpipe|1f1b [FOLDER]
//
// Trains a serial library, compiled with --accumulate, for some steps; as it
// is, or as two stages of which the first ends with a block. The root process
// prints the loss of each step and a checksum of each parameter and of the
// optimizer's state, which are to be the same; with a folder, it saves a
// checkpoint there and prints the checksums of what it loads. With "write" in
// place of a back-end, FOLDER has the stages' manifest and programs, and
// nothing is trained.
//
//===----------------------------------------------------------------------===//

#include "StageSplit.h"

#include "optimus-runtime/Session.h"
#include "optimus-support/Hash.h"
#include "optimus-support/OutputFile.h"
#include "tooling/Job.h"
#include "tooling/StepScalars.h"

#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>

using namespace optrt;

namespace {

constexpr int kSteps = 3;
constexpr double kTimeoutSeconds = 120;

int fail(const Status &status) {
  std::fprintf(stderr, "optimus-train-stages: error: %s\n",
               status.message().c_str());
  return status.exitCode();
}
void reportEnd(const Status &status, bool speaks) {
  if (speaks)
    fail(status);
}

struct Arguments {
  std::string library, stages, backend;
  uint32_t microbatches;
  optimus_stages::Order order;
  std::string folder; ///< of a checkpoint; empty: none
};

/// The library, with its own program or with another one.
class Model {
public:
  Status open(const Arguments &arguments) {
    OPTRT_ASSIGN_OR_RETURN(library, ModelLibrary::open(arguments.library));
    if (arguments.stages == "serial")
      return okStatus();
    OPTRT_ASSIGN_OR_RETURN(optimus_stages::Stages stages,
                           optimus_stages::split(*library, arguments.stages,
                                                 arguments.microbatches,
                                                 arguments.order));
    void *handle = dlopen(arguments.library.c_str(), RTLD_NOW | RTLD_LOCAL);
    auto query = reinterpret_cast<optimus_model_query_fn>(
        dlsym(handle, "optimus_model_query"));
    optimus_model model = *query(OPTRT_ABI_VERSION);
    manifest = std::move(stages.manifest);
    const std::string packed = optimus_support::program::pack(stages.programs);
    // Flatbuffers are aligned.
    programs.resize((packed.size() + 63) / 64);
    std::memcpy(programs.data(), packed.data(), packed.size());
    model.manifest = manifest.data();
    model.manifest_size = manifest.size();
    model.programs = reinterpret_cast<const char *>(programs.data());
    model.programs_size = packed.size();
    staged = std::make_unique<optimus_model>(model);
    OPTRT_ASSIGN_OR_RETURN(library, ModelLibrary::wrap(*staged, "stages"));
    return okStatus();
  }
  const ModelLibrary &get() const { return *library; }

private:
  struct alignas(64) Line {
    char bytes[64];
  };
  std::string manifest;
  std::vector<Line> programs;
  std::unique_ptr<optimus_model> staged;
  std::unique_ptr<ModelLibrary> library;
};

/// Tokens that nothing is alike in.
Status fillRows(const Session &session, int64_t batch, int64_t rows,
                int32_t *tokens, int32_t *targets) {
  const Manifest &manifest = session.manifest();
  for (int64_t i = 0; i != rows * manifest.sequence; ++i) {
    const uint64_t noise =
        static_cast<uint64_t>(batch * 1000 + i) * 0x9e3779b97f4a7c15u;
    tokens[i] = static_cast<int32_t>(
        (noise >> 33) % static_cast<uint64_t>(manifest.vocabulary));
    targets[i] = static_cast<int32_t>(
        (noise >> 17) % static_cast<uint64_t>(manifest.vocabulary));
  }
  // Some have none.
  targets[batch % manifest.sequence] = -1;
  return okStatus();
}

Status printChecksums(Session &session, const char *when) {
  for (const Buffer &buffer : session.manifest().buffers) {
    if (!buffer.saved)
      continue;
    OPTRT_ASSIGN_OR_RETURN(const std::vector<float> whole,
                           session.gather(buffer.name));
    if (!whole.empty())
      std::printf("%s %s %016llx\n", when, buffer.name.c_str(),
                  static_cast<unsigned long long>(optimus_support::hash64(
                      {reinterpret_cast<const char *>(whole.data()),
                       whole.size() * sizeof(float)})));
  }
  return okStatus();
}

Status train(Session &session, const Arguments &arguments, bool isRoot) {
  const std::string sequence = "train_microbatches";
  OPTRT_RETURN_IF_ERROR(session.initialize(/*seed=*/3));
  for (int step = 1; step <= kSteps; ++step) {
    std::vector<CallInputs> inputs(arguments.microbatches);
    for (uint32_t m = 0; m != arguments.microbatches; ++m)
      OPTRT_RETURN_IF_ERROR(session.read(
          [&](int64_t, int64_t rows, int32_t *tokens, int32_t *targets) {
            return fillRows(session, step * 100 + m, rows, tokens, targets);
          },
          inputs[m].batch));
    Hyperparameters hyperparameters;
    setScalars(session, hyperparameters, step, /*lr=*/1e-2);
    // Beyond any norm.
    session.setScalar("clip", 1e30f);
    OPTRT_RETURN_IF_ERROR(
        session.submitSequence(sequence, arguments.microbatches, inputs));
    OPTRT_ASSIGN_OR_RETURN(const StepOutputs outputs, session.collect());
    OPTRT_RETURN_IF_ERROR(session.checkTraffic(sequence));
    if (isRoot)
      std::printf("step %d: loss %.9g of %g, bits %08x\n", step,
                  outputs.meanLoss(), outputs.realCount(),
                  std::bit_cast<uint32_t>(outputs.lossSum()));
  }
  OPTRT_RETURN_IF_ERROR(session.compareReplicas());
  return printChecksums(session, "trained");
}

/// What was saved is what there was.
Status saveAndLoad(Session &session, World &world, const std::string &folder) {
  TrainingState state;
  state.step = kSteps;
  state.order = "sequential";
  OPTRT_RETURN_IF_ERROR(session.save(folder, state));
  OPTRT_RETURN_IF_ERROR(session.initialize(/*seed=*/4));
  OPTRT_ASSIGN_OR_RETURN(auto checkpoint,
                         openCheckpoint(*world.control, folder));
  OPTRT_RETURN_IF_ERROR(session.load(*checkpoint));
  return printChecksums(session, "loaded");
}

Status run(const Arguments &arguments, World &world) {
  Model model;
  OPTRT_RETURN_IF_ERROR(model.open(arguments));
  SessionOptions options;
  options.sequences = {"train_microbatches"};
  options.threadsPerRank = 1;
  options.timeoutSeconds = kTimeoutSeconds;
  options.onStall = reportEnd;
  OPTRT_ASSIGN_OR_RETURN(std::unique_ptr<Session> session,
                         Session::create(model.get(), world, options));
  OPTRT_RETURN_IF_ERROR(train(*session, arguments, world.control->isRoot()));
  if (!arguments.folder.empty())
    OPTRT_RETURN_IF_ERROR(saveAndLoad(*session, world, arguments.folder));
  return world.control->agree(okStatus());
}

/// The stages' manifest and programs, for a library of them that is read, not
/// run.
Status write(const Arguments &arguments) {
  OPTRT_ASSIGN_OR_RETURN(auto library, ModelLibrary::open(arguments.library));
  OPTRT_ASSIGN_OR_RETURN(optimus_stages::Stages stages,
                         optimus_stages::split(*library, arguments.stages,
                                               arguments.microbatches,
                                               arguments.order));
  OPTRT_RETURN_IF_ERROR(optimus_support::OutputFile::write(
      arguments.folder + "/manifest", stages.manifest));
  return optimus_support::OutputFile::write(
      arguments.folder + "/programs",
      optimus_support::program::pack(stages.programs));
}

StatusOr<World> join(const Arguments &arguments) {
  JobOptions options;
  options.backend = arguments.backend;
  OPTRT_ASSIGN_OR_RETURN(const Launcher launcher, findLauncherOf(options));
  bool speaks = true;
  // Ranks are as many as the stages, not the library's.
  return joinJob(
      options, {"optimus-train-stages", [](const std::string &) {}, reportEnd},
      launcher, /*library=*/{}, kTimeoutSeconds, speaks);
}

} // namespace

int main(int argc, char **argv) {
  const std::string_view order = argc > 5 ? argv[5] : "";
  if (argc > 7 || (order != "gpipe" && order != "1f1b"))
    return fail(invalidArgument(
        "expected MODEL.so serial|LAST_BLOCK local|mpi|tcp|nccl MICROBATCHES "
        "gpipe|1f1b [FOLDER]"));
  const Arguments arguments{argv[1],
                            argv[2],
                            argv[3],
                            static_cast<uint32_t>(std::atoi(argv[4])),
                            order == "gpipe"
                                ? optimus_stages::Order::GPipe
                                : optimus_stages::Order::OneForwardOneBackward,
                            argc > 6 ? argv[6] : ""};
  if (arguments.backend == "write") {
    const Status written = write(arguments);
    return written.ok() ? 0 : fail(written);
  }
  StatusOr<World> world = join(arguments);
  if (!world.ok())
    return fail(world.status());
  const Status status = run(arguments, *world);
  if (status.ok())
    return 0;
  const int code = fail(status);
  world->control->exitJob(code);
}
