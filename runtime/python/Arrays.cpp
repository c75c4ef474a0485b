//===- Arrays.cpp - Between tensors and NumPy -----------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Arrays.h"

#include "Errors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

namespace py = pybind11;
using namespace optrt;

namespace optimus_python {

static std::vector<int64_t> shapeOf(const py::array &array) {
  return {array.shape(), array.shape() + array.ndim()};
}

/// "(2, 64)", as Python writes it.
static std::string print(const std::vector<int64_t> &numbers) {
  std::string text = "(";
  for (std::size_t i = 0; i != numbers.size(); ++i)
    text += concat(i ? ", " : "", numbers[i]);
  return text + (numbers.size() == 1 ? ",)" : ")");
}

/// An array of one of some types, in one piece.
template <typename... Types>
static py::array checkArray(const char *name, const py::object &object,
                            const char *types) {
  auto fail = [&](const std::string &found) {
    raise("ArgumentTypeError", concat(name, ": expected a NumPy array of ",
                                      types, ", found ", found));
  };
  if (!py::isinstance<py::array>(object))
    fail(py::str(py::type::of(object).attr("__name__")));
  const auto array = py::reinterpret_borrow<py::array>(object);
  if (!(py::isinstance<py::array_t<Types>>(object) || ...))
    fail(concat("one of ", std::string(py::str(array.dtype()))));
  if (!(array.flags() & py::array::c_style))
    raise("InvalidArgumentError",
          concat(name,
                 ": expected elements behind each other, rows first; "
                 "found strides of ",
                 print({array.strides(), array.strides() + array.ndim()}),
                 " bytes for the shape ", print(shapeOf(array)),
                 "; numpy.ascontiguousarray() copies them so"));
  return array;
}

std::vector<int32_t> readTokens(const char *name, const py::object &object,
                                int64_t columns) {
  const py::array array =
      checkArray<int32_t, int64_t>(name, object, "int32 or int64");
  if (array.ndim() != 2 || array.shape(1) != columns)
    raise("InvalidArgumentError",
          concat(name, ": expected the shape (sequences, ", columns,
                 "), found ", print(shapeOf(array))));
  std::vector<int32_t> tokens(array.size());
  // Not by itemsize(): pybind11 below 2.12 looks for it where NumPy 2 has it
  // not.
  if (py::isinstance<py::array_t<int32_t>>(object)) {
    std::copy_n(static_cast<const int32_t *>(array.data()), tokens.size(),
                tokens.begin());
    return tokens;
  }
  const auto *wide = static_cast<const int64_t *>(array.data());
  using Limits = std::numeric_limits<int32_t>;
  for (std::size_t i = 0; i != tokens.size(); ++i) {
    if (wide[i] < Limits::min() || wide[i] > Limits::max())
      raise("InvalidArgumentError",
            concat(name, ": expected numbers of 32 bits, found ", wide[i],
                   " at row ", i / columns, ", column ", i % columns));
    tokens[i] = static_cast<int32_t>(wide[i]);
  }
  return tokens;
}

std::span<const float>
readFloats(const char *name, const py::object &object,
           const std::vector<std::vector<int64_t>> &shapes) {
  const py::array array = checkArray<float>(name, object, "float32");
  const std::vector<int64_t> shape = shapeOf(array);
  if (std::ranges::find(shapes, shape) == shapes.end())
    raise("InvalidArgumentError",
          concat(name, ": expected the shape ", print(shapes.front()),
                 ", found ", print(shape)));
  return {static_cast<const float *>(array.data()),
          static_cast<std::size_t>(array.size())};
}

/// An array of elements behind each other; of `bytes` where there are any.
static py::array makeArray(ElementType type, const std::vector<int64_t> &shape,
                           const std::byte *bytes = nullptr,
                           const py::object &owner = {}) {
  constexpr const char *kNames[] = {"float32", "float64", "float16", "uint16",
                                    "int32",   "int64",   "int8"};
  // pybind11 below 2.12 has no strides for NumPy 2: see readTokens().
  std::vector<int64_t> strides(shape.size());
  int64_t stride = optimus_support::elementBytes(type);
  for (std::size_t i = shape.size(); i-- != 0; stride *= shape[i])
    strides[i] = stride;
  return {py::dtype(kNames[static_cast<int>(type)]), shape, strides, bytes,
          owner};
}

py::array toArray(const HostTensor &tensor) {
  if (tensor.type != ElementType::BF16) {
    py::array array = makeArray(tensor.type, tensor.shape);
    std::memcpy(array.mutable_data(), tensor.bytes.data(), tensor.bytes.size());
    return array;
  }
  py::array array = makeArray(ElementType::F32, tensor.shape);
  auto *wide = static_cast<float *>(array.mutable_data());
  for (std::size_t i = 0; i != tensor.bytes.size() / 2; ++i) {
    uint16_t bits;
    std::memcpy(&bits, &tensor.bytes[2 * i], sizeof(bits));
    wide[i] = std::bit_cast<float>(uint32_t(bits) << 16);
  }
  return array;
}

py::array viewOf(ElementType type, const std::vector<int64_t> &shape,
                 std::span<const std::byte> bytes, const py::object &owner) {
  py::array array = makeArray(type, shape, bytes.data(), owner);
  array.attr("setflags")(py::arg("write") = false);
  return array;
}

} // namespace optimus_python
