//===- CudaMemory.cpp - The memory of a GPU, and copies -------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaDevice.h"

#include "device/Descriptors.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace optrt::cuda {

using optimus_support::CheckedSize;

/// Addresses of the device's and of pinned memory are one space.
static Address toAddress(const void *pointer) {
  return reinterpret_cast<Address>(pointer);
}

StatusOr<DeviceMemory> CudaDevice::allocate(int64_t bytes,
                                            const char *purpose) {
  OPTRT_RETURN_IF_ERROR(checkSize(bytes, purpose));
  OPTRT_RETURN_IF_ERROR(enter());
  if (bytes == 0)
    return DeviceMemory();
  Address address = 0;
  const std::string what =
      concat("cannot allocate ", bytes, " bytes for ", purpose);
  const Result result = allocateCounted(address, bytes);
  if (result == kOutOfMemory)
    return outOfMemory(what);
  OPTRT_RETURN_IF_ERROR(
      driver.check(result, kDriverNames.memAlloc).withContext(what));
  DeviceMemory memory(*this, reinterpret_cast<void *>(address), bytes);
  deviceMemory[memory.data()] = bytes;
  OPTRT_CUDA(driver, memsetD8Async, address, 0, size_t(bytes),
             streamOf(kCompute));
  OPTRT_CUDA(driver, streamSynchronize, streamOf(kCompute));
  return memory;
}

StatusOr<int64_t> CudaDevice::freeBytes() const {
  OPTRT_RETURN_IF_ERROR(enter());
  size_t free = 0, total = 0;
  OPTRT_CUDA(driver, memGetInfo, &free, &total);
  return int64_t(free);
}

StatusOr<DeviceMemory> CudaDevice::allocateOnHost(int64_t bytes,
                                                  const char *purpose) {
  OPTRT_RETURN_IF_ERROR(checkSize(bytes, purpose));
  OPTRT_RETURN_IF_ERROR(enter());
  if (bytes == 0)
    return DeviceMemory();
  void *start = nullptr;
  if (Result result = driver.api().memHostAlloc(&start, size_t(bytes), 0);
      result != kSuccess)
    return unavailable(
        concat("cannot pin ", bytes, " bytes for ", purpose,
               " in the host's memory: ", driver.describe(result)));
  std::memset(start, 0, size_t(bytes));
  hostMemory[static_cast<const char *>(start)] = bytes;
  return DeviceMemory(*this, start, bytes);
}

void CudaDevice::release(void *start) {
  keep(enter());
  auto onHost = hostMemory.find(static_cast<const char *>(start));
  if (onHost == hostMemory.end()) {
    const auto known = deviceMemory.extract(start);
    keep(driver.check(freeCounted(toAddress(start), known ? known.mapped() : 0),
                      kDriverNames.memFree));
    return;
  }
  keep(driver.check(driver.api().memFreeHost(start), kDriverNames.memFreeHost));
  hostMemory.erase(onHost);
}

bool CudaDevice::isOnHost(const void *address) const {
  const auto *place = static_cast<const char *>(address);
  // Keys descend: the first that is not above.
  auto found = hostMemory.lower_bound(place);
  return found != hostMemory.end() && place - found->first < found->second;
}

Status CudaDevice::clear(Queue queue, void *to, int64_t bytes) {
  OPTRT_RETURN_IF_ERROR(enter());
  const auto turn = takeTurn();
  if (bytes > 0)
    OPTRT_CUDA(driver, memsetD8Async, toAddress(to), 0, size_t(bytes),
               streamOf(queue));
  return settle(queue);
}

Status CudaDevice::copyPlain(Stream stream, void *to, const void *from,
                             int64_t bytes) {
  if (bytes > 0)
    OPTRT_CUDA(driver, memcpyAsync, toAddress(to), toAddress(from),
               size_t(bytes), stream);
  return okStatus();
}

Status CudaDevice::write(Queue queue, void *to, const void *from,
                         int64_t bytes) {
  OPTRT_RETURN_IF_ERROR(enter());
  const auto turn = takeTurn();
  OPTRT_RETURN_IF_ERROR(copyPlain(streamOf(queue), to, from, bytes));
  return settle(queue);
}

