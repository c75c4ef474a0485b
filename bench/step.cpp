//===- step.cpp - Where the time of a training step goes ------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Runs a model library's train_step on ranks that are threads, with a clock
// around every command. `bench/run step` drives it; every line of its output is
// a JSON object.
//
//   optimus-bench-step MODEL.so --threads-per-rank T [--gemm] [--lr X]
//                      [--data FILE] [--load DIR] [--prompt]
//
// Tokens are random, or with --data the windows of a file as they lie. With
// --load the parameters are those of a checkpoint before its first step. With
// --prompt a step is a prompt of a whole chunk instead, taken in by prefill.
//
// A line "N" on standard input runs N rounds; the end of the input ends the
// program. A round is one step and, with --gemm, the step's products once more,
// one by one: by oneDNN's sgemm on the step's own layouts, where all are f32,
// and by oneDNN's matmul on operands it has packed ahead. Both have their
// operands to themselves and do nothing after the product.
//
//===----------------------------------------------------------------------===//

#include "optimus-runtime/Checkpoint.h"
#include "optimus-runtime/Dataset.h"
#include "optimus-runtime/Generator.h"
#include "optimus-runtime/ModelLibrary.h"
#include "optimus-runtime/Session.h"
#include "program/BoundProgram.h"
#include "tooling/StepScalars.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <oneapi/dnnl/dnnl.hpp>
#include <random>
#include <string>
#include <sys/mman.h>
#include <unordered_map>
#include <vector>

using namespace optrt;
using namespace optimus_support::program;
using Clock = std::chrono::steady_clock;

namespace {

double since(Clock::time_point start) {
  return 1e3 * std::chrono::duration<double>(Clock::now() - start).count();
}

[[noreturn]] void fail(const std::string &message) {
  std::fprintf(stderr, "optimus-bench-step: error: %s\n", message.c_str());
  std::exit(1);
}
template <typename T>
T must(StatusOr<T> value) {
  if (!value.ok())
    fail(value.status().toString());
  return std::move(value).value();
}
void must(const Status &status) {
  if (!status.ok())
    fail(status.toString());
}

//===----------------------------------------------------------------------===//
// The clocks
//===----------------------------------------------------------------------===//

/// The time of one rank, by kind of work.
struct Spent {
  double ms = 0;
  double gflop = 0;
  int64_t calls = 0;
};
using Profile = std::map<std::string, Spent>;

std::string nameOf(const CommandT &command, const GemmT &gemm) {
  const bool hasBias =
      command.operands.size() > 3 && command.operands[3]->address != kNone;
  return concat("gemm ", gemm.m, "x", gemm.n, "x", gemm.k,
                gemm.trans_a ? " T" : " N", gemm.trans_b ? "T" : "N",
                gemm.packed_b ? " packed" : "",
                gemm.accumulate ? " +=" : "", hasBias ? " bias" : "",
                gemm.epilogue == Epilogue::Add   ? " add"
                : gemm.epilogue == Epilogue::Mul ? " mul"
                                                 : "");
}

std::string nameOf(const TargetT &target, const CommandT &command) {
  switch (command.action.type) {
  case Action::Gemm:
    return nameOf(command, *command.action.AsGemm());
  case Action::Launch:
    return "launch " + describeAction(target, command);
  case Action::Collective:
    return "collective " + describeAction(target, command);
  case Action::Wait:
    return "collective wait";
  case Action::Fill:
    return "copy zeros";
  default:
    return describeAction(target, command);
  }
}

/// Charges the time of every command of a rank's step to its name.
class RankProfile final : public CommandObserver {
public:
  explicit RankProfile(const TargetT &target) : target(target) {}

  void begin(const BoundProgram &program, Site) override {
    if (&program.function() != function)
      prepare(program);
    start = Clock::now();
  }
  void end(const BoundProgram &, Site site) override {
    Spent &spent = *slots[site.number];
    spent.ms += since(start);
    spent.gflop += gflop[site.number];
    ++spent.calls;
  }
  void clear() {
    for (auto &[name, one] : spent)
      one = Spent();
  }

