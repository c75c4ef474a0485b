//===- Gemm.cpp - Matrix products through oneDNN --------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// There are two routes, chosen once a descriptor:
//
// * a matmul primitive, where the weight has a blocked layout on this processor
//   (then it is packed once a parameter version), where bias and epilogue can
//   be done while C is at hand, or where B is small and transposed;
// * sgemm for everything else, which has no set-up and accumulates with
//   beta = 1, followed where needed by one pass for bias and epilogue.
//
//===----------------------------------------------------------------------===//

#include "Gemm.h"

#include "optimus-runtime/Exception.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <oneapi/dnnl/dnnl.hpp>
#include <stdexcept>
#include <sys/mman.h>
#include <unordered_map>
#include <vector>

using namespace optrt;

namespace {

using MemoryDesc = dnnl::memory::desc;
using Tag = dnnl::memory::format_tag;
constexpr auto f32 = dnnl::memory::data_type::f32;

/// Elements of an operand that stays in a core's cache during a product.
constexpr int64_t smallElements = 1 << 18;

struct SameDesc {
  bool operator()(const optrt_gemm_desc &x, const optrt_gemm_desc &y) const {
    return std::memcmp(&x, &y, sizeof x) == 0;
  }
};
struct HashDesc {
  size_t operator()(const optrt_gemm_desc &d) const {
    static_assert(sizeof d == 7 * 8 + 10 * 4, "no padding to compare or hash");
    uint32_t words[sizeof d / 4];
    std::memcpy(words, &d, sizeof d);
    uint64_t hash = 14695981039346656037u; // FNV-1a
    for (uint32_t word : words)
      hash = (hash ^ word) * 1099511628211u;
    return hash;
  }
};

/// A weight in oneDNN's layout, as it was under `version`.
struct PackedWeight {
  Buffer buffer;
  uint64_t version = 0;
  bool filled = false;
};

/// How products with one descriptor are done.
struct Plan {
  bool primitive = false;
  /// What the pass after the product still has to do.
  bool passBias = false, passEpilogue = false;

  dnnl::matmul matmul;
  MemoryDesc a, b, c, bias, extra, scratchpad;
  /// The weight's layouts; packing is the reorder from the caller's to ours.
  bool packs = false;
  MemoryDesc given, packed;
  dnnl::reorder pack;
  std::unordered_map<const float *, PackedWeight> weights;
};

std::string describe(const optrt_gemm_desc &d) {
  return concat("gemm of m ", d.m, ", n ", d.n, ", k ", d.k,
                d.trans_a ? ", A transposed" : "",
                d.trans_b ? ", B transposed" : "");
}

MemoryDesc matrix(int64_t rows, int64_t cols, int64_t ld, bool transposed) {
  return MemoryDesc({rows, cols}, f32,
                    transposed ? dnnl::memory::dims{1, ld}
                               : dnnl::memory::dims{ld, 1});
}

/// What a library of ours could not do.
Status failureOf(const optrt_gemm_desc &d, const char *what, int status) {
  if (status == dnnl_out_of_memory)
    return unavailable(concat(describe(d), ": ", what,
                              " ran out of memory; use a smaller batch or a "
                              "mesh with more ranks"));
  return internal(
      concat(describe(d), ": ", what, " failed with status ", status));
}

/// oneDNN generates the code of a product when it first meets it, and crashes
/// where it gets no memory for that. This asks for far more than it takes.
Status checkRoomForCode() {
  constexpr size_t kRoom = size_t(32) << 20;
  void *room = mmap(nullptr, kRoom, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED)
    return unavailable(concat("out of memory: fewer than ", kRoom,
                              " bytes are left, too few to generate the code "
                              "of matrix products; allow more (ulimit -v)"));
  munmap(room, kRoom);
  return okStatus();
}

dnnl::engine createEngine() {
  // It crashes without memory, too. How it fails otherwise is an exception.
  if (Status room = checkRoomForCode(); !room.ok())
    throw std::runtime_error(room.message());
  return dnnl::engine(dnnl::engine::kind::cpu, 0);
}

bool isBlocked(const MemoryDesc &desc) {
  return desc.data.format_kind != dnnl_blocked ||
         desc.data.format_desc.blocking.inner_nblks > 0;
}

} // namespace

