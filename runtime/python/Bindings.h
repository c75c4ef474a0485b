//===- Bindings.h - The runtime's classes, as Python holds them -*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_PYTHON_BINDINGS_H
#define OPTIMUS_RUNTIME_PYTHON_BINDINGS_H

#include "Errors.h"
#include "optimus-runtime/Generator.h"
#include "optimus-runtime/ModelLibrary.h"
#include "optimus-runtime/World.h"
#include "tooling/Job.h"
#include "tooling/ModelRun.h"

#include <memory>
#include <optional>
#include <pybind11/pybind11.h>
#include <string>
#include <vector>

namespace optimus_python {

/// What `work` returns, without the interpreter's lock: other threads of Python
/// run meanwhile.
template <typename Work>
auto unlocked(Work work) {
  pybind11::gil_scoped_release others;
  return work();
}

/// The ranks of a job, for one session at a time.
struct BoundWorld {
  /// Raises what joining fails by.
  static std::shared_ptr<BoundWorld> join(optrt::JobOptions options,
                                          double timeout);
  ~BoundWorld();

  optrt::World world;
  double timeoutSeconds = 0;
  Owner owner;
  std::weak_ptr<void> session; ///< laid out on it
};

/// Of a process that cannot go on without the others of its job: tells Python,
/// and people where it `speaks`. From any thread.
void reportEnd(const optrt::Status &status, bool speaks);

/// What a session and the views of its memory keep alive.
struct Held {
  ~Held();

  std::shared_ptr<optrt::ModelLibrary> library;
  std::shared_ptr<BoundWorld> world;
  std::unique_ptr<optrt::ModelRun> run; ///< it uses both
  int64_t hostPages = 0;                ///< of the generator
  /// Null before the first text.
  std::unique_ptr<optrt::Generator> generator; ///< last: it uses the run
  Owner owner;
};

/// A session, until it is closed.
class BoundSession {
public:
  BoundSession(std::shared_ptr<optrt::ModelLibrary> library,
               std::shared_ptr<BoundWorld> world,
               optrt::ModelRunOptions options);

  /// The run, for a call. Raises UsageError on another thread, in another
  /// process, and once it is closed.
  optrt::ModelRun &run() const;
  const std::shared_ptr<Held> &heldNow() const { return held; }
  void close();
  bool isClosed() const { return !held; }

private:
  std::shared_ptr<Held> held;
  Owner owner;
};

void bindWorld(pybind11::module_ &module);
void bindSession(pybind11::module_ &module);
void bindGeneration(pybind11::class_<BoundSession> &session);
void bindValues(pybind11::class_<BoundSession> &session);
void bindDlpack(pybind11::module_ &module,
                pybind11::class_<BoundSession> &session);

} // namespace optimus_python

#endif // OPTIMUS_RUNTIME_PYTHON_BINDINGS_H
