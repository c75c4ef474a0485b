//===- step.cpp - Where the time of a training step goes ------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// Runs a model library's train_step on ranks that are threads, with a clock
// around every function of the runtime that the library calls. `bench/step`
// drives it; every line of its output is a JSON object.
//
//   optimus-bench-step MODEL.so --threads-per-rank T [--gemm] [--lr X]
//                      [--data FILE] [--load DIR]
//
// Tokens are random, or with --data the windows of a file as they lie. With
// --load the parameters are those of a checkpoint before its first step.
//
// A line "N" on standard input runs N rounds; the end of the input ends the
// program. A round is one step and, with --gemm, the step's products once more,
// one by one: by oneDNN's sgemm on the step's own layouts, and by oneDNN's
// matmul on operands it has packed ahead. Both have their operands to
// themselves and do nothing after the product.
//
//===----------------------------------------------------------------------===//

#include "Hyperparameters.h"
#include "optimus-runtime/Checkpoint.h"
#include "optimus-runtime/Dataset.h"
#include "optimus-runtime/ModelLibrary.h"
#include "optimus-runtime/Session.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <iostream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <oneapi/dnnl/dnnl.hpp>
#include <random>
#include <string>
#include <sys/mman.h>
#include <unordered_map>
#include <vector>

using namespace optrt;
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

/// What one rank spent, by what was called.
struct Spent {
  double ms = 0;
  double gflop = 0;
  int64_t calls = 0;
};
using Profile = std::map<std::string, Spent>;

struct RankProfile {
  Profile spent;
  std::vector<optrt_gemm_desc> products;
};
std::mutex profilesMutex;
std::map<optrt_rank *, RankProfile> profiles;

RankProfile &profileOf(optrt_rank *rank) {
  thread_local optrt_rank *last = nullptr;
  thread_local RankProfile *found = nullptr;
  if (last != rank) {
    std::lock_guard lock(profilesMutex);
    found = &profiles[rank];
    last = rank;
  }
  return *found;
}

/// Charges its lifetime to a name.
class Charge {
public:
  Charge(optrt_rank *rank, std::string name, double gflop = 0)
      : spent(profileOf(rank).spent[std::move(name)]), start(Clock::now()) {
    spent.gflop += gflop;
    ++spent.calls;
  }
  ~Charge() { spent.ms += since(start); }

private:
  Spent &spent;
  Clock::time_point start;
};

double gflopOf(const optrt_gemm_desc &d) {
  return 2e-9 * double(d.m) * double(d.n) * double(d.k);
}

std::string nameOf(const optrt_gemm_desc &d) {
  return concat("gemm ", d.m, "x", d.n, "x", d.k, d.trans_a ? " T" : " N",
                d.trans_b ? "T" : "N", d.weight ? " weight" : "",
                d.accumulate ? " +=" : "", d.has_bias ? " bias" : "",
                d.epilogue == OPTRT_EPILOGUE_ADD   ? " add"
                : d.epilogue == OPTRT_EPILOGUE_MUL ? " mul"
                                                   : "");
}

const optrt_api &real = runtimeApi();

int32_t gemm(optrt_rank *rank, uint32_t command, const optrt_gemm_desc *desc,
             const float *a, const float *b, float *c, const float *bias,
             const float *extra) {
  profileOf(rank).products.push_back(*desc);
  Charge charge(rank, nameOf(*desc), gflopOf(*desc));
  return real.gemm(rank, command, desc, a, b, c, bias, extra);
}

int32_t launch(optrt_rank *rank, uint32_t command,
               const optrt_launch_desc *desc, optrt_kernel kernel,
               void *const *args) {
  Charge charge(rank, concat("launch ", desc->name));
  return real.launch(rank, command, desc, kernel, args);
}

const char *nameOf(const optrt_collective_desc &desc) {
  static constexpr const char *names[] = {
      "collective broadcast", "collective reduce", "collective all_reduce",
      "collective all_gather", "collective reduce_scatter"};
  return names[desc.kind];
}

int32_t collectiveStart(optrt_rank *rank, uint32_t command,
                        const optrt_collective_desc *desc, const float *src,
                        float *dst) {
  Charge charge(rank, nameOf(*desc));
  return real.collective_start(rank, command, desc, src, dst);
}

int32_t collectiveWait(optrt_rank *rank, uint32_t command) {
  Charge charge(rank, "collective wait");
  return real.collective_wait(rank, command);
}

int32_t copy(optrt_rank *rank, uint32_t command, const optrt_copy_desc *desc,
             const float *src, float *dst) {
  Charge charge(rank, src ? "copy" : "copy zeros");
  return real.copy(rank, command, desc, src, dst);
}

int32_t attention(optrt_rank *rank, uint32_t command,
                  const optrt_attention_desc *desc, const float *q,
                  const float *k, const float *v, const int32_t *lengths,
                  float *out, float *lse) {
  Charge charge(rank, "attention");
  return real.attention(rank, command, desc, q, k, v, lengths, out, lse);
}

