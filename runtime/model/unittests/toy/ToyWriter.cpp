//===- ToyWriter.cpp - Writes the data of a library -----------------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

// optimus-toy-writer RANKS FAULT FILE.c
//
// Writes the manifest and the tables as two arrays in the sections where tools
// look for them, what kernels were written for, and the version of the interface.
//
//===----------------------------------------------------------------------===//

#include "ToyModel.h"

#include "optimus-support/ProgramKernels.h"
#include "optimus-support/model_abi.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

using namespace optimus_toy;
using namespace optimus_support::program;

std::optional<Fault> optimus_toy::findFault(std::string_view name) {
  static constexpr std::string_view names[] = {
      "none",   "abi",       "feature",  "traffic",     "rank",      "gradient",
      "source", "stall",     "rounding", "no-programs", "truncated", "arena",
      "kernel", "signature", "race",     "order",       "prepare",   "stages"};
  static_assert(std::size(names) == static_cast<size_t>(Fault::Stages) + 1);
  for (size_t i = 0; i != std::size(names); ++i)
    if (names[i] == name)
      return static_cast<Fault>(i);
  return std::nullopt;
}

/// An array of bytes and its size. An empty section: wherever the compiler
/// likes.
static void writeBytes(std::ostream &out, const char *name, const char *section,
                       std::string_view bytes) {
  out << "__attribute__((aligned(64)";
  if (*section)
    out << ", section(\"" << section << "\")";
  // An array of no bytes has no size that C knows.
  out << "))\nconst unsigned char " << name << "["
      << std::max<size_t>(bytes.size(), 1) << "] = {";
  for (size_t i = 0; i != bytes.size(); ++i)
    out << (i % 20 ? "" : "\n") << int(static_cast<unsigned char>(bytes[i]))
        << ",";
  out << "};\nconst uint64_t " << name << "Size = " << bytes.size() << ";\n";
}

/// An array of what kernels were written for, and its size.
static std::string listSignatures(const ProgramsT &programs) {
  const auto &kernels = programs.targets.front()->kernels;
  std::string text = "const struct toySignature { const char *kernel; uint64_t "
                     "hash; } toySignatures[] = {";
  for (const auto &kernel : kernels)
    text += optimus_support::concat("\n{\"", kernel->name, "\", ",
                                    signatureHash(*kernel), "u},");
  return optimus_support::concat(text, "};\nconst uint32_t toyNumSignatures = ",
                                 kernels.size(), ";\n");
}

int main(int argc, char **argv) {
  const std::optional<Fault> fault =
      argc == 4 ? findFault(argv[2]) : std::nullopt;
  const int64_t ranks = argc == 4 ? std::atoll(argv[1]) : 0;
  if (!fault || ranks < 1) {
    std::fprintf(stderr, "usage: optimus-toy-writer RANKS FAULT FILE.c\n");
    return 1;
  }
  const Sizes sizes(ranks);
  ProgramsT programs = writePrograms(sizes, *fault);
  optimus_support::Status status = check(programs);
  if (!status.ok() && *fault != Fault::Race) {
    std::fprintf(stderr, "optimus-toy-writer: error: %s\n",
                 status.message().c_str());
    return 2;
  }
  const std::string signatures = listSignatures(programs);
  if (*fault == Fault::Signature)
    programs.targets.front()->kernels.front()->scalars.front()->least = 0;
  const std::string manifest = writeManifest(sizes, *fault, programs);
  if (*fault == Fault::Arena)
    for (const auto &function :
         programs.targets.front()->tables.front()->functions)
      function->arenas.front()->bytes += 64;
  std::string packed = pack(programs);
  if (*fault == Fault::Truncated)
    packed.resize(packed.size() / 2);
  if (*fault == Fault::NoPrograms)
    packed.clear();

  std::ofstream out(argv[3]);
  out << "// Written by optimus-toy-writer.\n#include <stdint.h>\n";
  writeBytes(out, "toyManifest", OPTIMUS_MANIFEST_SECTION, manifest);
  writeBytes(out, "toyPrograms",
             *fault == Fault::NoPrograms ? "" : OPTIMUS_PROGRAMS_SECTION,
             packed);
  out << signatures << "const uint32_t toyVersion = "
      << (*fault == Fault::Abi ? 0 : OPTRT_ABI_VERSION) << ";\n";
  out.close();
  if (!out) {
    std::fprintf(stderr, "optimus-toy-writer: error: cannot write %s\n",
                 argv[3]);
    return 1;
  }
  return 0;
}
