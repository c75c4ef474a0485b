//===- FunctionShape.h - Our declarations against a header's ----*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_DEVICE_CUDA_UNITTESTS_FUNCTIONSHAPE_H
#define OPTIMUS_RUNTIME_DEVICE_CUDA_UNITTESTS_FUNCTIONSHAPE_H

#include <cstdint>
#include <type_traits>

/// How a function hands over a value: numbers by their bytes, pointers alike.
template <typename T>
struct Passed {
  using type = std::conditional_t<
      std::is_pointer_v<T>, void *,
      std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>>;
};
template <typename T>
struct Shape;
template <typename R, typename... Args>
struct Shape<R (*)(Args...)> {
  using type = typename Passed<R>::type(typename Passed<Args>::type...);
};
template <typename Ours, typename Theirs>
constexpr bool isSame =
    std::is_same_v<typename Shape<Ours>::type, typename Shape<Theirs>::type>;

#endif // OPTIMUS_RUNTIME_DEVICE_CUDA_UNITTESTS_FUNCTIONSHAPE_H
