//===- ForeignPlugin.c - A device plugin of another build -----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// With OPTIMUS_STAMP as its stamp, or with none, as those of before stamps. It
// is opened, and no more of it may be called.
//
//===----------------------------------------------------------------------===//

#include <stdlib.h>

#ifdef OPTIMUS_STAMP
const char *optimus_plugin_stamp(void) { return OPTIMUS_STAMP; }
#endif

void *optimus_device_create(void) { abort(); }
