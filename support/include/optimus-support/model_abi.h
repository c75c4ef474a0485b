//===- model_abi.h - The binary interface of a model library -------*- C
//-*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A model library is a shared object with one entry, `optimus_model_query`.
// It imports no symbol: what the runtime gives to a kernel comes as arguments.
// What ranks execute is data, the tables of support/schema/program.fbs; code
// are the kernels that these launch. The compiler writes these structures field
// by field, so their order is part of the interface; OPTRT_ABI_VERSION changes
// with it.
//
// The descriptors below are how devices and collectives are told what a command
// does. Every matrix is row-major, and f32 where its descriptor does not say
// otherwise. Sizes and leading dimensions are counted in elements.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_SUPPORT_MODEL_ABI_H
#define OPTIMUS_SUPPORT_MODEL_ABI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define OPTRT_ASSERT(condition, text) static_assert(condition, text)
extern "C" {
#else
#define OPTRT_ASSERT(condition, text) _Static_assert(condition, text)
#endif

/// What compilers of both sides must agree about. Every field is named, so that
/// one which is moved or added is noticed here.
#define OPTRT_SIZE(type, bytes)                                                \
  OPTRT_ASSERT(sizeof(type) == (bytes), "the size of " #type " is " #bytes)
#define OPTRT_FIELD(type, field, offset)                                       \
  OPTRT_ASSERT(offsetof(type, field) == (offset),                              \
               #field " of " #type " is at " #offset)

#define OPTRT_ABI_VERSION 8

/// The sections of a library that hold its manifest and its programs, so that
/// they can be read without running anything.
#define OPTIMUS_MANIFEST_SECTION ".optimus.manifest"
#define OPTIMUS_PROGRAMS_SECTION ".optimus.programs"

/// Element types, with the values of schema/element_type.fbs.
enum { OPTRT_F32 = 0, OPTRT_F16 = 2, OPTRT_BF16 = 3, OPTRT_I32 = 4 };

/// What happens to a product before it is stored.
enum {
  OPTRT_EPILOGUE_NONE = 0, ///< C = op(A) op(B)
  OPTRT_EPILOGUE_ADD = 1,  ///< C = op(A) op(B) + extra
  OPTRT_EPILOGUE_MUL = 2,  ///< C = (op(A) op(B)) * extra, elementwise
};

/// C[m,n] = (accumulate ? C : 0) + op(A)[m,k] op(B)[k,n] + bias[n], then the
/// epilogue. With trans_a, A is stored as [k,m]; with trans_b, B as [n,k]. With
/// packed_b, B is what a pack of k rows and n columns wrote into ldb elements.
typedef struct optrt_gemm_desc {
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
} optrt_gemm_desc;
OPTRT_FIELD(optrt_gemm_desc, m, 0);
OPTRT_FIELD(optrt_gemm_desc, n, 8);
OPTRT_FIELD(optrt_gemm_desc, k, 16);
OPTRT_FIELD(optrt_gemm_desc, lda, 24);
OPTRT_FIELD(optrt_gemm_desc, ldb, 32);
OPTRT_FIELD(optrt_gemm_desc, ldc, 40);
OPTRT_FIELD(optrt_gemm_desc, ld_extra, 48);
OPTRT_FIELD(optrt_gemm_desc, trans_a, 56);
OPTRT_FIELD(optrt_gemm_desc, trans_b, 60);
OPTRT_FIELD(optrt_gemm_desc, accumulate, 64);
OPTRT_FIELD(optrt_gemm_desc, epilogue, 68);
OPTRT_FIELD(optrt_gemm_desc, has_bias, 72);
OPTRT_FIELD(optrt_gemm_desc, packed_b, 76);
OPTRT_FIELD(optrt_gemm_desc, factor_type, 80);
OPTRT_FIELD(optrt_gemm_desc, result_type, 84);
OPTRT_FIELD(optrt_gemm_desc, bias_type, 88);
OPTRT_FIELD(optrt_gemm_desc, extra_type, 92);
OPTRT_SIZE(optrt_gemm_desc, 96);

/// Writes op(src)[rows,cols], B of products, into dst in the layout that the
/// device multiplies fastest from. With trans, src is stored as [cols,rows].
typedef struct optrt_pack_desc {
  int64_t rows, cols;
  int64_t ld;       ///< leading dimension of src
  int64_t elements; ///< room in dst
  int64_t trans;
} optrt_pack_desc;
OPTRT_FIELD(optrt_pack_desc, rows, 0);
OPTRT_FIELD(optrt_pack_desc, cols, 8);
OPTRT_FIELD(optrt_pack_desc, ld, 16);
OPTRT_FIELD(optrt_pack_desc, elements, 24);
OPTRT_FIELD(optrt_pack_desc, trans, 32);
OPTRT_SIZE(optrt_pack_desc, 40);

/// The rows [begin, end) of a kernel. `args` holds one pointer a buffer, and
/// for a scalar a pointer to it.
typedef void (*optrt_kernel)(int64_t begin, int64_t end, void *const *args);

/// A kernel's iteration space. Iterations are independent of each other, so
/// any split among threads gives the same bits.
typedef struct optrt_launch_desc {
  const char *name;
  int64_t extent; ///< iterations [0, extent)
  int64_t grain;  ///< least number of iterations worth a task
  /// What `args` has: addresses of buffers, which are the device's, then those
  /// of scalars, which are the host's.
  int32_t num_buffers, num_scalars;
} optrt_launch_desc;
OPTRT_FIELD(optrt_launch_desc, name, 0);
OPTRT_FIELD(optrt_launch_desc, extent, 8);
OPTRT_FIELD(optrt_launch_desc, grain, 16);
OPTRT_FIELD(optrt_launch_desc, num_buffers, 24);
OPTRT_FIELD(optrt_launch_desc, num_scalars, 28);
OPTRT_SIZE(optrt_launch_desc, 32);

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

/// When a collective starts, the one that started this many before it on the
/// same axis has been waited for; between these, waits come in any order.
#define OPTRT_MAX_IN_FLIGHT 64

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
///  receive         what the rank `root` sends -> dst [outer,inner]
///
/// The last three only back-ends know that put collectives on GPUs' queues.
/// src may equal dst for all_reduce (in place) and on the root of a broadcast
/// or reduce (then its own data does not move). On ranks other than the root,
/// src of a broadcast and dst of a reduce are ignored and may be null.
typedef struct optrt_collective_desc {
  int32_t kind;      ///< OPTRT_BROADCAST ...
  int32_t reduction; ///< OPTRT_SUM or OPTRT_MAX
  int32_t axis;      ///< index of the mesh axis in the manifest's order
  int32_t root;      ///< index on that axis
  int64_t outer, inner;
  int64_t src_ld, dst_ld;
  int32_t type; ///< of the elements: OPTRT_F32, OPTRT_BF16 or OPTRT_F16
} optrt_collective_desc;
OPTRT_FIELD(optrt_collective_desc, kind, 0);
OPTRT_FIELD(optrt_collective_desc, reduction, 4);
OPTRT_FIELD(optrt_collective_desc, axis, 8);
OPTRT_FIELD(optrt_collective_desc, root, 12);
OPTRT_FIELD(optrt_collective_desc, outer, 16);
OPTRT_FIELD(optrt_collective_desc, inner, 24);
OPTRT_FIELD(optrt_collective_desc, src_ld, 32);
OPTRT_FIELD(optrt_collective_desc, dst_ld, 40);
OPTRT_FIELD(optrt_collective_desc, type, 48);
OPTRT_SIZE(optrt_collective_desc, 56);

/// dst[r, 0:cols] = src[r, 0:cols] for elements of any type; with src null,
/// zeros.
typedef struct optrt_copy_desc {
  int64_t rows, cols;
  int64_t src_ld, dst_ld;
  int64_t element_bytes;
} optrt_copy_desc;
OPTRT_FIELD(optrt_copy_desc, rows, 0);
OPTRT_FIELD(optrt_copy_desc, cols, 8);
OPTRT_FIELD(optrt_copy_desc, src_ld, 16);
OPTRT_FIELD(optrt_copy_desc, dst_ld, 24);
OPTRT_FIELD(optrt_copy_desc, element_bytes, 32);
OPTRT_SIZE(optrt_copy_desc, 40);

/// Causal (or full) attention with scale 1/sqrt(head_dim) on queries
/// [batch, seq, heads, head_dim] and keys and values [batch, seq, kv_heads,
/// head_dim]; each of kv_heads is shared by heads / kv_heads heads of queries
/// that follow each other. A token's heads are contiguous; from one token to
/// the next there are `q_ld` elements (q, dq) and `kv_ld` (k, v, dk, dv), so
/// that all three may lie in one tensor. out and dout are [batch, seq, heads,
/// head_dim] and contiguous; lse, the logarithm of each row's sum of
/// exponentials, is [batch, heads, seq]. With `lengths` [batch], each from 1 to
/// seq, tokens see the first ones of their sequence only; null for all.
typedef struct optrt_attention_desc {
  int64_t batch, seq, heads, kv_heads, head_dim;
  int64_t q_ld, kv_ld;
  int32_t causal;
  int32_t type; ///< of all elements but those of lse, which are f32
  int32_t has_lengths;
  int32_t deterministic; ///< a gradient whose sums are added in one order
  int64_t workspace_bytes;
} optrt_attention_desc;
OPTRT_FIELD(optrt_attention_desc, batch, 0);
OPTRT_FIELD(optrt_attention_desc, seq, 8);
OPTRT_FIELD(optrt_attention_desc, heads, 16);
OPTRT_FIELD(optrt_attention_desc, kv_heads, 24);
OPTRT_FIELD(optrt_attention_desc, head_dim, 32);
OPTRT_FIELD(optrt_attention_desc, q_ld, 40);
OPTRT_FIELD(optrt_attention_desc, kv_ld, 48);
OPTRT_FIELD(optrt_attention_desc, causal, 56);
OPTRT_FIELD(optrt_attention_desc, type, 60);
OPTRT_FIELD(optrt_attention_desc, has_lengths, 64);
OPTRT_FIELD(optrt_attention_desc, deterministic, 68);
OPTRT_FIELD(optrt_attention_desc, workspace_bytes, 72);
OPTRT_SIZE(optrt_attention_desc, 80);

/// Code that a table launches by its name: for processors a function here, for
/// GPUs one of the images', which takes its iterations (i64), then a pointer
/// for each buffer, then each scalar, and may be launched in any number of
/// blocks. One without scalars may take all pointers as one array, by value: a
/// driver is given them one after the other.
typedef struct optimus_kernel {
  const char *name;
  optrt_kernel run; ///< null for GPUs
  /// What the code was written for: signatureHash() in ProgramKernels.h of what
  /// tables must say that the kernel takes.
  uint64_t signature;
  const char *device_name; ///< the images' function; null for processors
  /// Threads of a block, and the iterations that a block does at a time; 0 for
  /// processors.
  uint32_t block_threads, block_iterations;
} optimus_kernel;
OPTRT_FIELD(optimus_kernel, name, 0);
OPTRT_FIELD(optimus_kernel, run, 8);
OPTRT_FIELD(optimus_kernel, signature, 16);
OPTRT_FIELD(optimus_kernel, device_name, 24);
OPTRT_FIELD(optimus_kernel, block_threads, 32);
OPTRT_FIELD(optimus_kernel, block_iterations, 36);
OPTRT_SIZE(optimus_kernel, 40);

/// Machine code of a GPU's kernels.
typedef struct optimus_image {
  /// "sm_90", "ptx" for what the driver compiles itself, or "emulated".
  const char *architecture;
  const void *data;
  uint64_t size;
} optimus_image;
OPTRT_FIELD(optimus_image, architecture, 0);
OPTRT_FIELD(optimus_image, data, 8);
OPTRT_FIELD(optimus_image, size, 16);
OPTRT_SIZE(optimus_image, 24);

typedef struct optimus_model {
  uint32_t version; ///< OPTRT_ABI_VERSION
  const char *manifest; ///< JSON, not null-terminated
  uint64_t manifest_size;
  const char *programs; ///< a flatbuffer, aligned to 64 bytes
  uint64_t programs_size;
  uint32_t num_kernels;
  const optimus_kernel *kernels;
  uint32_t num_images; ///< 0 for processors
  const optimus_image *images;
} optimus_model;
OPTRT_FIELD(optimus_model, version, 0);
OPTRT_FIELD(optimus_model, manifest, 8);
OPTRT_FIELD(optimus_model, manifest_size, 16);
OPTRT_FIELD(optimus_model, programs, 24);
OPTRT_FIELD(optimus_model, programs_size, 32);
OPTRT_FIELD(optimus_model, num_kernels, 40);
OPTRT_FIELD(optimus_model, kernels, 48);
OPTRT_FIELD(optimus_model, num_images, 56);
OPTRT_FIELD(optimus_model, images, 64);
OPTRT_SIZE(optimus_model, 72);

/// The library's one entry. Returns null when it was built for another
/// version.
typedef const optimus_model *(*optimus_model_query_fn)(uint32_t version);

#undef OPTRT_FIELD
#undef OPTRT_SIZE
#undef OPTRT_ASSERT

#ifdef __cplusplus
}
#endif

#endif // OPTIMUS_SUPPORT_MODEL_ABI_H
