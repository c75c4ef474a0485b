//===- MutantStem.c - A library whose data are somebody else's ----*- C -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// A model library for optimus-table-mutants, which gives it a manifest and tables
// while it runs. A file of its own for each mutant would need a linker.
//
//===----------------------------------------------------------------------===//

#include "optimus-support/model_abi.h"

#include <stddef.h>

__attribute__((visibility("default"))) optimus_model optimusMutant;

__attribute__((visibility("default"))) const optimus_model *
optimus_model_query(uint32_t version) {
  return version == OPTRT_ABI_VERSION ? &optimusMutant : NULL;
}
