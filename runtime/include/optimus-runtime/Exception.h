//===- Exception.h - What the standard library throws -----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Nothing of ours throws. The standard library does, for want of memory, and
// oneDNN for whatever it cannot do.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_EXCEPTION_H
#define OPTIMUS_RUNTIME_EXCEPTION_H

#include "optimus-runtime/Status.h"

#include <cstddef>
#include <exception>
#include <new>
#include <utility>

namespace optrt {

/// An allocation that failed, and its size: what a program's operator new
/// throws if it wants its message to say so.
class OutOfMemory final : public std::bad_alloc {
public:
  explicit OutOfMemory(std::size_t bytes) noexcept;
  const char *what() const noexcept override { return text; }

private:
  char text[64];
};

/// A failure of something that returns no status, as ControlPlane::allGather().
class StatusException final : public std::exception {
public:
  explicit StatusException(Status status) : failure(std::move(status)) {}
  const Status &status() const { return failure; }
  const char *what() const noexcept override {
    return failure.message().c_str();
  }

private:
  Status failure;
};

/// The exception that is being handled, as a status: its own if it has one,
/// Unavailable where memory or threads ran out, otherwise Internal. For catch
/// blocks.
Status statusOfException();

} // namespace optrt

#endif // OPTIMUS_RUNTIME_EXCEPTION_H
