//===- optimus-table-mutants.cpp - Mutants of tables, run to their end ----===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// optimus-table-mutants LIBRARY.so random FIRST COUNT
// optimus-table-mutants LIBRARY.so sequences FIRST COUNT [ORDERS]
// optimus-table-mutants LIBRARY.so witness FIRST COUNT [ORDERS]
// optimus-table-mutants LIBRARY.so each STRIDE
//
// Changes the tables of a model library, and at random its manifest, behind all
// checksums. A mutant is refused with one message, or its functions are run; on
// the device of OPTIMUS_DEVICE_CPU_LIBRARY, which had best be the hidden one.
// `sequences` changes sequences and messages alone, and runs each accepted
// mutant in different orders, 2 by default, whose bits must be the same.
// `witness` makes the same mutants and runs those that are refused since their
// ranks do not come to the end together, each in a process of its own: how many
// stand, fail or have bits that depend on the order. `each` changes every place
// in each way, except that of all these mutants it takes one in STRIDE. Exits
// with 1 where a message is none, and otherwise dies as a sanitizer or a signal
// will have it; the last line says of which mutant. The library itself must run
// first: without a device every mutant would be refused, and every witness
// wrong.
//
//===----------------------------------------------------------------------===//

#include "TableMutator.h"
#include "TokenMutator.h"

#include "optimus-runtime/Session.h"
#include "optimus-support/Hash.h"
#include "optimus-support/ProgramSequence.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <optional>
#include <set>
#include <sys/wait.h>
#include <unistd.h>

// The check of how ranks meet, which is the last of all checks, is called
// through here (-Wl,--wrap), so that a witness can do without.
#define OPTIMUS_CHECK_MEETINGS                                                 \
  "_ZN15optimus_support7program13checkMeetingsERKNS0_7TargetTERKNS_4MeshE"
namespace optimus_support::program {
Status
checkMeetingsItself(const TargetT &target,
                    const Mesh &mesh) asm("__real_" OPTIMUS_CHECK_MEETINGS);
Status
checkMeetingsOrNot(const TargetT &target,
                   const Mesh &mesh) asm("__wrap_" OPTIMUS_CHECK_MEETINGS);

static bool doMeet, mayMiss;

Status checkMeetingsOrNot(const TargetT &target, const Mesh &mesh) {
  Status status = checkMeetingsItself(target, mesh);
  doMeet = status.ok();
  return mayMiss ? Status() : std::move(status);
}
} // namespace optimus_support::program

using namespace optrt;
using optimus_fuzz::TableMutator;
using optimus_support::program::callsOf;
using optimus_support::program::findFunction;

namespace {

/// What is larger is not run: it may be right, and takes the machine.
constexpr int64_t kMaxRanks = 8, kMaxBytes = int64_t(1) << 26;
/// A message is of one line, and quotes no more than a name or two.
constexpr size_t kMaxMessage = 2000;
constexpr double kSeconds = 20, kWitnessSeconds = 2;
/// Turns of loops that the caller counts, and calls of a sequence.
constexpr int64_t kTimes = 2;
constexpr size_t kMaxCallsRun = 64;
/// Of what is refused: the check is no stricter than it must be.
constexpr int kPercentWrong = 95;
/// Of a process that did not run its mutant.
constexpr int kNotRun = 77;

class Mutants {
public:
  explicit Mutants(const char *path) : library(must(ModelLibrary::open(path))) {
    auto query = reinterpret_cast<optimus_model_query_fn>(
        dlsym(open(path), "optimus_model_query"));
    mutant = *query(OPTRT_ABI_VERSION);
    auto programs = must(optimus_support::program::unpack(
        std::span(mutant.programs, mutant.programs_size)));
    tables = std::make_unique<TableMutator>(programs);
    mustRun();
  }

  int random(uint32_t first, uint32_t count) {
    for (uint32_t seed = first; seed != first + count; ++seed) {
      std::mt19937 random(seed);
      std::string what, text(library->manifestText()), bytes;
      const uint32_t which = random() % 8;
      bytes = tables->change(random, what);
      // The manifest instead, or too.
      if (which < 2)
        text = optimus_fuzz::mutate(text, seed);
      if (which == 0) {
        what.clear();
        bytes.assign(mutant.programs, mutant.programs_size);
      }
      judge(concat("mutant ", seed, which < 2 ? " (manifest) " : " ", what),
            text, bytes);
    }
    return finish();
  }

