//===- optimus-mutate.cpp - Mutants of a file, for tools that are run as
// programs ===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

//
// optimus-mutate FILE SEED [OTHER]: prints a mutant; with OTHER, now and then
// with lines of that file in it.
//
//===----------------------------------------------------------------------===//

#include "TokenMutator.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

static std::string readFile(const char *path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

int main(int argc, char **argv) {
  if (argc < 3) {
    std::fputs("usage: optimus-mutate FILE SEED [OTHER]\n", stderr);
    return 1;
  }
  auto seed = static_cast<uint32_t>(std::strtoul(argv[2], nullptr, 10));
  std::string text = readFile(argv[1]);
  if (argc > 3 && seed % 8 == 0)
    text = optimus_fuzz::cross(text, readFile(argv[3]), seed);
  text = optimus_fuzz::mutate(text, seed);
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() ? 0
                                                                         : 1;
}