  Profile spent;
  std::vector<optrt_gemm_desc> products;

private:
  void prepare(const BoundProgram &program) {
    function = &program.function();
    slots.clear();
    gflop.clear();
    products.clear();
    for (const ProductCall &product : program.products())
      products.push_back(product.desc);
    for (const auto &command : function->commands) {
      slots.push_back(&spent[nameOf(target, *command)]);
      const GemmT *gemm = command->action.AsGemm();
      gflop.push_back(gemm ? 1e-9 * countFlops(*command) : 0);
    }
  }

  const TargetT &target;
  const FunctionT *function = nullptr;
  /// Where each command's time goes, and the work of products.
  std::vector<Spent *> slots;
  std::vector<double> gflop;
  Clock::time_point start;
};

/// By rank.
using Profiles = std::map<int, std::unique_ptr<RankProfile>>;

//===----------------------------------------------------------------------===//
// The plain products
//===----------------------------------------------------------------------===//

/// Memory on large pages, as the arena's is.
class Memory {
public:
  explicit Memory(size_t bytes) {
    constexpr size_t page = 2 << 20;
    size_t rounded = (bytes + page - 1) / page * page;
    start.reset(static_cast<float *>(std::aligned_alloc(page, rounded)));
    madvise(start.get(), rounded, MADV_HUGEPAGE);
    std::mt19937 random(1);
    for (size_t i = 0; i < rounded / sizeof(float); ++i)
      start.get()[i] = float(random()) / 4e9f - 0.5f;
  }
  float *data() const { return start.get(); }

private:
  struct Free {
    void operator()(float *pointer) const { std::free(pointer); }
  };
  std::unique_ptr<float, Free> start;
};

/// One of the step's products, to be repeated without the step.
class PlainProduct {
public:
  PlainProduct(const optrt_gemm_desc &d, const dnnl::engine &engine)
      : d(d), a(d.m * d.k * sizeof(float)), b(d.k * d.n * sizeof(float)),
        c(d.m * d.n * sizeof(float)) {
    using Desc = dnnl::memory::desc;
    auto typeOf = [](int32_t type) {
      return type == OPTRT_F32 ? dnnl::memory::data_type::f32
                               : dnnl::memory::data_type::bf16;
    };
    const auto factors = typeOf(d.factor_type);
    constexpr auto any = dnnl::memory::format_tag::any;
    Desc out({d.m, d.n}, typeOf(d.result_type), dnnl::memory::format_tag::ab);
    dnnl::matmul::primitive_desc desc(
        {Desc({d.m, d.k}, factors, any), Desc({d.k, d.n}, factors, any), out},
        engine);
    matmul = dnnl::matmul(desc);
    aPacked = std::make_unique<Memory>(desc.src_desc().get_size());
    bPacked = std::make_unique<Memory>(desc.weights_desc().get_size());
    operands = {
        {DNNL_ARG_SRC, {desc.src_desc(), engine, aPacked->data()}},
        {DNNL_ARG_WEIGHTS, {desc.weights_desc(), engine, bPacked->data()}},
        {DNNL_ARG_DST, {out, engine, c.data()}}};
  }

  double runSgemm() {
    auto start = Clock::now();
    dnnl_sgemm(d.trans_a ? 'T' : 'N', d.trans_b ? 'T' : 'N', d.m, d.n, d.k, 1,
               a.data(), d.trans_a ? d.m : d.k, b.data(), d.trans_b ? d.k : d.n,
               0, c.data(), d.n);
    return since(start);
  }
  double runPacked(dnnl::stream &stream) {
    auto start = Clock::now();
    matmul.execute(stream, operands);
    stream.wait();
    return since(start);
  }

  int64_t times = 0; ///< in the step

private:
  optrt_gemm_desc d;
  Memory a, b, c;
  std::unique_ptr<Memory> aPacked, bPacked;
  dnnl::matmul matmul;
  std::unordered_map<int, dnnl::memory> operands;
};

class PlainProducts {
public:
  PlainProducts() : engine(dnnl::engine::kind::cpu, 0), stream(engine) {}

