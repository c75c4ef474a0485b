//===- FakeKernels.cpp - Modules and launches on a fake GPU ---------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FakeGpu.h"

#include "EmulatedBlock.h"
#include "HostWordKernel.h"

#include "optimus-support/emulator_abi.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <elf.h>
#include <numeric>
#include <span>
#include <string_view>
#include <sys/mman.h>
#include <unistd.h>

using namespace optrt;
using namespace optrt::cuda;
using optrt::cuda::fake::Gpu;
using optrt::cuda::fake::writeHostWord;

struct optrt::cuda::FunctionOpaque {
  const optimus_emulated_kernel *kernel;
  Module module;
  bool isLoaded = false;
};
struct optrt::cuda::ModuleOpaque {
  void *handle = nullptr;
  const optimus_emulated_code *code = nullptr;
  std::vector<FunctionOpaque> functions;
};

extern "C" {
#pragma GCC visibility push(default)
Result cuModuleLoadDataEx(Module *module, const void *image,
                          unsigned numOptions, int *options, void **values);
Result cuModuleUnload(Module module);
Result cuModuleGetFunction(Function *function, Module module, const char *name);
Result cuFuncLoad(Function function);
Result cuLaunchKernel(Function function, unsigned gridX, unsigned gridY,
                      unsigned gridZ, unsigned blockX, unsigned blockY,
                      unsigned blockZ, unsigned sharedBytes, Stream stream,
                      void **params, void **extra);
#pragma GCC visibility pop
}

//===----------------------------------------------------------------------===//
// Modules
//===----------------------------------------------------------------------===//

/// Where a shared object ends; 0 where it is none.
static size_t sizeOfElf(const void *image) {
  Elf64_Ehdr header;
  std::memcpy(&header, image, sizeof(header));
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_type != ET_DYN)
    return 0;
  size_t end = header.e_shoff + size_t(header.e_shnum) * header.e_shentsize;
  const auto *segments = reinterpret_cast<const Elf64_Phdr *>(
      static_cast<const char *>(image) + header.e_phoff);
  for (const Elf64_Phdr &segment : std::span(segments, header.e_phnum))
    end = std::max(end, size_t(segment.p_offset + segment.p_filesz));
  return end;
}

