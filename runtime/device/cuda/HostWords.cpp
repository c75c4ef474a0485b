//===- HostWords.cpp - Words of the host's memory -------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HostWords.h"

#include "HostWordKernel.h"

namespace optrt::cuda {

HostWords::~HostWords() {
  if (module)
    driver.api().moduleUnload(module);
}

StatusOr<std::unique_ptr<HostWords>> HostWords::choose(const Driver &driver,
                                                       Stream stream,
                                                       uint32_t *word,
                                                       bool inGraphs) {
  std::unique_ptr<HostWords> words(new HostWords(driver));
  const Status byCall = words->tryAll(stream, word, inGraphs);
  if (byCall.ok())
    return words;
  Status byKernel = words->loadKernel();
  if (byKernel.ok())
    byKernel = words->tryAll(stream, word, inGraphs);
  if (byKernel.ok())
    return words;
  return unavailable(
             concat("this GPU's driver writes no words of the host's memory",
                    inGraphs ? " from a graph" : "",
                    ": by cuStreamWriteValue32, ", byCall.message(),
                    "; by a kernel, ", byKernel.message()))
      .withAdvice("install a newer driver, or run with --backend tcp or mpi");
}

Status HostWords::loadKernel() {
  OPTRT_CUDA(driver, moduleLoadDataEx, &module, kHostWordKernel, 0, nullptr,
             nullptr);
  OPTRT_CUDA(driver, moduleGetFunction, &function, module, kHostWordKernelName);
  return okStatus();
}

Status HostWords::write(Stream stream, uint32_t *word, uint32_t number) const {
  if (!function) {
    OPTRT_CUDA(driver, streamWriteValue32, stream,
               reinterpret_cast<Address>(word), number, kWriteAfterAll);
    return okStatus();
  }
  uint64_t wide = number;
  void *parameters[] = {&word, &wide};
  OPTRT_CUDA(driver, launchKernel, function, 1, 1, 1, 1, 1, 1,
             /*sharedBytes=*/0, stream, parameters, nullptr);
  return okStatus();
}

Status HostWords::tryAll(Stream stream, uint32_t *word, bool inGraphs) const {
  constexpr uint32_t kNumber = 0x5eed;
  *word = 0;
  if (inGraphs)
    OPTRT_RETURN_IF_ERROR(writeInGraph(stream, word, kNumber));
  else
    OPTRT_RETURN_IF_ERROR(write(stream, word, kNumber));
  OPTRT_CUDA(driver, streamSynchronize, stream);
  const uint32_t found = __atomic_load_n(word, __ATOMIC_ACQUIRE);
  return found == kNumber ? okStatus()
                          : unavailable(concat("expected ", kNumber,
                                               " in the word, found ", found));
}

Status HostWords::writeInGraph(Stream stream, uint32_t *word,
                               uint32_t number) const {
  OPTRT_CUDA(driver, streamBeginCapture, stream, int(kCaptureThreadLocal));
  const Status written = write(stream, word, number);
  Graph graph = nullptr;
  // What was begun is ended.
  const Status ended =
      driver.check(driver.api().streamEndCapture(stream, &graph),
                   kDriverNames.streamEndCapture);
  OPTRT_RETURN_IF_ERROR(written);
  OPTRT_RETURN_IF_ERROR(ended);
  GraphExec exec = nullptr;
  const Status made =
      driver.check(driver.api().graphInstantiate(&exec, graph, 0),
                   kDriverNames.graphInstantiate);
  driver.api().graphDestroy(graph);
  OPTRT_RETURN_IF_ERROR(made);
  Status launched = driver.check(driver.api().graphLaunch(exec, stream),
                                 kDriverNames.graphLaunch);
  if (launched.ok())
    launched = driver.check(driver.api().streamSynchronize(stream),
                            kDriverNames.streamSynchronize);
  driver.api().graphExecDestroy(exec);
  return launched;
}

} // namespace optrt::cuda
