//===- CudnnAttention.cpp - Attention by cuDNN ----------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudnnAttention.h"

#include "device/Descriptors.h"
#include "optimus-support/GpuScratch.h"

#include <cmath>
#include <limits>

namespace optrt::cuda {

//===----------------------------------------------------------------------===//
// Graphs
//===----------------------------------------------------------------------===//

namespace {
using Tensor = DnnGraph::Tensor;

/// Writes the graphs operation by operation as NVIDIA's cudnn-frontend does:
/// cuDNN knows attention by them. Tensors in memory come in the order in which
/// pointersOf() lists them.
class AttentionWriter {
public:
  AttentionWriter(const Cudnn &cudnn, const optrt_attention_desc &d)
      : d(d), graph(cudnn) {}

  DnnGraph writeForward() &&;
  DnnGraph writeGradient() &&;

private:
  /// [batch, heads, seq, head_dim] with tokens `ld` elements apart.
  Tensor part(int64_t heads, int64_t ld) {
    return graph.operand(kDnnBF16, {d.batch, heads, d.seq, d.head_dim},
                         {d.seq * ld, d.head_dim, ld, 1});
  }
  /// The same as [batch, heads, head_dim, seq].
  Tensor turned(int64_t heads, int64_t ld) {
    return graph.operand(kDnnBF16, {d.batch, heads, d.head_dim, d.seq},
                         {d.seq * ld, d.head_dim, 1, ld});
  }
  Tensor rows() {
    return graph.operand(kDnnF32, {d.batch, d.heads, d.seq, 1},
                         {d.heads * d.seq, d.seq, 1, 1});
  }
  void addLengths();
  Tensor scaled(const Tensor &scores) {
    const double scale = 1 / std::sqrt(double(d.head_dim));
    return graph.pointwise(kDnnMul, scores,
                           graph.value(static_cast<float>(scale)));
  }
  /// `scores` where `condition` holds; nothing is seen elsewhere.
  Tensor seen(const Tensor &scores, const Tensor &condition) {
    constexpr float nothing = -std::numeric_limits<float>::infinity();
    return graph.select(scores, graph.value(nothing), condition);
  }
  Tensor scaledScores(const Tensor &q, const Tensor &k);
  Tensor maskFuture(const Tensor &scores);
  /// A gradient of keys or values, which heads of queries may share.
  void addProduct(const Tensor &a, const Tensor &b, const Tensor &into);

  // Products end where sequences do.
  const Tensor *queriesEnd() const {
    return d.has_lengths ? &queries : nullptr;
  }
  const Tensor *keysEnd() const { return d.has_lengths ? &keys : nullptr; }

