//===- Kernels.cpp - A GPU's kernels, loaded ------------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Kernels.h"

#include <algorithm>
#include <charconv>
#include <string_view>

namespace optrt::cuda {

/// A grid has at most so many times the blocks that the GPU holds at once;
/// kernels go on where it ends.
static constexpr int64_t kWaves = 4;

Kernels::~Kernels() {
  for (auto [image, module] : modules)
    driver.api().moduleUnload(module);
}

/// How well an image suits: machine code of the GPU's major version for its
/// minor version or the next below, then what the driver compiles itself; below
/// 0 not at all.
static int suitability(std::string_view architecture, const Gpu &gpu) {
  if (gpu.major == 0)
    return architecture == gpu.architecture() ? 0 : -1;
  if (architecture == "ptx")
    return 0;
  if (!architecture.starts_with("sm_"))
    return -1;
  architecture.remove_prefix(3);
  int number = 0;
  auto [end, error] = std::from_chars(
      architecture.data(), architecture.data() + architecture.size(), number);
  const bool isNumber =
      error == std::errc() && end == architecture.data() + architecture.size();
  return isNumber && number / 10 == gpu.major && number % 10 <= gpu.minor
             ? 1 + number % 10
             : -1;
}

Status Kernels::check(Result result, const char *call) const {
  return result == kOutOfMemory ? outOfMemory(concat(call, " cannot load code"))
                                : driver.check(result, call);
}

StatusOr<Module> Kernels::load(const optimus_image &image) const {
  // What is text ends with a zero.
  std::string text;
  const void *data = image.data;
  if (std::string_view(image.architecture) == "ptx") {
    text.assign(static_cast<const char *>(image.data), image.size);
    data = text.c_str();
  }
  char log[1024] = "";
  constexpr int kErrorLog = 5, kErrorLogBytes = 6; // CUjit_option
  int options[] = {kErrorLog, kErrorLogBytes};
  void *values[] = {log, reinterpret_cast<void *>(sizeof(log) - 1)};
  Module module = nullptr;
  Status status =
      check(driver.api().moduleLoadDataEx(&module, data, 2, options, values),
            kDriverNames.moduleLoadDataEx);
  if (!status.ok())
    return status
        .withContext(concat("the image for ", image.architecture, " on ",
                            gpu.name, " (", gpu.architecture(), ")"))
        .withAdvice(log);
  return module;
}

Status Kernels::load(std::span<const optimus_image> images,
                     std::span<const optimus_kernel *const> kernels) {
  if (kernels.empty())
    return okStatus();
  auto best = std::max_element(images.begin(), images.end(),
                               [&](const auto &a, const auto &b) {
                                 return suitability(a.architecture, gpu) <
                                        suitability(b.architecture, gpu);
                               });
  if (best == images.end() || suitability(best->architecture, gpu) < 0) {
    std::string found;
    for (const optimus_image &image : images)
      found += concat(found.empty() ? "" : ", ", image.architecture);
    return unavailable(concat(
        "expected kernels for ", gpu.architecture(), ", the architecture of ",
        gpu.name, "; found ", found.empty() ? "none" : found,
        ". Compile the model with --gpu-arch ", gpu.architecture()));
  }
  Module &module = modules[&*best];
  if (!module) {
    OPTRT_ASSIGN_OR_RETURN(module, load(*best));
  }
  for (const optimus_kernel *kernel : kernels) {
    Function &function = functions[kernel];
    if (function)
      continue;
    Status status = check(
        driver.api().moduleGetFunction(&function, module, kernel->device_name),
        kDriverNames.moduleGetFunction);
    if (!status.ok())
      return status.withContext(
          concat("the kernel ", kernel->name, ", ", kernel->device_name,
                 " of the image for ", best->architecture));
    // Else a driver may load code when it is launched, and waits for the GPU's
    // other work first: even for a collective, which waits for this rank on
    // another. Drivers without the call have loaded it above.
    if (driver.api().funcLoad)
      OPTRT_RETURN_IF_ERROR(
          check(driver.api().funcLoad(function), kDriverNames.funcLoad));
  }
  return okStatus();
}

Status Kernels::launch(Stream stream, const optrt_launch_desc &desc,
                       const optimus_kernel &kernel, void *const *args) const {
  auto function = functions.find(&kernel);
  if (desc.extent < 0 || function == functions.end() || !function->second)
    return invalidArgument(concat(
        "launch of '", desc.name ? desc.name : "?",
        "' expects an extent >= 0 and a kernel that the device was "
        "prepared with; found extent ",
        desc.extent, function == functions.end() ? " and another kernel" : ""));
  if (desc.extent == 0)
    return okStatus();
  const int64_t held =
      int64_t(gpu.multiprocessors) *
      std::max<int64_t>(
          gpu.threadsPerMultiprocessor / int64_t(kernel.block_threads), 1);
  const int64_t blocks =
      std::min((desc.extent - 1) / kernel.block_iterations + 1, kWaves * held);
  // The iterations, the buffers' addresses, the scalars.
  int64_t iterations = desc.extent;
  std::vector<void *> params{&iterations};
  std::vector<void *> buffers(args, args + desc.num_buffers);
  for (void *&buffer : buffers)
    params.push_back(&buffer);
  params.insert(params.end(), args + desc.num_buffers,
                args + desc.num_buffers + desc.num_scalars);
  return check(driver.api().launchKernel(function->second, unsigned(blocks), 1,
                                         1, kernel.block_threads, 1, 1,
                                         /*sharedBytes=*/0, stream,
                                         params.data(), nullptr),
               kDriverNames.launchKernel);
}

} // namespace optrt::cuda
