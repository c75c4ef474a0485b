//===- HostWords.h - Words of the host's memory -----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_DEVICE_CUDA_HOSTWORDS_H
#define OPTIMUS_RUNTIME_DEVICE_CUDA_HOSTWORDS_H

#include "Driver.h"

#include <memory>

namespace optrt::cuda {

/// Writes words of pinned host memory in a stream's order, for the host to look
/// at meanwhile, in a graph too. CUDA promises no memset for that: it is
/// cuStreamWriteValue32, or a kernel of one thread where the driver does not
/// capture that call.
class HostWords {
public:
  /// Tries the two on a word, with `inGraphs` by the replays of a graph, and
  /// waits for the stream. Unavailable where neither writes.
  static StatusOr<std::unique_ptr<HostWords>>
  choose(const Driver &driver, Stream stream, uint32_t *word, bool inGraphs);
  ~HostWords();
  HostWords(const HostWords &) = delete;
  HostWords &operator=(const HostWords &) = delete;

  Status write(Stream stream, uint32_t *word, uint32_t number) const;

private:
  explicit HostWords(const Driver &driver) : driver(driver) {}
  Status loadKernel();
  Status tryAll(Stream stream, uint32_t *word, bool inGraphs) const;
  Status writeInGraph(Stream stream, uint32_t *word, uint32_t number) const;

  const Driver &driver;
  Module module = nullptr;
  Function function = nullptr; ///< null where the call does
};

} // namespace optrt::cuda

#endif // OPTIMUS_RUNTIME_DEVICE_CUDA_HOSTWORDS_H
