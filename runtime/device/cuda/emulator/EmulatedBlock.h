//===- EmulatedBlock.h - The threads of a block as fibers ----* -*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_DEVICE_CUDA_EMULATOR_EMULATEDBLOCK_H
#define OPTIMUS_RUNTIME_DEVICE_CUDA_EMULATOR_EMULATEDBLOCK_H

#include "AccessCheck.h"
#include "Fiber.h"

#include <deque>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace optrt::emulator {

/// In which order the threads of a block run, each until it waits.
enum class Order { Forward, Backward, Random };

/// Runs blocks one after the other. The calls of a kernel reach the one that
/// runs now.
class EmulatedBlock {
public:
  explicit EmulatedBlock(AccessCheck &check) : check(check) {}

  /// Runs `kernel` in each thread of a block; returns what went wrong, or
  /// nothing.
  std::string run(int32_t block, int32_t numBlocks, int32_t numThreads,
                  Order order, const std::function<void()> &kernel);

  // -- What a kernel calls ----------------------------------------------------

  static EmulatedBlock &getCurrent() { return *current; }
  int32_t getThread() const { return running->clock.thread; }
  int32_t getBlockIndex() const { return running->clock.block; }
  int32_t getNumBlocks() const { return numBlocks; }
  void access(const void *address, size_t bytes, bool isWrite,
              size_t alignment);
  void waitForBlock();
  void waitForWarp(uint32_t mask);
  /// The value of the thread whose number in the warp differs in these bits.
  uint32_t exchange(uint32_t mask, uint32_t value, uint32_t bits,
                    uint32_t clamp);
  /// The thread's part of a product of the whole warp: see emulator_abi.h.
  void multiply(const uint32_t *words, float *result);
  /// The thread's part of a load of the whole warp.
  void loadMatrices(const void *row, bool isTransposed, uint32_t *words);
  /// A copy that goes on while the thread does, until it waits.
  struct Copy {
    void *to;
    const void *from;
    size_t bytes;
    size_t some; ///< of the bytes; the rest become zeros
  };
  void beginCopy(const Copy &copy);
  void commitCopies();
  /// Until at most so many groups of copies are left.
  void waitForCopies(size_t groups);

private:
  enum class State { Ready, Block, Warp, Exchange, Product, Matrices, Done };
  struct Thread {
    State state = State::Ready;
    ThreadClock clock;
    uint32_t mask = 0, value = 0, bits = 0, clamp = 0;
    const uint32_t *words = nullptr;
    float *result = nullptr;
    const void *row = nullptr;
    uint32_t *matrices = nullptr;
    /// Copies without a group, and the groups that have not arrived.
    std::vector<Copy> copies;
    std::deque<std::vector<Copy>> groups;
  };
  /// What a fiber does: the threads of its number, of block after block.
  static void serve();
  std::string runThreads(Order order);
  void wait(State state);
  void fail(std::string message);
  bool releaseBlock();
  bool releaseWarps();
  /// Whether all threads that one waits for wait for it.
  bool isComplete(size_t first, const Thread &thread);
  void release(size_t first, uint32_t mask);
  /// The product of the warp that begins with this thread.
  void multiplyWarp(size_t first);
  void loadMatricesOfWarp(size_t first);

  static EmulatedBlock *current;
  AccessCheck &check;
  std::mt19937 generator{3};
  const std::function<void()> *kernel = nullptr;
  int32_t numBlocks = 1;
  std::vector<Thread> threads;
  /// Those of the threads, and whose turn it is in between.
  std::deque<Fiber> fibers;
  Fiber scheduler;
  Thread *running = nullptr;
  std::string problem;
};

} // namespace optrt::emulator

#endif // OPTIMUS_RUNTIME_DEVICE_CUDA_EMULATOR_EMULATEDBLOCK_H