Status optrt::checkGemm(const optrt_gemm_desc &d, const void *a, const void *b,
                        const void *c, const void *bias, const void *extra) {
  if (d.m < 0 || d.n < 0 || d.k < 0)
    return invalidArgument(
        concat(describe(d), ": expected sizes of at least 0"));
  auto rows = [&](const char *name, int64_t ld, int64_t least) {
    return ld >= least ? okStatus()
                       : invalidArgument(concat(
                             describe(d), ": the leading dimension of ", name,
                             " must be at least ", least, ", found ", ld));
  };
  OPTRT_RETURN_IF_ERROR(rows("A", d.lda, d.trans_a ? d.m : d.k));
  OPTRT_RETURN_IF_ERROR(rows("B", d.ldb, d.trans_b ? d.k : d.n));
  OPTRT_RETURN_IF_ERROR(rows("C", d.ldc, d.n));
  if (d.epilogue < OPTRT_EPILOGUE_NONE || d.epilogue > OPTRT_EPILOGUE_MUL)
    return invalidArgument(
        concat(describe(d), ": unknown epilogue ", d.epilogue));
  if (d.weight < OPTRT_WEIGHT_NONE || d.weight > OPTRT_WEIGHT_B)
    return invalidArgument(
        concat(describe(d), ": unknown weight operand ", d.weight));
  if (d.epilogue != OPTRT_EPILOGUE_NONE)
    OPTRT_RETURN_IF_ERROR(rows("the extra operand", d.ld_extra, d.n));
  if (d.m == 0 || d.n == 0)
    return okStatus();
  if (!c || (d.k > 0 && (!a || !b)) || (d.has_bias && !bias) ||
      (d.epilogue != OPTRT_EPILOGUE_NONE && !extra))
    return invalidArgument(concat(describe(d), ": an operand is null"));
  if (d.epilogue != OPTRT_EPILOGUE_NONE && extra == c &&
      (d.epilogue == OPTRT_EPILOGUE_MUL || d.accumulate || d.ld_extra != d.ldc))
    return invalidArgument(
        concat(describe(d), ": only a plain extra addend may be C itself"));
  return okStatus();
}

class GemmEngine::Impl {
public:
  Impl(const Team &team, bool alwaysPack)
      : team(team), alwaysPack(alwaysPack), engine(createEngine()),
        stream(engine) {}

  Status run(optrt_gemm_desc d, const float *a, const float *b, float *c,
             const float *bias, const float *extra);
  size_t scratchBytes() const;

  const Team &team;
  uint64_t version = 0;

private:
  void makePlan(const optrt_gemm_desc &d, Plan &plan);
  bool makePrimitive(const optrt_gemm_desc &d, bool layoutOfOurs, Plan &plan);
  StatusOr<const float *> packedWeight(Plan &plan, const float *weight);
  Status runPrimitive(const optrt_gemm_desc &d, Plan &plan, const float *a,
                      const float *b, float *c, const float *bias,
                      const float *extra);
  void finish(const optrt_gemm_desc &d, const Plan &plan, float *c,
              const float *bias, const float *extra);
  dnnl::memory view(const MemoryDesc &desc, const float *data) {
    return dnnl::memory(desc, engine, const_cast<float *>(data));
  }

  bool alwaysPack;
  dnnl::engine engine;
  dnnl::stream stream;
  Buffer scratchpad;
  std::unordered_map<optrt_gemm_desc, Plan, HashDesc, SameDesc> plans;
};

/// With `layoutOfOurs` the weight's layout is oneDNN's choice, and the result
/// says whether it is worth a copy; otherwise every operand stays as it is.
bool GemmEngine::Impl::makePrimitive(const optrt_gemm_desc &d,
                                     bool layoutOfOurs, Plan &plan) {
  plan.a = matrix(d.m, d.k, d.lda, d.trans_a);
  plan.b = matrix(d.k, d.n, d.ldb, d.trans_b);
  plan.c = matrix(d.m, d.n, d.ldc, false);
  // An addend is fused in the one layout that every implementation of oneDNN's
  // is made for; otherwise the pass afterwards does it. A factor never is:
  // oneDNN's binary_mul costs more than that pass (6.2 against 5.5 ms for
  // 2048 x 1536 x 384).
  bool dense = d.ldc == d.n && d.ld_extra == d.n;
  bool epilogue = d.epilogue != OPTRT_EPILOGUE_NONE;
  bool fuses = d.epilogue == OPTRT_EPILOGUE_ADD && dense;
  plan.passEpilogue = epilogue && !fuses;

  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  dnnl::post_ops postOps;
  if (d.accumulate)
    postOps.append_sum(1.f);
  if (fuses) {
    plan.extra = matrix(d.m, d.n, d.ld_extra, false);
    postOps.append_binary(dnnl::algorithm::binary_add, plan.extra);
  }
  attributes.set_post_ops(postOps);

  MemoryDesc a = plan.a, b = plan.b;
  if (layoutOfOurs) {
    bool isA = d.weight == OPTRT_WEIGHT_A;
    plan.given = isA ? a : b;
    (isA ? a : b) =
        MemoryDesc(plan.given.dims(), f32, alwaysPack ? Tag::ab : Tag::any);
  }
  if (d.has_bias)
    plan.bias = MemoryDesc({1, d.n}, f32, Tag::ab);
  dnnl::matmul::desc operation =
      d.has_bias ? dnnl::matmul::desc(a, b, plan.bias, plan.c)
                 : dnnl::matmul::desc(a, b, plan.c);
  dnnl::matmul::primitive_desc chosen(operation, attributes, engine);
  if (layoutOfOurs) {
    plan.packed =
        d.weight == OPTRT_WEIGHT_A ? chosen.src_desc() : chosen.weights_desc();
    if (!alwaysPack && !isBlocked(plan.packed))
      return false;
    (d.weight == OPTRT_WEIGHT_A ? plan.a : plan.b) = plan.packed;
    plan.packs = true;
    plan.pack = dnnl::reorder(
        dnnl::reorder::primitive_desc(engine, plan.given, engine, plan.packed));
  }
  plan.matmul = dnnl::matmul(chosen);
  plan.scratchpad = chosen.scratchpad_desc();
  plan.primitive = true;
  return true;
}