  int sequences(uint32_t first, uint32_t count, uint32_t orders) {
    tables->keepToSequences();
    const std::string text(library->manifestText());
    for (uint32_t seed = first; seed != first + count; ++seed) {
      std::mt19937 random(seed);
      std::string what;
      const std::string bytes = tables->change(random, what);
      const std::string name = concat("mutant ", seed, " ", what);
      std::string before;
      for (uint32_t order = 1; order <= orders; ++order) {
        setenv("OPTIMUS_HIDDEN_SEED", std::to_string(order).c_str(), 1);
        state.clear();
        if (!judge(name, text, bytes))
          break;
        if (!before.empty() && state != before) {
          std::fprintf(stderr, "\n%s: orders have different results\n",
                       name.c_str());
          ++findings;
        }
        before = state;
      }
    }
    return finish();
  }

  int witness(uint32_t first, uint32_t count, uint32_t orders) {
    tables->keepToSequences();
    int numWrong = 0, numRefused = 0;
    std::set<uint64_t> known; // few changes are possible, and come again
    for (uint32_t seed = first; seed != first + count; ++seed) {
      std::mt19937 random(seed);
      std::string what;
      const std::string bytes = tables->change(random, what);
      optimus_support::program::doMeet = true;
      // Without a run there are no threads, and the process may fork.
      const Aligned aligned = align(bytes);
      (void)optimus_support::program::unpack(
          std::span(aligned.get(), bytes.size()));
      if (optimus_support::program::doMeet ||
          !known.insert(optimus_support::hash64(bytes)).second)
        continue;
      const std::optional<bool> isWrong =
          goesWrong(bytes, orders, kWitnessSeconds);
      if (!isWrong)
        continue;
      ++numRefused;
      numWrong += *isWrong;
      if (!*isWrong)
        std::fprintf(stderr, "mutant %u %s: ends with the same bits\n", seed,
                     what.c_str());
    }
    std::fprintf(stderr,
                 "%d different ones refused for how ranks meet, "
                 "%d go wrong\n",
                 numRefused, numWrong);
    return numRefused && numWrong * 100 >= kPercentWrong * numRefused ? 0 : 1;
  }

  int each(size_t stride) {
    const std::string text(library->manifestText());
    for (size_t i = 0; i < tables->numFields() * TableMutator::kWays;
         i += stride) {
      std::string what;
      const std::string bytes =
          tables->change(i / TableMutator::kWays,
                         static_cast<uint32_t>(i % TableMutator::kWays), what);
      judge(concat("mutant ", i, " ", what), text, bytes);
    }
    return finish();
  }

private:
  /// In a process of its own, since a process with threads may not fork.
  void mustRun() {
    const std::string programs(mutant.programs, mutant.programs_size);
    if (goesWrong(programs, 1, kSeconds).value_or(true)) {
      std::fputs("optimus-table-mutants: the library does not run as it is; "
                 "OPTIMUS_MUTANTS_VERBOSE says why\n",
                 stderr);
      std::exit(1);
    }
  }

  static void *open(const char *path) {
    if (void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL))
      return handle;
    std::fprintf(stderr, "%s\n", dlerror());
    std::exit(1);
  }
  template <typename T> static T must(StatusOr<T> value) {
    if (value.ok())
      return std::move(value).value();
    std::fprintf(stderr, "%s\n", value.status().toString().c_str());
    std::exit(1);
  }

  /// Flatbuffers are aligned.
  using Aligned = std::unique_ptr<char, void (*)(void *)>;
  static Aligned align(const std::string &bytes) {
    Aligned aligned(static_cast<char *>(
                        std::aligned_alloc(64, (bytes.size() + 63) / 64 * 64)),
                    std::free);
    std::copy(bytes.begin(), bytes.end(), aligned.get());
    return aligned;
  }

