//===- ForeignCommandsTest.cpp - Commands that no processor runs ----------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "BoundProgramFixture.h"

#include <gmock/gmock.h>

using namespace optrt;
using namespace optimus_support::program;
using testing::HasSubstr;

namespace {

/// A command not for processors, and its name in the error.
struct Foreign {
  const char *name;
  const char *message;
  void (*write)(FunctionWriter &f, View memory);
};
class ForeignCommands : public BoundProgramTest,
                        public testing::WithParamInterface<Foreign> {};

TEST_P(ForeignCommands, AreRefusedByName) {
  GetParam().write(f, memory);
  auto program = bind(0);
  ASSERT_FALSE(program.ok());
  EXPECT_EQ(program.status().code(), StatusCode::Unavailable);
  EXPECT_THAT(program.status().message(), HasSubstr("command 0 ("));
  EXPECT_THAT(program.status().message(), HasSubstr(GetParam().message));
}

View bytesOf(FunctionWriter &f, View memory, program::ElementType type,
             int64_t at) {
  View view = f.at(memory, at, 16);
  view.type = type;
  return view;
}

INSTANTIATE_TEST_SUITE_P(
    All, ForeignCommands,
    testing::Values(
        Foreign{"Product", "no product of f16",
                [](FunctionWriter &f, View memory) {
                  GemmT gemm;
                  gemm.m = gemm.n = gemm.k = 4;
                  View a = bytesOf(f, memory, program::ElementType::F16, 0);
                  f.gemm(gemm, {.a = a,
                                .b = a,
                                .c = bytesOf(f, memory,
                                             program::ElementType::F16, 32)});
                }},
        Foreign{"Axes", "no collective over several mesh axes",
                [](FunctionWriter &f, View memory) {
                  f.wait(f.collective(CollectiveKind::AllReduce, {0, 1}, memory,
                                      memory));
                }}),
    [](const auto &info) { return info.param.name; });

} // namespace
