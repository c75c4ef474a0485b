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
// * a matmul primitive, where B is packed into blocks, where bias and epilogue
//   can be done while C is at hand, or where B is small and transposed;
// * sgemm for everything else, which has no set-up and accumulates with
//   beta = 1, followed where needed by one pass for bias and epilogue.
//
// Factors of bf16 are multiplied by a matmul primitive alone, if it can do all
// that the descriptor asks for.
//
//===----------------------------------------------------------------------===//

#include "Gemm.h"

#include "Packing.h"
#include "device/Descriptors.h"
#include "optimus-runtime/Exception.h"
#include "optimus-support/DeviceScratch.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <vector>

using namespace optrt;

namespace {

using optimus_support::productScratch;
using optimus_support::ProductShape;
using optimus_support::transposedCopyBytes;
using Tag = dnnl::memory::format_tag;

/// Elements of an operand that stays in a core's cache during a product.
constexpr int64_t smallElements = 1 << 18;

/// How products with one descriptor are done.
struct Plan {
  bool primitive = false;
  /// Of factors of bf16: whether the primitive does it all, and fast.
  bool isWhole = false;
  /// What the pass after the product still has to do.
  bool passBias = false, passEpilogue = false;

  /// Makes `a` from the given matrix by a transposition.
  std::optional<dnnl::reorder> transpose;
  MemoryDesc given;
  dnnl::matmul matmul;
  MemoryDesc a, b, c, bias, extra, scratchpad;
};

bool isNarrow(const optrt_gemm_desc &d) { return d.factor_type != OPTRT_F32; }

/// Types were checked: oneDNN is not asked for others.
MemoryType typeOf(int32_t type) {
  return type == OPTRT_F32 ? kF32 : MemoryType::bf16;
}

ProductShape shapeOf(const optrt_gemm_desc &d) {
  return {d.m, d.n, d.k, d.trans_a != 0, d.has_bias && d.accumulate};
}

/// What a library of ours could not do.
template <typename Desc>
Status failureOf(const Desc &d, const std::string &what, int status) {
  if (status == dnnl_out_of_memory)
    return unavailable(concat(describe(d), ": ", what,
                              " ran out of memory; use a smaller batch or a "
                              "mesh with more ranks"));
  return internal(
      concat(describe(d), ": ", what, " failed with status ", status));
}

/// Runs a descriptor's computation in oneDNN, which throws where it fails.
template <typename Desc, typename Body>
Status attempt(const Desc &d, const Body &body) {
  try {
    return body();
  } catch (const dnnl::error &error) {
    return failureOf(d, concat("oneDNN (", error.what(), ")"), error.status);
  } catch (...) {
    return statusOfException().withContext(describe(d));
  }
}

} // namespace

class GemmEngine::Impl {
public:
  explicit Impl(const Team &team)
      : team(team), oneDnn(createEngine()), packing(oneDnn) {}

  Status prepare(const Workload &workload);
  Status pack(const optrt_pack_desc &d, const float *src, float *dst);
  Status run(optrt_gemm_desc d, const void *a, const void *b, void *c,
             const void *bias, const void *extra);
  StatusOr<bool> isWhole(optrt_gemm_desc d);
  StatusOr<std::optional<FewRows::Panels>> panelsOf(const optrt_gemm_desc &d);
  size_t scratchBytes() const {
    return oneDnn.scratchpad.size() + copyOfA.size();
  }

  const Team &team;

private:
  Status resolvePacked(optrt_gemm_desc &d);
  StatusOr<Plan *> getPlan(const optrt_gemm_desc &d);
  Status reserve(const MemoryDesc &desc, const ProductShape &product);
  Plan makePlan(const optrt_gemm_desc &d);
  void makePrimitive(const optrt_gemm_desc &d, Plan &plan);
  Status execute(optrt_gemm_desc d, const void *a, const void *b, void *c,
                 const void *bias, const void *extra);
  Status runPrimitive(const optrt_gemm_desc &d, const Plan &plan, const void *a,
                      const void *b, void *c, const void *bias,
                      const void *extra);
  void finish(const optrt_gemm_desc &d, const Plan &plan, float *c,
              const float *bias, const float *extra);

  OneDnn oneDnn;
  Buffer copyOfA;
  Packing packing;
  DescriptorMap<optrt_gemm_desc, Plan> plans;
};

