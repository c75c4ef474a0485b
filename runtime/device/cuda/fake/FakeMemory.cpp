//===- FakeMemory.cpp - Memory of a fake GPU ------------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "FakeDriver.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

static constexpr int64_t kAlignment = 256;

static Rows rowsAt(Address address, size_t bytes, size_t count, size_t pitch,
                   bool isWrite) {
  return {reinterpret_cast<const void *>(address), int64_t(bytes),
          int64_t(count), int64_t(pitch), isWrite};
}

/// What a stream still uses is not given back.
static Result checkRelease(Gpu &gpu, const void *visible, size_t bytes) {
  std::string problem = gpu.races.release(visible, bytes);
  return problem.empty() ? kSuccess
                         : gpu.fail(kLaunchFailed, std::move(problem));
}

Result cuMemGetInfo_v2(size_t *free, size_t *total) {
  FAKE_ENTER;
  *total = size_t(gpu.totalBytes);
  *free = size_t(gpu.totalBytes - gpu.usedBytes[optimus_fake_gpu_current()]);
  return kSuccess;
}

Result cuMemAlloc_v2(Address *address, size_t bytes) {
  FAKE_ENTER;
  if (Result result = gpu.checkCapture("memory is allocated"))
    return result;
  if (bytes == 0)
    return gpu.refuse(kInvalidValue, "0 bytes are allocated");
  const int place = optimus_fake_gpu_current();
  if (bytes > size_t(gpu.totalBytes - gpu.usedBytes[place]))
    return gpu.refuse(kOutOfMemory, "out of memory");
  const int64_t rounded =
      (int64_t(bytes) + kAlignment - 1) / kAlignment * kAlignment;
  void *start = gpu.memory.allocate(rounded);
  if (!start)
    return gpu.refuse(kOutOfMemory, "out of the host's memory");
  // What nobody wrote is not 0.
  std::memset(*gpu.memory.find(start, rounded), 0xFF, size_t(rounded));
  *address = reinterpret_cast<Address>(start);
  gpu.allocated[*address] = {int64_t(bytes), place};
  gpu.usedBytes[place] += int64_t(bytes);
  ++gpu.counts.allocations;
  ++gpu.counts.everAllocated;
  gpu.counts.bytes += int64_t(bytes);
  gpu.counts.mostBytes = std::max(gpu.counts.mostBytes, gpu.counts.bytes);
  return kSuccess;
}
Result cuMemFree_v2(Address address) {
  FAKE_ENTER;
  if (Result result = gpu.checkCapture("memory is given back"))
    return result;
  auto known = gpu.allocated.find(address);
  if (known == gpu.allocated.end())
    return gpu.refuse(kInvalidValue, "memory that was not allocated");
  auto *start = reinterpret_cast<void *>(address);
  const auto [bytes, place] = known->second;
  if (Result result =
          checkRelease(gpu, *gpu.memory.find(start, bytes), size_t(bytes)))
    return result;
  gpu.memory.release(start);
  --gpu.counts.allocations;
  gpu.counts.bytes -= bytes;
  gpu.usedBytes[place] -= bytes;
  gpu.allocated.erase(known);
  return kSuccess;
}
Result cuMemHostAlloc(void **address, size_t bytes, unsigned) {
  FAKE_ENTER;
  if (Result result = gpu.checkCapture("memory is pinned"))
    return result;
  *address = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  if (!*address)
    return gpu.refuse(kOutOfMemory, "out of the host's memory");
  gpu.pinned[*address] = int64_t(bytes);
  ++gpu.counts.everPinned;
  gpu.counts.pinnedBytes += int64_t(bytes);
  gpu.counts.mostPinnedBytes =
      std::max(gpu.counts.mostPinnedBytes, gpu.counts.pinnedBytes);
  return kSuccess;
}
Result cuMemFreeHost(void *address) {
  FAKE_ENTER;
  auto known = gpu.pinned.find(address);
  if (known == gpu.pinned.end())
    return gpu.refuse(kInvalidValue, "memory that was not pinned");
  if (Result result = checkRelease(gpu, address, size_t(known->second)))
    return result;
  gpu.counts.pinnedBytes -= known->second;
  gpu.pinned.erase(known);
  std::free(address);
  return kSuccess;
}

