//===- ManifestReader.h - The parts of a manifest ---------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// What Manifest.cpp puts together: layouts, buffers and functions. Every reader
// records mistakes in the document and returns something harmless.
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_MODEL_MANIFESTREADER_H
#define OPTIMUS_RUNTIME_MODEL_MANIFESTREADER_H

#include "optimus-runtime/Manifest.h"
#include "optimus-support/JsonCursor.h"
#include "optimus-support/Sizes.h"

#include <set>

namespace optrt {
using optimus_support::JsonCursor;
using optimus_support::JsonDocument;

using optimus_support::CheckedSize;
using optimus_support::kMaxBytes;
using optimus_support::kMaxDims;
using optimus_support::kMaxElements;
using optimus_support::kMaxRanks;

// By the enumerations' values.
inline constexpr std::string_view kLifetimeNames[] = {"parameter", "state",
                                                      "sequence", "call"};
inline constexpr std::string_view kResetNames[] = {"never", "step", "sequence",
                                                   "call"};
inline constexpr std::string_view kFilledByNames[] = {"program", "data",
                                                      "host"};
inline constexpr std::string_view kEntryKindNames[] = {
    "train",   "eval",   "grad",  "accumulate", "update", "forward",
    "prefill", "decode", "score", "prepare",    "other"};
inline constexpr std::string_view kAccessNames[] = {"read", "write", "update"};

/// The index of the cursor's string among `names`; 0 after a mistake.
template <size_t N>
int readEnum(const JsonCursor &cursor, const std::string_view (&names)[N]) {
  std::string text = cursor.string();
  for (size_t i = 0; i < N; ++i)
    if (names[i] == text)
      return int(i);
  std::string known;
  for (std::string_view name : names)
    known += concat(known.empty() ? "" : ", ", name);
  cursor.fail(concat("expected one of ", known, "; found \"", text, "\""));
  return 0;
}

/// A name that is not among `taken` and is added to it.
std::string readName(const JsonCursor &cursor, std::set<std::string> &taken);

/// Nothing after a mistake: the mesh may have no axis to stand in.
std::optional<int> readAxis(const JsonCursor &cursor, const Mesh &mesh);

/// Extents of at least 1 whose product is at most kMaxElements.
std::vector<int64_t> readShape(const JsonCursor &cursor);

Mesh readMesh(const JsonCursor &cursor);
Dimension readDimension(const JsonCursor &cursor, const Mesh &mesh,
                        std::set<std::string> &taken);

/// Reads shape, local_shape, sharding and unreduced of a buffer, and checks
/// that the shards cover the tensor with no more padding than `dimensions` say.
void readLayout(const JsonCursor &cursor, const Manifest &manifest,
                Buffer &buffer);

/// The buffers of a model, of which mesh, sizes and dimensions are read.
void readBuffers(const JsonCursor &cursor, Manifest &manifest);

/// The functions of a model, of which buffers are read.
void readFunctions(const JsonCursor &cursor, Manifest &manifest);

} // namespace optrt

#endif // OPTIMUS_RUNTIME_MODEL_MANIFESTREADER_H
