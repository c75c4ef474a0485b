//===- FolderTest.h - A folder for one test ---------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_SUPPORT_UNITTESTS_FOLDERTEST_H
#define OPTIMUS_SUPPORT_UNITTESTS_FOLDERTEST_H

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

/// A test with an empty folder of its own.
class FolderTest : public testing::Test {
protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "optimus-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    // As programs see it: where /tmp is a link, too.
    folder = std::filesystem::canonical(pattern);
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  std::string at(const std::string &name) const {
    return (folder / name).string();
  }
  std::string put(const std::string &name, const std::string &text) const {
    std::ofstream(at(name), std::ios::binary) << text;
    return at(name);
  }
  static std::string read(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::set<std::string> names() const {
    std::set<std::string> all;
    for (const auto &entry : std::filesystem::directory_iterator(folder))
      all.insert(entry.path().filename());
    return all;
  }

  std::filesystem::path folder;
};

#endif // OPTIMUS_SUPPORT_UNITTESTS_FOLDERTEST_H
