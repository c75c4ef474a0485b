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
/// a moved or added one is noticed here.
#define OPTRT_SIZE(type, bytes)                                                \
  OPTRT_ASSERT(sizeof(type) == (bytes), "the size of " #type " is " #bytes)
#define OPTRT_FIELD(type, field, offset)                                       \
  OPTRT_ASSERT(offsetof(type, field) == (offset),                              \
               #field " of " #type " is at " #offset)

#define OPTRT_ABI_VERSION 8

/// The sections of a library for its manifest and its programs: readable
/// without running anything.
#define OPTIMUS_MANIFEST_SECTION ".optimus.manifest"
#define OPTIMUS_PROGRAMS_SECTION ".optimus.programs"

/// The rows [begin, end) of a kernel. `args` holds one pointer a buffer, and
/// for a scalar a pointer to it.
typedef void (*optrt_kernel)(int64_t begin, int64_t end, void *const *args);

/// When a collective starts, the one that started this many before it on the
/// same axis has been waited for; between these, waits come in any order.
#define OPTRT_MAX_IN_FLIGHT 64

/// Code that a table launches by its name: for processors a function here, for
/// GPUs one of the images', which takes its iterations (i64), then a pointer
/// for each buffer, then each scalar, and may be launched in any number of
/// blocks. One without scalars may take all pointers as one array, by value: a
/// driver is given them one after the other.
typedef struct optimus_kernel {
  const char *name;
  optrt_kernel run; ///< null for GPUs
  /// What the code was written for: signatureHash() in ProgramKernels.h of the
  /// signature that tables must have for the kernel.
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