Status CudaDevice::read(Queue queue, void *to, const void *from,
                        int64_t bytes) {
  OPTRT_RETURN_IF_ERROR(enter());
  const auto turn = takeTurn();
  OPTRT_RETURN_IF_ERROR(copyPlain(streamOf(queue), to, from, bytes));
  return settle(queue);
}

Transfers CudaDevice::takeTransfers() {
  Transfers taken;
  auto add = [&](const Copies &some) {
    taken.bytesIn += some.bytesIn;
    taken.bytesOut += some.bytesOut;
    taken.times.insert(taken.times.end(), some.times.begin(), some.times.end());
  };
  add(std::exchange(copies, {}));
  for (uint32_t recording : std::exchange(replayed, {}))
    add(recordings[recording].copies);
  return taken;
}

/// That the rows of a copy do not lie further apart than a GPU takes.
static Status checkPitch(const optrt_copy_desc &d, int64_t srcLd,
                         int64_t maxPitch) {
  for (int64_t ld : {srcLd, d.dst_ld})
    if (CheckedSize pitch = CheckedSize(ld) * d.element_bytes;
        d.rows > 1 && (srcLd != d.cols || d.dst_ld != d.cols) &&
        !pitch.isAtMost(maxPitch))
      return unavailable(concat("rows of a copy lie ", pitch.toString(),
                                " bytes apart; this GPU copies rows that lie "
                                "at most ",
                                maxPitch, " apart"));
  return okStatus();
}

Status CudaDevice::copyRows(Stream stream, const optrt_copy_desc &desc,
                            const void *src, void *dst) {
  const auto width = size_t(desc.cols * desc.element_bytes);
  const auto pitch = size_t(desc.dst_ld * desc.element_bytes);
  if (!src) {
    OPTRT_CUDA(driver, memsetD2D8Async, toAddress(dst), pitch, 0, width,
               size_t(desc.rows), stream);
    return okStatus();
  }
  Copy2D rows = {};
  rows.srcMemory = rows.dstMemory = kMemoryUnified;
  rows.srcDevice = toAddress(src);
  rows.srcPitch = size_t(desc.src_ld * desc.element_bytes);
  rows.dstDevice = toAddress(dst);
  rows.dstPitch = pitch;
  rows.widthInBytes = width;
  rows.height = size_t(desc.rows);
  OPTRT_CUDA(driver, memcpy2DAsync, &rows, stream);
  return okStatus();
}

Status CudaDevice::move(Stream stream, const optrt_copy_desc &desc,
                        const void *src, void *dst) {
  const int64_t srcLd = src ? desc.src_ld : desc.cols;
  if (desc.rows > 1 && (srcLd != desc.cols || desc.dst_ld != desc.cols))
    return copyRows(stream, desc, src, dst);
  const int64_t bytes = desc.rows * desc.cols * desc.element_bytes;
  if (src)
    return copyPlain(stream, dst, src, bytes);
  OPTRT_CUDA(driver, memsetD8Async, toAddress(dst), 0, size_t(bytes), stream);
  return okStatus();
}

Status CudaDevice::copy(Queue queue, const optrt_copy_desc &desc,
                        const void *src, void *dst) {
  OPTRT_RETURN_IF_ERROR(enter());
  OPTRT_RETURN_IF_ERROR(check(desc, src, dst));
  if (desc.rows == 0 || desc.cols == 0)
    return okStatus();
  OPTRT_RETURN_IF_ERROR(
      checkPitch(desc, src ? desc.src_ld : desc.cols, gpu.maxPitch));
  const auto turn = takeTurn();
  const bool comesIn = src && isOnHost(src), goesOut = isOnHost(dst);
  if (comesIn == goesOut) {
    OPTRT_RETURN_IF_ERROR(move(streamOf(queue), desc, src, dst));
    return settle(queue);
  }
  Copies &counted = isRecording ? recordings.back().copies : copies;
  (comesIn ? counted.bytesIn : counted.bytesOut) +=
      desc.rows * desc.cols * desc.element_bytes;
  CommandTimes &times = counted.times.emplace_back();
  OPTRT_RETURN_IF_ERROR(timestamp(queue, times.begin));
  OPTRT_RETURN_IF_ERROR(move(streamOf(queue), desc, src, dst));
  OPTRT_RETURN_IF_ERROR(timestamp(queue, times.end));
  return settle(queue);
}

} // namespace optrt::cuda
