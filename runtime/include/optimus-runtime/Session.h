//===- Session.h - A model in memory, ready to run --------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A session joins a model library with the ranks of a job: it owns the memory
// of this process's ranks and runs the library's functions on all of them.
// Functions marked collective are called by every process of the job at the
// same point, from its main thread.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_SESSION_H
#define OPTIMUS_RUNTIME_SESSION_H

#include "optimus-runtime/Checkpoint.h"
#include "optimus-runtime/CoreShare.h"
#include "optimus-runtime/Manifest.h"
#include "optimus-runtime/ModelLibrary.h"
#include "optimus-runtime/Rank.h"
#include "optimus-runtime/SessionData.h"
#include "optimus-runtime/SessionMeasures.h"
#include "optimus-runtime/SessionOptions.h"
#include "optimus-runtime/Status.h"
#include "optimus-runtime/World.h"
#include "optimus-support/Dropout.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace optrt {

/// What a library with this manifest expects of a checkpoint.
ExpectedModel expectedModel(const Manifest &manifest);

/// Opens a checkpoint in every process, null for an empty `dir`. Files that
/// have no checksums of pieces are verified, once a machine, before anything
/// else in them is read. `flag` is for messages: who named it; `base` is that
/// of CheckpointReaderOptions. Collective.
///
/// Errors, the same in every process: those of Checkpoint::open(), and
/// InvalidArgument when processes have found different checkpoints.
StatusOr<std::unique_ptr<Checkpoint>>
openCheckpoint(ControlPlane &control, const std::string &dir,
               const std::string &base = "", std::string_view flag = "--load");

/// A model in the memory of this process's ranks. A function or a sequence is
/// submitted and then collected; one at a time. Between the two the ranks have
/// the session: every call on their memory fails with Internal, and the main
/// thread may only read() later batches and do work without ranks and other
/// processes.
class Session {
public:
  /// A function and the manifest's buffers that it is passed.
  struct Callable {
    const Function *function;
    std::vector<int64_t> buffers; ///< one an argument
    bool readsBatch = false;
  };

  /// Lays `world` out on the library's mesh and makes the memory of this
  /// process's ranks, zeroed. Both must outlive the session. Collective.
  ///
  /// Errors: InvalidArgument when the library lacks a function, or the job has
  /// another number of ranks than the mesh, or processes have opened different
  /// libraries; Unavailable when memory is short.
  static StatusOr<std::unique_ptr<Session>>
  create(const ModelLibrary &library, World &world, SessionOptions options);
  ~Session();
  Session(const Session &) = delete;
  Session &operator=(const Session &) = delete;

  const Manifest &manifest() const { return library.manifest(); }
  const ModelLibrary &model() const { return library; }
  /// What may be called; observers know calls by their places here.
  const std::vector<Callable> &calls() const { return callables; }
  bool hasChosen(const Function &function) const {
    return std::any_of(
        callables.begin(), callables.end(),
        [&](const Callable &call) { return call.function == &function; });
  }
  /// The buffers that ranks hold: what their functions are passed.
  const std::vector<int64_t> &heldBuffers() const { return held; }
  /// Those of one of the job's ranks, in the order of its memory, each at a
  /// multiple of kBufferAlignment.
  const std::vector<int64_t> &heldBuffers(int rank) const {
    return planOf(rank).held;
  }
  /// Whether a rank of the job can make a call.
  bool hasCall(int rank, std::size_t call) const {
    return planOf(rank).calls[call];
  }
  /// Makes fresh what `reader` reads, by entries of kind prepare. The session
  /// has chosen them.
  Status prepareFor(const Function &reader);
  /// The parameters that only entries of kind prepare read, each one of its
  /// own; ascending. They have memory while they are set, as many at a time as
  /// the largest takes, and then their entries are called: what these make is
  /// held alone. None is read or saved.
  const std::vector<int64_t> &preparedParameters() const { return sources; }
  int threadsPerRank() const { return threads; }

