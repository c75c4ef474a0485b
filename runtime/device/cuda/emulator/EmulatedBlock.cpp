//===- EmulatedBlock.cpp - The threads of a block as fibers --* -*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "EmulatedBlock.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

using namespace optrt::emulator;

EmulatedBlock *EmulatedBlock::current = nullptr;

void EmulatedBlock::serve() {
  for (;;) {
    (*current->kernel)();
    const Thread &thread = *current->running;
    if (!thread.copies.empty() || !thread.groups.empty())
      current->fail(describe(thread.clock) +
                    " ends, and has not waited for its copies");
    current->wait(State::Done);
  }
}

void EmulatedBlock::wait(State state) {
  running->state = state;
  fibers[running->clock.thread].switchTo(scheduler);
}

// The thread does not go on: the kernel is over.
void EmulatedBlock::fail(std::string message) {
  problem = std::move(message);
  wait(State::Done);
}

void EmulatedBlock::access(const void *address, size_t bytes, bool isWrite,
                           size_t alignment) {
  std::string wrong =
      check.access(address, bytes, isWrite, alignment, running->clock);
  if (!wrong.empty())
    fail(std::move(wrong));
}

void EmulatedBlock::waitForBlock() { wait(State::Block); }

void EmulatedBlock::waitForWarp(uint32_t mask) {
  running->mask = mask;
  running->bits = 0;
  wait(State::Warp);
}

uint32_t EmulatedBlock::exchange(uint32_t mask, uint32_t value, uint32_t bits,
                                 uint32_t clamp) {
  Thread &thread = *running;
  thread.mask = mask;
  thread.value = value;
  thread.bits = bits;
  thread.clamp = clamp;
  wait(State::Exchange);
  return thread.value;
}

void EmulatedBlock::multiply(const uint32_t *words, float *result) {
  running->mask = ~0u;
  running->bits = 0;
  running->words = words;
  running->result = result;
  wait(State::Product);
}

void EmulatedBlock::loadMatrices(const void *row, bool isTransposed,
                                 uint32_t *words) {
  access(row, kWarp / 2, /*isWrite=*/false, kWarp / 2);
  running->mask = ~0u;
  running->bits = isTransposed;
  running->row = row;
  running->matrices = words;
  wait(State::Matrices);
}

void EmulatedBlock::beginCopy(const Copy &copy) {
  if (copy.some > 0)
    access(copy.from, copy.some, /*isWrite=*/false, copy.bytes);
  std::string wrong = check.beginCopy(copy.to, copy.bytes, running->clock);
  if (!wrong.empty())
    fail(std::move(wrong));
  std::memset(copy.to, 0xFF, copy.bytes); // NaN
  running->copies.push_back(copy);
}

void EmulatedBlock::commitCopies() {
  running->groups.push_back(std::move(running->copies));
  running->copies.clear();
}

void EmulatedBlock::waitForCopies(size_t groups) {
  for (; running->groups.size() > groups; running->groups.pop_front())
    for (const Copy &copy : running->groups.front()) {
      if (copy.some > 0)
        access(copy.from, copy.some, /*isWrite=*/false, copy.bytes);
      std::string wrong = check.endCopy(copy.to, copy.bytes, running->clock);
      if (!wrong.empty())
        fail(std::move(wrong));
      std::memset(copy.to, 0, copy.bytes);
      std::memcpy(copy.to, copy.from, copy.some);
    }
}

bool EmulatedBlock::releaseBlock() {
  auto count = [&](State state) {
    return std::count_if(
        threads.begin(), threads.end(),
        [&](const Thread &thread) { return thread.state == state; });
  };
  size_t waiting = count(State::Block);
  if (waiting > 0 && count(State::Done) > 0) {
    problem = "a thread is done while others of its block wait at a barrier";
    return false;
  }
  if (waiting < threads.size())
    return false;
  for (Thread &thread : threads) {
    thread.state = State::Ready;
    ++thread.clock.barriers;
  }
  return true;
}

bool EmulatedBlock::isComplete(size_t first, const Thread &thread) {
  for (size_t lane = 0; lane < kWarp; ++lane) {
    if (!(thread.mask >> lane & 1))
      continue;
    if (first + lane >= threads.size())
      return false;
    const Thread &other = threads[first + lane];
    if (other.state != thread.state || other.mask != thread.mask ||
        other.bits != thread.bits)
      return false;
  }
  return true;
}

