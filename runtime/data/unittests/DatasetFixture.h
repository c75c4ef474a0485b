//===- DatasetFixture.h - Files of tokens for tests -------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_DATA_UNITTESTS_DATASETFIXTURE_H
#define OPTIMUS_RUNTIME_DATA_UNITTESTS_DATASETFIXTURE_H

#include "optimus-runtime/Dataset.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <unistd.h>

namespace optrt {

/// A folder of the test's own.
class DatasetTest : public testing::Test {
protected:
  void SetUp() override {
    folder = testing::TempDir() + "optimus-dataset-" +
             testing::UnitTest::GetInstance()->current_test_info()->name() +
             "-" + std::to_string(getpid());
    std::filesystem::create_directories(folder);
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  std::string write(const std::string &name, const std::string &bytes) {
    std::string path = folder + "/" + name;
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  /// A .txt of `count` tokens; token i is i * 7 % 101.
  std::string writeText(int64_t count) {
    std::string bytes;
    for (int64_t i = 0; i < count; ++i)
      bytes += char(tokenAt(i));
    return write("data.txt", bytes);
  }
  /// A .bin of `count` tokens; token i is i * 7919 % 50021.
  std::string writeBinary(int64_t count) {
    std::string bytes;
    for (int64_t i = 0; i < count; ++i) {
      int32_t token = wideTokenAt(i);
      bytes += char(token & 255);
      bytes += char(token >> 8);
    }
    return write("data.bin", bytes);
  }
  static int32_t tokenAt(int64_t i) { return i * 7 % 101; }
  static int32_t wideTokenAt(int64_t i) { return i * 7919 % 50021; }

  void expectError(const std::string &path, int64_t sequence,
                   int64_t vocabulary, const std::string &message) {
    auto dataset = Dataset::open(path, sequence, vocabulary);
    ASSERT_FALSE(dataset.ok());
    EXPECT_EQ(dataset.status().code(), StatusCode::InvalidArgument);
    EXPECT_NE(dataset.status().message().find(message), std::string::npos)
        << dataset.status().message();
    // The file is named.
    EXPECT_NE(dataset.status().message().find(path), std::string::npos)
        << dataset.status().message();
  }

  /// In windows of four tokens, as they lie.
  static StatusOr<std::unique_ptr<Dataset>>
  openBin(const std::string &path, int64_t vocabulary,
          std::optional<TokenType> type = std::nullopt) {
    return Dataset::open(path, 4, vocabulary, DataOrder::Sequential, 0,
                         std::nullopt, type);
  }

  std::string folder;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_DATA_UNITTESTS_DATASETFIXTURE_H
