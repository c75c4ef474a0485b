//===- PluginStamp.h - Tells plugins of another build -----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_RUNTIME_BASE_PLUGINSTAMP_H
#define OPTIMUS_RUNTIME_BASE_PLUGINSTAMP_H

/// A hash of PluginContract.cpp as the compiler sees it, which the build
/// computes: whatever header of it changes, the stamp changes. A plugin and a
/// program each have their own; where the two differ, neither knows the other's
/// classes. A function, not data: a plugin's global symbol of this name would
/// stand for those of all plugins opened after it.
extern "C" __attribute__((visibility("default"))) const char *
optimus_plugin_stamp();

#endif // OPTIMUS_RUNTIME_BASE_PLUGINSTAMP_H