  /// Milliseconds that the products of a step take by themselves.
  nlohmann::json run(const std::vector<optrt_gemm_desc> &step) {
    const bool isWide = std::ranges::all_of(
        step, [](const auto &d) { return d.factor_type == OPTRT_F32; });
    std::map<std::string, PlainProduct *> now;
    for (const optrt_gemm_desc &d : step) {
      std::string key = concat(d.m, " ", d.n, " ", d.k, " ", d.trans_a, " ",
                               d.trans_b, " ", d.factor_type, d.result_type);
      auto [entry, isNew] = products.try_emplace(key);
      if (isNew)
        entry->second = std::make_unique<PlainProduct>(d, engine);
      if (now.try_emplace(key, entry->second.get()).second)
        entry->second->times = 0;
      ++entry->second->times;
    }
    double sgemm = 0, packed = 0, best = 0;
    for (auto [key, product] : now) {
      // As often as the step does it, by turns, so that both meet the same
      // neighbours on the machine.
      double ofSgemm = 0, ofPacked = 0;
      for (int64_t time = 0; time < product->times; ++time) {
        if (isWide)
          ofSgemm += product->runSgemm();
        ofPacked += product->runPacked(stream);
      }
      sgemm += ofSgemm;
      packed += ofPacked;
      best += isWide ? std::min(ofSgemm, ofPacked) : ofPacked;
    }
    nlohmann::json found = {{"packed_ms", packed}, {"best_ms", best}};
    if (isWide)
      found["sgemm_ms"] = sgemm;
    return found;
  }

private:
  dnnl::engine engine;
  dnnl::stream stream;
  std::map<std::string, std::unique_ptr<PlainProduct>> products;
};

//===----------------------------------------------------------------------===//
// The step
//===----------------------------------------------------------------------===//

/// Tokens drawn evenly from the vocabulary; targets are those shifted by one.
void drawRows(int64_t step, int64_t sequence, int64_t vocabulary,
              int64_t rowsBegin, int64_t rows, int32_t *tokens,
              int32_t *targets) {
  for (int64_t row = 0; row < rows; ++row) {
    std::mt19937 random(uint32_t(step * 1000003 + rowsBegin + row));
    int32_t next = int32_t(random() % vocabulary);
    for (int64_t at = 0; at < sequence; ++at) {
      *tokens++ = next;
      *targets++ = next = int32_t(random() % vocabulary);
    }
  }
}

/// Parameters and zero moments from a checkpoint of step 0, or random ones.
void initialize(Session &session, const std::string &folder) {
  if (folder.empty())
    return must(session.initialize(1));
  std::unique_ptr<Checkpoint> checkpoint = must(Checkpoint::open(folder));
  if (checkpoint->state().step != 0)
    fail(concat("expected a checkpoint of step 0 in `", folder,
                "`, found step ", checkpoint->state().step));
  must(session.load(*checkpoint));
}

nlohmann::json toJson(int64_t step, double ms, const Profiles &profiles) {
  nlohmann::json line = {{"step", step}, {"ms", ms}};
  // The mean over ranks; they run the same commands.
  Profile mean;
  for (auto &[rank, profile] : profiles)
    for (auto &[name, spent] : profile->spent) {
      Spent &sum = mean[name];
      sum.ms += spent.ms / double(profiles.size());
      sum.gflop += spent.gflop / double(profiles.size());
      sum.calls = spent.calls;
    }
  for (auto &[name, spent] : mean)
    line["commands"][name] = {
        {"ms", spent.ms}, {"gflop", spent.gflop}, {"calls", spent.calls}};
  return line;
}

/// A step of training. Returns its loss.
double train(Session &session, Dataset *data, int64_t step, double lr) {
  const Manifest &manifest = session.manifest();
  setScalars(session, Hyperparameters(), step, lr);
  must(session.fill(
      [&](int64_t rowsBegin, int64_t rows, int32_t *tokens, int32_t *targets) {
        if (data)
          return data->fillBatch((step - 1) * manifest.batch, manifest.batch,
                                 rowsBegin, rows, tokens, targets);
        drawRows(step, manifest.sequence, manifest.vocabulary, rowsBegin, rows,
                 tokens, targets);
        return okStatus();
      }));
  const StepOutputs outputs = must(session.run("train_step"));
  return outputs.lossSum() / outputs.realCount();
}

/// A chunk of a prompt, with the logits behind it.
void takePrompt(Session &session, const GenerationEntries &entries,
                int64_t step) {
  std::vector<int32_t> tokens(entries.chunk), next(entries.chunk);
  drawRows(step, entries.chunk, entries.vocabulary, 0, 1, tokens.data(),
           next.data());
  const std::vector<std::vector<int32_t>> pages = entries.cache.pagesOfEach(1);
  const SlotTokens chunk = {.slot = 0,
                            .position = 0,
                            .tokens = tokens,
                            .wantsLogits = true,
                            .pages = pages.front()};
  must(session.fillSlots(entries.prefill->name, {&chunk, 1}));
  must(session.run(entries.prefill->name).status());
}

} // namespace

