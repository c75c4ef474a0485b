//===- Plugin.h - Parts of the runtime that are opened on demand -*- C++
//-*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_BASE_PLUGIN_H
#define OPTIMUS_RUNTIME_BASE_PLUGIN_H

#include "optimus-runtime/Status.h"

namespace optrt {

/// A device or a communication back-end. Each is a shared object of its own, so
/// that a program starts on a machine without the others' libraries.
struct Plugin {
  const char *what;     ///< for messages: "the MPI back-end"
  const char *file;     ///< in `../lib/optimus` beside the executable
  const char *variable; ///< environment variable with another path
  const char *entry;    ///< the function it exports
  const char *remedy;   ///< what to do when it cannot be opened
  /// Whether libraries that the plugin opens look for its symbols.
  bool global = false;
};

/// Opens a plugin, for as long as the process lives, and returns its entry.
/// Unavailable when it is not there, lacks a library, has no entry or was not
/// built with this program (PluginStamp.h).
StatusOr<void *> openPlugin(const Plugin &plugin);

} // namespace optrt

#endif // OPTIMUS_RUNTIME_BASE_PLUGIN_H