  /// Whether a run without that check stands still, fails, or has other bits in
  /// another order; nothing where it takes too much.
  std::optional<bool> goesWrong(const std::string &programs, uint32_t orders,
                                double limit) {
    const pid_t child = fork();
    if (child == 0) {
      optimus_support::program::mayMiss = true;
      seconds = limit;
      // Where no rank waits for another, no watchdog sees it.
      alarm(static_cast<unsigned>(10 * limit));
      const std::string text(library->manifestText());
      // A loop may by chance be run as often as another rank's is long.
      for (times = 1; times <= kTimes + 1; ++times) {
        std::string before;
        for (uint32_t order = 1; order <= orders; ++order) {
          setenv("OPTIMUS_HIDDEN_SEED", std::to_string(order).c_str(), 1);
          state.clear();
          if (!judge("witness", text, programs) ||
              (!before.empty() && state != before))
            std::_Exit(1);
          before = state;
        }
      }
      std::_Exit(tooLarge ? kNotRun : 0);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) {
      std::perror("optimus-table-mutants: cannot run a witness");
      std::exit(1);
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == kNotRun)
      return std::nullopt;
    return status != 0;
  }

  /// Runs one; false where it is refused. Afterwards the mutant has the
  /// original's data again.
  bool judge(const std::string &name, const std::string &manifest,
             const std::string &programs) {
    const Aligned aligned = align(programs);
    const optimus_model original = mutant;
    mutant.manifest = manifest.data();
    mutant.manifest_size = manifest.size();
    mutant.programs = aligned.get();
    mutant.programs_size = programs.size();
    // Where this is the last line, it is what all died of.
    std::fprintf(stderr, "%s\r", name.c_str());
    Status status = use();
    mutant = original;
    ++(status.ok() ? accepted : refused);
    if (status.ok())
      return true;
    const std::string &message = status.message();
    if (message.empty() || message.size() > kMaxMessage ||
        message.find('\n') != std::string::npos) {
      std::fprintf(stderr, "\n%s: refused with no message of one line: %s\n",
                   name.c_str(), message.c_str());
      ++findings;
    }
    if (std::getenv("OPTIMUS_MUTANTS_VERBOSE"))
      std::fprintf(stderr, "\n  %s\n", message.c_str());
    return false;
  }

  Status use() {
    OPTRT_ASSIGN_OR_RETURN(auto opened, ModelLibrary::wrap(mutant, "mutant"));
    const Manifest &manifest = opened->manifest();
    SessionOptions options;
    int64_t bytes = 0;
    for (const Function &function : manifest.functions) {
      options.functions.push_back(function.name);
      bytes = std::max(bytes, function.arenaBytes);
    }
    size_t numCalls = 0;
    for (const auto &table : opened->target().tables)
      for (const auto &sequence : table->sequences) {
        numCalls = std::max(numCalls, callsOf(*sequence, times).size());
        if (table == opened->target().tables.front())
          options.sequences.push_back(sequence->name);
      }
    for (const Buffer &buffer : manifest.buffers)
      bytes = std::max(bytes, buffer.numBytes());
    if (manifest.mesh.numRanks() > kMaxRanks || bytes > kMaxBytes ||
        numCalls > kMaxCallsRun) {
      ++tooLarge;
      return okStatus();
    }
    options.threadsPerRank = 1;
    // The second of as many as there are.
    options.lanes =
        std::min<int64_t>(opened->target().tables.front()->lanes, 2);
    options.timeoutSeconds = seconds;
    options.onStall = [](const Status &status, bool) {
      std::fprintf(stderr, "\nhangs: %s\n", status.message().c_str());
      std::_Exit(3);
    };
    World world = createLocalWorld();
    OPTRT_ASSIGN_OR_RETURN(auto session,
                           Session::create(*opened, world, options));
    session->chooseLane(options.lanes - 1);
    OPTRT_RETURN_IF_ERROR(run(*session));
    for (const std::string &sequence : options.sequences)
      OPTRT_RETURN_IF_ERROR(run(*session, sequence));
    return noteState(*session);
  }

  /// What all ranks hold.
  Status noteState(Session &session) {
    for (int rank = 0; rank != session.manifest().mesh.numRanks(); ++rank)
      for (int64_t buffer : session.heldBuffers(rank)) {
        std::vector<uint8_t> copy;
        OPTRT_ASSIGN_OR_RETURN(
            const auto bytes,
            session.shardOf(session.manifest().buffers[buffer].name, rank,
                            copy));
        state += concat(' ', optimus_support::hash64(
                                 {reinterpret_cast<const char *>(bytes.data()),
                                  bytes.size()}));
      }
    return okStatus();
  }

