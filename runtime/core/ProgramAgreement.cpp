//===- ProgramAgreement.cpp - Tables against the manifest -----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ProgramAgreement.h"

#include <algorithm>

using namespace optimus_support::program;

namespace optrt {

namespace {

Status checkFunction(const Manifest &manifest, const Function &described,
                     const FunctionT &function) {
  auto expect = [&](const std::string &what, int64_t found,
                    int64_t expected) -> Status {
    if (found == expected)
      return okStatus();
    return invalidArgument(concat(described.name, ": the table has ", found,
                                  " ", what, ", the manifest says ", expected));
  };
  if (function.prepares != (described.kind == EntryKind::Prepare))
    return invalidArgument(concat(
        described.name, ": in the table it ",
        function.prepares ? "prepares" : "does not prepare",
        ", in the manifest it is of the kind ", toString(described.kind)));
  OPTRT_RETURN_IF_ERROR(expect("commands", int64_t(function.commands.size()),
                               described.commands));
  for (size_t i = 0; i != function.arenas.size(); ++i) {
    const MemorySpace space = function.arenas[i]->space;
    if (i == 0 ? space != MemorySpace::Device
               : space <= function.arenas[i - 1]->space)
      return unavailable(concat(
          described.name, ": arena ", i, " is of memory space ", int(space),
          "; expected the device's first and one a space, "
          "in order"));
  }
  OPTRT_RETURN_IF_ERROR(expect(
      "bytes of arena", function.arenas.empty() ? 0 : function.arenas[0]->bytes,
      described.arenaBytes));
  OPTRT_RETURN_IF_ERROR(expect("arguments", int64_t(function.arguments.size()),
                               int64_t(described.args.size())));
  for (size_t i = 0; i != described.args.size(); ++i) {
    const ArgumentT &argument = *function.arguments[i];
    const Arg &arg = described.args[i];
    const Buffer &buffer = manifest.buffers[arg.buffer];
    OPTRT_RETURN_IF_ERROR(expect(concat("bytes of argument ", i),
                                 argument.bytes, buffer.numBytes()));
    if (argument.type != buffer.type)
      return invalidArgument(concat(
          described.name, ": argument ", i, " is of ", toString(argument.type),
          " in the table, the manifest says ", toString(buffer.type)));
    if (argument.access != optimus_support::program::Access::Read &&
        arg.access == optrt::Access::Read)
      return invalidArgument(concat(described.name, " writes argument ", i,
                                    ", which the manifest says it reads"));
  }
  return okStatus();
}

/// That functions of a table have each buffer in one memory space.
Status checkSpaces(const Manifest &manifest, const ProgramTableT &table) {
  const std::vector<MemorySpace> spaces = spacesOf(manifest, table);
  for (const Function &described : manifest.functions) {
    const FunctionT &function = *findFunction(table, described.name);
    for (size_t i = 0; i != described.args.size(); ++i)
      if (function.arguments[i]->space != spaces[described.args[i].buffer])
        return invalidArgument(concat(
            described.name, ": argument ", i, ", \"",
            manifest.buffers[described.args[i].buffer].name,
            "\", lies in memory space ", int(function.arguments[i]->space),
            ", in another function in ",
            int(spaces[described.args[i].buffer])));
  }
  return okStatus();
}

/// Checks that the buffers bound by the calls of a sequence exist with the same
/// sizes, and looks for written buffers given twice to a call.
Status checkSequence(const Manifest &manifest, const ProgramTableT &table,
                     const SequenceT &sequence) {
  const std::vector<MemorySpace> spaces = spacesOf(manifest, table);
  for (const std::unique_ptr<CallT> &call : sequence.calls) {
    const Function *function = manifest.findFunction(call->function);
    if (!function)
      return invalidArgument(concat("calls ", call->function,
                                    ", which the manifest does not list"));
    std::vector<int64_t> buffers;
    for (const Arg &arg : function->args)
      buffers.push_back(arg.buffer);
    for (const std::unique_ptr<BindingT> &binding : call->bindings) {
      const std::optional<int64_t> found = manifest.findBuffer(binding->buffer);
      int64_t &bound = buffers[binding->argument];
      const Buffer &own = manifest.buffers[bound];
      if (!found || manifest.buffers[*found].type != own.type ||
          manifest.buffers[*found].numBytes() != own.numBytes() ||
          spaces[*found] != spaces[bound])
        return invalidArgument(
            concat("binds argument ", binding->argument, " of ", call->function,
                   " to \"", binding->buffer, "\"; expected a buffer of ",
                   own.numBytes(), " bytes of ", toString(own.type),
                   " in the same memory, as \"", own.name, "\" is"));
      bound = *found;
    }
    for (size_t i = 0; i != buffers.size(); ++i)
      for (size_t j = 0; j != i; ++j)
        if (buffers[i] == buffers[j] &&
            (function->args[i].access != optrt::Access::Read ||
             function->args[j].access != optrt::Access::Read))
          return invalidArgument(
              concat("passes \"", manifest.buffers[buffers[i]].name, "\" to ",
                     call->function, " as arguments ", j, " and ", i,
                     ", one of which it writes"));
  }
  return okStatus();
}

} // namespace

std::vector<MemorySpace> spacesOf(const Manifest &manifest,
                                  const ProgramTableT &table) {
  std::vector<MemorySpace> spaces(manifest.buffers.size(), MemorySpace::Device);
  for (const Function &described : manifest.functions) {
    const FunctionT &function = *findFunction(table, described.name);
    for (size_t i = 0; i != described.args.size(); ++i)
      if (function.arguments[i]->space != MemorySpace::Device)
        spaces[described.args[i].buffer] = function.arguments[i]->space;
  }
  return spaces;
}

Status joinArguments(Manifest &manifest, const TargetT &target) {
  for (Function &described : manifest.functions)
    for (const std::unique_ptr<ProgramTableT> &table : target.tables) {
      const FunctionT *function = findFunction(*table, described.name);
      if (!function)
        continue;
      auto refuse = [&](const std::string &what) {
        return invalidArgument(concat(described.name, ": ", what));
      };
      if (function->arguments.size() != described.args.size())
        return refuse(concat("expected the ", described.args.size(),
                             " arguments of the manifest in the table, found ",
                             function->arguments.size()));
      std::vector<Arg> ordered;
      for (const std::unique_ptr<ArgumentT> &argument : function->arguments) {
        const std::optional<int64_t> buffer =
            manifest.findBuffer(argument->buffer);
        const Arg *arg = buffer ? described.findArg(*buffer) : nullptr;
        if (!arg)
          return refuse(concat("argument ", ordered.size(), " is the buffer \"",
                               printable(argument->buffer),
                               "\" in the table, and none of the manifest's"));
        ordered.push_back(*arg);
      }
      // What is passed twice stands for another one.
      std::vector<int64_t> buffers;
      for (const Arg &arg : ordered)
        buffers.push_back(arg.buffer);
      std::sort(buffers.begin(), buffers.end());
      if (std::adjacent_find(buffers.begin(), buffers.end()) != buffers.end())
        return refuse("two arguments are one buffer in the table");
      if (table != target.tables.front() &&
          !std::equal(
              ordered.begin(), ordered.end(), described.args.begin(),
              [](const Arg &a, const Arg &b) { return a.buffer == b.buffer; }))
        return refuse("tables take its buffers in different orders");
      described.args = std::move(ordered);
    }
  return okStatus();
}

Status checkAgreement(const Manifest &manifest, const ProgramsT &programs,
                      const TargetT &target) {
  const Mesh mesh = meshOf(programs);
  if (!(mesh == manifest.mesh))
    return invalidArgument(concat("they are for the mesh ", mesh.toString(),
                                  ", the manifest for ",
                                  manifest.mesh.toString()));
  for (const std::unique_ptr<ProgramTableT> &table : target.tables) {
    for (const Function &described : manifest.functions) {
      const FunctionT *function = findFunction(*table, described.name);
      if (!function)
        return invalidArgument(concat("the manifest lists the function ",
                                      described.name,
                                      ", which the library does not have"));
      OPTRT_RETURN_IF_ERROR(checkFunction(manifest, described, *function));
    }
    OPTRT_RETURN_IF_ERROR(checkSpaces(manifest, *table));
    for (const std::unique_ptr<SequenceT> &sequence : programs.sequences)
      OPTRT_RETURN_IF_ERROR(checkSequence(manifest, *table, *sequence)
                                .withContext("sequence " + sequence->name));
  }
  return okStatus();
}

} // namespace optrt
