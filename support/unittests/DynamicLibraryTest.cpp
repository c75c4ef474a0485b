//===- DynamicLibraryTest.cpp - Tests of libraries on demand --------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/DynamicLibrary.h"

#include <gmock/gmock.h>

#include <cstdlib>

using namespace optimus_support;
using testing::HasSubstr;
using testing::StartsWith;

static LibraryPlaces mathematics(std::vector<std::string> files) {
  return {"mathematics", "OPTIMUS_TEST_LIBRARY", std::move(files),
          "install some"};
}

TEST(DynamicLibraryTest, TheFirstThatIsThereIsTaken) {
  auto library =
      DynamicLibrary::open(mathematics({"/nowhere/libm.so", "libm.so.6"}));
  ASSERT_TRUE(library.ok()) << library.status().toString();
  double (*root)(double) = nullptr;
  ASSERT_TRUE(library->find("sqrt", root).ok());
  EXPECT_EQ(root(9), 3);
  EXPECT_EQ(library->find("sqroot", root).message(),
            "mathematics in libm.so.6 has no sqroot; install some");
  EXPECT_EQ(root(16), 4);
  EXPECT_EQ(library->refuse("is too old").message(),
            "mathematics in libm.so.6 is too old; install some");
}

TEST(DynamicLibraryTest, AllThatWereTriedAreNamed) {
  auto library =
      DynamicLibrary::open(mathematics({"/nowhere/a.so", "/nowhere/b.so"}));
  ASSERT_FALSE(library.ok());
  EXPECT_EQ(library.status().code(), StatusCode::Unavailable);
  const std::string message = library.status().message();
  EXPECT_THAT(message, StartsWith("cannot open mathematics: /nowhere/a.so"));
  EXPECT_THAT(message, HasSubstr("; /nowhere/b.so"));
  EXPECT_THAT(message, HasSubstr("; install some"));
}

TEST(DynamicLibraryTest, AVariableNamesTheOnlyOne) {
  setenv("OPTIMUS_TEST_LIBRARY", "/nowhere/mine.so", /*overwrite=*/1);
  auto library = DynamicLibrary::open(mathematics({"libm.so.6"}));
  unsetenv("OPTIMUS_TEST_LIBRARY");
  ASSERT_FALSE(library.ok());
  EXPECT_THAT(library.status().message(),
              StartsWith("cannot open mathematics: /nowhere/mine.so"));
}
