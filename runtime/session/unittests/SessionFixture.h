//===- SessionFixture.h - A session of a model by hand ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_SESSION_UNITTESTS_SESSIONFIXTURE_H
#define OPTIMUS_RUNTIME_SESSION_UNITTESTS_SESSIONFIXTURE_H

#include "optimus-runtime/Session.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <unistd.h>

namespace optrt {

/// A session of a model written by hand, on a mesh of two ranks.
class SessionTest : public testing::Test {
protected:
  void open(std::vector<std::string> functions,
            std::vector<std::string> sequences = {},
            std::function<CommandObserver *(const Rank &)> observe = {},
            const char *path = OPTIMUS_TOY2) {
    // The library and the world outlive their session.
    session.reset();
    auto opened = ModelLibrary::open(path);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    library = std::move(opened).value();
    world = createLocalWorld();
    SessionOptions options;
    options.functions = std::move(functions);
    options.sequences = std::move(sequences);
    options.threadsPerRank = 1;
    options.observe = std::move(observe);
    auto made = Session::create(*library, world, options);
    ASSERT_TRUE(made.ok()) << made.status().message();
    session = std::move(made).value();
  }

  /// Row r of batch b is b + r, b + r + 1, …; targets follow.
  Session::FillRows rowsOf(int number) const {
    return [this, number](int64_t begin, int64_t count, int32_t *tokens,
                          int32_t *targets) {
      const int64_t sequence = session->manifest().sequence;
      for (int64_t i = 0; i != count * sequence; ++i) {
        tokens[i] =
            static_cast<int32_t>(number + begin + i / sequence + i % sequence);
        targets[i] = tokens[i] + 1;
      }
      return okStatus();
    };
  }
  Status fill(int number = 0) { return session->fill(rowsOf(number)); }

  /// The inputs of so many calls: batches 0, 1, …
  std::vector<CallInputs> inputs(int count) const {
    std::vector<CallInputs> all(count);
    for (int number = 0; number != count; ++number)
      EXPECT_TRUE(session->read(rowsOf(number), all[number].batch).ok());
    return all;
  }
  StatusOr<StepOutputs> runSequence(const char *name, int64_t times,
                                    int numBatches) {
    const std::vector<CallInputs> batches = inputs(numBatches);
    OPTRT_RETURN_IF_ERROR(session->submitSequence(name, times, batches));
    return session->collect();
  }

  void setScalars() {
    for (const char *name : {"lr", "weight_decay", "clip", "beta1", "beta2",
                             "epsilon", "beta1_power"})
      session->setScalar(name, 0.5f);
  }

  /// A folder of this test's own that is not there yet.
  static std::string folder(const std::string &name) {
    const auto *test = testing::UnitTest::GetInstance()->current_test_info();
    std::string path = concat(testing::TempDir(), "optimus-session-",
                              test->name(), "-", getpid(), "-", name);
    std::filesystem::remove_all(path);
    return path;
  }
  static std::string bytesOf(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static TrainingState stateOf(int64_t step) {
    TrainingState state;
    state.step = step;
    state.order = "sequential";
    return state;
  }

  std::unique_ptr<ModelLibrary> library;
  World world;
  std::unique_ptr<Session> session;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_SESSION_UNITTESTS_SESSIONFIXTURE_H