  /// Later calls are about one of the lanes that have not ended, at first lane
  /// 0. Its buffers are filled, loaded, saved and read, and functions run on
  /// them alone.
  void chooseLane(int64_t lane);
  /// Hands a chosen sequence to all lanes that have not ended, each with inputs
  /// of its own, in the order of their numbers. Otherwise as submitSequence().
  Status submitLanes(std::string_view sequence, int64_t times,
                     std::span<const std::span<const CallInputs>> inputs);
  /// The outputs of the last call, once collected, in the chosen lane.
  StatusOr<StepOutputs> outputs() const;
  /// A lane ends: its place in memory is taken by another one's. Later calls do
  /// without it, and another lane is chosen, if any is left.
  Status endLane(int64_t lane);
  /// A sentence when the ranks that share this process's cores have more
  /// threads; otherwise empty.
  std::string oversubscription() const;
  /// A sentence when ranks compute with different libraries or instruction
  /// sets; otherwise empty.
  const std::string &mixedArithmetic() const { return mixture; }
  /// DeviceEnvironment::refused.
  const std::string &refusedSetting() const { return refused; }
  /// A sentence where this process's devices compute slower in the program's
  /// precision than in f32; otherwise empty.
  std::string slowPrecision() const;

  /// Sets all buffers to their initial values, if they have any.
  Status initialize(uint64_t seed);
  /// Moves every element of the parameters that is not 0 to the next number of
  /// so many bits of precision above or below it, at random but alike on every
  /// mesh. Returns how many parameters this process's ranks have changed
  /// something of.
  StatusOr<int64_t> perturb(uint64_t seed, int precision);
  /// Takes saved buffers, where held, from a checkpoint that passed
  /// findModel(), and sets the others to their initial values. The processes
  /// that have opened the same files share their pieces out: each piece is read
  /// once, verified, and handed on to the ranks that have a part of it.
  /// Collective; failures may differ between processes.
  Status load(const Checkpoint &checkpoint);
  /// Takes the parameters alone, of a checkpoint that passed checkParameters()
  /// or findParameters(). As above.
  Status loadParameters(const Checkpoint &checkpoint, uint64_t seed);
  /// Of the checkpoints that follow: alike in every process, but for the
  /// companions.
  void setSaveFormat(SaveFormat format) { saveFormat = std::move(format); }
  /// Writes a checkpoint. Only the root's machine needs the folder; all
  /// processes that see it write pieces of it, side by side. What `state` says
  /// of the model is the manifest's. Collective.
  Status save(const std::string &dir, TrainingState state,
              SaveOptions options = {});

  /// Makes memory for this process's share of snapshots of checkpoints in
  /// `dir`, once for all. False, unless it must fit, where it would leave too
  /// little of a machine's memory, or of its container's. Collective.
  StatusOr<bool> reserveSnapshot(const std::string &dir, bool mustFit);
  /// Takes a snapshot of what save() would write and returns: threads of each
  /// writer write it while ranks run on, or in pollSave() where those keep all
  /// cores busy. Waits for the one before, whose failure is returned.
  /// Collective.
  Status beginSave(const std::string &dir, TrainingState state);
  bool isSaving() const { return saving != nullptr; }
  /// Whether what was begun is in place; if not, goes on with what processes do
  /// together, if nobody has to wait for it, and takes at most 8 % of a step's
  /// time. After a failure, which is the same in every process, nothing is being
  /// saved. After each step. Collective.
  StatusOr<bool> pollSave();
  /// Waits until it is. Collective.
  Status finishSave();

  /// Sets a number, or i32 words, that the host fills. Nothing happens where no
  /// chosen function takes one of that name, type and size; what a function
  /// takes and nothing has set is found when it is run.
  void setScalar(std::string_view name, float value);
  /// Where ranks have a part of the first dimension, `padding` follows the
  /// words.
  void setWords(std::string_view name, std::span<const int32_t> words,
                int32_t padding = 0);
  /// Sets the words of functions that draw random numbers: from the run's seed
  /// and the number of the step, from 1 and below 2^48, and that of the
  /// microbatch, from 0.
  void setRandom(uint64_t seed, int64_t step, uint32_t microbatch = 0);
  /// Sets buffers that are reset then back to their initial values. What is
  /// reset before calls, ranks reset by themselves.
  Status reset(Reset when);

