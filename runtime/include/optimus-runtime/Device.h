//===- Device.h - What runs a rank's local commands -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_DEVICE_H
#define OPTIMUS_RUNTIME_DEVICE_H

#include "optimus-runtime/Status.h"
#include "optimus-support/model_abi.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

namespace optrt {

/// The device of one rank. Its functions have the meaning of their namesakes
/// in model_abi.h: matrices are row-major f32, sizes and leading dimensions
/// count elements, and they return when the result is in memory.
///
/// All calls on one device come from one thread, the rank's; different devices
/// may run at the same time in one process. Operands are borrowed for the
/// length of a call, except that packed copies of weights may stay in the
/// device (see `setParameterVersion`).
///
/// Errors: InvalidArgument when a descriptor or a pointer cannot be right,
/// Unavailable when memory runs out, Internal when a library underneath fails.
/// Nothing throws.
class Device {
public:
  virtual ~Device() = default;

  /// Declares the version of the parameters that `gemm` calls from now on see.
  /// A product whose descriptor marks an operand as a weight may keep a packed
  /// copy of it, and uses that copy only under the version it was made for.
  /// Call it with a new number whenever parameters may have changed: after
  /// every optimizer update, after a load, and when the memory that holds them
  /// is given another meaning. Versions need only differ from one another.
  virtual void setParameterVersion(uint64_t version) = 0;

  /// C = op(A) op(B) with the descriptor's bias, accumulation and epilogue.
  /// `bias` and `extra` are read only where the descriptor asks for them.
  /// C overlaps no operand, except that the extra addend may be C itself.
  virtual Status gemm(const optrt_gemm_desc &desc, const float *a,
                      const float *b, float *c, const float *bias,
                      const float *extra) = 0;

  /// Runs kernel over [0, extent), split into tasks of at least `grain`
  /// iterations.
  virtual Status launch(const optrt_launch_desc &desc, optrt_kernel kernel,
                        void *const *args) = 0;

  /// Strided copy of a matrix, or zeros where `src` is null. No overlap.
  virtual Status copy(const optrt_copy_desc &desc, const float *src,
                      float *dst) = 0;

  /// `lse` is what `attentionGrad` needs besides the result; `lengths` may be
  /// null. Lengths outside [1, seq] are taken for the nearest one inside.
  virtual Status attention(const optrt_attention_desc &desc, const float *q,
                           const float *k, const float *v,
                           const int32_t *lengths, float *out,
                           float *lse) = 0;

  /// Writes every element of dq, dk and dv.
  virtual Status attentionGrad(const optrt_attention_desc &desc,
                               const float *dout, const float *q,
                               const float *k, const float *v,
                               const int32_t *lengths, const float *out,
                               const float *lse, float *dq, float *dk,
                               float *dv) = 0;

  /// Bytes the device holds now besides what callers own.
  virtual size_t scratchBytes() const = 0;
};

/// What a device plugin exports as `optimus_device_create`: makes the device
/// of a rank with `threads` threads, or returns null and writes why into
/// `error`.
using CreateDeviceFn = Device *(*)(int threads, char *error,
                                   std::size_t errorSize);

/// Makes devices of one kind, called by each rank on its own thread.
class DeviceFactory {
public:
  /// Opens the plugin liboptimus_device_NAME.so in `../lib` beside the
  /// executable, or the file in $OPTIMUS_DEVICE_CPU_LIBRARY. `name` is "cpu".
  /// Call it before threads are started: it decides how OpenMP's threads wait
  /// for work, unless the environment says so already.
  static StatusOr<DeviceFactory> open(std::string_view name);

  StatusOr<std::unique_ptr<Device>> create(int threads) const;

private:
  explicit DeviceFactory(CreateDeviceFn createDevice)
      : createDevice(createDevice) {}
  CreateDeviceFn createDevice;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_DEVICE_H
