//===- Kernels.h - A GPU's kernels, loaded ----------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_DEVICE_CUDA_KERNELS_H
#define OPTIMUS_RUNTIME_DEVICE_CUDA_KERNELS_H

#include "Driver.h"

#include "optimus-runtime/CommandDescriptors.h"
#include "optimus-support/model_abi.h"

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace optrt::cuda {

/// A GPU as far as launches and images ask for it.
struct Gpu {
  std::string name;
  int major = 0, minor = 0; ///< its compute capability; 0 of a fake one
  int multiprocessors = 1, threadsPerMultiprocessor = 1;
  int64_t maxPitch = 0;

  /// "sm_90".
  std::string architecture() const {
    return major == 0 ? "emulated" : concat("sm_", major, minor);
  }
};

/// The functions of the images that a device was prepared with. Its context is
/// the thread's in all calls.
class Kernels {
public:
  /// What `outOfMemory` says where there is not enough of the GPU's for code.
  using Explain = std::function<Status(const std::string &what)>;
  Kernels(const Driver &driver, const Gpu &gpu, Explain outOfMemory)
      : driver(driver), gpu(gpu), outOfMemory(std::move(outOfMemory)) {}
  ~Kernels();
  Kernels(const Kernels &) = delete;
  Kernels &operator=(const Kernels &) = delete;

  /// Loads the image that suits the GPU best, once, and finds these kernels.
  Status load(std::span<const optimus_image> images,
              std::span<const optimus_kernel *const> kernels);

  /// Starts a kernel in at most as many blocks as keep the GPU busy.
  Status launch(Stream stream, const optrt_launch_desc &desc,
                const optimus_kernel &kernel, void *const *args) const;

private:
  StatusOr<Module> load(const optimus_image &image) const;
  Status check(Result result, const char *call) const;

  const Driver &driver;
  const Gpu &gpu;
  const Explain outOfMemory;
  /// By where the images lie: libraries have several.
  std::map<const optimus_image *, Module> modules;
  std::map<const optimus_kernel *, Function> functions;
};

} // namespace optrt::cuda

#endif // OPTIMUS_RUNTIME_DEVICE_CUDA_KERNELS_H