  const optrt_attention_desc &d;
  DnnGraph graph;
  Tensor queries, keys; ///< how many of each sequence count
};

void AttentionWriter::addLengths() {
  if (!d.has_lengths)
    return;
  for (Tensor *lengths : {&queries, &keys})
    *lengths = graph.operand(kDnnI32, {d.batch, 1, 1, 1}, {1, 1, 1, 1});
}

Tensor AttentionWriter::scaledScores(const Tensor &q, const Tensor &k) {
  const Tensor scores =
      scaled(graph.matmul(q, k, {queriesEnd(), keysEnd(), nullptr}));
  if (!d.has_lengths)
    return scores;
  const Tensor row = graph.index(scores, 2, kDnnI32),
               col = graph.index(scores, 3, kDnnI32);
  const Tensor isQuery = graph.condition(kDnnLess, row, queries),
               isKey = graph.condition(kDnnLess, col, keys);
  return seen(scores, graph.condition(kDnnAnd, isQuery, isKey));
}

Tensor AttentionWriter::maskFuture(const Tensor &scores) {
  if (!d.causal)
    return scores;
  const Tensor row = graph.index(scores, 2, kDnnF32),
               col = graph.index(scores, 3, kDnnF32);
  return seen(scores, graph.condition(kDnnGreaterEqual, row, col));
}

DnnGraph AttentionWriter::writeForward() && {
  const Tensor q = part(d.heads, d.q_ld), k = turned(d.kv_heads, d.kv_ld),
               v = part(d.kv_heads, d.kv_ld);
  addLengths();
  const Tensor out = part(d.heads, d.heads * d.head_dim), lse = rows();
  const Tensor scores = maskFuture(scaledScores(q, k));
  const Tensor most = graph.reduce(kDnnMaximum, scores);
  const Tensor powers =
      graph.unary(kDnnExp, graph.pointwise(kDnnSub, scores, most));
  const Tensor sum = graph.reduce(kDnnSum, powers);
  graph.pointwise(kDnnAdd, most, graph.unary(kDnnLog, sum), &lse);
  const Tensor weights =
      graph.pointwise(kDnnDiv, powers, sum, /*into=*/nullptr, kDnnBF16);
  graph.matmul(weights, v, {queriesEnd(), nullptr, keysEnd()}, &out);
  return std::move(graph);
}

void AttentionWriter::addProduct(const Tensor &a, const Tensor &b,
                                 const Tensor &into) {
  const DnnGraph::Limits limits = {keysEnd(), nullptr, queriesEnd()};
  if (d.heads == d.kv_heads)
    graph.matmul(a, b, limits, &into);
  else
    graph.addHeads(graph.matmul(a, b, limits, /*into=*/nullptr, kDnnBF16),
                   into);
}

DnnGraph AttentionWriter::writeGradient() && {
  const int64_t width = d.heads * d.head_dim;
  const Tensor q = part(d.heads, d.q_ld), k = turned(d.kv_heads, d.kv_ld),
               v = turned(d.kv_heads, d.kv_ld);
  addLengths();
  const Tensor out = part(d.heads, width), lse = rows(),
               dout = part(d.heads, width), dq = part(d.heads, d.q_ld),
               dk = part(d.kv_heads, d.kv_ld), dv = part(d.kv_heads, d.kv_ld),
               delta = rows();
  graph.pointwise(kDnnMul,
                  graph.reduce(kDnnSum, graph.pointwise(kDnnMul, dout, out)),
                  graph.value(1), &delta);

  const Tensor scores =
      maskFuture(graph.pointwise(kDnnSub, scaledScores(q, k), lse));
  const Tensor weights = graph.unary(kDnnExp, scores);
  addProduct(graph.transposed(weights, kDnnBF16), dout, dv);

  const Tensor change =
      graph.matmul(dout, v, {queriesEnd(), keysEnd(), nullptr});
  const Tensor slope = scaled(graph.pointwise(
      kDnnMul, graph.pointwise(kDnnSub, change, delta), weights));
  addProduct(graph.transposed(slope, kDnnBF16), q, dk);

  const Tensor keysByRow = graph.transposed(k, kDnnF32);
  const DnnGraph::Limits limits = {queriesEnd(), nullptr, keysEnd()};
  if (d.deterministic) {
    graph.matmul(slope, keysByRow, limits, &dq);
    return std::move(graph);
  }
  // Blocks of keys add to it in any order.
  const Tensor sums =
      graph.operand(kDnnF32, {d.batch, d.heads, d.seq, d.head_dim},
                    {d.seq * width, d.seq * d.head_dim, d.head_dim, 1});
  graph.matmul(slope, keysByRow, limits, &sums);
  graph.unary(kDnnIdentity, sums, &dq);
  return std::move(graph);
}
} // namespace

/// The tensors in memory, in the order of a graph's description.
static std::vector<void *> pointersOf(const optrt_attention_desc &d,
                                      bool isGradient,
                                      const AttentionOperands &operands,
                                      const AttentionPlan &plan) {
  auto *workspace = static_cast<char *>(operands.workspace);
  std::vector<const void *> pointers = {operands.q, operands.k, operands.v};
  if (d.has_lengths) {
    pointers.push_back(workspace + plan.queryLengths);
    pointers.push_back(operands.lengths);
  }
  pointers.insert(pointers.end(), {operands.out, operands.lse});
  if (isGradient) {
    pointers.insert(pointers.end(), {operands.dout, operands.dq, operands.dk,
                                     operands.dv, workspace + plan.delta});
    if (!d.deterministic)
      pointers.push_back(workspace + plan.querySums);
  }
  std::vector<void *> result;
  for (const void *pointer : pointers)
    result.push_back(const_cast<void *>(pointer));
  return result;
}

StatusOr<AttentionPlan> planAttention(const Cudnn &cudnn, const DnnPlace &place,
                                      const optrt_attention_desc &d,
                                      bool isGradient) {
  AttentionWriter writer(cudnn, d);
  DnnGraph graph = isGradient ? std::move(writer).writeGradient()
                              : std::move(writer).writeForward();
  AttentionPlan plan;
  OPTRT_ASSIGN_OR_RETURN(plan.executable, std::move(graph).finish(place));
  plan.bytes = plan.executable.workspaceBytes;
  auto take = [&plan](int64_t bytes) {
    constexpr int64_t alignment = 256;
    const int64_t begin = (plan.bytes + alignment - 1) / alignment * alignment;
    plan.bytes = begin + bytes;
    return begin;
  };
  const int64_t rows = d.batch * d.heads * d.seq;
  constexpr int64_t f32 = 4, i32 = 4;
  if (d.has_lengths)
    plan.queryLengths = take(d.batch * i32);
  if (isGradient)
    plan.delta = take(rows * f32);
  if (isGradient && !d.deterministic)
    plan.querySums = take(rows * d.head_dim * f32);
  return plan;
}

//===----------------------------------------------------------------------===//
// The GPU
//===----------------------------------------------------------------------===//

StatusOr<std::unique_ptr<CudnnAttention>>
CudnnAttention::open(const Driver &driver, int architecture) {
  OPTRT_ASSIGN_OR_RETURN(const Cudnn *cudnn, Cudnn::open());
  std::unique_ptr<CudnnAttention> attention(
      new CudnnAttention(driver, *cudnn, architecture));
  if (Status created =
          cudnn->check(cudnn->api().create(&attention->handle), "cudnnCreate");
      !created.ok())
    return unavailable(
        concat(cudnn->version(),
               " does not go with this GPU's driver: ", created.message(),
               "; install another one, or compile the model with --attention "
               "builtin"));
  return attention;
}

CudnnAttention::~CudnnAttention() {
  plans.clear();
  if (handle)
    cudnn.api().destroy(handle);
}

CudnnAttention::Key CudnnAttention::keyOf(const optrt_attention_desc &d,
                                          bool isGradient) {
  return {d.batch,    d.seq,         d.heads,         d.kv_heads,
          d.head_dim, d.q_ld,        d.kv_ld,         d.causal,
          d.type,     d.has_lengths, d.deterministic, isGradient};
}

Status CudnnAttention::prepare(const optrt_attention_desc &d, bool isGradient) {
  if (d.type != OPTRT_BF16)
    return unavailable("cuDNN computes attention in bf16; found another type. "
                       "Compile the model with --precision bf16, or with "
                       "--attention builtin");
  if (d.has_positions)
    return unavailable("cuDNN is not asked for attention to each document by "
                       "itself. Compile the model with --attention auto");
  if (d.window != 0)
    return unavailable("cuDNN is not asked for attention in a window. Compile "
                       "the model with --attention auto");
  constexpr int latest = optimus_support::kLatestDeterministicGpu;
  if (isGradient && d.deterministic && architecture > latest)
    return unavailable(
        concat("cuDNN's gradient in one order is for GPUs up to sm_", latest,
               "0 here, found sm_", architecture,
               "x. Compile the model without --deterministic, or with "
               "--attention builtin"));
  const Key key = keyOf(d, isGradient);
  auto known = plans.find(key);
  if (known == plans.end()) {
    StatusOr<AttentionPlan> plan =
        planAttention(cudnn, {handle, ""}, d, isGradient);
    if (!plan.ok())
      return plan.status().withAdvice(concat(
          cudnn.version(), " has no plan for it on this GPU; compile the model "
                           "with --attention builtin"));
    known = plans.emplace(key, std::move(*plan)).first;
  }
  if (const int64_t bytes = known->second.bytes; bytes > d.workspace_bytes)
    return unavailable(
        concat(cudnn.version(), " takes ", bytes,
               " bytes of workspace; expected at most ", d.workspace_bytes,
               ", which the model was compiled with. Compile it with "
               "--attention builtin",
               d.deterministic ? ", or without --deterministic" : ""));
  return okStatus();
}

/// All queries count, and keys behind a sequence's end have no gradient, which
/// cuDNN may leave unwritten.
Status CudnnAttention::writeLengths(Stream stream,
                                    const optrt_attention_desc &d,
                                    const AttentionPlan &plan,
                                    const AttentionOperands &operands) const {
  OPTRT_CUDA(driver, memsetD32Async,
             reinterpret_cast<Address>(operands.workspace) +
                 static_cast<Address>(plan.queryLengths),
             static_cast<unsigned>(d.seq), static_cast<size_t>(d.batch),
             stream);
  constexpr int64_t bf16 = 2;
  for (void *keys : {operands.dk, operands.dv})
    if (keys)
      OPTRT_CUDA(driver, memsetD2D8Async, reinterpret_cast<Address>(keys),
                 static_cast<size_t>(d.kv_ld * bf16), /*value=*/0,
                 static_cast<size_t>(d.kv_heads * d.head_dim * bf16),
                 static_cast<size_t>(d.batch * d.seq), stream);
  return okStatus();
}

Status CudnnAttention::run(Stream stream, const optrt_attention_desc &d,
                           bool isGradient, const AttentionOperands &operands) {
  const auto found = plans.find(keyOf(d, isGradient));
  if (found == plans.end() || found->second.bytes > d.workspace_bytes)
    return internal(
        concat(describe(d), ", of which prepare() was told nothing"));
  AttentionPlan &plan = found->second;
  std::vector<void *> pointers = pointersOf(d, isGradient, operands, plan);
  for (const void *pointer : pointers)
    if (reinterpret_cast<uintptr_t>(pointer) % 16 != 0)
      return internal(
          concat(describe(d), ": expected operands at multiples of 16 bytes"));
  for (float &value : plan.executable.values)
    pointers.push_back(&value);
  if (d.has_lengths)
    OPTRT_RETURN_IF_ERROR(writeLengths(stream, d, plan, operands));
  const CudnnApi &api = cudnn.api();
  OPTRT_RETURN_IF_ERROR(
      cudnn.check(api.setStream(handle, stream), "cudnnSetStream"));
  return execute(cudnn, handle, plan.executable, pointers, operands.workspace)
      .withContext(describe(d));
}

} // namespace optrt::cuda