int32_t attentionGrad(optrt_rank *rank, uint32_t command,
                      const optrt_attention_desc *desc, const float *dout,
                      const float *q, const float *k, const float *v,
                      const int32_t *lengths, const float *out,
                      const float *lse, float *dq, float *dk, float *dv) {
  Charge charge(rank, "attention_grad");
  return real.attention_grad(rank, command, desc, dout, q, k, v, lengths, out,
                             lse, dq, dk, dv);
}

const optrt_api clocked = {OPTRT_ABI_VERSION, gemm,           launch,
                           collectiveStart,   collectiveWait, copy,
                           attention,         attentionGrad,  real.axis_index};

/// Gives an opened library the functions with clocks: it asks for the table
/// once more, and a second opening of the file is the same library.
void wind(const ModelLibrary &library) {
  void *handle = dlopen(std::filesystem::absolute(library.path()).c_str(),
                        RTLD_NOW | RTLD_NOLOAD);
  auto query = handle ? reinterpret_cast<optimus_model_query_fn>(
                            dlsym(handle, "optimus_model_query"))
                      : nullptr;
  if (!query || !query(OPTRT_ABI_VERSION, &clocked))
    fail("the library does not take another table of functions");
}

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
    constexpr auto f32 = dnnl::memory::data_type::f32;
    constexpr auto any = dnnl::memory::format_tag::any;
    Desc out({d.m, d.n}, f32, dnnl::memory::format_tag::ab);
    dnnl::matmul::primitive_desc desc(
        {Desc({d.m, d.k}, f32, any), Desc({d.k, d.n}, f32, any), out}, engine);
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
    std::map<std::string, PlainProduct *> now;
    for (const optrt_gemm_desc &d : step) {
      std::string key =
          concat(d.m, " ", d.n, " ", d.k, " ", d.trans_a, " ", d.trans_b);
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
        ofSgemm += product->runSgemm();
        ofPacked += product->runPacked(stream);
      }
      sgemm += ofSgemm;
      packed += ofPacked;
      best += std::min(ofSgemm, ofPacked);
    }
    return {{"sgemm_ms", sgemm}, {"packed_ms", packed}, {"best_ms", best}};
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

nlohmann::json toJson(int64_t step, double ms, const StepOutputs &outputs) {
  nlohmann::json line = {{"step", step},
                         {"ms", ms},
                         {"loss", outputs.lossSum() / outputs.realCount()}};
  // The mean over ranks; they run the same commands.
  Profile mean;
  for (auto &[rank, profile] : profiles)
    for (auto &[name, spent] : profile.spent) {
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

} // namespace

int main(int argc, char **argv) {
  std::string path, dataPath, checkpoint;
  double lr = 1e-4;
  SessionOptions options;
  options.functions = {"train_step"};
  bool withGemm = false;
  for (int i = 1; i < argc; ++i) {
    std::string argument = argv[i];
    if (argument == "--gemm")
      withGemm = true;
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
  wind(*library);
  const Manifest &manifest = library->manifest();
  std::unique_ptr<World> world = createLocalWorld();
  std::unique_ptr<Session> session =
      must(Session::create(*library, *world, options));
  initialize(*session, checkpoint);
  std::unique_ptr<Dataset> data;
  if (!dataPath.empty())
    data = must(Dataset::open(dataPath, manifest.sequence, manifest.vocabulary,
                              DataOrder::Sequential));
  PlainProducts plain;
  std::cout << nlohmann::json{{"ready", true},
                              {"parameters", manifest.numParamElements()},
                              {"ranks", world->size()},
                              {"threads", session->threadsPerRank()}}
            << std::endl;

  int64_t step = 0;
  for (std::string line; std::getline(std::cin, line);)
    for (int64_t rounds = std::atoll(line.c_str()); rounds > 0; --rounds) {
      for (auto &[rank, profile] : profiles)
        profile = RankProfile();
      optimus_run::setScalars(*session, Hyperparameters(), ++step, lr);
      auto start = Clock::now();
      must(session->fill([&](int64_t rowsBegin, int64_t rows, int32_t *tokens,
                             int32_t *targets) {
        if (data)
          return data->fillBatch((step - 1) * manifest.batch, manifest.batch,
                                 rowsBegin, rows, tokens, targets);
        drawRows(step, manifest.sequence, manifest.vocabulary, rowsBegin, rows,
                 tokens, targets);
        return okStatus();
      }));
      StepOutputs outputs = must(session->run("train_step"));
      nlohmann::json result = toJson(step, since(start), outputs);
      if (withGemm)
        result["plain"] = plain.run(profiles.begin()->second.products);
      std::cout << result << std::endl;
    }
  return 0;
}
