//===- Commands.h - The subcommands of optimus-run --------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_TOOLS_OPTIMUS_RUN_COMMANDS_H
#define OPTIMUS_TOOLS_OPTIMUS_RUN_COMMANDS_H

#include "Prompts.h"
#include "optimus-runtime/Checkpoint.h"
#include "optimus-runtime/DataIdentity.h"
#include "optimus-runtime/Dataset.h"
#include "optimus-runtime/Hyperparameters.h"
#include "optimus-runtime/Profile.h"
#include "optimus-runtime/Session.h"
#include "optimus-runtime/Status.h"
#include "optimus-runtime/World.h"
#include "optimus-support/PathUse.h"

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace optimus_run {

/// What each rank computes on.
struct RankOptions {
  int threadsPerRank = 0; ///< 0: cores / ranks
  std::string device;     ///< empty for the library's
  optrt::Placement placement = optrt::Placement::Planned;
  bool eager = false; ///< commands are waited for one by one
  bool nvtx = false;  ///< ranges for NVIDIA's tools
  optrt::DeviceOptions computing;
  std::string tune; ///< file of the fastest products; empty: none are tuned
  std::string scratchFolder;
  double timeoutSeconds = 120; ///< 0: nobody watches the ranks
  /// The library's, if it was copied when the job was joined.
  std::optional<optrt::LibraryFile> file;

  optrt::StatusOr<std::unique_ptr<optrt::ModelLibrary>>
  openLibrary(const std::string &path) const {
    return file ? optrt::ModelLibrary::open(*file)
                : optrt::ModelLibrary::open(path);
  }
};

/// Where tokens come from.
struct DataOptions {
  std::string path;
  std::optional<optrt::TokenType> tokenType; ///< of .bin files, if stated
  int64_t cacheBytes = 0;                    ///< kept in the machine's memory
  /// The last token of a document, for models that keep documents apart.
  std::optional<int64_t> documentEnd;

  /// The last token of a document, for a library with positions: the one given;
  /// none where the data say themselves where documents end, as a store does;
  /// of a mixture with a store, the store's. Fails where there is none, where
  /// the library has no use for the one given, and where its vocabulary lacks
  /// it.
  optrt::StatusOr<std::optional<int64_t>>
  findDocumentEnd(const optrt::ModelLibrary &library,
                  const optrt::Dataset &opened) const;
};

/// Fails where the checkpoint's run read tokens of another tokenizer than the
/// one that made `data`, as far as both say. `checkpoint` may be null.
optrt::Status checkTokenizer(const optrt::Checkpoint *checkpoint,
                             const std::string &folder,
                             const optrt::Dataset &data);

/// What is read as `flag`, a file, a store or a mixture of them.
void addInputs(const std::string &flag, const std::string &path,
               std::vector<optimus_support::PathUse> &inputs);

/// What of a folder is a model's.
struct WeightFlags {
  std::vector<std::string> ignored; ///< patterns of tensors left out of weights
  /// Folder with the rest of the model, of adapters alone; or empty.
  std::string base;
};

/// How a folder of a model is written.
struct SaveFlags {
  /// Of the parameters; absent: F32, or what they are already.
  std::optional<optimus_support::ElementType> type;
  std::optional<int64_t> shardBytes; ///< most bytes of tensors in a file
};

struct TrainOptions {
  std::string library;
  DataOptions data;
  /// Absent: 0, or what the loaded checkpoint says; so for `order`.
  std::optional<uint64_t> seed;
  std::optional<std::string> order;
  /// Those whose names are `given`; the others are the loaded checkpoint's, or
  /// these defaults.
  optrt::Hyperparameters hyperparameters;
  std::set<std::string> given;
  RankOptions ranks;
  /// The last step of this run; those of the schedule stay. Absent: all.
  std::optional<int64_t> until;
  std::string save;
  int64_t saveEvery = 0;
  SaveFlags saveFormat;
  /// Whether checkpoints are written behind steps; absent: where memory allows.
  std::optional<bool> saveAsync;
  int64_t checkReplicas = 0; ///< every so many steps; 0: never
  bool overwrite = false; ///< a checkpoint in `save` that was not loaded
  bool resume = false;    ///< from `save` where it has a checkpoint
  std::string load;
  bool restartData = false; ///< do not go on where `load` stopped reading
  std::string loadWeights;  ///< begins with the parameters in it
  WeightFlags weights;
  std::string logJson;
  std::string profile;
  optrt::StepRange profileSteps; ///< that are recorded there
  std::string evalData;
  int64_t evalEvery = 0;
  std::string keepBest; ///< folder of the checkpoint with the least loss there
  /// Evaluations without a better loss, after which the run ends; 0: never.
  int64_t patience = 0;
  std::string lanes;       ///< file with a run's flags a line; empty: one run
  int64_t sampleEvery = 0; ///< texts are generated every so many steps; 0: none
  PromptOptions samplePrompts;
};

/// One of several runs side by side.
struct TrainLane {
  std::string name; ///< "lane 2"
  TrainOptions options;
};

struct EvalOptions {
  std::string library;
  DataOptions data;
  std::string load;
  WeightFlags weights;
  uint64_t seed = 0;
  std::string function; ///< of the kind eval, where there are several
  RankOptions ranks;
  bool json = false;
};

struct ForwardOptions {
  std::string library;
  DataOptions data;
  std::string load;
  WeightFlags weights;
  uint64_t seed = 0;
  int64_t windows = 0;           ///< the first so many; 0: all
  std::string function;          ///< empty: the only one of its kind
  std::string result;            ///< which of its outputs; empty: of its kind
  std::string output;            ///< the file
  RankOptions ranks;
};

struct ConvertOptions {
  std::string library; ///< empty: none is needed
  std::string load;
  WeightFlags weights;
  std::string save;
  bool merges = false; ///< adapters into the weights that they are beside
  SaveFlags format;
};

/// Which model generates or scores texts.
struct GenerationSource {
  std::string library;
  std::string load;
  WeightFlags weights;
  uint64_t seed = 0;                ///< of initial parameters and of sampling
  RankOptions ranks;
};

struct GenerateOptions {
  GenerationSource source;
  PromptOptions prompts;
  std::optional<int64_t> maxTokens; ///< absent: to the context's end
  optrt::SamplingOptions sampling;
  int64_t beams = 1;
  double lengthPenalty = 1;
  int64_t hostPages = 0;
  bool json = false;
  bool rates = false; ///< say how fast it was
  std::string logits; ///< file of those by which tokens were chosen; or empty
};

struct ScoreOptions {
  GenerationSource source;
  PromptOptions prompts;
  /// Windows of a long text: tokens of each, by default the context's, and from
  /// one to the next. Without a stride a text is one window.
  std::optional<int64_t> context, stride;
};

struct InspectOptions {
  std::string library;
  bool json = false;
  bool commands = false;
  std::string function;        ///< of the commands; empty: all
  std::optional<int64_t> rank; ///< whose addresses and numbers; none: all
};

struct VerifyOptions {
  std::string first, second; ///< libraries
  DataOptions data;
  std::string load;
  WeightFlags weights;
  std::string order = "shuffled";
  uint64_t seed = 0;
  int64_t stepIndex = 0;
  RankOptions ranks;
  bool json = false;
};

struct BenchOptions {
  std::string library; ///< empty with `comm` and `gemm`
  int64_t steps = 20;
  int64_t warmup = 3; ///< steps before those that are timed
  std::string function = "train"; ///< a kind, or a function's name
  RankOptions ranks;
  std::string data; ///< what its reading costs is timed besides; or empty
  /// Times collectives instead, with no model.
  bool comm = false;
  int64_t numRanks = 0; ///< 0: those that mpirun started
  int64_t minBytes = 64, maxBytes = int64_t(1) << 24;
  /// Times prompts and tokens, beside a sum over as many bytes.
  bool generate = false;
  std::vector<int64_t> live; ///< slots with a token; empty: one, and all
  int64_t prompt = 512;      ///< tokens of it, if a slot holds as many
  /// Times what ranks compute instead, with no model.
  bool gemm = false;
  int64_t largest = 3072; ///< extent of a product
  int64_t rounds = 3;
  std::string profile; ///< machine profile to write into, or empty
  bool json = false;
};

// A status that a command returns is the same in every process of the job;
// what only one process knows ends the job there, see failJob().

/// The number of the signal that ended the run early, or 0.
optrt::StatusOr<int> train(const TrainOptions &options, optrt::World &world);
/// Trains each as a lane of one program. A lane that fails says so and ends
/// alone; the failure that is returned when all have ended names such lanes.
optrt::StatusOr<int> trainLanes(const std::vector<TrainLane> &lanes,
                                optrt::World &world);
optrt::Status eval(const EvalOptions &options, optrt::World &world);
/// Writes what a function of the kind forward makes of a file's windows.
optrt::Status forward(const ForwardOptions &options, optrt::World &world);
/// Prints the texts that follow prompts. InvalidArgument when the library has
/// no functions for it, or a prompt is beyond its context or its vocabulary.
optrt::Status generate(const GenerateOptions &options, optrt::World &world);
/// Prints the log-probabilities of given tokens. Errors as above.
optrt::Status score(const ScoreOptions &options, optrt::World &world);
/// Times training steps, or another function, on random tokens.
optrt::Status bench(const BenchOptions &options, optrt::World &world);
/// Times and checks collectives: bench --comm.
optrt::Status benchCollectives(const BenchOptions &options,
                               optrt::World &world);
/// Times what ranks compute: bench --gemm.
optrt::Status benchProducts(const BenchOptions &options, optrt::World &world);
/// Times prompts and tokens of a library for generation: bench --generate.
optrt::Status benchGeneration(const BenchOptions &options, optrt::World &world);
/// The same of a GPU: bench --gemm --device cuda.
optrt::Status benchGpu(const BenchOptions &options, optrt::World &world);
optrt::Status inspect(const InspectOptions &options);
/// Runs all ranks as threads, one library after the other.
optrt::Status verify(const VerifyOptions &options);
/// Writes a model's weights to a folder of their own.
optrt::Status convert(const ConvertOptions &options);

/// Prints a failure in one line.
void printFailure(const optrt::Status &status);

/// For instance "summa on row:2,col:2".
std::string describeStrategy(const optrt::Manifest &manifest);

/// For instance "4 ranks (local), 1 thread each".
std::string describeRanks(const optrt::World &world,
                          const optrt::Session &session);

/// Says on standard error, from one process, when ranks share cores, compute
/// with different instructions, cannot overlap communication with computing, or
/// have types that the processor has no instructions for; and what of the
/// environment is not followed.
void printWarnings(const optrt::World &world, const optrt::Session &session);

/// Gives a session a checkpoint's parameters, or without one the initial ones.
/// Collective.
optrt::Status setParameters(optrt::Session &session,
                            optrt::ControlPlane &control,
                            const optrt::Checkpoint *checkpoint, uint64_t seed);
/// Prints what differs from the checkpoint's run; without a checkpoint a
/// warning.
void printNotes(const optrt::Checkpoint *checkpoint,
                const optrt::ExpectedModel &expected, uint64_t seed);

/// What a session needs to run `functions` on ranks with these options.
optrt::SessionOptions sessionOptions(std::vector<std::string> functions,
                                     const RankOptions &ranks);

/// Hands on the failure of some rank of this process. With several processes
/// the others would wait for this one for ever: prints it and ends the job.
optrt::Status failJob(optrt::ControlPlane &control, optrt::Status status);

} // namespace optimus_run

#endif // OPTIMUS_TOOLS_OPTIMUS_RUN_COMMANDS_H