/// No page of NVIDIA's promises memsets of pageable memory, nor any of the
/// host's memory in graphs.
static Result putMemset(Gpu &gpu, const Rows &rows, Stream stream,
                        std::function<void(char *)> fillRow) {
  if (!gpu.memory.isHidden(rows.address)) {
    if (!gpu.isPinned(rows.address))
      return gpu.refuse(kInvalidValue,
                        "a memset of the host's pageable memory");
    if (stream->capture)
      return gpu.refuse(kInvalidValue,
                        "a memset of the host's memory in a graph");
  }
  auto work = [=, &gpu]() -> Result {
    auto *at = static_cast<char *>(gpu.touch(rows, "a memset"));
    for (int64_t row = 0; at && row != rows.count; ++row)
      fillRow(at + row * rows.pitch);
    return gpu.failed;
  };
  return gpu.put(stream, "a memset", work);
}

Result cuMemsetD2D8Async(Address to, size_t pitch, unsigned char value,
                         size_t width, size_t height, Stream stream) {
  FAKE_ENTER;
  if (width > pitch)
    return gpu.refuse(kInvalidValue, "rows that are wider than their pitch");
  return putMemset(gpu, rowsAt(to, width, height, pitch, /*isWrite=*/true),
                   stream, [=](char *row) { std::memset(row, value, width); });
}
Result cuMemsetD8Async(Address to, unsigned char value, size_t bytes,
                       Stream stream) {
  return cuMemsetD2D8Async(to, bytes, value, bytes, 1, stream);
}

Result cuMemsetD32Async(Address to, unsigned value, size_t count,
                        Stream stream) {
  FAKE_ENTER;
  return putMemset(
      gpu, rowsAt(to, count * sizeof(value), 1, 0, /*isWrite=*/true), stream,
      [=](char *row) {
        std::fill_n(reinterpret_cast<unsigned *>(row), count, value);
      });
}

Result optrt::cuda::fake::writeHostWord(Gpu &gpu, Address to, uint32_t value) {
  const auto *address = reinterpret_cast<const void *>(to);
  if (!gpu.isPinned(address))
    return gpu.fail(kIllegalAddress,
                    "a word is written of memory of the host that is not "
                    "pinned, or was given back before its turn came");
  auto *at = static_cast<uint32_t *>(
      gpu.touch(rowsAt(to, sizeof(value), 1, 0, /*isWrite=*/true), "a word"));
  // The host may look at it meanwhile.
  __atomic_store_n(at, value, __ATOMIC_RELEASE);
  return kSuccess;
}

/// $OPTIMUS_FAKE_GPU_WORDS: "kernel" where the driver captures no such call,
/// "none" where a kernel does not write to the host's memory, either.
Result cuStreamWriteValue32_v2(Stream stream, Address to, uint32_t value,
                               unsigned) {
  FAKE_ENTER;
  if (std::getenv("OPTIMUS_FAKE_GPU_WORDS"))
    if (Result result = gpu.checkCapture("a word is written"))
      return result;
  return gpu.put(stream, "a written word",
                 [=, &gpu] { return writeHostWord(gpu, to, value); });
}

static Result putCopy(Gpu &gpu, const Copy2D &c, Stream stream) {
  const Rows read = rowsAt(c.srcDevice, c.widthInBytes, c.height, c.srcPitch,
                           /*isWrite=*/false),
             written = rowsAt(c.dstDevice, c.widthInBytes, c.height, c.dstPitch,
                              /*isWrite=*/true);
  auto work = [=, &gpu]() -> Result {
    const auto *from = static_cast<const char *>(gpu.touch(read, "a copy"));
    auto *to = static_cast<char *>(gpu.touch(written, "a copy"));
    for (size_t row = 0; from && to && row != c.height; ++row)
      std::memcpy(to + row * c.dstPitch, from + row * c.srcPitch,
                  c.widthInBytes);
    if (gpu.memory.isHidden(read.address) &&
        !gpu.memory.isHidden(written.address))
      gpu.counts.copiedOut += int64_t(c.widthInBytes * c.height);
    return gpu.failed;
  };
  return gpu.put(stream, "a copy", work);
}
Result cuMemcpy2DAsync_v2(const Copy2D *copy, Stream stream) {
  FAKE_ENTER;
  const Copy2D c = *copy;
  if (c.srcMemory != kMemoryUnified || c.dstMemory != kMemoryUnified ||
      c.widthInBytes > c.srcPitch || c.widthInBytes > c.dstPitch ||
      c.srcPitch > INT32_MAX || c.dstPitch > INT32_MAX)
    return gpu.refuse(kInvalidValue, "a copy of rows that cannot be right");
  return putCopy(gpu, c, stream);
}
Result cuMemcpyAsync(Address to, Address from, size_t bytes, Stream stream) {
  FAKE_ENTER;
  Copy2D row = {};
  row.srcDevice = from;
  row.dstDevice = to;
  row.widthInBytes = bytes;
  row.height = 1;
  return putCopy(gpu, row, stream);
}
