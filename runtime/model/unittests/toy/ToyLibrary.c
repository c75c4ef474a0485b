//===- ToyLibrary.c - The entry of the model written by hand ------*- C -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ToyKernels.h"

#include <stddef.h>

// What optimus-toy-writer wrote.
extern const unsigned char toyManifest[], toyPrograms[];
extern const uint64_t toyManifestSize, toyProgramsSize;
extern const uint32_t toyVersion, toyNumSignatures;
extern const struct toySignature {
  const char *kernel;
  uint64_t hash;
} toySignatures[];

static optimus_model model;
static optimus_kernel kernels[32];

static int isSame(const char *a, const char *b) {
  for (; *a == *b; ++a, ++b)
    if (*a == 0)
      return 1;
  return 0;
}

__attribute__((visibility("default"))) const optimus_model *
optimus_model_query(uint32_t version) {
  if (version != toyVersion)
    return NULL;
  model.version = toyVersion;
  model.manifest = (const char *)toyManifest;
  model.manifest_size = toyManifestSize;
  model.programs = (const char *)toyPrograms;
  model.programs_size = toyProgramsSize;
  model.num_kernels = toyNumKernels;
  model.kernels = kernels;
  for (uint32_t i = 0; i != toyNumKernels; ++i) {
    kernels[i] = toyKernels[i];
    for (uint32_t j = 0; j != toyNumSignatures; ++j)
      if (isSame(toySignatures[j].kernel, kernels[i].name))
        kernels[i].signature = toySignatures[j].hash;
  }
  return &model;
}
