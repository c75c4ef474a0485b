//===- Arrays.h - Between tensors and NumPy ---------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_PYTHON_ARRAYS_H
#define OPTIMUS_RUNTIME_PYTHON_ARRAYS_H

#include "optimus-runtime/Session.h"

#include <pybind11/numpy.h>
#include <span>
#include <vector>

namespace optimus_python {

/// A copy of a matrix of int32 or int64 with so many columns; nobody changes it
/// while ranks read it.
///
/// Raises ArgumentTypeError for another type, and InvalidArgumentError for
/// another shape, other strides, or a number beyond int32; `name` is for
/// messages.
std::vector<int32_t>
readTokens(const char *name, const pybind11::object &object, int64_t columns);

/// The elements of an array of float32 with one of these shapes, where they
/// lie. Raises as above.
std::span<const float>
readFloats(const char *name, const pybind11::object &object,
           const std::vector<std::vector<int64_t>> &shapes);

/// A new array of a tensor's elements. NumPy has no bf16: these are widened to
/// float32, which changes no value.
pybind11::array toArray(const optrt::HostTensor &tensor);

/// An array of a tensor's elements where they lie, read-only, as long as
/// `owner` lives. Of bf16, of which NumPy has none, the bits as uint16.
pybind11::array viewOf(optimus_support::ElementType type,
                       const std::vector<int64_t> &shape,
                       std::span<const std::byte> bytes,
                       const pybind11::object &owner);

} // namespace optimus_python

#endif // OPTIMUS_RUNTIME_PYTHON_ARRAYS_H
