//===- CpuDevice.h - The kernels of a rank on a processor ------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A CpuDevice runs one rank's local work on the rank's own threads: matrix
// products through oneDNN, kernels that the compiler outlined, strided copies
// and attention.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CPUDEVICE_H
#define OPTIMUS_RUNTIME_CPUDEVICE_H

#include "optimus-runtime/Status.h"
#include "optimus-support/model_abi.h"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace optrt {

/// The device of one rank. Its functions have the meaning of their namesakes
/// in model_abi.h: matrices are row-major f32, sizes and leading dimensions
/// count elements, and they return when the result is in memory.
///
/// All calls on one device come from one thread, the rank's; different devices
/// may run at the same time in one process. Work is split among `threads()`
/// threads, the calling one included; with one thread nothing is spawned and
/// no barrier is touched. Results do not depend on how work is split in
/// `launch`, `copy`, `attention` and `attentionGrad`; a product's summation
/// order is oneDNN's choice and may differ between thread counts.
///
/// Operands are borrowed for the length of a call, except that packed copies
/// of weights stay in the device (see `setParameterVersion`).
///
/// Errors: InvalidArgument when a descriptor or a pointer cannot be right,
/// Unavailable when memory runs out, Internal when oneDNN fails. Nothing
/// throws.
class CpuDevice {
public:
  /// When a product's weight operand is packed.
  enum class Packing {
    WhereFaster, ///< where oneDNN has a blocked layout for this processor
    Always,      ///< for every weight, so that tests meet packing anywhere
  };

  /// `threads` (at least 1, else 1) is what one call may use; ranks x threads
  /// <= cores is the caller's matter.
  explicit CpuDevice(int threads, Packing packing = Packing::WhereFaster);
  ~CpuDevice();
  CpuDevice(const CpuDevice &) = delete;
  CpuDevice &operator=(const CpuDevice &) = delete;

  int threads() const;

  /// Declares the version of the parameters that `gemm` calls from now on see.
  /// A product whose descriptor marks an operand as a weight may keep a packed
  /// copy of it, and uses that copy only under the version it was made for.
  /// Call it with a new number whenever parameters may have changed: after
  /// every optimizer update, after a load, and when the memory that holds them
  /// is given another meaning. Versions need only differ from one another.
  void setParameterVersion(uint64_t version);

  /// C = op(A) op(B) with the descriptor's bias, accumulation and epilogue.
  /// `bias` and `extra` are read only where the descriptor asks for them.
  /// C overlaps no operand, except that the extra addend may be C itself.
  Status gemm(const optrt_gemm_desc &desc, const float *a, const float *b,
              float *c, const float *bias, const float *extra);

  /// Runs kernel over [0, extent), split into tasks of at least `grain`
  /// iterations.
  Status launch(const optrt_launch_desc &desc, optrt_kernel kernel,
                void *const *args);

  /// Strided copy of a matrix, or zeros where `src` is null. No overlap.
  Status copy(const optrt_copy_desc &desc, const float *src, float *dst);

  /// Attention without ever holding more than a 64 x 64 block of scores per
  /// thread; `lse` is what `attentionGrad` needs besides.
  Status attention(const optrt_attention_desc &desc, const float *qkv,
                   float *out, float *lse);

  /// Writes every element of dqkv.
  Status attentionGrad(const optrt_attention_desc &desc, const float *dout,
                       const float *qkv, const float *out, const float *lse,
                       float *dqkv);

  /// Makes the buffers that these calls will need, so that the first step
  /// does not allocate. Optional: calls grow them on demand.
  Status reserveAttention(const optrt_attention_desc &desc);

  /// Bytes the device holds now besides what callers own: packed weights,
  /// oneDNN's scratch pad and attention's per-thread buffers. It only grows.
  /// Not counted are the few panels that oneDNN's sgemm allocates in a call.
  size_t scratchBytes() const;

private:
  class Impl;
  std::unique_ptr<Impl> impl;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CPUDEVICE_H
