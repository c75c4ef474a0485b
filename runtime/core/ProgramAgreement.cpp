//===- ProgramAgreement.cpp - That tables do what the manifest says -------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ProgramAgreement.h"

#include "optimus-support/Dropout.h"

using namespace optimus_support::program;

namespace optrt {

namespace {

/// The bytes of what the runtime hands over for an argument.
int64_t bytesOf(const Manifest &manifest, const Arg &arg) {
  switch (arg.kind) {
  case ArgKind::Param:
  case ArgKind::Grad:
    return 4 * manifest.params[arg.index].layout.numLocalElements();
  case ArgKind::ExpAvg:
  case ArgKind::ExpAvgSq:
  case ArgKind::MomentumBuffer:
    return 4 * manifest.params[arg.index].state.numLocalElements();
  case ArgKind::Tokens:
    return 4 * manifest.tokens.numLocalElements();
  case ArgKind::Targets:
    return 4 * manifest.targets.numLocalElements();
  case ArgKind::Random:
    return 4 * optimus_support::kNumRandomWords;
  case ArgKind::Scalar:
  case ArgKind::Output:
    return 4;
  }
  return 0;
}

Status checkFunction(const Manifest &manifest, const Function &described,
                     const FunctionT &function) {
  auto expect = [&](const std::string &what, int64_t found,
                    int64_t expected) -> Status {
    if (found == expected)
      return okStatus();
    return invalidArgument(concat(described.name, ": the table has ", found,
                                  " ", what, ", the manifest says ",
                                  expected));
  };
  OPTRT_RETURN_IF_ERROR(expect("commands", int64_t(function.commands.size()),
                               described.commands));
  if (function.arenas.size() > 1 ||
      (function.arenas.size() == 1 &&
       function.arenas[0]->space != MemorySpace::Device))
    return unavailable(concat(described.name,
                              ": a processor has one arena, in its memory"));
  OPTRT_RETURN_IF_ERROR(
      expect("bytes of arena",
             function.arenas.empty() ? 0 : function.arenas[0]->bytes,
             described.arenaBytes));
  OPTRT_RETURN_IF_ERROR(expect("arguments", int64_t(function.arguments.size()),
                               int64_t(described.args.size())));
  for (size_t i = 0; i != described.args.size(); ++i)
    OPTRT_RETURN_IF_ERROR(expect(concat("bytes of argument ", i),
                                 function.arguments[i]->bytes,
                                 bytesOf(manifest, described.args[i])));
  return okStatus();
}

} // namespace

Status checkAgreement(const Manifest &manifest, const ProgramsT &programs,
                      const TargetT &target) {
  const Mesh mesh = meshOf(programs);
  if (!(mesh == manifest.mesh))
    return invalidArgument(concat("they are for the mesh ", mesh.toString(),
                                  ", the manifest for ",
                                  manifest.mesh.toString()));
  for (const std::unique_ptr<ProgramTableT> &table : target.tables)
    for (const Function &described : manifest.functions) {
      const FunctionT *function = findFunction(*table, described.name);
      if (!function)
        return invalidArgument(concat("the manifest lists the function ",
                                      described.name,
                                      ", which the library does not have"));
      OPTRT_RETURN_IF_ERROR(checkFunction(manifest, described, *function));
    }
  return okStatus();
}

} // namespace optrt
