//===- PagingTest.cpp - Memory in files, and copies beside computation ----===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-runtime/CpuDevice.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <sys/resource.h>

using namespace optrt;

namespace {

class PagingTest : public testing::Test {
protected:
  PagingTest() : folder(testing::TempDir()) {}

  StatusOr<DeviceMemory> allocate(int64_t bytes) {
    return device.allocateInFile(bytes, "a test", folder);
  }
  static std::vector<float> count(int64_t elements) {
    std::vector<float> numbers(elements);
    std::iota(numbers.begin(), numbers.end(), 1.0f);
    return numbers;
  }

  std::string folder;
  CpuDevice device{1};
};

/// Kilobytes of the process's own memory, as the system counts it.
int64_t ownKilobytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("RssAnon:"))
      return std::stoll(line.substr(8));
  return 0;
}

TEST_F(PagingTest, BeginsWithZerosAndKeepsWhatIsWritten) {
  auto file = allocate(40000);
  ASSERT_TRUE(file.ok()) << file.status().message();
  std::vector<float> numbers = count(10000), read(10000, -1.0f);
  ASSERT_TRUE(device.read(kCompute, read.data(), file->data(), 40000).ok());
  EXPECT_EQ(read, std::vector<float>(10000, 0.0f));
  ASSERT_TRUE(device.write(kCompute, file->data(), numbers.data(), 40000).ok());
  ASSERT_TRUE(device.read(kCompute, read.data(), file->data(), 40000).ok());
  EXPECT_EQ(read, numbers);
}

// No place of file or memory is one of a page.
TEST_F(PagingTest, LeavesWhatLiesBesideAPartAlone) {
  auto file = allocate(3 * 4096);
  ASSERT_TRUE(file.ok());
  std::vector<float> numbers = count(3 * 1024), read(3 * 1024);
  ASSERT_TRUE(
      device.write(kCompute, file->data(), numbers.data(), 3 * 4096).ok());
  const std::vector<float> part(1500, -7.0f);
  ASSERT_TRUE(
      device.write(kCompute, file->data() + 400, part.data(), 6000).ok());
  std::copy(part.begin(), part.end(), numbers.begin() + 100);
  ASSERT_TRUE(device.read(kCompute, read.data(), file->data(), 3 * 4096).ok());
  EXPECT_EQ(read, numbers);
  ASSERT_TRUE(device.clear(kCompute, file->data() + 4, 8192).ok());
  std::fill_n(numbers.begin() + 1, 2048, 0.0f);
  ASSERT_TRUE(device.read(kCompute, read.data(), file->data(), 3 * 4096).ok());
  EXPECT_EQ(read, numbers);
}

TEST_F(PagingTest, HasNoAddressForTheHost) {
  auto file = allocate(4096);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(device.hostAddress(file->data()), nullptr);
  int here = 0;
  EXPECT_EQ(device.hostAddress(&here), &here);
}

// Rows that lie apart on either side, out on one queue and back on the other.
TEST_F(PagingTest, CopiesMatricesOnQueuesThatWaitForEachOther) {
  auto file = allocate(64 * 80 * 4);
  ASSERT_TRUE(file.ok());
  const Queue out = device.queue("copies"), in = device.queue("copies2");
  EXPECT_NE(out.number, kCompute.number);
  EXPECT_NE(out.number, in.number);
  for (int round = 0; round != 50; ++round) {
    std::vector<float> from = count(64 * 100), to(64 * 48);
    from[0] = float(round);
    auto *home = reinterpret_cast<float *>(file->data());
    ASSERT_TRUE(device.copy(out, {64, 48, 100, 80, 4}, from.data(), home).ok());
    ASSERT_TRUE(device.await(in, device.record(out)).ok());
    ASSERT_TRUE(device.copy(in, {64, 48, 80, 48, 4}, home, to.data()).ok());
    ASSERT_TRUE(device.await(kCompute, device.record(in)).ok());
    for (int row = 0; row != 64; ++row)
      for (int col = 0; col != 48; ++col)
        ASSERT_EQ(to[row * 48 + col], from[row * 100 + col]);
  }
  ASSERT_TRUE(device.synchronize().ok());
  const Transfers transfers = device.takeTransfers();
  EXPECT_EQ(transfers.bytesIn, 50 * 64 * 48 * 4);
  EXPECT_EQ(transfers.bytesOut, 50 * 64 * 48 * 4);
  EXPECT_EQ(transfers.times.size(), 100u);
  EXPECT_GT(transfers.waited, 0);
  EXPECT_EQ(device.takeTransfers().bytesIn, 0);
}

TEST_F(PagingTest, TellsOfAFailedCopyOnceAndDoesNothingBehindIt) {
  auto file = allocate(4096);
  ASSERT_TRUE(file.ok());
  const Queue out = device.queue("copies");
  std::vector<float> numbers = count(2048), read(1024);
  // Beyond the end of the file.
  ASSERT_TRUE(
      device.copy(out, {1, 2048, 2048, 2048, 4}, numbers.data(), file->data())
          .ok());
  ASSERT_TRUE(
      device.copy(out, {1, 1024, 1024, 1024, 4}, numbers.data(), file->data())
          .ok());
  const Status status = device.synchronize();
  EXPECT_NE(status.message().find("touches 8192 bytes at byte 0 of a scratch "
                                  "file of 4096"),
            std::string::npos)
      << status.message();
  EXPECT_TRUE(device.synchronize().ok());
  ASSERT_TRUE(device.read(kCompute, read.data(), file->data(), 4096).ok());
  EXPECT_EQ(read, std::vector<float>(1024, 0.0f));
}

// What is written is neither this process's memory nor left behind.
TEST_F(PagingTest, TakesTheDiskAndNoMemory) {
  const auto files = [&] {
    int64_t found = 0;
    for (const auto &entry : std::filesystem::directory_iterator(folder))
      found += entry.path().filename().string().starts_with("optimus-scratch");
    return found;
  };
  const int64_t before = ownKilobytes();
  constexpr int64_t bytes = 64 << 20;
  auto file = allocate(bytes);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(files(), 0);
  auto memory = device.allocate(1 << 20, "a test");
  ASSERT_TRUE(memory.ok());
  for (int64_t done = 0; done != bytes; done += 1 << 20)
    ASSERT_TRUE(device
                    .copy(kCompute, {1, 1 << 18, 1 << 18, 1 << 18, 4},
                          memory->data(), file->data() + done)
                    .ok());
  EXPECT_LT(ownKilobytes() - before, 16 << 10);
}

TEST_F(PagingTest, SaysWhichFolderIsFullBeforeAnythingIsWritten) {
  auto file = device.allocateInFile(int64_t(1) << 50,
                                    "what a rank has offloaded", folder);
  ASSERT_FALSE(file.ok());
  EXPECT_NE(file.status().message().find(
                "cannot keep 1125899906842624 bytes for what a rank has "
                "offloaded in a scratch file in '" +
                folder + "'"),
            std::string::npos)
      << file.status().message();
  EXPECT_NE(file.status().message().find("--scratch"), std::string::npos);
  file = device.allocateInFile(4096, "a test", "/nowhere");
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.status().message(),
            "cannot make a scratch file in '/nowhere': No such file or "
            "directory; name a folder on a disk with --scratch DIR");
}

} // namespace
