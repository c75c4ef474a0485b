//===- Errors.cpp - Failures as Python's exceptions -----------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Errors.h"

#include <pybind11/pybind11.h>
#include <unistd.h>

namespace py = pybind11;
using namespace optrt;

namespace optimus_python {

void raise(const char *name, const std::string &message) {
  const py::object type = py::module_::import("optimus.errors").attr(name);
  PyErr_SetString(type.ptr(), message.c_str());
  throw py::error_already_set();
}

void raise(const Status &failure) {
  switch (failure.code()) {
  case StatusCode::InvalidArgument:
    raise("InvalidArgumentError", failure.message());
  case StatusCode::DataLoss:
    raise("DataLossError", failure.message());
  case StatusCode::Unavailable:
    raise("UnavailableError", failure.message());
  default:
    raise("InternalError",
          concat(failure.message(), " [", failure.file(), ":", failure.line(),
                 "]. This is a fault of Optimus; please report it."));
  }
}

Owner::Owner() : thread(std::this_thread::get_id()), process(getpid()) {}

bool Owner::isOfThisProcess() const { return getpid() == process; }

void Owner::check(const char *what) const {
  if (!isOfThisProcess())
    raise("UsageError",
          concat(what,
                 " belongs to the process that made it: expected process ",
                 process, ", found ", getpid(),
                 ", which was forked from it and has none of its ranks; make "
                 "one after the fork"));
  if (std::this_thread::get_id() != thread)
    raise("UsageError",
          concat(what, " belongs to the thread that made it: expected thread ",
                 thread, ", found ", std::this_thread::get_id(),
                 "; make all calls on one thread"));
}

} // namespace optimus_python