  /// Rows of the global batch: the first, and how many.
  using RowRange = std::pair<int64_t, int64_t>;
  /// What read() reads for a rank, of whatever process, each range once.
  std::vector<RowRange> rowsOfBatch(int rank) const;

  /// Writes rows [rowsBegin, rowsBegin + rowsCount) of the global batch into
  /// [rowsCount, sequence] matrices.
  using FillRows = std::function<Status(int64_t rowsBegin, int64_t rowsCount,
                                        int32_t *tokens, int32_t *targets)>;

  /// Reads what this process's ranks have of a batch. A failure is that of
  /// `fill`, in this process only: processes should agree before they run
  /// anything. Also while a call is under way.
  /// Where the program keeps documents apart and SessionOptions name no last
  /// token, `ends` says which tokens of the rows are the last of one: it gets
  /// a zero for each.
  using FindEnds = std::function<Status(int64_t rowsBegin, int64_t rowsCount,
                                        uint8_t *ends)>;
  Status read(const FillRows &fill, HostBatch &batch,
              const FindEnds &ends = {}) const;
  /// Gives this process's ranks their inputs.
  Status fill(const HostBatch &batch);
  /// Reads and gives them.
  Status fill(const FillRows &fill);

  /// Gives a chosen function of the kind prefill, decode or score its tokens;
  /// other slots stay as they are. Only decode takes those of several slots.
  /// InvalidArgument, with nothing changed, for what the function has no place
  /// for: a slot twice or beyond those it has, a position beyond the context,
  /// more tokens than it takes, one beyond the vocabulary, or pages that are
  /// too few or not the slot's.
  Status fillSlots(std::string_view function,
                   std::span<const SlotTokens> slots);
  /// Puts the first tokens of a slot of a chosen function's cache into another
  /// one, on each rank; what another one holds moves. InvalidArgument for slots
  /// or tokens that the cache has not, and for a cache of pages. Collective.
  Status copySlot(std::string_view function, int64_t from, int64_t to,
                  int64_t tokens);
  /// Puts the first tokens of a page of a chosen function's cache into another
  /// page of the same ranks. InvalidArgument for others. Collective.
  Status copyPage(std::string_view function, int64_t from, int64_t to,
                  int64_t tokens);
  /// Keys and values of a page in host memory: those of each rank here.
  using HostPage = std::vector<std::vector<uint8_t>>;
  /// Copies a page of a chosen function's cache to the host, and back into any
  /// page of the same ranks. InvalidArgument for others. Collective.
  Status savePage(std::string_view function, int64_t page, HostPage &to);
  Status loadPage(std::string_view function, const HostPage &from,
                  int64_t page);

  /// Hands a function to all ranks, on the inputs that are there, and returns:
  /// thread ranks run it meanwhile; a single rank has put it on its device's
  /// queues, so on a processor it has run. InvalidArgument where an input is
  /// not there, or some rank has no such function, Internal while a call is
  /// under way; then nothing has changed and there is nothing to collect.
  Status submit(std::string_view function);
  /// Waits for what was submitted, and returns the outputs of its last call, or
  /// why a rank failed. Collective where ranks write different outputs.
  StatusOr<StepOutputs> collect();
  /// Submits and collects.
  StatusOr<StepOutputs> run(std::string_view function);
  /// Hands a chosen sequence to all ranks, as submit() does. Each sets back the
  /// buffers that are reset before a step or a sequence, and goes from call to
  /// call by itself: it waits for others in collectives alone. Calls without a
  /// number of their own run `times` in a row. The inputs belong to the calls
  /// of a rank that read a batch, in their order, and stay until collect().
  /// Also Internal where their number or `times` does not fit.
  Status submitSequence(std::string_view sequence, int64_t times,
                        std::span<const CallInputs> inputs);
  /// How many batches the calls of a chosen sequence read. Internal as above.
  StatusOr<std::size_t> countBatches(std::string_view sequence,
                                     int64_t times) const;
  /// Waits for what the last sequence has started for its next run. Saving,
  /// loading, what reads or sets buffers and all other calls do so by
  /// themselves. Collective where something is carried.
  Status finishCarried();
  /// False after a call that failed: what it should have changed may be changed
  /// by half, and nothing more can be run.
  bool canGoOn() const { return !broken; }