void GemmEngine::Impl::makePlan(const optrt_gemm_desc &d, Plan &plan) {
  if (d.k > 0) {
    bool fused = d.has_bias || d.epilogue == OPTRT_EPILOGUE_ADD;
    // sgemm is as fast on a weight that lies as it is multiplied, and needs no
    // copy of it; transposed it is up to a quarter slower.
    bool transposed =
        d.weight == OPTRT_WEIGHT_B ? d.trans_b != 0 : d.trans_a != 0;
    bool packs =
        d.weight != OPTRT_WEIGHT_NONE && (transposed || fused || alwaysPack);
    if (packs && makePrimitive(d, true, plan))
      return;
    // With a small B transposed, sgemm reaches 90 % of what matmul does.
    bool smallTransposed =
        d.trans_b && !d.trans_a && !d.accumulate && d.n * d.k <= smallElements;
    if ((fused || smallTransposed) && makePrimitive(d, false, plan))
      return;
  }
  plan.passBias = d.has_bias;
  plan.passEpilogue = d.epilogue != OPTRT_EPILOGUE_NONE;
}

StatusOr<const float *> GemmEngine::Impl::packedWeight(Plan &plan,
                                                       const float *weight) {
  PackedWeight &copy = plan.weights[weight];
  if (!copy.filled || copy.version != version) {
    OPTRT_RETURN_IF_ERROR(copy.buffer.reserve(plan.packed.get_size()));
    copy.filled = false;
    dnnl::memory from = view(plan.given, weight);
    dnnl::memory to = view(plan.packed, copy.buffer.as<float>());
    plan.pack.execute(stream, from, to);
    stream.wait();
    copy.version = version;
    copy.filled = true;
  }
  return static_cast<const float *>(copy.buffer.as<float>());
}

Status GemmEngine::Impl::runPrimitive(const optrt_gemm_desc &d, Plan &plan,
                                      const float *a, const float *b, float *c,
                                      const float *bias, const float *extra) {
  if (plan.packs) {
    const float *&weight = d.weight == OPTRT_WEIGHT_A ? a : b;
    OPTRT_ASSIGN_OR_RETURN(weight, packedWeight(plan, weight));
  }
  OPTRT_RETURN_IF_ERROR(scratchpad.reserve(plan.scratchpad.get_size()));
  std::unordered_map<int, dnnl::memory> args = {
      {DNNL_ARG_SRC, view(plan.a, a)},
      {DNNL_ARG_WEIGHTS, view(plan.b, b)},
      {DNNL_ARG_DST, view(plan.c, c)},
      {DNNL_ARG_SCRATCHPAD, view(plan.scratchpad, scratchpad.as<float>())}};
  if (d.has_bias)
    args.emplace(DNNL_ARG_BIAS, view(plan.bias, bias));
  if (d.epilogue != OPTRT_EPILOGUE_NONE && !plan.passEpilogue)
    args.emplace(DNNL_ARG_ATTR_MULTIPLE_POST_OP(d.accumulate ? 1 : 0) |
                     DNNL_ARG_SRC_1,
                 view(plan.extra, extra));
  plan.matmul.execute(stream, args);
  stream.wait();
  return okStatus();
}

