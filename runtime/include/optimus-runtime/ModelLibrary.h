//===- ModelLibrary.h - A compiled model, opened ----------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_MODELLIBRARY_H
#define OPTIMUS_RUNTIME_MODELLIBRARY_H

#include "optimus-runtime/Manifest.h"
#include "optimus-runtime/Status.h"
#include "optimus-support/model_abi.h"

#include <memory>
#include <string>
#include <string_view>

namespace optrt {

/// A model library that was opened and checked. dlopen runs code: a library is
/// trusted like a program.
class ModelLibrary {
public:
  enum class Use {
    Run,     ///< refuse a library for features that this processor lacks
    Inspect, ///< only its manifest is read
  };

  /// Opens `path`. Fails with InvalidArgument when the file is missing, is no
  /// shared library, is no model library, or has another ABI version or a
  /// broken manifest; with Unavailable, naming the features, when the
  /// processor cannot run it.
  static StatusOr<std::unique_ptr<ModelLibrary>> open(const std::string &path,
                                                      Use use = Use::Run);
  ~ModelLibrary();
  ModelLibrary(const ModelLibrary &) = delete;
  ModelLibrary &operator=(const ModelLibrary &) = delete;

  const std::string &path() const { return libraryPath; }
  const Manifest &manifest() const { return parsed; }
  /// The manifest as the library carries it.
  std::string_view manifestText() const;

  /// The entry point called `name`, or null.
  const optimus_function *findFunction(std::string_view name) const;

private:
  ModelLibrary() = default;

  std::string libraryPath;
  void *handle = nullptr;
  const optimus_model *model = nullptr;
  Manifest parsed;
};

/// The table that the runtime hands to every model library.
const optrt_api &runtimeApi();

} // namespace optrt

#endif // OPTIMUS_RUNTIME_MODELLIBRARY_H