  /// What the last run, of a function or a whole sequence, communicated, one
  /// entry a mesh axis: bytes summed over all ranks, messages of one rank.
  /// Internal when ranks differ in messages. Collective.
  StatusOr<std::vector<Traffic>> trafficOfLastRun();
  /// Compares that with the manifest's prediction for the calls of the last
  /// run; Internal when they differ. `name` is for messages. Collective.
  Status checkTraffic(std::string_view name);

  /// Compares the state between steps on ranks with the same shards, by hashes.
  /// Collective.
  ///
  /// Errors, the same in every process: Unavailable with the first buffer whose
  /// copies differ, the ranks in the minority, and their hosts.
  Status compareReplicas();

  /// How long the last run communicated, of the rank with the most exposed
  /// time. Collective.
  SlowestRank communicationTimeOfLastRun();

  /// What the last run copied between memories; times of the rank with the most
  /// exposed time. Collective.
  PagingTime pagingOfLastRun();
  /// Whether a chosen function copies between memories.
  bool isPaging() const { return paging; }

  /// Whether a rank of this process worked on subnormal numbers in the last
  /// run, which may take many times as long, as far as its first thread says.
  /// False where they count as zero, and where devices do not say.
  bool hadSubnormals() const;

  /// The rank of the job that holds most. Collective.
  RankMemory largestRankMemory();

  /// A whole f32 buffer, as a gradient, in the root process; elsewhere empty.
  /// InvalidArgument if it is not held, or holds partial sums. Collective.
  StatusOr<std::vector<float>> gather(std::string_view buffer);
  /// Sets what this process's ranks have of such a buffer. One of the
  /// preparedParameters() is prepared at once; of another, nothing prepared is
  /// left. InvalidArgument as above, or where `whole` has not all its elements.
  /// Collective.
  Status assign(std::string_view buffer, std::span<const float> whole);
  /// What one of this process's ranks has of a held buffer, with its padding:
  /// where it lies, as long as the session lives, or in `copy`.
  /// InvalidArgument for another rank or buffer.
  StatusOr<std::span<const std::byte>>
  shardOf(std::string_view buffer, int rank, std::vector<uint8_t> &copy);

  /// What a chosen function left in one of its outputs, by the buffer's name:
  /// the whole tensor, without padding, of any type; in the root process,
  /// elsewhere without bytes. InvalidArgument with the outputs that there are
  /// if it is none of them, or if it holds partial sums. Collective.
  StatusOr<HostTensor> output(std::string_view function, std::string_view name);
  /// The same piece by piece, from the first element on, so that the root
  /// process never has more than a piece. A failure of `take` is that process's
  /// alone; it is called no more then.
  using TakePiece = std::function<Status(std::span<const std::byte> piece)>;
  Status streamOutput(std::string_view function, std::string_view name,
                      const TakePiece &take);
  /// The part of one of this process's ranks, with its padding.
  StatusOr<HostTensor> outputOfRank(std::string_view function,
                                    std::string_view name, int rank);

private:
  struct LocalRank;
  class CommandNamer;
  class Saving;
  /// Calls, as numbers among the callables: some, and then others as often as
  /// the caller says.
  struct ChosenPart {
    std::vector<std::size_t> once, repeated;
  };
  struct ChosenSequence {
    std::string name;
    std::vector<ChosenPart> parts;
  };
  /// What the ranks with one table call and hold.
  struct RankPlan {
    bool holds(int64_t buffer) const {
      return std::binary_search(held.begin(), held.end(), buffer);
    }

