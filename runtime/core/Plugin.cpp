//===- Plugin.cpp - Parts of the runtime that are opened on demand --------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Plugin.h"

#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <system_error>

namespace optrt {

static StatusOr<std::string> pathOf(const Plugin &plugin) {
  if (const char *chosen = std::getenv(plugin.variable))
    return std::string(chosen);
  std::error_code error;
  std::filesystem::path executable =
      std::filesystem::read_symlink("/proc/self/exe", error);
  if (error)
    return unavailable(concat("cannot find the folder of this program to look "
                              "for ",
                              plugin.what, ": ", error.message()));
  return (executable.parent_path() / "../lib" / plugin.file)
      .lexically_normal()
      .string();
}

StatusOr<void *> openPlugin(const Plugin &plugin) {
  OPTRT_ASSIGN_OR_RETURN(std::string path, pathOf(plugin));
  void *handle = dlopen(path.c_str(),
                        RTLD_NOW | (plugin.global ? RTLD_GLOBAL : RTLD_LOCAL));
  if (!handle)
    return unavailable(concat("cannot open ", plugin.what, ": ", dlerror(),
                              "; ", plugin.remedy));
  void *entry = dlsym(handle, plugin.entry);
  if (!entry)
    return unavailable(concat(path, " is not ", plugin.what,
                              ": it has no symbol ", plugin.entry));
  return entry;
}

} // namespace optrt
