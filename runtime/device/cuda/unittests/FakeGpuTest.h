//===- FakeGpuTest.h - Tests of the device on a fake GPU --------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_DEVICE_CUDA_UNITTESTS_FAKEGPUTEST_H
#define OPTIMUS_RUNTIME_DEVICE_CUDA_UNITTESTS_FAKEGPUTEST_H

#include "CudaDevice.h"
#include "FakeGpu.h"

#include <cstdlib>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <iterator>
#include <string>
#include <vector>

/// While it lives, the device has this bug of fake/SeededBugs.cpp.
struct SeededBug {
  explicit SeededBug(const char *bug) { setenv("OPTIMUS_SEEDED_BUG", bug, 1); }
  ~SeededBug() { unsetenv("OPTIMUS_SEEDED_BUG"); }
  SeededBug(const SeededBug &) = delete;
};

/// A device on the fake driver, whose turns are those of a seed.
class FakeGpuTest : public testing::Test {
protected:
  using CudaDevice = optrt::cuda::CudaDevice;

  FakeGpuTest() {
    setenv("OPTIMUS_CUDA_DRIVER_LIBRARY", OPTIMUS_FAKE_CUDA, 1);
    setenv("OPTIMUS_CUBLASLT_LIBRARY", OPTIMUS_FAKE_CUDA, 1);
    std::ifstream file(OPTIMUS_EMULATED_TOY, std::ios::binary);
    code.assign(std::istreambuf_iterator<char>(file), {});
    image = {"emulated", code.data(), code.size()};
    start(0);
  }

  /// Another device, with `floats` floats that are 0.
  void start(uint64_t seed, int64_t floats = 16,
             optrt::DeviceOptions options = {}) {
    memory = {};
    device.reset();
    optimus_fake_gpu_reset(seed);
    auto made = CudaDevice::create();
    ASSERT_TRUE(made.ok()) << made.status().message();
    device = *std::move(made);
    ASSERT_TRUE(device->configure(options).ok());
    memory = allocate(floats * 4);
    optrt::Workload workload;
    workload.kernels = {&add, &doubleIt, &sumRows};
    workload.images = {&image, 1};
    workload.products.emplace_back();
    optrt::Status status = device->prepare(workload);
    ASSERT_TRUE(status.ok()) << status.message();
  }

  optrt::DeviceMemory allocate(int64_t bytes) {
    auto allocated = device->allocate(bytes, "a test");
    EXPECT_TRUE(allocated.ok()) << allocated.status().message();
    return allocated.ok() ? *std::move(allocated) : optrt::DeviceMemory();
  }

  optrt::Status addTo(optrt::Queue queue, void *buffer, int64_t number,
                      int64_t extent = 16) {
    void *args[] = {buffer, &number};
    return device->launch(queue, {"add", extent, 1, 1, 1}, add, args);
  }
  optrt::Status doubleAll(optrt::Queue queue, void *buffer) {
    void *args[] = {buffer};
    return device->launch(queue, {"double_it", 16, 1, 1, 0}, doubleIt, args);
  }

  /// What is at an address, once the queues are empty.
  template <typename T = float>
  std::vector<T> read(const void *address, size_t count) {
    std::vector<T> values(count);
    EXPECT_TRUE(device
                    ->read(optrt::kCompute, values.data(), address,
                           int64_t(count * sizeof(T)))
                    .ok());
    optrt::Status status = device->synchronize();
    EXPECT_TRUE(status.ok()) << status.message();
    return values;
  }
  template <typename T>
  optrt::DeviceMemory upload(const std::vector<T> &values) {
    const auto bytes = int64_t(values.size() * sizeof(T));
    optrt::DeviceMemory there = allocate(bytes);
    EXPECT_TRUE(
        device->write(optrt::kCompute, there.data(), values.data(), bytes)
            .ok());
    EXPECT_TRUE(device->synchronize().ok());
    return there;
  }

  /// That a call, or the next synchronize(), ends so.
  void expectFailure(optrt::Status status, const char *message) {
    optrt::Status later = device->synchronize();
    if (status.ok())
      status = later;
    EXPECT_THAT(status.message(), testing::HasSubstr(message));
  }

  const optimus_kernel add{"add", nullptr, 0, "add", 32, 32};
  const optimus_kernel doubleIt{"double_it", nullptr, 0, "double_it", 32, 32};
  const optimus_kernel sumRows{"sum_rows", nullptr, 0, "sum_rows", 32, 32};
  std::string code;
  optimus_image image;
  std::unique_ptr<CudaDevice> device;
  optrt::DeviceMemory memory;
};

#endif // OPTIMUS_RUNTIME_DEVICE_CUDA_UNITTESTS_FAKEGPUTEST_H