    const optimus_support::program::ProgramTableT *table = nullptr;
    std::vector<bool> calls; ///< of the callables, those that it can make
    std::vector<ChosenSequence> sequences;
    std::vector<int64_t> held;    ///< buffers that these use, ascending
    std::vector<int64_t> numbers; ///< of them, numbers that functions write
    std::array<std::vector<int64_t>, 4> resets; ///< of them, by their Reset
    /// Buffers that were made of parameters as they are now.
    std::set<int64_t> fresh;
    RankMemory memory; ///< of each rank, without the device's
  };

  Session(const ModelLibrary &library, World &world);

  /// Loads what is saved in these files, and sets the rest to initial values.
  Status loadFiles(const Checkpoint &checkpoint,
                   std::initializer_list<CheckpointFile> files, uint64_t seed);
  /// The same of some buffers, ascending.
  Status loadBuffers(const Checkpoint &checkpoint,
                     std::initializer_list<CheckpointFile> files, uint64_t seed,
                     std::span<const int64_t> buffers);
  /// Sources with memory at a time, ascending, and the calls of their
  /// preparers.
  struct Turn {
    std::vector<int64_t> sources;
    std::vector<std::size_t> calls;
  };
  /// Sets some buffers, ascending, on the ranks that have them.
  using SetBuffers = std::function<Status(std::span<const int64_t> buffers)>;
  /// Sets all buffers: those that are held, and the sources turn by turn.
  Status setInTurns(const SetBuffers &set);
  Status takeTurns(const std::vector<Turn> &turns, const SetBuffers &set);
  Status takeTurn(const Turn &turn, const SetBuffers &set);
  std::vector<Turn> makeTurns(std::span<const int64_t> sources) const;
  int64_t bytesOf(const Turn &turn) const;
  Status build(const SessionOptions &options);
  void compareArithmetic(const std::vector<std::string> &all);
  /// What will be called by these options.
  Status chooseCalls(const SessionOptions &options);
  Status chooseSequences(const SessionOptions &options, RankPlan &plan);
  std::size_t addCallable(Callable callable, RankPlan &plan);
  /// Chooses the buffers held by ranks for the functions to be called.
  void chooseBuffers(Placement placement);
  void chooseBuffers(Placement placement, RankPlan &plan);
  std::vector<int64_t> findSources() const;
  const RankPlan &planOf(int64_t rank) const;
  /// That the ranks of one replica of a buffer all hold their parts.
  Status checkHolders() const;
  /// The same tables in all processes, where ranks have different ones or send
  /// to each other.
  Status agreeOnTables() const;
  Status tune(Tuning &tuning);
  Status tuneOwn(TunedProducts &tuned);
  Status buildRank(LocalRank &rank, const SessionOptions &options);
  /// Makes a call's program, of buffers that are there.
  Status bindCall(LocalRank &rank, std::size_t call);
  std::array<int64_t, 3> arenaBytesOf(const RankPlan &plan) const;
  /// A call that ranks are to make, in the order of a sequence.
  struct Call {
    std::size_t callable;
    /// Its number among the inputs of a lane; none: what is there.
    std::optional<std::size_t> batch = {};
  };
  using LaneInputs = std::span<const std::span<const CallInputs>>;
  enum class Lanes { Chosen, All };
  /// Hands calls to all ranks, a list for each plan, which set these buffers
  /// back before the first.
  Status submit(std::vector<std::vector<Call>> calls,
                std::initializer_list<Reset> first, Lanes which,
                LaneInputs inputs);
  Status submitSequence(std::string_view sequence, int64_t times, Lanes which,
                        LaneInputs inputs);
  bool isOf(Lanes which, std::size_t lane) const {
    return which == Lanes::All ? lanes[lane].has_value()
                               : lane == static_cast<std::size_t>(chosenLane);
  }
  StatusOr<std::vector<Call>>
  callsOf(const RankPlan &plan, std::string_view sequence, int64_t times) const;
  std::size_t countBatches(const std::vector<Call> &calls) const;
  /// What calls read must be there; `prepared` is fresh after them.
  Status checkCalls(const std::vector<Call> &calls, const RankPlan &plan,
                    std::set<int64_t> &prepared) const;
  /// Makes a call on a rank, up to where all its commands are on queues, and
  /// waits until they are done. On the rank's thread.
  Status beginCall(LocalRank &rank, const Call &call);
  /// Does something for each lane of a rank's present call, while it is chosen
  /// there.
  template <typename Body>
  static Status onLanes(LocalRank &rank, Body body);
  Status endCall(LocalRank &rank);
  Status reset(LocalRank &rank, Reset when);
  Status fill(LocalRank &rank, const HostBatch &batch);
  /// Checks that a batch has the rows of this process's ranks.
  Status checkRead(const HostBatch &batch) const;
  StatusOr<int64_t> findOutput(std::string_view function,
                               std::string_view name) const;
  StatusOr<int64_t> findHeld(std::string_view name) const;
  /// The same, of a buffer whose whole tensor of f32 can be made.
  StatusOr<int64_t> findWhole(std::string_view name) const;
  StatusOr<std::span<const std::byte>> readShard(int64_t buffer, int rank,
                                                 std::vector<uint8_t> &copy);
  StatusOr<int64_t> findComplete(std::string_view function,
                                 std::string_view name);
  /// Elements of a whole buffer, in the root process: the slabs of them, at
  /// place(begin, count), and then taken. Collective.
  template <typename Word, typename Place, typename Take>
  Status gatherSlabs(int64_t buffer, Place place, Take take);
  template <typename Word>
  Status gatherWhole(int64_t buffer, std::span<Word> whole);
  class ShardExchange exchangeOfShards();
  class PieceSlabs slabsOf(const CheckpointPieces &pieces) const;
  StatusOr<std::unique_ptr<Saving>>
  prepareSave(const std::string &dir, TrainingState state, SaveOptions options);
  bool savesAdaptersAlone(const std::string &dir);
  Status addCompanions(CheckpointWriter &writer, const std::string &dir,
                       bool adaptersAlone) const;
  Status addTensors(CheckpointWriter &writer, bool adaptersAlone) const;
  Status takeSnapshot(Saving &made);
  /// Internal while ranks run.
  Status checkIdle(const char *what) const;
  /// Gives a function of the kind prefill or score the tokens of one slot.
  Status fillChunk(const Function &function, std::span<const SlotTokens> slots);
  /// Sets the table of pages; slots without tokens have none that is read.
  void fillPages(const CacheExtents &cache, std::span<const SlotTokens> slots);
  /// The first rows of a slot of one buffer of a cache.
  Status copyRows(int64_t index, int64_t from, int64_t to, int64_t rows);
  /// Whether some rank holds it.
  bool isHeld(int64_t buffer) const;
  RowRange rowsOf(int rank, const Buffer &buffer) const;
  /// A buffer that a rank fills with rows of a batch.
  struct BatchPart;
  /// Those of a rank of whatever process.
  std::vector<BatchPart> partsOfBatch(int rank) const;
  /// A held buffer filled by the host, or nothing.
  std::optional<int64_t> findHostFilled(std::string_view name) const;
  /// Of them, one of so many i32 words.
  std::optional<int64_t> findWords(std::string_view name,
                                   std::size_t count) const;
  /// Whether a batch has this buffer, or comes with its words.
  bool isOfBatch(int64_t buffer) const;
  /// Checks the freshness of prepared buffers that a call reads, and notes its
  /// own effects on them.
  Status checkPrepared(const Call &call,
                       const std::set<int64_t> &prepared) const;
  void follow(const Call &call, std::set<int64_t> &prepared) const;
  /// Checks that a call's inputs from outside are there, or will be.
  Status checkFilled(const Call &call) const;
  /// Adds what ranks of all processes have written.
  Status addOutputs(StepOutputs &outputs) const;
  /// One entry a plan: bytes summed over its ranks, messages of one of them.
  StatusOr<std::vector<std::vector<Traffic>>> countTraffic();
  std::vector<std::vector<Traffic>> predictTraffic() const;
  void forgetPrepared();

