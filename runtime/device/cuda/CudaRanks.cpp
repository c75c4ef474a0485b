//===- CudaRanks.cpp - What ranks need of GPUs for each other -------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaDevice.h"

#include <cstdio>

namespace optrt::cuda {

StatusOr<std::vector<std::string>> CudaDevice::gpus() const {
  int count = 0;
  OPTRT_CUDA(driver, deviceGetCount, &count);
  std::vector<std::string> names;
  for (int ordinal = 0; ordinal != count; ++ordinal) {
    DeviceNumber gpu = 0;
    unsigned char bytes[16] = {};
    OPTRT_CUDA(driver, deviceGet, &gpu, ordinal);
    OPTRT_CUDA(driver, deviceGetUuid, reinterpret_cast<char *>(bytes), gpu);
    std::string &name = names.emplace_back();
    for (unsigned char byte : bytes) {
      char digits[3];
      std::snprintf(digits, sizeof(digits), "%02x", byte);
      name += digits;
    }
  }
  return names;
}

void *CudaDevice::nativeQueue(Queue queue) {
  keep(enter());
  return streamOf(queue);
}

Status CudaDevice::post(Queue queue, uint32_t *word, uint32_t number) {
  OPTRT_RETURN_IF_ERROR(enter());
  if (!words) {
    OPTRT_ASSIGN_OR_RETURN(words, HostWords::choose(driver, streamOf(kCompute),
                                                    word, canRecord()));
  }
  return words->write(streamOf(queue), word, number);
}

//===----------------------------------------------------------------------===//
// Ranks that share a GPU
//===----------------------------------------------------------------------===//

// All devices of a GPU have one context, so streams can wait for each other's
// events.
Status CudaDevice::follow(Queue queue, Device &other, Queue otherQueue) {
  OPTRT_RETURN_IF_ERROR(enter());
  return join(streamOf(queue),
              static_cast<Stream>(other.nativeQueue(otherQueue)));
}

Status CudaDevice::joinRecording(Device &first) {
  recordings.emplace_back();
  isRecording = true;
  for (uint32_t number = 0; number != streams.size(); ++number)
    OPTRT_RETURN_IF_ERROR(follow({number}, first, kCompute));
  return okStatus();
}

StatusOr<uint32_t> CudaDevice::leaveRecording(Device &first) {
  Status status = joinAll();
  if (status.ok())
    status = first.follow(kCompute, *this, kCompute);
  return finishRecording(status);
}

} // namespace optrt::cuda
