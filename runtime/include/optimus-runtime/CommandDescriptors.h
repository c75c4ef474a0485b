//===- CommandDescriptors.h - What devices are told of commands -*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// How the runtime tells a device or a communicator what a command does. Every
// matrix is row-major, and f32 where its descriptor does not say otherwise.
// Sizes and leading dimensions are counted in elements.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_COMMANDDESCRIPTORS_H
#define OPTIMUS_RUNTIME_COMMANDDESCRIPTORS_H

#include <cstdint>

/// Element types, with the values of schema/element_type.fbs.
enum { OPTRT_F32 = 0, OPTRT_F16 = 2, OPTRT_BF16 = 3, OPTRT_I32 = 4 };

/// What happens to a product before it is stored.
enum {
  OPTRT_EPILOGUE_NONE = 0, ///< C = op(A) op(B)
  OPTRT_EPILOGUE_ADD = 1,  ///< C = op(A) op(B) + extra
  OPTRT_EPILOGUE_MUL = 2,  ///< C = (op(A) op(B)) * extra, elementwise
  /// C = op(A) B, and bias, a result, is the sum of B's rows.
  OPTRT_EPILOGUE_BIAS_GRAD = 3,
};

/// C[m,n] = (accumulate ? C : 0) + op(A)[m,k] op(B)[k,n] + bias[n], then the
/// epilogue. With trans_a, A is stored as [k,m]; with trans_b, B as [n,k]. With
/// packed_b, B is what a pack of k rows and n columns wrote into ldb elements.
struct optrt_gemm_desc {
  int64_t m, n, k;
  int64_t lda, ldb, ldc;
  int64_t ld_extra; ///< leading dimension of `extra`
  int32_t trans_a, trans_b;
  int32_t accumulate;
  int32_t epilogue; ///< OPTRT_EPILOGUE_*
  int32_t has_bias;
  int32_t packed_b;
  /// OPTRT_F32 or a narrower one: of A and B, of C, of bias and of extra. Sums
  /// are f32 and are rounded once.
  int32_t factor_type, result_type, bias_type, extra_type;
  /// Whether a row of C is the same, to the bit, in a product of any number of
  /// rows up to 16: of functions that generate text.
  int64_t few_rows;
  /// Of OPTRT_EPILOGUE_BIAS_GRAD, where the device's library has no such
  /// product: sums B's rows into bias, an iteration for each column.
  const struct optimus_kernel *row_sum_kernel;
  /// Null, or m integers in the device's memory: nobody reads rows of C where
  /// they are negative. A device may compute these, too.
  const int32_t *live;
  /// How a packed B is held: optimus_support::WeightBlocks.
  int64_t blocks = 0;
};

/// Writes op(src)[rows,cols], B of products, into dst in the layout that the
/// device multiplies fastest from. With trans, src is stored as [cols,rows].
struct optrt_pack_desc {
  int64_t rows, cols;
  int64_t ld;       ///< leading dimension of src
  int64_t elements; ///< room in dst
  int64_t trans;
  /// Not 0: dst has words of blocks of few bits, optimus_support::WeightBlocks.
  int64_t blocks = 0;
};

/// A kernel's iteration space. Iterations are independent of each other, so
/// any split among threads gives the same bits.
struct optrt_launch_desc {
  const char *name;
  int64_t extent; ///< iterations [0, extent)
  int64_t grain;  ///< least number of iterations worth a task
  /// What `args` has: addresses of buffers, in the device's memory, then those
  /// of scalars, in the host's.
  int32_t num_buffers, num_scalars;
};

enum {
  OPTRT_BROADCAST = 0,
  OPTRT_REDUCE = 1,
  OPTRT_ALL_REDUCE = 2,
  OPTRT_ALL_GATHER = 3,
  OPTRT_REDUCE_SCATTER = 4,
  OPTRT_ALL_TO_ALL = 5,
  OPTRT_SEND = 6,
  OPTRT_RECEIVE = 7,
};
enum { OPTRT_SUM = 0, OPTRT_MAX = 1 };