  /// Where a lane is: a rank of this process, and its place there. Several
  /// ranks have parts of the only lane of a mesh.
  struct LanePlace {
    std::size_t rank;
    int64_t place;
  };
  Status checkLanes(const SessionOptions &options) const;
  /// Shares lanes out among the parts of a rank.
  void placeLanes();
  /// Of the last lane of a rank.
  Status moveLane(int64_t lane, LanePlace to);
  /// The ranks of this process that have a part of the chosen lane.
  std::span<const std::unique_ptr<LocalRank>> ranksOfLane() const;
  /// Where a rank stands among them.
  std::size_t placeOf(const LocalRank &rank) const;
  /// Pages of a function's cache that the ranks of a slot have.
  struct CachePages {
    const Function *function;
    int64_t ofSlot; ///< how many are a slot's own
    int64_t slot;
  };
  /// InvalidArgument for pages that no ranks have together.
  StatusOr<CachePages> pagesOf(std::string_view function,
                               std::initializer_list<int64_t> pages) const;
  /// Keys or values of a rank.
  struct PageBuffer {
    int64_t index;
    int64_t first; ///< page of the rank
    int64_t row;   ///< bytes of a token

    /// The byte where a page begins.
    int64_t place(int64_t page) const;
  };
  /// Does something with each buffer of the ranks that have pages.
  Status
  onPages(const CachePages &pages,
          const std::function<Status(LocalRank &, const PageBuffer &)> &body);
  /// Does something on each of them, on its thread.
  Status onRanks(const std::function<Status(LocalRank &rank)> &body);

