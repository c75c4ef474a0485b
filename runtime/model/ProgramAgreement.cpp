//===- ProgramAgreement.cpp - Tables against the manifest -----------------===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ProgramAgreement.h"

#include <algorithm>
#include <set>

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
    const FunctionT *function = findFunction(table, described.name);
    for (size_t i = 0; function && i != described.args.size(); ++i)
      if (function->arguments[i]->space != spaces[described.args[i].buffer])
        return invalidArgument(concat(
            described.name, ": argument ", i, ", \"",
            manifest.buffers[described.args[i].buffer].name,
            "\", lies in memory space ", int(function->arguments[i]->space),
            ", in another function in ",
            int(spaces[described.args[i].buffer])));
  }
  return okStatus();
}

/// Checks that the buffers bound by the calls of a sequence exist with the same
/// sizes, and looks for written buffers given twice to a call.
class SequenceAgreement {
public:
  SequenceAgreement(const Manifest &manifest, const ProgramTableT &table)
      : manifest(manifest), spaces(spacesOf(manifest, table)) {}

  Status check(const SequenceT &sequence) {
    std::set<std::vector<int64_t>> passed;
    for (const SequencePart &part : partsOf(sequence))
      for (const auto *calls : {&part.once, &part.repeated})
        for (const SequencedCall &call : *calls) {
          const Function *function = manifest.findFunction(call.call->function);
          if (!function)
            return invalidArgument(
                concat("calls ", call.call->function,
                       ", which the manifest does not list"));
          OPTRT_ASSIGN_OR_RETURN(std::vector<int64_t> buffers,
                                 findPassed(call, *function));
          // Turns of a loop may be many, and alike.
          std::vector<int64_t> key = buffers;
          key.push_back(function - manifest.functions.data());
          if (passed.insert(std::move(key)).second)
            OPTRT_RETURN_IF_ERROR(checkApart(buffers, *function));
        }
    return okStatus();
  }

private:
  StatusOr<std::vector<int64_t>> findPassed(const SequencedCall &call,
                                            const Function &function) {
    for (const std::unique_ptr<BindingT> &binding : call.call->bindings)
      if (seen.insert(binding.get()).second)
        for (const std::string &buffer : binding->buffers)
          OPTRT_RETURN_IF_ERROR(checkBinding(*binding, buffer, function));
    return buffersOf(manifest, call, function);
  }

  Status checkBinding(const BindingT &binding, const std::string &buffer,
                      const Function &function) const {
    const std::optional<int64_t> found = manifest.findBuffer(buffer);
    const int64_t bound = function.args[binding.argument].buffer;
    const Buffer &own = manifest.buffers[bound];
    if (found && manifest.buffers[*found].type == own.type &&
        manifest.buffers[*found].numBytes() == own.numBytes() &&
        spaces[*found] == spaces[bound])
      return okStatus();
    return invalidArgument(
        concat("binds argument ", binding.argument, " of ", function.name,
               " to \"", printable(buffer), "\"; expected a buffer of ",
               own.numBytes(), " bytes of ", toString(own.type),
               " in the same memory, as \"", own.name, "\" is"));
  }

  Status checkApart(const std::vector<int64_t> &buffers,
                    const Function &function) const {
    for (size_t i = 0; i != buffers.size(); ++i)
      for (size_t j = 0; j != i; ++j)
        if (buffers[i] == buffers[j] &&
            (function.args[i].access != optrt::Access::Read ||
             function.args[j].access != optrt::Access::Read))
          return invalidArgument(
              concat("passes \"", manifest.buffers[buffers[i]].name, "\" to ",
                     function.name, " as arguments ", j, " and ", i,
                     ", one of which it writes"));
    return okStatus();
  }

  const Manifest &manifest;
  const std::vector<MemorySpace> spaces;
  std::set<const BindingT *> seen; ///< bindings that were checked
};

} // namespace

std::vector<MemorySpace> spacesOf(const Manifest &manifest,
                                  const ProgramTableT &table) {
  std::vector<MemorySpace> spaces(manifest.buffers.size(), MemorySpace::Device);
  for (const Function &described : manifest.functions) {
    const FunctionT *function = findFunction(table, described.name);
    for (size_t i = 0; function && i != described.args.size(); ++i)
      if (function->arguments[i]->space != MemorySpace::Device)
        spaces[described.args[i].buffer] = function->arguments[i]->space;
  }
  return spaces;
}

std::vector<int64_t> buffersOf(const Manifest &manifest,
                               const SequencedCall &call,
                               const Function &function) {
  std::vector<int64_t> buffers;
  for (const Arg &arg : function.args)
    buffers.push_back(arg.buffer);
  for (const std::unique_ptr<BindingT> &binding : call.call->bindings)
    buffers[binding->argument] = *manifest.findBuffer(call.bufferOf(*binding));
  return buffers;
}

Status joinArguments(Manifest &manifest, const TargetT &target) {
  for (Function &described : manifest.functions) {
    bool isJoined = false;
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
      if (isJoined &&
          !std::equal(
              ordered.begin(), ordered.end(), described.args.begin(),
              [](const Arg &a, const Arg &b) { return a.buffer == b.buffer; }))
        return refuse("tables take its buffers in different orders");
      described.args = std::move(ordered);
      isJoined = true;
    }
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
  for (const Function &described : manifest.functions) {
    bool isThere = false;
    for (const std::unique_ptr<ProgramTableT> &table : target.tables)
      if (const FunctionT *function = findFunction(*table, described.name)) {
        isThere = true;
        OPTRT_RETURN_IF_ERROR(checkFunction(manifest, described, *function));
      }
    if (!isThere)
      return invalidArgument(concat("the manifest lists the function ",
                                    described.name,
                                    ", which the library does not have"));
  }
  for (const std::unique_ptr<ProgramTableT> &table : target.tables) {
    OPTRT_RETURN_IF_ERROR(checkSpaces(manifest, *table));
    SequenceAgreement sequences(manifest, *table);
    for (const std::unique_ptr<SequenceT> &sequence : table->sequences)
      OPTRT_RETURN_IF_ERROR(
          sequences.check(*sequence).withContext("sequence " + sequence->name));
  }
  return okStatus();
}

} // namespace optrt
