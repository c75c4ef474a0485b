//===- DynamicLibrary.h - Vendors' libraries, on demand ---------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_SUPPORT_DYNAMICLIBRARY_H
#define OPTIMUS_SUPPORT_DYNAMICLIBRARY_H

#include "optimus-support/Status.h"

#include <string>
#include <vector>

namespace optimus_support {

/// Where a library is looked for that need not be there.
struct LibraryPlaces {
  const char *what;     ///< "NCCL"
  const char *variable; ///< of the environment: names the only file to try
  std::vector<std::string> files; ///< in this order
  const char *remedy; ///< the advice for a missing library
};

/// A library that is opened when it is needed, for as long as the process
/// lives.
class DynamicLibrary {
public:
  /// Unavailable, with what was tried and the remedy, where no file opens.
  static StatusOr<DynamicLibrary> open(LibraryPlaces places);

  /// Sets `function` to the library's symbol of this name; Unavailable where it
  /// has none.
  template <typename Function>
  Status find(const char *name, Function *&function) const {
    OPTRT_ASSIGN_OR_RETURN(void *found, find(name));
    function = reinterpret_cast<Function *>(found);
    return okStatus();
  }

  /// One that cannot be used: "NCCL in libnccl.so.2 is 2.8.4; " and the remedy.
  Status refuse(const std::string &why) const;

private:
  DynamicLibrary(void *handle, std::string file, LibraryPlaces places)
      : handle(handle), file(std::move(file)), places(std::move(places)) {}
  StatusOr<void *> find(const char *name) const;

  void *handle;
  std::string file;
  LibraryPlaces places;
};

} // namespace optimus_support

#endif // OPTIMUS_SUPPORT_DYNAMICLIBRARY_H
