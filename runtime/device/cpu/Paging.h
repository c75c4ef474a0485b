//===- Paging.h - A processor's memory in files -----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_DEVICE_CPU_PAGING_H
#define OPTIMUS_RUNTIME_DEVICE_CPU_PAGING_H

#include "CopyQueue.h"
#include "base/ScratchFile.h"
#include "optimus-runtime/Device.h"

#include <map>
#include <vector>

namespace optrt {

/// The scratch files of a processor's device, and the queues on which copies to
/// and from them run beside its computation. Events of queues hold how many of
/// their tasks must be done.
class Paging {
public:
  StatusOr<char *> allocate(int64_t bytes, const char *purpose,
                            const std::string &folder);
  /// Gives a file back; false where the address is none of its. Copies under
  /// way are done before, whatever memory that is: a call that failed leaves
  /// some.
  bool release(void *start);
  /// The file that an address lies in, or null.
  ScratchFile *find(const void *address) const;

  /// kCompute where copies have no thread of their own.
  Queue queue(std::string_view name);
  Event record(Queue queue);
  Status await(Queue queue, Event event);
  Status synchronize();
  /// Nothing but what it has made may be on such a queue.
  void put(Queue queue, std::function<Status()> task);

  /// A copy of which at least one side lies in a file, or both where host code
  /// can touch them: by the calling thread, of matrices that were checked.
  Status copy(const optrt_copy_desc &desc, const void *src, void *dst);
  /// Of stretches, one of them in a file or none, at once and not counted.
  Status copy(const void *src, void *dst, int64_t bytes);
  Status clear(void *to, int64_t bytes);
  Transfers takeTransfers();

private:
  struct Named {
    std::string name;
    std::unique_ptr<CopyQueue> tasks;
  };

  /// Counts the time until `body` returns as waiting.
  Status wait(const std::function<Status()> &body);

  std::map<const char *, std::unique_ptr<ScratchFile>, std::greater<>> files;
  std::mutex mutex; ///< of `transfers`
  Transfers transfers;
  /// Number n + 1 is entry n. Their threads end before what they use.
  std::vector<Named> queues;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_DEVICE_CPU_PAGING_H