// A thread has pairs of neighbours in two rows of a, eight apart, and in one
// column of b; and of c the same rows of two columns.
void EmulatedBlock::multiplyWarp(size_t first) {
  constexpr size_t kRows = 16, kCols = 8, kDepth = 16, kMembers = 4;
  float a[kRows][kDepth], b[kDepth][kCols];
  auto unpack = [](uint32_t word, float &low, float &high) {
    low = std::bit_cast<float>(word << 16);
    high = std::bit_cast<float>(word & 0xFFFF0000);
  };
  for (size_t lane = 0; lane < kWarp; ++lane) {
    const uint32_t *words = threads[first + lane].words;
    size_t row = lane / kMembers, pair = lane % kMembers * 2;
    for (size_t part : {0, 8}) {
      float *at = &a[row][pair + part], *below = &a[row + 8][pair + part];
      const uint32_t *own = words + part / 4;
      unpack(own[0], at[0], at[1]);
      unpack(own[1], below[0], below[1]);
      unpack(words[4 + part / 8], b[pair + part][row], b[pair + part + 1][row]);
    }
  }
  for (size_t lane = 0; lane < kWarp; ++lane) {
    Thread &thread = threads[first + lane];
    for (size_t part = 0; part < 4; ++part) {
      size_t row = lane / kMembers + part / 2 * 8,
             column = lane % kMembers * 2 + part % 2;
      double sum = std::bit_cast<float>(thread.words[6 + part]);
      for (size_t i = 0; i < kDepth; ++i)
        sum += static_cast<double>(a[row][i]) * b[i][column];
      thread.result[part] = static_cast<float>(sum);
    }
  }
}

// Eight threads have the rows of a matrix, and all have a pair of each.
void EmulatedBlock::loadMatricesOfWarp(size_t first) {
  constexpr size_t kRows = 8, kMatrices = 4, kMembers = 4;
  for (size_t matrix = 0; matrix < kMatrices; ++matrix) {
    uint16_t elements[kRows][kRows];
    for (size_t row = 0; row < kRows; ++row)
      std::memcpy(elements[row], threads[first + matrix * kRows + row].row,
                  sizeof elements[row]);
    for (size_t lane = 0; lane < kWarp; ++lane) {
      const Thread &thread = threads[first + lane];
      size_t row = lane / kMembers, pair = lane % kMembers * 2;
      bool isTransposed = thread.bits != 0;
      uint32_t low = isTransposed ? elements[pair][row] : elements[row][pair];
      uint32_t high =
          isTransposed ? elements[pair + 1][row] : elements[row][pair + 1];
      thread.matrices[matrix] = low | high << 16;
    }
  }
}

void EmulatedBlock::release(size_t first, uint32_t mask) {
  if (threads[first].state == State::Product && mask == ~0u)
    multiplyWarp(first);
  if (threads[first].state == State::Matrices && mask == ~0u)
    loadMatricesOfWarp(first);
  uint32_t given[kWarp] = {};
  for (size_t lane = 0; lane < std::min(kWarp, threads.size() - first); ++lane)
    given[lane] = threads[first + lane].value;
  for (size_t lane = 0; lane < kWarp; ++lane) {
    if (!(mask >> lane & 1))
      continue;
    Thread &thread = threads[first + lane];
    if (thread.state == State::Warp) {
      ++thread.clock.syncs;
      thread.clock.syncMask = mask;
    } else if (size_t from = lane ^ thread.bits;
               thread.state == State::Exchange && from <= thread.clamp) {
      if (!(mask >> from & 1))
        problem = "a thread is given the value of one that does not take part";
      thread.value = given[from];
    }
    thread.state = State::Ready;
  }
}

bool EmulatedBlock::releaseWarps() {
  bool isReleased = false;
  for (size_t i = 0; i < threads.size(); ++i) {
    const Thread &thread = threads[i];
    if (thread.state != State::Warp && thread.state != State::Exchange &&
        thread.state != State::Product && thread.state != State::Matrices)
      continue;
    size_t first = i / kWarp * kWarp;
    if (!(thread.mask >> (i - first) & 1)) {
      problem = "a thread waits for others of its warp, not for itself";
      return false;
    }
    if (!isComplete(first, thread))
      continue;
    release(first, thread.mask);
    isReleased = true;
  }
  return isReleased;
}

std::string EmulatedBlock::run(int32_t block, int32_t blocks,
                               int32_t numThreads, Order order,
                               const std::function<void()> &body) {
  current = this;
  kernel = &body;
  numBlocks = blocks;
  problem.clear();
  check.startBlock();
  threads.assign(numThreads, {});
  for (int32_t i = 0; i < numThreads; ++i) {
    threads[i].clock.block = block;
    threads[i].clock.thread = i;
  }
  while (fibers.size() < threads.size())
    fibers.emplace_back(&EmulatedBlock::serve);
  std::string wrong = runThreads(order);
  // Some are in the midst of the kernel, and begin no other.
  if (!wrong.empty())
    fibers.clear();
  return wrong;
}

std::string EmulatedBlock::runThreads(Order order) {
  std::vector<size_t> turns(threads.size());
  std::iota(turns.begin(), turns.end(), 0);
  if (order == Order::Backward)
    std::reverse(turns.begin(), turns.end());
  for (;;) {
    if (order == Order::Random)
      std::shuffle(turns.begin(), turns.end(), generator);
    bool goesOn = false;
    for (size_t i : turns) {
      if (threads[i].state != State::Ready)
        continue;
      goesOn = true;
      running = &threads[i];
      scheduler.switchTo(fibers[i]);
      if (!problem.empty())
        return problem;
    }
    goesOn |= releaseBlock();
    goesOn |= releaseWarps();
    if (!problem.empty())
      return problem;
    if (goesOn)
      continue;
    bool isDone =
        std::all_of(threads.begin(), threads.end(), [](const Thread &thread) {
          return thread.state == State::Done;
        });
    return isDone ? "" : "threads wait for others that never come";
  }
}