int main(int argc, char **argv) {
  std::string path, dataPath, checkpoint;
  double lr = 1e-4;
  SessionOptions options;
  options.functions = {"train_step"};
  bool withGemm = false, withPrompt = false;
  for (int i = 1; i < argc; ++i) {
    std::string argument = argv[i];
    if (argument == "--gemm")
      withGemm = true;
    else if (argument == "--prompt")
      withPrompt = true;
    else if (argument == "--threads-per-rank" && i + 1 < argc)
      options.threadsPerRank = std::atoi(argv[++i]);
    else if (argument == "--data" && i + 1 < argc)
      dataPath = argv[++i];
    else if (argument == "--load" && i + 1 < argc)
      checkpoint = argv[++i];
    else if (argument == "--lr" && i + 1 < argc)
      lr = std::atof(argv[++i]);
    else if (path.empty() && argument[0] != '-')
      path = argument;
    else
      fail("unknown argument " + argument);
  }
  if (path.empty())
    fail("expected a model library");

  std::unique_ptr<ModelLibrary> library = must(ModelLibrary::open(path));
  GenerationEntries entries;
  if (withPrompt) {
    entries = must(GenerationEntries::find(path, library->manifest()));
    options.functions = entries.functions();
  }
  // Made before their ranks, which are threads.
  Profiles profiles;
  for (int rank = 0; rank != library->manifest().mesh.numRanks(); ++rank)
    profiles[rank] = std::make_unique<RankProfile>(library->target());
  options.observe = [&](const Rank &rank) {
    return profiles.at(rank.rank).get();
  };
  const Manifest &manifest = library->manifest();
  World world = createLocalWorld();
  std::unique_ptr<Session> session =
      must(Session::create(*library, world, options));
  initialize(*session, checkpoint);
  if (withPrompt)
    must(entries.prepare(*session));
  std::unique_ptr<Dataset> data;
  if (!dataPath.empty())
    data = must(Dataset::open(dataPath, manifest.sequence, manifest.vocabulary,
                              DataOrder::Sequential));
  PlainProducts plain;
  std::cout << nlohmann::json{{"ready", true},
                              {"parameters", manifest.numParamElements()},
                              {"ranks", world.control->size()},
                              {"threads", session->threadsPerRank()}}
            << std::endl;

  int64_t step = 0;
  for (std::string line; std::getline(std::cin, line);)
    for (int64_t rounds = std::atoll(line.c_str()); rounds > 0; --rounds) {
      for (auto &[rank, profile] : profiles)
        profile->clear();
      ++step;
      double loss = 0;
      const auto start = Clock::now();
      if (withPrompt)
        takePrompt(*session, entries, step);
      else
        loss = train(*session, data.get(), step, lr);
      nlohmann::json result = toJson(step, since(start), profiles);
      if (!withPrompt)
        result["loss"] = loss;
      if (withGemm)
        result["plain"] = plain.run(profiles.at(0)->products);
      std::cout << result << std::endl;
    }
  return 0;
}
