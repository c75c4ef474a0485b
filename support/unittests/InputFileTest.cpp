//===- InputFileTest.cpp - Files that are read ----------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/InputFile.h"

#include "FolderTest.h"

#include <fcntl.h>
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

} // namespace
