//===- PluginContract.cpp - What plugins share with programs --------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Everything to be seen alike by a plugin and the program that opens it. It is
// only preprocessed: its text, without comments, makes the stamp
// (PluginStamp.h).
//
//===----------------------------------------------------------------------===//

#include "optimus-runtime/Device.h"
#include "optimus-runtime/World.h"