/// A collective of matrices over one mesh axis of n ranks. Reductions add in
/// rank order (((x0 + x1) + x2) + ...), on every back-end: in f32, whatever
/// `type` is, and then round to it.
///
///  broadcast       root's src [outer,inner] -> everyone's dst [outer,inner]
///  reduce          everyone's src [outer,inner] -> root's dst
///  all_reduce      everyone's src [outer,inner] -> everyone's dst
///  all_gather      src [outer,inner] -> dst [outer,n*inner], rank r's block
///                  at columns [r*inner, (r+1)*inner)
///  reduce_scatter  src [outer,n*inner] -> dst [outer,inner], the inverse
///  all_to_all      src [outer,n*inner] -> dst [outer,n*inner], rank r's block
///                  being block r of rank s's src at block s of its dst
///  send            src [outer,inner] -> the receive of the rank `root`
///  receive         the send of the rank `root` -> dst [outer,inner]
///
/// Messages from one rank to another are received in the order in which they
/// are sent; those of other ranks are no concern of theirs.
/// src may equal dst for all_reduce (in place) and on the root of a broadcast
/// or reduce (then its own data does not move). On ranks other than the root,
/// src of a broadcast and dst of a reduce are ignored and may be null.
struct optrt_collective_desc {
  int32_t kind;      ///< OPTRT_BROADCAST ...
  int32_t reduction; ///< OPTRT_SUM or OPTRT_MAX
  int32_t axis;      ///< index of the mesh axis in the manifest's order
  int32_t root;      ///< index on that axis
  int64_t outer, inner;
  int64_t src_ld, dst_ld;
  int32_t type; ///< any; OPTRT_F32, OPTRT_BF16 or OPTRT_F16 where it adds
};

/// dst[r, 0:cols] = src[r, 0:cols] for elements of any type; with src null,
/// zeros.
struct optrt_copy_desc {
  int64_t rows, cols;
  int64_t src_ld, dst_ld;
  int64_t element_bytes;
};

/// Causal (or full) attention with scale 1/sqrt(head_dim) on queries
/// [batch, seq, heads, head_dim] and keys and values [batch, seq, kv_heads,
/// head_dim]; each of kv_heads is shared by heads / kv_heads heads of queries
/// that follow each other. A token's heads are contiguous; from one token to
/// the next there are `q_ld` elements (q, dq) and `kv_ld` (k, v, dk, dv), so
/// that all three may lie in one tensor. out and dout are [batch, seq, heads,
/// head_dim] and contiguous; lse, the logarithm of each row's sum of
/// exponentials, is [batch, heads, seq]. With `lengths` [batch], each from 1 to
/// seq, tokens see the first ones of their sequence only; null for all. With
/// `positions` [batch, seq] a token sees keys from so many tokens earlier on,
/// as seenKeys() says; null for all earlier ones. With a `window` it sees so
/// many at most.
///
/// With a `capacity` k and v are a cache, [batch, capacity, kv_heads,
/// head_dim]: key j is that of position j. `positions` say where queries are,
/// and `lengths`, from 0 to capacity, how many keys are filled:
/// seenCachedKeys(). There is no gradient. With a `pool` of pages, as many for
/// each sequence, k and v are these, [64·pool, kv_heads, head_dim], and `pages`
/// [batch, capacity/64] says where positions are (CachePages.h); a sequence has
/// one query.
struct optrt_attention_desc {
  int64_t batch, seq, heads, kv_heads, head_dim;
  int64_t q_ld, kv_ld;
  int32_t causal;
  int32_t type; ///< of all elements but those of lse, which are f32
  int32_t has_lengths, has_positions;
  int32_t deterministic; ///< a gradient whose sums are added in one order
  int64_t workspace_bytes;
  int64_t window = 0;   ///< 0: none
  int64_t capacity = 0; ///< 0: keys are those of the tokens
  int64_t pool = 0;     ///< 0: no pages
};

#endif // OPTIMUS_RUNTIME_COMMANDDESCRIPTORS_H
