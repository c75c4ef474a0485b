//===- DynamicLibrary.cpp - Vendors' libraries, on demand -----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus-support/DynamicLibrary.h"

#include <cstdlib>
#include <dlfcn.h>

namespace optimus_support {

StatusOr<DynamicLibrary> DynamicLibrary::open(LibraryPlaces places) {
  if (const char *chosen = std::getenv(places.variable))
    places.files = {chosen};
  std::string problems;
  for (const std::string &file : places.files) {
    if (void *handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL))
      return DynamicLibrary(handle, file, std::move(places));
    problems += concat(problems.empty() ? "" : "; ", dlerror());
  }
  return unavailable(
      concat("cannot open ", places.what, ": ", problems, "; ", places.remedy));
}

StatusOr<void *> DynamicLibrary::find(const char *name) const {
  if (void *symbol = dlsym(handle, name))
    return symbol;
  return refuse(concat("has no ", name));
}

Status DynamicLibrary::refuse(const std::string &why) const {
  return unavailable(
      concat(places.what, " in ", file, " ", why, "; ", places.remedy));
}

} // namespace optimus_support
