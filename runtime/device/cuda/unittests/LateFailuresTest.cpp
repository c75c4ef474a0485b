//===- LateFailuresTest.cpp - Failures that a GPU tells late --------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FakeGpuTest.h"

using namespace optrt;
using testing::AllOf;
using testing::HasSubstr;

namespace {

/// A GPU with one failing operation, numbered behind the two that clear the
/// allocations.
class LateFailuresTest : public FakeGpuTest {
protected:
  ~LateFailuresTest() override {
    unsetenv("OPTIMUS_FAKE_GPU_FAULT");
    unsetenv("CUDA_LAUNCH_BLOCKING");
  }
  void startFaulty(int code, int number) {
    setenv("OPTIMUS_FAKE_GPU_FAULT", concat(code, ":", 2 + number).c_str(), 1);
    start(0);
  }
  void startBlocking(int code, int number) {
    setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
    startFaulty(code, number);
  }
  Status multiply() {
    optrt_gemm_desc desc{};
    desc.m = desc.n = desc.k = desc.lda = desc.ldb = desc.ldc = 2;
    char *x = memory.data();
    return device->gemm(kCompute, desc, x, x + 16, x + 32, nullptr, nullptr);
  }
};

TEST_F(LateFailuresTest, TheWaitTellsWithTheFunctionAndTheCode) {
  startFaulty(cuda::kIllegalAddress, 2);
  Status status = addTo(kCompute, memory.data(), 1);
  for (int i = 0; i != 2 && status.ok(); ++i)
    status = doubleAll(kCompute, memory.data());
  if (Status later = device->synchronize(); status.ok())
    status = later;
  EXPECT_EQ(status.code(), StatusCode::Internal);
  EXPECT_THAT(status.message(),
              testing::MatchesRegex(
                  "cu[A-Za-z]+: CUDA_ERROR_ILLEGAL_ADDRESS \\(double_it on "
                  "stream 0, on purpose\\)"));
  EXPECT_EQ(device->adviceOnLateFailure(),
            "run again with CUDA_LAUNCH_BLOCKING=1, which names the command");
}

TEST_F(LateFailuresTest, EachCommandTellsOfItselfWhereItIsWaitedFor) {
  for (int number : {1, 2, 3, 4, 5, 6}) {
    SCOPED_TRACE(number);
    startBlocking(cuda::kLaunchFailed, number);
    EXPECT_FALSE(device->canRecord());
    float here = 0;
    const std::pair<Status, const char *> outcomes[] = {
        {addTo(kCompute, memory.data(), 1), "add on stream 0"},
        {multiply(), "a product of 2 x 2 x 2 on stream 0"},
        {device->clear(kCompute, memory.data(), 4), "a memset on stream 0"},
        {device->copy(kCompute, {1, 1, 1, 1, 4}, memory.data(),
                      memory.data() + 4),
         "a copy on stream 0"},
        {device->write(kCompute, memory.data(), &here, 4),
         "a copy on stream 0"},
        {device->read(kCompute, &here, memory.data(), 4),
         "a copy on stream 0"}};
    for (int i = 0; i != number - 1; ++i)
      EXPECT_TRUE(outcomes[i].first.ok()) << outcomes[i].first.message();
    const auto &[status, name] = outcomes[number - 1];
    EXPECT_EQ(status.message(),
              concat("cuStreamSynchronize: CUDA_ERROR_LAUNCH_FAILED (", name,
                     ", on purpose)"));
    EXPECT_EQ(device->adviceOnLateFailure(), "");
  }
}

TEST_F(LateFailuresTest, AProductTellsWhatTheDriverTold) {
  startFaulty(cuda::kIllegalAddress, 1);
  ASSERT_TRUE(addTo(kCompute, memory.data(), 1).ok());
  EXPECT_FALSE(device->synchronize().ok());
  EXPECT_THAT(multiply().message(),
              AllOf(HasSubstr("cublasLtMatmul: CUBLAS_STATUS_EXECUTION_FAILED"),
                    HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS (add on stream 0")));
}

TEST_F(LateFailuresTest, AGpuThatIsBrokenIsNoFaultOfOurs) {
  startFaulty(cuda::kEccUncorrectable, 1);
  ASSERT_TRUE(addTo(kCompute, memory.data(), 1).ok());
  const Status status = device->synchronize();
  EXPECT_EQ(status.code(), StatusCode::Unavailable);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("CUDA_ERROR_ECC_UNCORRECTABLE"),
                    HasSubstr("the GPU is at fault, not the program")));
}

TEST_F(LateFailuresTest, RanksThatShareAGpuAreToldApart) {
  startBlocking(cuda::kLaunchFailed, 3);
  auto other = CudaDevice::create();
  ASSERT_TRUE(other.ok()) << other.status().message();
  ASSERT_TRUE(addTo(kCompute, memory.data(), 1).ok());
  ASSERT_TRUE(doubleAll(kCompute, memory.data()).ok());
  EXPECT_FALSE(doubleAll(kCompute, memory.data()).ok());
  EXPECT_FALSE((*other)->clear(kCompute, memory.data(), 4).ok());
  EXPECT_EQ(device->adviceOnLateFailure(), "");
  EXPECT_THAT((*other)->adviceOnLateFailure(),
              HasSubstr("or another rank's, which shares the GPU; run again"));
}

TEST_F(LateFailuresTest, ACallThatIsRefusedTellsOfItself) {
  void *args[] = {memory.data()};
  const optimus_kernel wide{"double_it", nullptr, 0, "double_it", 64, 32};
  Workload workload;
  workload.kernels = {&wide};
  workload.images = {&image, 1};
  ASSERT_TRUE(device->prepare(workload).ok());
  EXPECT_THAT(
      device->launch(kCompute, {"double_it", 16, 1, 1, 0}, wide, args)
          .message(),
      HasSubstr("cuLaunchKernel: CUDA_ERROR_INVALID_VALUE (double_it is "
                "compiled for 32 threads; found 64)"));
  EXPECT_EQ(device->adviceOnLateFailure(), "");
}

} // namespace
