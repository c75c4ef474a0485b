//===- SessionTest.cpp - What a session fills and reads -------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-runtime/Session.h"

#include <gmock/gmock.h>

using namespace optrt;
using testing::HasSubstr;

/// A session of a model written by hand, on a mesh of two ranks.
class SessionTest : public testing::Test {
protected:
  void open(std::vector<std::string> functions) {
    auto opened = ModelLibrary::open(OPTIMUS_TOY2);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    library = std::move(opened).value();
    world = createLocalWorld();
    SessionOptions options;
    options.functions = std::move(functions);
    options.threadsPerRank = 1;
    auto made = Session::create(*library, world, options);
    ASSERT_TRUE(made.ok()) << made.status().message();
    session = std::move(made).value();
  }

  /// Row r of the batch is r, r + 1, …; targets follow.
  Status fill() {
    return session->fill([&](int64_t begin, int64_t count, int32_t *tokens,
                             int32_t *targets) {
      const int64_t sequence = session->manifest().sequence;
      for (int64_t i = 0; i != count * sequence; ++i) {
        tokens[i] = static_cast<int32_t>(begin + i / sequence + i % sequence);
        targets[i] = tokens[i] + 1;
      }
      return okStatus();
    });
  }

  void setScalars() {
    for (const char *name : {"lr", "weight_decay", "clip", "beta1", "beta2",
                             "epsilon", "beta1_power"})
      session->setScalar(name, 0.5f);
  }

  std::unique_ptr<ModelLibrary> library;
  World world;
  std::unique_ptr<Session> session;
};

TEST_F(SessionTest, GathersAnyBufferByName) {
  open({"grad_step"});
  ASSERT_TRUE(session->initialize(7).ok());
  ASSERT_TRUE(fill().ok());
  auto outputs = session->run("grad_step");
  ASSERT_TRUE(outputs.ok()) << outputs.status().message();
  EXPECT_EQ(outputs->realCount(), 32);
  EXPECT_EQ(outputs->get("real_count"), 32);
  // A function that is not chosen writes it.
  EXPECT_EQ(outputs->gradNorm(), 0);

  auto gradient = session->gather("grad:table.bias");
  ASSERT_TRUE(gradient.ok()) << gradient.status().message();
  ASSERT_EQ(gradient->size(), 256u);
  // No target is 200, so that its logits' probabilities are all there is.
  EXPECT_GT((*gradient)[200], 0);
  EXPECT_LT((*gradient)[3], 0);
  auto weights = session->gather("table.weight");
  ASSERT_TRUE(weights.ok()) << weights.status().message();
  EXPECT_EQ(weights->size(), 256u * 256u);
  EXPECT_NE((*weights)[0], 0);

  auto expectRefused = [&](const char *name, const char *message) {
    auto gathered = session->gather(name);
    ASSERT_FALSE(gathered.ok());
    EXPECT_EQ(gathered.status().code(), StatusCode::InvalidArgument);
    EXPECT_THAT(gathered.status().message(), HasSubstr(message));
  };
  expectRefused("tokens", "cannot be gathered: expected f32 that is complete, "
                          "found i32");
  expectRefused("exp_avg:table.bias", "no chosen function of");
  expectRefused("logits", "has the buffer \"logits\"");
}

TEST_F(SessionTest, RunsNothingBeforeWhatItReadsIsThere) {
  open({"train_step"});
  ASSERT_TRUE(session->initialize(7).ok());
  auto expectMissing = [&](const char *message) {
    auto outputs = session->run("train_step");
    ASSERT_FALSE(outputs.ok());
    EXPECT_EQ(outputs.status().code(), StatusCode::InvalidArgument);
    EXPECT_THAT(outputs.status().message(), HasSubstr(message));
    EXPECT_TRUE(session->canGoOn());
  };
  expectMissing(
      "train_step reads \"tokens\", which the data must fill, and nothing has");
  ASSERT_TRUE(fill().ok());
  setScalars();
  // What it does not take is no concern of the caller's.
  session->setScalar("momentum", 0.5f);
  session->setScalar("tokens", 0.5f);
  session->setScalar("loss_sum", 0.5f);
  expectMissing("train_step reads \"beta2_power\", which the host must fill");
  session->setScalar("beta2_power", 0.5f);
  auto outputs = session->run("train_step");
  ASSERT_TRUE(outputs.ok()) << outputs.status().message();
  EXPECT_GT(outputs->gradNorm(), 0);
}

TEST_F(SessionTest, HoldsWhatItsFunctionsUse) {
  open({"eval_step"});
  RankMemory memory = session->largestRankMemory();
  // 128 rows of the table and the bias, two rows of tokens and of targets, and
  // two numbers.
  EXPECT_EQ(memory.parameters, (128 * 256 + 256) * 4);
  EXPECT_EQ(memory.moments, 0);
  EXPECT_EQ(memory.gradients, 0);
  EXPECT_EQ(memory.inputs, 2 * (2 * 8 * 4) + 2 * 64);
  open({"train_step"});
  EXPECT_EQ(session->largestRankMemory().moments, 2 * memory.parameters);
  open({"grad_step"});
  EXPECT_EQ(session->largestRankMemory().gradients, memory.parameters);
}
