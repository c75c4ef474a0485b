//===- Tuning.h - What is known of the fastest products ---------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_TUNING_H
#define OPTIMUS_RUNTIME_TUNING_H

#include "optimus-runtime/Device.h"
#include "optimus-runtime/Status.h"

#include <string>
#include <string_view>

namespace optrt {

/// The fastest algorithms for products, as they were found on one machine. Its
/// text is JSON: {"optimus_tuning": 1, "machine": "...", "products":
/// [{"product": "...", "algorithm": "...", "seconds": 1e-05}, ...]}.
struct Tuning {
  std::string machine; ///< Device::tuningMachine(); empty: of none yet
  TunedProducts products;

  std::string toJson() const;
  /// InvalidArgument for anything else than such a text.
  static StatusOr<Tuning> parse(std::string_view text);
};

} // namespace optrt

#endif // OPTIMUS_RUNTIME_TUNING_H