  Status run(Session &session, const std::string &sequence) const {
    OPTRT_ASSIGN_OR_RETURN(const size_t count,
                           session.countBatches(sequence, times));
    std::vector<CallInputs> inputs(count);
    for (CallInputs &one : inputs)
      OPTRT_RETURN_IF_ERROR(session.read(fillRows(session), one.batch));
    OPTRT_RETURN_IF_ERROR(session.submitSequence(sequence, times, inputs));
    return session.collect().status();
  }

  static Session::FillRows fillRows(const Session &session) {
    return [&](int64_t begin, int64_t rows, int32_t *tokens, int32_t *targets) {
      const int64_t count = rows * session.manifest().sequence;
      for (int64_t i = 0; i != count; ++i) {
        tokens[i] = static_cast<int32_t>((begin + i) % 7);
        targets[i] = static_cast<int32_t>((begin + i) % 5);
      }
      return okStatus();
    };
  }

  static Status run(Session &session) {
    OPTRT_RETURN_IF_ERROR(session.initialize(1));
    OPTRT_RETURN_IF_ERROR(session.fill(fillRows(session)));
    // Those that the host does not fill stay as they are.
    for (const Buffer &buffer : session.manifest().buffers)
      session.setScalar(buffer.name, 0.5f);
    session.setRandom(1, 1);
    // Twice, as a step after a step may be another.
    for (int step = 0; step != 2; ++step) {
      OPTRT_RETURN_IF_ERROR(session.reset(Reset::Step));
      for (const Function &function : session.manifest().functions)
        if (isOfAll(session, function))
          OPTRT_RETURN_IF_ERROR(session.run(function.name).status());
    }
    return okStatus();
  }

  /// Whether all ranks have a function.
  static bool isOfAll(const Session &session, const Function &function) {
    return std::ranges::all_of(
        session.model().target().tables, [&](const auto &table) {
          return findFunction(*table, function.name) != nullptr;
        });
  }

  int finish() const {
    std::fprintf(stderr,
                 "%d accepted and run (%d too large), %d refused, %d findings\n",
                 accepted - tooLarge, tooLarge, refused, findings);
    return findings ? 1 : 0;
  }

  std::unique_ptr<ModelLibrary> library;
  optimus_model mutant = {};
  std::unique_ptr<TableMutator> tables;
  double seconds = kSeconds; ///< until a run is taken to stand still
  int64_t times = kTimes;    ///< turns of loops that the caller counts
  std::string state;         ///< of the last mutant that was run
  int accepted = 0, refused = 0, tooLarge = 0, findings = 0;
};

} // namespace

int main(int argc, char **argv) {
  const std::string_view how = argc > 3 ? argv[2] : "";
  // What happens to be a hang without a collective.
  alarm(600);
  if (how == "random" && argc == 5)
    return Mutants(argv[1]).random(
        static_cast<uint32_t>(std::strtoul(argv[3], nullptr, 10)),
        static_cast<uint32_t>(std::strtoul(argv[4], nullptr, 10)));
  if ((how == "sequences" || how == "witness") && (argc == 5 || argc == 6)) {
    auto number = [&](int place) {
      return static_cast<uint32_t>(std::strtoul(argv[place], nullptr, 10));
    };
    const uint32_t orders = argc == 6 ? number(5) : 2;
    Mutants mutants(argv[1]);
    return how == "witness" ? mutants.witness(number(3), number(4), orders)
                            : mutants.sequences(number(3), number(4), orders);
  }
  if (how == "each" && argc == 4)
    return Mutants(argv[1]).each(
        std::max<size_t>(1, std::strtoul(argv[3], nullptr, 10)));
  std::fputs("usage: optimus-table-mutants LIBRARY.so random FIRST COUNT\n"
             "       optimus-table-mutants LIBRARY.so sequences FIRST COUNT "
             "[ORDERS]\n"
             "       optimus-table-mutants LIBRARY.so witness FIRST COUNT "
             "[ORDERS]\n"
             "       optimus-table-mutants LIBRARY.so each STRIDE\n",
             stderr);
  return 1;
}