/// Every operand stays as it is.
void GemmEngine::Impl::makePrimitive(const optrt_gemm_desc &d, Plan &plan) {
  const MemoryType factors = typeOf(d.factor_type);
  plan.a = matrixOf(d.m, d.k, d.lda, d.trans_a, factors);
  // oneDNN transposes A of bf16 block by block, and takes 15 % longer.
  if (isNarrow(d) && transposedCopyBytes(shapeOf(d)) > 0) {
    plan.given = std::exchange(
        plan.a, matrixOf(d.m, d.k, d.k, /*transposed=*/false, factors));
    plan.transpose = dnnl::reorder(dnnl::reorder::primitive_desc(
        oneDnn.engine, plan.given, oneDnn.engine, plan.a));
  }
  plan.b = d.blocks != 0 ? narrowPanels(d.k, d.n)
           : d.packed_b  ? packing.layoutOf(d.k, d.n).desc
                         : matrixOf(d.k, d.n, d.ldb, d.trans_b, factors);
  plan.c = matrixOf(d.m, d.n, d.ldc, false, typeOf(d.result_type));
  // An addend is fused in the one layout that every implementation of oneDNN's
  // is made for; otherwise the pass afterwards does it. A factor is only in
  // bf16, where that would round twice: in f32 oneDNN's binary_mul costs more
  // than the pass (6.2 against 5.5 ms for 2048 x 1536 x 384).
  bool dense = d.ldc == d.n && d.ld_extra == d.n;
  bool epilogue = d.epilogue != OPTRT_EPILOGUE_NONE;
  bool adds = d.epilogue == OPTRT_EPILOGUE_ADD;
  bool fuses = epilogue && dense && (adds || isNarrow(d));
  plan.passEpilogue = epilogue && !fuses;

  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  dnnl::post_ops postOps;
  if (d.accumulate)
    postOps.append_sum(1.f);
  if (fuses) {
    plan.extra = matrixOf(d.m, d.n, d.ld_extra, false, typeOf(d.extra_type));
    postOps.append_binary(adds ? dnnl::algorithm::binary_add
                               : dnnl::algorithm::binary_mul,
                          plan.extra);
  }
  attributes.set_post_ops(postOps);

  if (d.has_bias)
    plan.bias = MemoryDesc({1, d.n}, typeOf(d.bias_type), Tag::ab);
  dnnl::matmul::desc operation =
      d.has_bias ? dnnl::matmul::desc(plan.a, plan.b, plan.bias, plan.c)
                 : dnnl::matmul::desc(plan.a, plan.b, plan.c);
  dnnl::matmul::primitive_desc chosen(operation, attributes, oneDnn.engine);
  plan.matmul = dnnl::matmul(chosen);
  plan.scratchpad = chosen.scratchpad_desc();
  plan.primitive = true;
  // Its reference takes everything, a thousand times as long.
  const std::string_view how = chosen.impl_info_str();
  plan.isWhole = !plan.passEpilogue && !how.starts_with("ref") &&
                 static_cast<int64_t>(plan.scratchpad.get_size()) <=
                     productScratch(shapeOf(d)).bytes(team.size());
}

Plan GemmEngine::Impl::makePlan(const optrt_gemm_desc &d) {
  Plan plan;
  bool fused = d.has_bias || d.epilogue == OPTRT_EPILOGUE_ADD;
  // With a small B transposed, sgemm reaches 90 % of what matmul does.
  bool smallTransposed =
      d.trans_b && !d.trans_a && !d.accumulate && d.n * d.k <= smallElements;
  if (d.k > 0 && (isNarrow(d) || d.packed_b || fused || smallTransposed)) {
    makePrimitive(d, plan);
    return plan;
  }
  plan.passBias = d.has_bias;
  plan.passEpilogue = d.epilogue != OPTRT_EPILOGUE_NONE;
  return plan;
}

StatusOr<Plan *> GemmEngine::Impl::getPlan(const optrt_gemm_desc &d) {
  if (Plan *known = plans.find(d))
    return known;
  OPTRT_RETURN_IF_ERROR(checkRoomForCode());
  return &plans.add(d, makePlan(d));
}

/// A scratchpad for what runs next.
Status GemmEngine::Impl::reserve(const MemoryDesc &desc,
                                 const ProductShape &product) {
  const auto needed = static_cast<int64_t>(desc.get_size());
  const int64_t most = productScratch(product).bytes(team.size());
  if (needed > most)
    return internal(concat("oneDNN wants a scratchpad of ", needed,
                           " bytes with ", team.size(),
                           " threads; expected at most ", most));
  return oneDnn.scratchpad.reserve(needed);
}