  const ModelLibrary &library;
  World &world;
  ControlPlane &control; ///< the world's
  int threads = 1;
  CoreShare cores;
  std::string mixture, refused;
  std::vector<Callable> callables;
  std::vector<RankPlan> plans;   ///< one a table of the library
  std::vector<int64_t> held;     ///< buffers that some rank uses, ascending
  std::vector<int64_t> sources;  ///< preparedParameters()
  std::vector<int64_t> staged;   ///< of them, those that have memory now
  std::optional<int64_t> random; ///< of them, what draws depend on
  std::vector<bool> isFilled;    ///< one a buffer: from outside, so far
  int64_t snapshotBytes = 0;     ///< RankMemory::snapshot
  Placement placement = Placement::Planned; ///< of its options
  bool paging = false;
  bool broken = false;
  std::vector<std::vector<Call>> submitted; ///< last, one a plan
  std::string lastSequence; ///< may find what it has carried itself
  /// Of setScalar() and its like, which the next run reports.
  Status failedToSet;
  std::optional<int64_t> documentEnd;  ///< of its options
  HostBatch ownBatch;                  ///< of fill(), kept for the next
  std::shared_ptr<CommandNamer> names; ///< of the control plane too
  /// One a rank of this process; with several lanes some, each with a part of
  /// the threads of the only rank, and of its lanes.
  std::vector<std::unique_ptr<LocalRank>> ranks;
  std::vector<std::optional<LanePlace>> lanes; ///< none: it has ended
  int64_t chosenLane = 0;
  /// What the lanes were given for the last run, by their numbers.
  std::vector<std::span<const CallInputs>> givenInputs;
  std::unique_ptr<class RankTeam> team;
  SaveFormat saveFormat;
  std::unique_ptr<class SharedRegions> snapshot; ///< of processes' pieces
  std::unique_ptr<Saving> saving; ///< last: it reads the snapshot
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_SESSION_H
