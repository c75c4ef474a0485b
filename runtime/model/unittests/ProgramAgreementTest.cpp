//===- ProgramAgreementTest.cpp - That tables go with a manifest ----------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "model/ProgramAgreement.h"

#include "optimus-runtime/ModelLibrary.h"

#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace optrt;
using namespace optimus_support::program;
using testing::HasSubstr;

namespace {

/// The model written by hand, whose sequences are bent.
class SequenceBindings : public testing::Test {
protected:
  void SetUp() override {
    auto opened = ModelLibrary::open(OPTIMUS_TOY2);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    library = std::move(opened).value();
    programs = std::make_unique<ProgramsT>(library->programs());
    table().sequences.clear();
  }
  ProgramTableT &table() { return *programs->targets.front()->tables.front(); }

  /// A call of a function with one argument bound.
  Status bind(const std::string &function, uint32_t argument,
              const std::string &buffer) {
    auto binding = std::make_unique<BindingT>();
    binding->argument = argument;
    binding->buffers = {buffer};
    auto &sequence = addSequence(table(), "bent", {{function, 1}});
    sequence.steps.front()->kind.AsCall()->bindings.push_back(
        std::move(binding));
    return checkAgreement(library->manifest(), *programs,
                          *findTarget(*programs, "cpu"));
  }

  std::unique_ptr<ModelLibrary> library;
  std::unique_ptr<ProgramsT> programs;
};

TEST_F(SequenceBindings, AreToBuffersThatThereAre) {
  EXPECT_THAT(bind("eval_step", 0, "table.gain").message(),
              HasSubstr("sequence bent: binds argument 0 of eval_step to "
                        "\"table.gain\"; expected a buffer of 131072 bytes of "
                        "f32 in the same memory, as \"table.weight\" is"));
}

TEST_F(SequenceBindings, AreOfOneSizeAndType) {
  EXPECT_TRUE(bind("eval_step", 0, "exp_avg:table.weight").ok());
  EXPECT_THAT(bind("eval_step", 0, "table.bias").message(),
              HasSubstr("to \"table.bias\"; expected a buffer of"));
}

TEST_F(SequenceBindings, PassNothingTwiceThatIsWritten) {
  // It only reads both.
  EXPECT_TRUE(bind("eval_step", 0, "table.weight").ok());
  EXPECT_EQ(bind("train_step", 2, "table.weight").message(),
            "sequence bent: passes \"table.weight\" to train_step as arguments "
            "0 and 2, one of which it writes");
}

/// Tables name what they are passed.
class Arguments : public SequenceBindings {
protected:
  optrt::Function &described(const char *name) {
    return const_cast<optrt::Function &>(*manifest.findFunction(name));
  }
  Status join() {
    return joinArguments(manifest, *findTarget(*programs, "cpu"));
  }
  void SetUp() override {
    SequenceBindings::SetUp();
    manifest = library->manifest();
  }
  Manifest manifest;
};

TEST_F(Arguments, AreJoinedByTheNamesOfBuffers) {
  const std::vector<Arg> before = described("train_step").args;
  std::reverse(described("train_step").args.begin(),
               described("train_step").args.end());
  ASSERT_TRUE(join().ok()) << join().message();
  const std::vector<Arg> &after = described("train_step").args;
  ASSERT_EQ(after.size(), before.size());
  for (std::size_t i = 0; i != after.size(); ++i)
    EXPECT_EQ(after[i].buffer, before[i].buffer);
  EXPECT_TRUE(
      checkAgreement(manifest, *programs, *findTarget(*programs, "cpu")).ok());
}

TEST_F(Arguments, AreTheSameInBoth) {
  auto &arguments =
      const_cast<FunctionT *>(
          findFunction(*programs->targets.front()->tables.front(), "eval_step"))
          ->arguments;
  arguments[1]->buffer = "table.gain";
  EXPECT_EQ(join().message(), "eval_step: argument 1 is the buffer "
                              "\"table.gain\" in the table, and none of the "
                              "manifest's");
  arguments[1]->buffer = "table.weight";
  EXPECT_EQ(join().message(),
            "eval_step: two arguments are one buffer in the table");
  arguments.pop_back();
  EXPECT_THAT(join().message(),
              HasSubstr("arguments of the manifest in the table, found"));
}

/// Where functions say that their buffers lie.
class Spaces : public SequenceBindings {
protected:
  FunctionT &function(const char *name) {
    return *const_cast<FunctionT *>(
        findFunction(*programs->targets.front()->tables.front(), name));
  }
  Status check() {
    return checkAgreement(library->manifest(), *programs,
                          *findTarget(*programs, "cpu"));
  }
};

TEST_F(Spaces, AreThoseOfEveryFunction) {
  ASSERT_TRUE(check().ok());
  function("train_step").arguments[0]->space = MemorySpace::File;
  EXPECT_THAT(check().message(),
              HasSubstr("argument 0, \"table.weight\", lies in memory space "));
  const auto &table = *programs->targets.front()->tables.front();
  EXPECT_EQ(spacesOf(library->manifest(),
                     table)[*library->manifest().findBuffer("table.weight")],
            MemorySpace::File);
}

TEST_F(Spaces, HaveOneArenaEachInOrder) {
  auto &arenas = function("train_step").arenas;
  auto host = std::make_unique<ArenaT>();
  host->space = MemorySpace::Host;
  arenas.push_back(std::move(host));
  EXPECT_TRUE(check().ok()) << check().message();
  arenas.back()->space = MemorySpace::Device;
  EXPECT_THAT(
      check().message(),
      HasSubstr("train_step: arena 1 is of memory space 0; expected the "
                "device's first and one a space, in order"));
  arenas.front()->space = MemorySpace::File;
  EXPECT_THAT(check().message(), HasSubstr("arena 0 is of memory space 2"));
}

} // namespace
