//===- PathUseTest.cpp - Outputs that are not inputs ----------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/PathUse.h"

#include "FolderTest.h"

#include <fcntl.h>
#include <unistd.h>
#include <vector>

using namespace optimus_support;

namespace {

class PathUseTest : public FolderTest {
protected:
  /// The message, or "" if they are apart.
  static std::string check(std::vector<PathUse> inputs,
                           std::vector<PathUse> outputs) {
    Status status = checkOutputsApart(inputs, outputs);
    EXPECT_TRUE(status.ok() || status.code() == StatusCode::InvalidArgument);
    return status.message();
  }
};

TEST_F(PathUseTest, FindsOneFileUnderTwoNames) {
  std::string data = put("data.txt", "text");
  std::filesystem::create_symlink("data.txt", at("link"));
  std::filesystem::create_hard_link(data, at("hard"));
  std::filesystem::create_directory(at("folder"));
  for (std::string name :
       {data, at("link"), at("hard"), at("folder/../data.txt")})
    EXPECT_EQ(check({{"--data", data}}, {{"--log-json", name}}),
              concat("--log-json '", name, "' is the same file as --data '",
                     data,
                     "', which would be overwritten; give it another name"));
  EXPECT_EQ(check({{"--data", data}}, {{"--log-json", at("log")}}), "");
  EXPECT_EQ(check({{"--data", data}}, {{"--log-json", ""}}), "");
}

TEST_F(PathUseTest, ComparesOutputsThatDoNotExist) {
  std::filesystem::create_directory(at("folder"));
  std::string message =
      check({}, {{"--log-json", at("new")}, {"--save", at("folder/../new")}});
  EXPECT_EQ(message, concat("--log-json and --save are the same file, '",
                            at("new"), "'; give each a name of its own"));
  EXPECT_EQ(check({}, {{"-o", at("a")}, {"--report", at("b")}}), "");
}

TEST_F(PathUseTest, DevicesMayBeBoth) {
  EXPECT_EQ(check({{"--data", "/dev/null"}},
                  {{"-o", "/dev/null"}, {"--log", "/dev/null"}}),
            "");
}

TEST_F(PathUseTest, NothingIsWrittenIntoAWholeFolder) {
  std::filesystem::create_directories(at("old/deep"));
  PathUse load{"--load", at("old"), true}, save{"--save", at("new"), true};
  // Going on with a checkpoint replaces it.
  EXPECT_EQ(check({load}, {{"--save", at("old"), true}}), "");
  // The loader reports a missing checkpoint.
  EXPECT_EQ(check({{"--load", at("new"), true}}, {save}), "");
  EXPECT_NE(
      check({load}, {{"--log-json", at("old/log")}}).find("lies in --load"),
      std::string::npos);
  EXPECT_NE(check({load}, {{"--log-json", at("old/deep/log")}})
                .find("lies in --load"),
            std::string::npos);
  EXPECT_NE(
      check({}, {save, {"--log-json", at("new/log")}}).find("lies in --save"),
      std::string::npos);
  EXPECT_EQ(check({load}, {save, {"--log-json", at("newer")}}), "");
  // Other folders only hold things.
  EXPECT_EQ(check({{"--inputs", at("old")}}, {{"--outputs", at("old")}}), "");
  EXPECT_EQ(check({}, {{"--dump", at("old")}, {"-o", at("old/out")}}), "");
}

TEST_F(PathUseTest, KnowsWhatStandardInputIs) {
  std::string path = put("program", "text");
  int saved = dup(STDIN_FILENO), file = open(path.c_str(), O_RDONLY);
  dup2(file, STDIN_FILENO);
  std::string message = check({{"the program", "-"}}, {{"-o", path}});
  dup2(saved, STDIN_FILENO);
  close(saved);
  close(file);
  EXPECT_NE(message.find("is the same file"), std::string::npos) << message;
}

} // namespace