void GemmEngine::Impl::finish(const optrt_gemm_desc &d, const Plan &plan,
                              float *c, const float *bias, const float *extra) {
  int64_t tasks = d.m * d.n >= 1 << 14 ? team.size() : 1;
  team.split(d.m, std::min(tasks, d.m), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      float *to = c + row * d.ldc;
      if (plan.passBias)
        for (int64_t j = 0; j < d.n; ++j)
          to[j] += bias[j];
      if (!plan.passEpilogue)
        continue;
      const float *from = extra + row * d.ld_extra;
      if (d.epilogue == OPTRT_EPILOGUE_ADD)
        for (int64_t j = 0; j < d.n; ++j)
          to[j] += from[j];
      else
        for (int64_t j = 0; j < d.n; ++j)
          to[j] *= from[j];
    }
  });
}

Status GemmEngine::Impl::run(optrt_gemm_desc d, const float *a, const float *b,
                             float *c, const float *bias, const float *extra) {
  OPTRT_RETURN_IF_ERROR(checkGemm(d, a, b, c, bias, extra));
  if (d.m == 0 || d.n == 0)
    return okStatus();
  // Flags have one spelling and unused fields one value, so that equal
  // products share a plan.
  d.trans_a = d.trans_a != 0;
  d.trans_b = d.trans_b != 0;
  d.accumulate = d.accumulate != 0;
  d.has_bias = d.has_bias != 0;
  if (d.epilogue == OPTRT_EPILOGUE_ADD && extra == c) {
    d.epilogue = OPTRT_EPILOGUE_NONE;
    d.accumulate = 1;
  }
  if (d.epilogue == OPTRT_EPILOGUE_NONE)
    d.ld_extra = 0;

  Team::Scope scope(team);
  try {
    auto entry = plans.find(d);
    if (entry == plans.end()) {
      OPTRT_RETURN_IF_ERROR(checkRoomForCode());
      Plan made;
      makePlan(d, made);
      entry = plans.emplace(d, std::move(made)).first;
    }
    Plan &plan = entry->second;
    if (plan.primitive) {
      OPTRT_RETURN_IF_ERROR(runPrimitive(d, plan, a, b, c, bias, extra));
    } else if (d.k > 0) {
      dnnl_status_t status = dnnl_sgemm(
          d.trans_a ? 'T' : 'N', d.trans_b ? 'T' : 'N', d.m, d.n, d.k, 1.f, a,
          d.lda, b, d.ldb, d.accumulate ? 1.f : 0.f, c, d.ldc);
      if (status != dnnl_success)
        return failureOf(d, "oneDNN's sgemm", status);
    } else if (!d.accumulate) {
      for (int64_t row = 0; row < d.m; ++row)
        std::memset(c + row * d.ldc, 0, d.n * sizeof(float));
    }
    if (plan.passBias || plan.passEpilogue)
      finish(d, plan, c, bias, extra);
  } catch (const dnnl::error &error) {
    return failureOf(d, concat("oneDNN (", error.what(), ")").c_str(),
                     error.status);
  } catch (...) {
    return statusOfException().withContext(describe(d));
  }
  return okStatus();
}

size_t GemmEngine::Impl::scratchBytes() const {
  size_t bytes = scratchpad.size();
  for (const auto &[desc, plan] : plans)
    for (const auto &[pointer, weight] : plan.weights)
      bytes += weight.buffer.size();
  return bytes;
}

GemmEngine::GemmEngine(const Team &team, bool alwaysPack)
    : impl(std::make_unique<Impl>(team, alwaysPack)) {}
GemmEngine::~GemmEngine() = default;

Status GemmEngine::start() {
  static std::mutex oneAtATime;
  static bool started = false;
  std::lock_guard lock(oneAtATime);
  if (started)
    return okStatus();
  OPTRT_RETURN_IF_ERROR(checkRoomForCode());
  Team::Scope scope(impl->team);
  constexpr int64_t n = 64;
  std::vector<float> a(n * n), b(n * n), c(n * n);
  for (bool transposesA : {false, true})
    for (bool transposesB : {false, true}) {
      optrt_gemm_desc desc{};
      desc.m = desc.n = desc.k = desc.lda = desc.ldb = desc.ldc = n;
      desc.trans_a = transposesA;
      desc.trans_b = transposesB;
      // Not through run(), which keeps a plan for each.
      dnnl_status_t status =
          dnnl_sgemm(transposesA ? 'T' : 'N', transposesB ? 'T' : 'N', n, n, n,
                     1.f, a.data(), n, b.data(), n, 0.f, c.data(), n);
      if (status != dnnl_success)
        return failureOf(desc, "oneDNN's sgemm", status);
    }
  started = true;
  return okStatus();
}

void GemmEngine::setParameterVersion(uint64_t version) {
  impl->version = version;
}

Status GemmEngine::run(const optrt_gemm_desc &desc, const float *a,
                       const float *b, float *c, const float *bias,
                       const float *extra) {
  return impl->run(desc, a, b, c, bias, extra);
}

size_t GemmEngine::scratchBytes() const { return impl->scratchBytes(); }