/// Lets images find what they call: the device opens this library for itself
/// alone.
static bool showCalls() {
  Dl_info here;
  return dladdr(reinterpret_cast<void *>(&cuModuleUnload), &here) &&
         dlopen(here.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
}

/// Opens a shared object that lies in memory; null with a message.
static void *openImage(const void *image, size_t bytes, std::string &message) {
  const int file = memfd_create("optimus-emulated", 0);
  void *handle = nullptr;
  if (file < 0 || write(file, image, bytes) != ssize_t(bytes))
    message = "the image cannot be written";
  else if (handle = dlopen(concat("/proc/self/fd/", file).c_str(),
                           RTLD_NOW | RTLD_LOCAL);
           !handle)
    message = dlerror();
  close(file);
  return handle;
}

/// HostWordKernel.h, the only PTX for a fake GPU, as a function.
static void runHostWordKernel(void *const *parameters) {
  const char *words = std::getenv("OPTIMUS_FAKE_GPU_WORDS");
  if (!words || std::string_view(words) != "none")
    writeHostWord(Gpu::get(), *static_cast<const Address *>(parameters[0]),
                  uint32_t(*static_cast<const uint64_t *>(parameters[1])));
}
static const optimus_emulated_kernel hostWordKernel = {
    kHostWordKernelName, runHostWordKernel, /*num_parameters=*/2,
    /*block_threads=*/1};
static const optimus_emulated_code hostWordCode = {&hostWordKernel, nullptr, 1,
                                                   0};

Result cuModuleLoadDataEx(Module *module, const void *image, unsigned, int *,
                          void **) {
  Gpu &gpu = Gpu::get();
  std::lock_guard lock(gpu.mutex);
  if (Result result = gpu.checkCapture("a module is loaded"))
    return result;
  // The device has a copy of its own.
  if (std::strncmp(static_cast<const char *>(image), kHostWordKernel,
                   std::strlen(kHostWordKernel)) == 0) {
    *module = new ModuleOpaque{nullptr, &hostWordCode, {}};
    (*module)->functions.push_back({&hostWordKernel, *module});
    return kSuccess;
  }
  const size_t bytes = sizeOfElf(image);
  if (bytes == 0)
    return gpu.refuse(kInvalidImage, "a fake GPU runs emulated images only: "
                                     "--gpu-arch emulated");
  std::string message = "the fake driver cannot be found";
  auto loaded = std::make_unique<ModuleOpaque>();
  loaded->handle = showCalls() ? openImage(image, bytes, message) : nullptr;
  if (!loaded->handle)
    return gpu.refuse(kInvalidImage, message);
  loaded->code = static_cast<const optimus_emulated_code *>(
      dlsym(loaded->handle, "optimus_emulated_image"));
  if (!loaded->code)
    return gpu.refuse(kInvalidImage, "the image has no optimus_emulated_image");
  for (const auto &kernel :
       std::span(loaded->code->kernels, loaded->code->num_kernels))
    loaded->functions.push_back({&kernel, loaded.get()});
  *module = loaded.release();
  return kSuccess;
}

Result cuModuleUnload(Module module) {
  Gpu &gpu = Gpu::get();
  std::lock_guard lock(gpu.mutex);
  for (const FunctionOpaque &function : module->functions)
    if (function.isLoaded)
      (void)gpu.take(-gpu.codeBytes);
  if (module->handle)
    dlclose(module->handle);
  delete module;
  return kSuccess;
}

Result cuModuleGetFunction(Function *function, Module module,
                           const char *name) {
  Gpu &gpu = Gpu::get();
  std::lock_guard lock(gpu.mutex);
  for (FunctionOpaque &known : module->functions)
    if (std::strcmp(known.kernel->name, name) == 0) {
      *function = &known;
      return kSuccess;
    }
  return gpu.refuse(kNotFound, concat("no function ", name));
}

static Result load(Gpu &gpu, Function function) {
  if (function->isLoaded)
    return kSuccess;
  const Result result = gpu.load(function->kernel->name);
  function->isLoaded = result == kSuccess;
  return result;
}

Result cuFuncLoad(Function function) {
  Gpu &gpu = Gpu::get();
  std::lock_guard lock(gpu.mutex);
  return load(gpu, function);
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

namespace {
/// Checks accesses against the allocations and the module's memory.
class AllocatedMemory final : public emulator::AccessCheck {
public:
  explicit AllocatedMemory(Gpu &gpu) : gpu(gpu) {}

  /// The kernels that follow are this module's.
  void use(const optimus_emulated_code &code) {
    globals = {code.globals, code.num_globals};
  }

  void startBlock() override {
    for (const auto &global : globals)
      if (global.is_shared)
        std::memset(global.begin, 0xFF, global.bytes); // NaN
  }

  std::string access(const void *address, size_t bytes, bool isWrite,
                     size_t alignment,
                     const emulator::ThreadClock &clock) override {
    const char *wrong = nullptr;
    if (reinterpret_cast<uintptr_t>(address) % alignment != 0)
      wrong = "where they are not aligned";
    else if (gpu.memory.isVisible(address, int64_t(bytes)))
      gpu.accesses.add(address, bytes, isWrite);
    else
      wrong = findInGlobals(address, bytes, isWrite);
    return wrong ? concat(describe(clock), isWrite ? " writes " : " reads ",
                          bytes, " bytes ", wrong)
                 : std::string();
  }

private:
  const char *findInGlobals(const void *address, size_t bytes,
                            bool isWrite) const {
    const auto *place = static_cast<const char *>(address);
    for (const auto &global : globals) {
      const auto *begin = static_cast<const char *>(global.begin);
      if (place >= begin && place + bytes <= begin + global.bytes)
        return isWrite && !global.is_shared ? "of a table" : nullptr;
    }
    return "that are not allocated";
  }

  Gpu &gpu;
  std::span<const optimus_emulated_global> globals;
};

/// A launch whose turn has come.
Result runBlocks(Gpu &gpu, Function function, unsigned numBlocks,
                 std::vector<uint64_t> words) {
  const optimus_emulated_kernel &kernel = *function->kernel;
  std::vector<void *> parameters;
  for (uint64_t &word : words) {
    auto *address = reinterpret_cast<void *>(word);
    if (gpu.memory.isHidden(address)) {
      void *visible = gpu.resolve(word, kernel.name);
      if (!visible)
        return gpu.failed;
      word = reinterpret_cast<uint64_t>(visible);
    }
    parameters.push_back(&word);
  }
  // A block keeps the stacks of its threads.
  static auto &check = *new AllocatedMemory(gpu);
  static auto &block = *new emulator::EmulatedBlock(check);
  check.use(*function->module->code);
  constexpr emulator::Order orders[] = {emulator::Order::Forward,
                                        emulator::Order::Backward,
                                        emulator::Order::Random};
  const emulator::Order order = orders[gpu.draw() % std::size(orders)];
  std::vector<int32_t> turns(numBlocks);
  std::iota(turns.begin(), turns.end(), 0);
  for (size_t i = turns.size(); i > 1; --i)
    std::swap(turns[i - 1], turns[gpu.draw() % i]);
  for (int32_t number : turns)
    if (std::string problem =
            block.run(number, int32_t(numBlocks), int32_t(kernel.block_threads),
                      order, [&] { kernel.run(parameters.data()); });
        !problem.empty())
      return gpu.fail(kIllegalAddress, concat(kernel.name, ": ", problem));
  return kSuccess;
}
} // namespace

Result cuLaunchKernel(Function function, unsigned gridX, unsigned gridY,
                      unsigned gridZ, unsigned blockX, unsigned blockY,
                      unsigned blockZ, unsigned sharedBytes, Stream stream,
                      void **params, void **extra) {
  Gpu &gpu = Gpu::get();
  std::lock_guard lock(gpu.mutex);
  if (gridX == 0 || gridX > INT32_MAX || gridY != 1 || gridZ != 1 ||
      blockY != 1 || blockZ != 1 || sharedBytes != 0 || extra)
    return gpu.refuse(kInvalidValue, "a grid that cannot be launched");
  if (blockX != function->kernel->block_threads)
    return gpu.refuse(kInvalidValue,
                      concat(function->kernel->name, " is compiled for ",
                             function->kernel->block_threads,
                             " threads; found ", blockX));
  if (Result result = load(gpu, function))
    return result;
  std::vector<uint64_t> words(function->kernel->num_parameters);
  for (size_t i = 0; i != words.size(); ++i)
    std::memcpy(&words[i], params[i], sizeof(words[i]));
  ++gpu.counts.launches;
  auto work = [&gpu, function, gridX, words = std::move(words)] {
    return runBlocks(gpu, function, gridX, words);
  };
  return gpu.put(stream, function->kernel->name, std::move(work));
}
