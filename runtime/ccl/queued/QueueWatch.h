//===- QueueWatch.h - Looks at what GPUs do ---------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CCL_QUEUED_QUEUEWATCH_H
#define OPTIMUS_RUNTIME_CCL_QUEUED_QUEUEWATCH_H

#include "base/Thread.h"
#include "optimus-runtime/ControlPlane.h"

#include <string>
#include <vector>

namespace optrt {

/// What is looked at.
class Watched {
public:
  virtual ~Watched() = default;
  virtual void look() = 0;
  /// Begins to end what is under way, and returns at once.
  virtual void abort() = 0;
  /// What abort() has not brought to an end in the time it may take; empty
  /// where there is nothing.
  virtual std::string findOverdue() = 0;
};

/// A thread that looks at the ranks of this process many times a second, since
/// they wait for their GPUs where they cannot look themselves.
class QueueWatch {
public:
  /// From now on, if not before; nobody is looked at so far. The control plane
  /// must outlive this: where a rank is overdue, its job ends with the first
  /// failure noted here.
  Status start(ControlPlane &control);

  /// Ends it at once where all were ended.
  void add(Watched &rank);
  void remove(Watched &rank);
  /// Begins to end what is under way on all ranks, for good.
  void abort(const Status &reason);
  /// Why a rank ends. May be called from within Watched's functions.
  void noteFailure(const Status &failure);

private:
  void look(ControlPlane &control);

  std::vector<Watched *> ranks;
  bool isAborted = false;
  std::mutex noting; ///< of the failure, within any other
  Status firstFailure;
  Worker worker;
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CCL_QUEUED_QUEUEWATCH_H
