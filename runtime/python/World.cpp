//===- World.cpp - The ranks of a job, in Python --------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Bindings.h"

#include "optimus-support/TemporaryPath.h"

#include <atomic>
#include <cstdio>
#include <pybind11/stl.h>

namespace py = pybind11;
using namespace optrt;

namespace optimus_python {

/// Called before a process ends for the loss of others; null: nothing. With
/// the interpreter's lock.
static py::object *atEnd = nullptr;
/// Without it: an interpreter that ends lends no lock.
static std::atomic<bool> hasAtEnd = false;

static void callAtEnd(const Status &status) {
  if (!hasAtEnd)
    return;
  const py::gil_scoped_acquire interpreter;
  try {
    if (atEnd)
      (*atEnd)(status.message());
  } catch (py::error_already_set &error) {
    error.discard_as_unraisable("optimus");
  }
}

void reportEnd(const Status &status, bool speaks) {
  callAtEnd(status);
  if (speaks)
    std::fprintf(stderr, "optimus: error: %s\n", status.message().c_str());
  optimus_support::removeTemporaries();
}

static StatusOr<World> joinAsPython(const JobOptions &options, double timeout) {
  const JobProgram program{"optimus of Python " OPTIMUS_VERSION,
                           [](const std::string &sentence) {
                             std::fprintf(stderr, "optimus: %s\n",
                                          sentence.c_str());
                           },
                           reportEnd};
  OPTRT_ASSIGN_OR_RETURN(Launcher launcher, findLauncherOf(options));
  bool speaks = true;
  return joinJob(options, program, launcher, /*library=*/{}, timeout, speaks);
}

std::shared_ptr<BoundWorld> BoundWorld::join(JobOptions options,
                                             double timeout) {
  auto joined = std::make_shared<BoundWorld>();
  StatusOr<World> world =
      unlocked([&] { return joinAsPython(options, timeout); });
  joined->world = take(std::move(world));
  // Whoever watches threads of this process could only end it.
  if (std::string_view(joined->world.collectives->name()) != "local")
    joined->timeoutSeconds = timeout;
  return joined;
}

BoundWorld::~BoundWorld() {
  if (owner.isOfThisProcess())
    return;
  // Its threads are not there, and its connections are another process's.
  (void)world.control.release();
  (void)world.collectives.release();
}

void bindWorld(py::module_ &module) {
  module.def(
      "at_end",
      [](py::object call) {
        hasAtEnd = !call.is_none();
        delete std::exchange(atEnd, hasAtEnd ? new py::object(std::move(call))
                                             : nullptr);
      },
      py::arg("call"));
  py::class_<BoundWorld, std::shared_ptr<BoundWorld>>(
      module, "World",
      "The ranks of a job, as its launcher says, or as the arguments do that "
      "are "
      "flags of optimus-run (docs/launchers.md). Without either, threads of "
      "this "
      "process. `timeout` is how many seconds other processes may take to come "
      "or "
      "to answer, 0 for ever. One session at a time is laid out on it.")
      .def(py::init([](std::string backend, std::string rendezvous,
                       std::string secretFile, std::string bind,
                       std::optional<int> rank, std::optional<int> ranks,
                       double timeout) {
             return BoundWorld::join(
                 {backend, rendezvous, secretFile, bind, rank, ranks}, timeout);
           }),
           py::kw_only(), py::arg("backend") = "", py::arg("rendezvous") = "",
           py::arg("secret_file") = "", py::arg("bind") = "",
           py::arg("rank") = py::none(), py::arg("ranks") = py::none(),
           py::arg("timeout") = 120.0)
      .def_property_readonly("backend",
                             [](const BoundWorld &self) {
                               return std::string(
                                   self.world.collectives->name());
                             })
      .def_property_readonly(
          "size",
          [](const BoundWorld &self) { return self.world.control->size(); })
      .def_property_readonly("first_rank",
                             [](const BoundWorld &self) {
                               return self.world.control->firstRank();
                             })
      .def_property_readonly("local_ranks", [](const BoundWorld &self) {
        return self.world.control->numLocalRanks();
      });
}

} // namespace optimus_python
