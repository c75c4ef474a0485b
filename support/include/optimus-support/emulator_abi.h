//===- emulator_abi.h - The binary interface of emulated kernels --*- C -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The image "emulated" of a model library for GPUs is a shared object for the
// host: the kernels, and calls of what a GPU has and the host has not. Those
// are its undefined symbols, which an emulator has. Each thread of a block runs
// on a stack of its own, and a call may go on in another thread.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_SUPPORT_EMULATOR_ABI_H
#define OPTIMUS_SUPPORT_EMULATOR_ABI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define OPTEMU_ASSERT(condition, text) static_assert(condition, text)
extern "C" {
#else
#define OPTEMU_ASSERT(condition, text) _Static_assert(condition, text)
#endif

#define OPTEMU_FIELD(type, field, offset)                                      \
  OPTEMU_ASSERT(offsetof(type, field) == (offset),                             \
                #field " of " #type " is at " #offset)

// -- What an image calls ------------------------------------------------------

/// The thread in its block, the block in its grid, and the grid's blocks.
int32_t optimus_emulated_thread(void);
int32_t optimus_emulated_block(void);
int32_t optimus_emulated_num_blocks(void);

/// All threads of the block have come here; it has one barrier, number 0.
void optimus_emulated_barrier(int32_t barrier);

/// The threads of the warp that have a bit in `mask` have come here.
void optimus_emulated_warp_barrier(int32_t mask);

/// The value of the thread of the warp whose number differs in `bits`.
int32_t optimus_emulated_shuffle(int32_t mask, int32_t value, int32_t bits,
                                 int32_t clamp);
float optimus_emulated_shuffle_float(int32_t mask, float value, int32_t bits,
                                     int32_t clamp);

/// A warp's product d[16,8] = a[16,16] b[16,8] + c[16,8] of bf16, summed in
/// f32: `words` has the thread's four pairs of a, its two of b and its four
/// numbers of c, as mma.sync.m16n8k16.row.col takes them; `result` gets those
/// of d.
void optimus_emulated_product(const uint32_t *words, float *result);

/// A warp's load of four matrices of 8x8 elements of two bytes from shared
/// memory: a row of 16 bytes for each thread, eight rows a matrix. `words` gets
/// the thread's pair of each, as ldmatrix.m8n8.x4 gives them: of row lane/4,
/// or, transposed, of column lane/4.
void optimus_emulated_matrices(const void *row, int32_t is_transposed,
                               uint32_t *words);

/// Begins to copy to shared memory, as cp.async: `some` of the bytes, and zeros
/// for the rest. They arrive when the thread waits for the copies' group.
void optimus_emulated_copy(void *to, const void *from, int32_t bytes,
                           int32_t some);
/// The copies that the thread began since the last group are a group.
void optimus_emulated_copy_commit(void);
/// Waits until at most so many of the thread's last groups have not arrived.
void optimus_emulated_copy_wait(int32_t groups);

/// 2^x, as ex2.approx.ftz gives it within its error: denormal results are 0.
float optimus_emulated_exp2(float x);

/// Comes before each load and store: `alignment` is what the code relies on.
void optimus_emulated_access(const void *address, int64_t bytes,
                             int32_t is_write, int64_t alignment);

// -- What an image has --------------------------------------------------------

typedef struct optimus_emulated_kernel {
  const char *name;
  /// One thread. As the driver does, it takes the address of each parameter.
  /// All have eight bytes, numbers of 64 bits and pointers, and lie one after
  /// the other: an array that a kernel takes by value counts as its elements.
  void (*run)(void *const *parameters);
  uint32_t num_parameters;
  uint32_t block_threads; ///< that it is compiled for
} optimus_emulated_kernel;
OPTEMU_FIELD(optimus_emulated_kernel, name, 0);
OPTEMU_FIELD(optimus_emulated_kernel, run, 8);
OPTEMU_FIELD(optimus_emulated_kernel, num_parameters, 16);
OPTEMU_FIELD(optimus_emulated_kernel, block_threads, 20);

/// The memory of kernels beside their buffers: tables, which are only read, and
/// memory shared by the threads of a block. That is there once, since blocks
/// run one after the other.
typedef struct optimus_emulated_global {
  const char *name;
  void *begin;
  uint64_t bytes;
  uint64_t is_shared;
} optimus_emulated_global;
OPTEMU_FIELD(optimus_emulated_global, name, 0);
OPTEMU_FIELD(optimus_emulated_global, begin, 8);
OPTEMU_FIELD(optimus_emulated_global, bytes, 16);
OPTEMU_FIELD(optimus_emulated_global, is_shared, 24);

/// An image exports one, under the name `optimus_emulated_image`.
typedef struct optimus_emulated_code {
  const optimus_emulated_kernel *kernels;
  const optimus_emulated_global *globals;
  uint32_t num_kernels, num_globals;
} optimus_emulated_code;
OPTEMU_FIELD(optimus_emulated_code, kernels, 0);
OPTEMU_FIELD(optimus_emulated_code, globals, 8);
OPTEMU_FIELD(optimus_emulated_code, num_kernels, 16);
OPTEMU_FIELD(optimus_emulated_code, num_globals, 20);

#undef OPTEMU_FIELD
#undef OPTEMU_ASSERT

#ifdef __cplusplus
}
#endif

#endif // OPTIMUS_SUPPORT_EMULATOR_ABI_H
