//===- Plugin.cpp - Parts of the runtime that are opened on demand --------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Plugin.h"

#include "PluginStamp.h"

#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <link.h>
#include <string_view>
#include <system_error>

namespace optrt {

/// Where plugins of a program lie from its folder, and those of a shared
/// library, as Python's module, from its own.
static constexpr const char *kBesidePrograms = "../lib/optimus",
                            *kBesideLibraries = "lib/optimus";

static StatusOr<std::string> pathOf(const Plugin &plugin) {
  if (const char *chosen = std::getenv(plugin.variable))
    return std::string(chosen);
  Dl_info info;
  link_map *object = nullptr;
  std::error_code error;
  if (dladdr1(reinterpret_cast<const void *>(&pathOf), &info,
              reinterpret_cast<void **>(&object), RTLD_DL_LINKMAP) &&
      object && *object->l_name)
    return (std::filesystem::absolute(object->l_name, error).parent_path() /
            kBesideLibraries / plugin.file)
        .string();
  std::filesystem::path executable =
      std::filesystem::read_symlink("/proc/self/exe", error);
  if (error)
    return unavailable(concat("cannot find the folder of this program to look "
                              "for ",
                              plugin.what, ": ", error.message()));
  return (executable.parent_path() / kBesidePrograms / plugin.file)
      .lexically_normal()
      .string();
}

/// That a plugin has the classes of this program.
static Status checkStamp(void *handle, const std::string &path) {
  const auto stamp = reinterpret_cast<decltype(&optimus_plugin_stamp)>(
      dlsym(handle, "optimus_plugin_stamp"));
  const std::string_view found = stamp ? stamp() : "none",
                         expected = optimus_plugin_stamp();
  if (found == expected)
    return okStatus();
  return unavailable(concat(
      path, " and this program are not of the same build: expected the stamp ",
      expected, " of their interface, found ", found,
      "; build both again (`ninja -C build`), or install both from one build"));
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
  OPTRT_RETURN_IF_ERROR(checkStamp(handle, path));
  return entry;
}

} // namespace optrt
