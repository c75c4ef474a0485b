//===- InputFileTest.cpp - Files that are read ----------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/InputFile.h"

#include "FolderTest.h"

#include <chrono>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

using namespace optimus_support;

namespace {

class InputFileTest : public FolderTest {};

TEST_F(InputFileTest, ReadsAFile) {
  StatusOr<std::string> text = readInput(put("file", "text"), 4);
  ASSERT_TRUE(text.ok()) << text.status().message();
  EXPECT_EQ(*text, "text");
}

TEST_F(InputFileTest, ReadsWhatTheShellHandsOver) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_EQ(write(ends[1], "text", 4), 4);
  close(ends[1]);
  StatusOr<std::string> text = readInput(concat("/dev/fd/", ends[0]), 4);
  close(ends[0]);
  ASSERT_TRUE(text.ok()) << text.status().message();
  EXPECT_EQ(*text, "text");
}

TEST_F(InputFileTest, RefusesWhatMayNeverEnd) {
  auto expect = [](const std::string &path, const std::string &why) {
    Status status = readInput(path, 100).status();
    EXPECT_EQ(status.code(), StatusCode::InvalidArgument);
    EXPECT_NE(status.message().find(why), std::string::npos)
        << status.message();
  };
  ASSERT_EQ(mkfifo(at("pipe").c_str(), 0600), 0);
  expect(at("pipe"), "not a regular file");
  expect("/dev/zero", "not a regular file");
  expect(folder, "a folder");
  expect(at("absent"), "No such file");
  expect(put("long", std::string(101, 'x')), "more than the 100 bytes");
  int zero = open("/dev/zero", O_RDONLY);
  expect(concat("/dev/fd/", zero), "more than the 100 bytes");
  close(zero);
  expect("/dev/fd/987", "Bad file descriptor");
}

/// A file of 4000 bytes, open.
static InputFile openLong(const std::string &path) {
  auto file = InputFile::open(path, StatusCode::InvalidArgument);
  EXPECT_TRUE(file.ok()) << file.status().message();
  return file.ok() ? std::move(*file) : InputFile();
}

TEST_F(InputFileTest, AFileThatShrinksWhileItIsReadIsNamed) {
  InputFile file = openLong(put("file", std::string(4000, 'x')));
  EXPECT_TRUE(file.checkUnchanged().ok());
  std::filesystem::resize_file(at("file"), 1996);
  std::string bytes(4000, ' ');
  Status read = file.read(0, bytes.data(), bytes.size());
  EXPECT_EQ(read.code(), StatusCode::DataLoss);
  EXPECT_EQ(read.message(),
            at("file") + " changed while it was read: it ends at byte 1996, it "
                         "had 4000 bytes when it was opened");
  EXPECT_EQ(file.checkUnchanged().code(), StatusCode::DataLoss);
}

TEST_F(InputFileTest, AFileThatIsWrittenToIsNoticed) {
  InputFile file = openLong(put("file", std::string(4000, 'x')));
  // Times of files advance with the kernel's clock tick.
  std::filesystem::last_write_time(
      at("file"),
      std::filesystem::file_time_type::clock::now() + std::chrono::seconds(1));
  Status changed = file.checkUnchanged();
  EXPECT_EQ(changed.code(), StatusCode::DataLoss);
  EXPECT_NE(changed.message().find("file changed while it was read"),
            std::string::npos)
      << changed.message();
  // To delete its name is not to change it: savers replace whole folders.
  InputFile again = openLong(at("file"));
  std::filesystem::remove(at("file"));
  EXPECT_TRUE(again.checkUnchanged().ok());
}

// Linux has one regular file whose first byte cannot be read.
TEST_F(InputFileTest, WhatTheDiskSaysIsPassedOn) {
  auto file = InputFile::open("/proc/self/mem", StatusCode::InvalidArgument);
  if (!file.ok())
    GTEST_SKIP() << file.status().message();
  float value;
  Status read = file->read(0, &value, sizeof(value));
  EXPECT_EQ(read.code(), StatusCode::DataLoss);
  EXPECT_EQ(read.message(), "cannot read /proc/self/mem from byte 0 on: "
                            "Input/output error");
}

} // namespace
