//===- ModelLibrary.cpp - A compiled model, opened ------------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-runtime/ModelLibrary.h"

#include "ElfFile.h"
#include "HostFeatures.h"

#include <dlfcn.h>
#include <filesystem>
#include <system_error>

namespace optrt {

ModelLibrary::~ModelLibrary() {
  if (handle)
    dlclose(handle);
}

std::string_view ModelLibrary::manifestText() const {
  return {model->manifest, model->manifest_size};
}

StatusOr<std::unique_ptr<ModelLibrary>>
ModelLibrary::open(const std::string &path, Use use) {
  std::error_code error;
  std::filesystem::file_status file = std::filesystem::status(path, error);
  if (!std::filesystem::exists(file))
    return invalidArgument("model library `" + path +
                           "` does not exist; optimus-compile makes one");
  if (!std::filesystem::is_regular_file(file))
    return invalidArgument("model library `" + path + "` is not a file");

  OPTRT_RETURN_IF_ERROR(checkSharedObject(path));

  std::unique_ptr<ModelLibrary> library(new ModelLibrary());
  library->libraryPath = path;
  // A path without a slash would be looked up in the system's folders.
  library->handle =
      dlopen(std::filesystem::absolute(path).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library->handle)
    return invalidArgument(
        "`" + path + "` cannot be opened as a shared library: " + dlerror());
  auto query = reinterpret_cast<optimus_model_query_fn>(
      dlsym(library->handle, "optimus_model_query"));
  if (!query)
    return invalidArgument("`" + path +
                           "` is a shared library but no model library: it "
                           "has no symbol optimus_model_query");
  library->model = query(OPTRT_ABI_VERSION, &runtimeApi());
  if (!library->model)
    return invalidArgument(
        concat("model library `", path,
               "` was compiled for another version of the runtime; this one "
               "has version ",
               OPTRT_ABI_VERSION, " of the interface. Compile it again"));
  if (library->model->version != OPTRT_ABI_VERSION)
    return invalidArgument(concat("model library `", path, "` has version ",
                                  library->model->version,
                                  " of the interface, the runtime ",
                                  OPTRT_ABI_VERSION, ". Compile it again"));
  StatusOr<Manifest> manifest = parseManifest(library->manifestText());
  if (!manifest.ok())
    return manifest.status().withContext("manifest of `" + path + "`");
  library->parsed = std::move(manifest).value();
  for (const Function &function : library->parsed.functions)
    if (!library->findFunction(function.name))
      return invalidArgument("the manifest of `" + path +
                             "` lists the function " + function.name +
                             ", which the library does not have");

  if (use == Use::Run) {
    std::vector<std::string> missing =
        missingFeatures(library->parsed.targetFeatures, readCpuInfo());
    if (!missing.empty()) {
      std::string names;
      for (const std::string &name : missing)
        names += (names.empty() ? "" : ", ") + name;
      return unavailable(
          "model library `" + path + "` is compiled for " +
          library->parsed.targetCpu + " and needs " + names +
          ", which this processor lacks; compile it with --mcpu=native on "
          "this machine");
    }
  }
  return library;
}

const optimus_function *
ModelLibrary::findFunction(std::string_view name) const {
  for (uint32_t i = 0; i != model->num_functions; ++i)
    if (name == model->functions[i].name)
      return &model->functions[i];
  return nullptr;
}

} // namespace optrt
