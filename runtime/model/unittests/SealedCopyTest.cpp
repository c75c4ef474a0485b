//===- SealedCopyTest.cpp - A copy of a file that stays as it is ----------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "model/SealedCopy.h"

#include "optimus-runtime/ModelLibrary.h"

#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

using namespace optrt;
using testing::HasSubstr;

namespace {

class SealedCopyTest : public testing::Test {
protected:
  void SetUp() override { write(std::string(3 << 20, 'a') + "end"); }
  void TearDown() override { std::remove(path.c_str()); }
  void write(const std::string &text) const {
    std::ofstream(path, std::ios::binary) << text;
  }
  static std::string textOf(const SealedCopy &copy) {
    return {reinterpret_cast<const char *>(copy.bytes().data()),
            copy.bytes().size()};
  }

  const std::string path =
      testing::TempDir() + "optimus-copy-" + std::to_string(getpid());
};

TEST_F(SealedCopyTest, StaysWhenTheFileIsCutShort) {
  auto copy = SealedCopy::make(path);
  ASSERT_TRUE(copy.ok()) << copy.status().message();
  std::filesystem::resize_file(path, 0);
  EXPECT_EQ(textOf(*copy), std::string(3 << 20, 'a') + "end");
}

TEST_F(SealedCopyTest, StaysWhenTheFileIsWrittenTo) {
  auto copy = SealedCopy::make(path);
  ASSERT_TRUE(copy.ok()) << copy.status().message();
  write("another");
  EXPECT_THAT(textOf(*copy), testing::StartsWith("aaa"));
}

/// Who asks for the manifest first and opens the library afterwards has one.
TEST_F(SealedCopyTest, IsOpenedAsItWas) {
  std::filesystem::copy_file(OPTIMUS_TOY2, path,
                             std::filesystem::copy_options::overwrite_existing);
  auto file = LibraryFile::copy(path);
  ASSERT_TRUE(file.ok()) << file.status().message();
  write("another");
  auto manifest = file->readManifest();
  ASSERT_TRUE(manifest.ok()) << manifest.status().message();
  auto library = ModelLibrary::open(*file);
  ASSERT_TRUE(library.ok()) << library.status().message();
  EXPECT_EQ((*library)->manifest().modelHash, manifest->modelHash);
  EXPECT_EQ((*library)->path(), path);
  EXPECT_FALSE(ModelLibrary::open(path).ok());
}

TEST_F(SealedCopyTest, CannotBeWrittenTo) {
  auto copy = SealedCopy::make(path);
  ASSERT_TRUE(copy.ok()) << copy.status().message();
  const int handle = open(copy->path().c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(handle, 0);
  EXPECT_EQ(::write(handle, "b", 1), -1);
  EXPECT_EQ(ftruncate(handle, 0), -1);
  close(handle);
  EXPECT_EQ(textOf(*copy)[0], 'a');
}

TEST_F(SealedCopyTest, HasAPathOfItsOwn) {
  auto first = SealedCopy::make(path), second = SealedCopy::make(path);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE(first->path(), second->path());
}

TEST_F(SealedCopyTest, OfAnEmptyFileIsEmpty) {
  write("");
  auto copy = SealedCopy::make(path);
  ASSERT_TRUE(copy.ok()) << copy.status().message();
  EXPECT_TRUE(copy->bytes().empty());
}

TEST_F(SealedCopyTest, OfNoFileNamesIt) {
  auto copy = SealedCopy::make(path + ".none");
  ASSERT_FALSE(copy.ok());
  EXPECT_EQ(copy.status().code(), StatusCode::InvalidArgument);
  EXPECT_THAT(copy.status().message(), HasSubstr(path + ".none"));
}

} // namespace
