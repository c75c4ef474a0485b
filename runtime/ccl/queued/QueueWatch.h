//===- QueueWatch.h - Looks at what GPUs do ---------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CCL_QUEUED_QUEUEWATCH_H
#define OPTIMUS_RUNTIME_CCL_QUEUED_QUEUEWATCH_H

#include "core/Thread.h"

#include <vector>

namespace optrt {

/// What is looked at.
class Watched {
public:
  virtual ~Watched() = default;
  virtual void look() = 0;
  virtual void abort() = 0;
};

/// A thread that looks at the ranks of this process many times a second, since
/// they wait for their GPUs where they cannot look themselves.
class QueueWatch {
public:
  /// From now on, if not before; nobody is looked at so far.
  Status start();

  /// Ends it at once where all were ended.
  void add(Watched &rank);
  void remove(Watched &rank);
  /// Ends what is under way on all ranks, for good.
  void abort();

private:
  std::vector<Watched *> ranks;
  bool isAborted = false;
  Worker worker;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CCL_QUEUED_QUEUEWATCH_H
