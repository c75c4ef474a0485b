//===- ModelRecordJson.h - Records of models as JSON ------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Manifests and state.json have them in one form.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_MODEL_MODELRECORDJSON_H
#define OPTIMUS_RUNTIME_MODEL_MODELRECORDJSON_H

#include "optimus-runtime/ModelRecord.h"
#include "optimus-support/JsonCursor.h"

namespace optrt {
using optimus_support::JsonCursor;
using optimus_support::JsonDocument;

// Mistakes are the document's.

/// 16 hexadecimal digits.
std::string readHashDigits(const JsonCursor &cursor);
ModelFacts readFacts(const JsonCursor &cursor);
ModelFunction readModelFunction(const JsonCursor &cursor);
ModelRecord readModelRecord(const JsonCursor &cursor);

nlohmann::json toJson(const ModelRecord &record);

} // namespace optrt

#endif // OPTIMUS_RUNTIME_MODEL_MODELRECORDJSON_H
