//===- WeightConfig.h - The config.json beside weights ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_CHECKPOINT_WEIGHTCONFIG_H
#define OPTIMUS_RUNTIME_CHECKPOINT_WEIGHTCONFIG_H

#include "optimus-runtime/ModelRecord.h"
#include "optimus-runtime/Status.h"
#include "optimus-support/ElementType.h"

#include <optional>
#include <string>

namespace optrt {

/// Compares a config.json of Transformers 4 or 5 with a library's function:
/// heads, the base of rotary angles, the epsilon of norms, the activation, a
/// tied head; and with its own config.json, `own`, the order of parts in a
/// layer. Extents show in the tensors' shapes. InvalidArgument, naming all
/// differences with both values; DataLoss if it is not JSON. A field or a fact
/// without its counterpart is not compared.
Status checkWeightConfig(const std::string &text, const std::string &path,
                         const std::optional<ModelFunction> &function,
                         const std::string &own = "");

/// Compares an adapter_config.json of PEFT with the library's, `own`: what
/// tensors do not show. InvalidArgument for what is not supported or differs,
/// by name and with both values; DataLoss if it is not JSON.
Status checkAdapterConfig(const std::string &text, const std::string &path,
                          const std::string &own);

/// What an adapter_config.json says of adding B·A to a weight.
struct AdapterScale {
  double factor = 0;         ///< lora_alpha / r
  bool isFanInFirst = false; ///< the weight is [in, out]
};

/// Errors as above.
StatusOr<AdapterScale> readAdapterScale(const std::string &text,
                                        const std::string &path);

/// The same config, laid out for people, with the element type of the weights
/// beside it: F32, BF16 or F16. `text` is returned as it is unless it is a JSON
/// object.
std::string withElementType(const std::string &text,
                            optimus_support::ElementType type);

} // namespace optrt

#endif // OPTIMUS_RUNTIME_CHECKPOINT_WEIGHTCONFIG_H