Status GemmEngine::Impl::runPrimitive(const optrt_gemm_desc &d,
                                      const Plan &plan, const void *a,
                                      const void *b, void *c, const void *bias,
                                      const void *extra) {
  OPTRT_RETURN_IF_ERROR(reserve(plan.scratchpad, shapeOf(d)));
  if (plan.transpose) {
    OPTRT_RETURN_IF_ERROR(copyOfA.reserve(plan.a.get_size()));
    dnnl::memory given = oneDnn.view(plan.given, a);
    a = copyOfA.as<void>();
    dnnl::memory copy = oneDnn.view(plan.a, a);
    dnnl::reorder(*plan.transpose).execute(oneDnn.stream, given, copy);
  }
  std::unordered_map<int, dnnl::memory> args = {
      {DNNL_ARG_SRC, oneDnn.view(plan.a, a)},
      {DNNL_ARG_WEIGHTS, oneDnn.view(plan.b, b)},
      {DNNL_ARG_DST, oneDnn.view(plan.c, c)},
      {DNNL_ARG_SCRATCHPAD,
       oneDnn.view(plan.scratchpad, oneDnn.scratchpad.as<float>())}};
  if (d.has_bias)
    args.emplace(DNNL_ARG_BIAS, oneDnn.view(plan.bias, bias));
  if (d.epilogue != OPTRT_EPILOGUE_NONE && !plan.passEpilogue)
    args.emplace(DNNL_ARG_ATTR_MULTIPLE_POST_OP(d.accumulate ? 1 : 0) |
                     DNNL_ARG_SRC_1,
                 oneDnn.view(plan.extra, extra));
  plan.matmul.execute(oneDnn.stream, args);
  oneDnn.stream.wait();
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

/// Flags have one spelling and unused fields one value, so that equal products
/// share a plan.
static void normalise(optrt_gemm_desc &d) {
  d.trans_a = d.trans_a != 0;
  d.trans_b = d.trans_b != 0;
  d.accumulate = d.accumulate != 0;
  d.has_bias = d.has_bias != 0;
  d.packed_b = d.packed_b != 0;
  if (!d.has_bias)
    d.bias_type = d.factor_type;
  if (d.epilogue == OPTRT_EPILOGUE_NONE) {
    d.ld_extra = 0;
    d.extra_type = d.factor_type;
  }
}

Status GemmEngine::Impl::run(optrt_gemm_desc d, const void *a, const void *b,
                             void *c, const void *bias, const void *extra) {
  OPTRT_RETURN_IF_ERROR(check(d, a, b, c, bias, extra));
  if (d.m == 0 || d.n == 0)
    return okStatus();
  if (d.epilogue == OPTRT_EPILOGUE_ADD && extra == c) {
    d.epilogue = OPTRT_EPILOGUE_NONE;
    d.accumulate = 1;
  }
  normalise(d);

  Team::Scope scope(team);
  return attempt(d, [&] { return execute(d, a, b, c, bias, extra); });
}

/// A packed B that has no blocks is a matrix like others.
Status GemmEngine::Impl::resolvePacked(optrt_gemm_desc &d) {
  if (!d.packed_b || d.blocks != 0)
    return okStatus();
  OPTRT_ASSIGN_OR_RETURN(const PackedLayout *layout,
                         packing.layoutIn(d.ldb, d.k, d.n));
  if (!layout->isBlocked) {
    d.packed_b = 0;
    d.ldb = d.n;
  }
  return okStatus();
}

StatusOr<std::optional<FewRows::Panels>>
GemmEngine::Impl::panelsOf(const optrt_gemm_desc &d) {
  std::optional<FewRows::Panels> panels;
  OPTRT_RETURN_IF_ERROR(attempt(d, [&]() -> Status {
    OPTRT_ASSIGN_OR_RETURN(const PackedLayout *layout,
                           packing.layoutIn(d.ldb, d.k, d.n));
    if (!layout->isBlocked ||
        (layout->panelCols > 0 && layout->panelCols <= kFewRowsCols))
      panels = {layout->panelCols, layout->panelStride};
    return okStatus();
  }));
  return panels;
}

StatusOr<bool> GemmEngine::Impl::isWhole(optrt_gemm_desc d) {
  if (d.m == 0 || d.n == 0 || d.k == 0)
    return false;
  normalise(d);
  Team::Scope scope(team);
  bool result = false;
  OPTRT_RETURN_IF_ERROR(attempt(d, [&]() -> Status {
    OPTRT_ASSIGN_OR_RETURN(const Plan *plan, getPlan(d));
    result = plan->isWhole;
    return okStatus();
  }));
  return result;
}

Status GemmEngine::Impl::execute(optrt_gemm_desc d, const void *a,
                                 const void *b, void *c, const void *bias,
                                 const void *extra) {
  OPTRT_RETURN_IF_ERROR(resolvePacked(d));
  OPTRT_ASSIGN_OR_RETURN(Plan * plan, getPlan(d));
  if (plan->primitive) {
    OPTRT_RETURN_IF_ERROR(runPrimitive(d, *plan, a, b, c, bias, extra));
  } else if (d.k > 0) {
    dnnl_status_t status = dnnl_sgemm(
        d.trans_a ? 'T' : 'N', d.trans_b ? 'T' : 'N', d.m, d.n, d.k, 1.f,
        static_cast<const float *>(a), d.lda, static_cast<const float *>(b),
        d.ldb, d.accumulate ? 1.f : 0.f, static_cast<float *>(c), d.ldc);
    if (status != dnnl_success)
      return failureOf(d, "oneDNN's sgemm", status);
  } else if (!d.accumulate) {
    for (int64_t row = 0; row < d.m; ++row)
      std::memset(static_cast<float *>(c) + row * d.ldc, 0,
                  d.n * sizeof(float));
  }
  if (plan->passBias || plan->passEpilogue)
    finish(d, *plan, static_cast<float *>(c), static_cast<const float *>(bias),
           static_cast<const float *>(extra));
  return okStatus();
}

Status GemmEngine::Impl::prepare(const Workload &workload) {
  Team::Scope scope(team);
  oneDnn.scratchpad.seal(false);
  copyOfA.seal(false);
  for (optrt_gemm_desc d : workload.products) {
    normalise(d);
    OPTRT_RETURN_IF_ERROR(attempt(d, [&]() -> Status {
      OPTRT_RETURN_IF_ERROR(resolvePacked(d));
      OPTRT_ASSIGN_OR_RETURN(Plan * plan, getPlan(d));
      if (!plan->primitive)
        return okStatus();
      if (plan->transpose)
        OPTRT_RETURN_IF_ERROR(copyOfA.reserve(plan->a.get_size()));
      return reserve(plan->scratchpad, shapeOf(d));
    }));
  }
  copyOfA.seal(true);
  for (const optrt_pack_desc &d : workload.packs)
    OPTRT_RETURN_IF_ERROR(attempt(d, [&]() -> Status {
      OPTRT_RETURN_IF_ERROR(checkRoomForCode());
      OPTRT_ASSIGN_OR_RETURN(MemoryDesc scratch, packing.prepare(d));
      // It need be no more than the scratch of a product that reads the result.
      return reserve(scratch, {1, d.cols, d.rows});
    }));
  oneDnn.scratchpad.seal(true);
  return okStatus();
}

Status GemmEngine::Impl::pack(const optrt_pack_desc &d, const float *src,
                              float *dst) {
  OPTRT_RETURN_IF_ERROR(check(d, src, dst));
  Team::Scope scope(team);
  return attempt(d, [&]() -> Status {
    if (!packing.isReady(d))
      OPTRT_RETURN_IF_ERROR(checkRoomForCode());
    return packing.pack(d, src, dst);
  });
}

GemmEngine::GemmEngine(const Team &team) : impl(std::make_unique<Impl>(team)) {}
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

Status GemmEngine::prepare(const Workload &workload) {
  return impl->prepare(workload);
}

Status GemmEngine::pack(const optrt_pack_desc &desc, const float *src,
                        float *dst) {
  return impl->pack(desc, src, dst);
}

Status GemmEngine::run(const optrt_gemm_desc &desc, const void *a,
                       const void *b, void *c, const void *bias,
                       const void *extra) {
  return impl->run(desc, a, b, c, bias, extra);
}

bool GemmEngine::takesNarrow() {
  constexpr auto wanted =
      static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & wanted) ==
         wanted;
}

StatusOr<std::optional<FewRows::Panels>>
GemmEngine::panelsOf(const optrt_gemm_desc &desc) {
  return impl->panelsOf(desc);
}

StatusOr<bool> GemmEngine::isWhole(const optrt_gemm_desc &desc) {
  return impl->isWhole(desc);
}

size_t GemmEngine::scratchBytes() const { return impl->scratchBytes(); }
