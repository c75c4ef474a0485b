//===- Assembler.cpp - From PTX to a GPU's machine code ---------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/Target/CUDA/Assembler.h"

#include "optimus-support/InputFile.h"
#include "optimus-support/OutputFile.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Program.h"

using namespace mlir::optimus;
using llvm::StringRef;
using optimus_support::internal;
using optimus_support::Status;
using optimus_support::StatusOr;

/// The number before or after a text of a line; 0 if it is not there.
static int64_t readNumberBefore(StringRef line, StringRef what) {
  size_t end = line.find(what);
  if (end == StringRef::npos)
    return 0;
  StringRef digits = line.take_front(end).rtrim();
  digits = digits.take_back(digits.size() - 1 -
                            digits.find_last_not_of("0123456789"));
  int64_t number = 0;
  return digits.getAsInteger(10, number) ? 0 : number;
}

StatusOr<std::vector<CudaKernelUse>>
mlir::optimus::readAssemblerLog(std::string_view log) {
  std::vector<CudaKernelUse> kernels;
  llvm::SmallVector<StringRef> lines;
  StringRef(log.data(), log.size()).split(lines, '\n');
  for (StringRef line : lines) {
    if (line.contains("Compiling entry function")) {
      kernels.emplace_back().name = line.split('\'').second.split('\'').first;
      continue;
    }
    if (kernels.empty())
      continue;
    CudaKernelUse &kernel = kernels.back();
    if (line.contains("bytes spill"))
      kernel.spillBytes = readNumberBefore(line, "bytes spill stores") +
                          readNumberBefore(line, "bytes spill loads");
    if (line.contains(" registers")) {
      size_t used = line.find("Used ");
      kernel.registers = readNumberBefore(line.substr(used), " registers");
      kernel.sharedBytes = readNumberBefore(line, " bytes smem");
    }
  }
  for (const CudaKernelUse &kernel : kernels)
    if (kernel.registers == 0)
      return internal("ptxas does not say how many registers '" + kernel.name +
                      "' uses");
  llvm::sort(kernels, [](const CudaKernelUse &a, const CudaKernelUse &b) {
    return a.name < b.name;
  });
  return kernels;
}

StatusOr<CudaAssembler> CudaAssembler::create(const std::string &tool) {
  CudaAssembler assembler;
  auto found = llvm::sys::findProgramByName("ptxas");
  if (!found)
    found = llvm::sys::findProgramByName("ptxas", {"/usr/local/cuda/bin"});
  if (!found)
    return optimus_support::unavailable(
        "no ptxas found: expected it in PATH or in /usr/local/cuda/bin; "
        "install the CUDA toolkit");
  assembler.program = *found;
  OPTRT_ASSIGN_OR_RETURN(assembler.scratch,
                         optimus_support::ScratchFolder::create(tool));
  return assembler;
}

std::future<StatusOr<CudaBinary>>
CudaAssembler::start(const std::string &ptx, const std::string &architecture) {
  Files files = {scratch->file(architecture + ".ptx"),
                 scratch->file(architecture + ".cubin"),
                 scratch->file(architecture + ".log")};
  return std::async(std::launch::async, [this, ptx, architecture, files] {
    return assemble(ptx, architecture, files);
  });
}

StatusOr<CudaBinary> CudaAssembler::assemble(const std::string &ptx,
                                             const std::string &architecture,
                                             const Files &files) const {
  const auto &[source, object, log] = files;
  std::string message;
  OPTRT_RETURN_IF_ERROR(optimus_support::OutputFile::write(source, ptx));
  std::optional<StringRef> redirects[] = {StringRef(), StringRef(log),
                                          StringRef(log)};
  int status = llvm::sys::ExecuteAndWait(
      program,
      {program, "-v", "-O3", "--gpu-name", architecture, "-o", object, source},
      std::nullopt, redirects, 0, 0, &message);
  constexpr size_t kMostLogBytes = size_t(1) << 24;
  constexpr size_t kMostCubinBytes = size_t(1) << 30;
  auto text = optimus_support::readInput(log, kMostLogBytes);
  if (status != 0 && text.ok() &&
      StringRef(*text).contains("is not defined for option 'gpu-name'"))
    return optimus_support::unavailable(
        llvm::formatv("'{0}' does not know {1}; leave it out, or put the ptxas "
                      "of another CUDA toolkit in front in PATH",
                      program, architecture)
            .str());
  if (status != 0)
    return internal(llvm::formatv("'{0} --gpu-name {1}' failed with {2}: {3}",
                                  program, architecture, status,
                                  StringRef(text.ok() ? *text : message).trim())
                        .str());
  if (!text.ok())
    return text.status();
  CudaBinary binary;
  OPTRT_ASSIGN_OR_RETURN(binary.kernels, readAssemblerLog(*text));
  OPTRT_ASSIGN_OR_RETURN(binary.cubin,
                         optimus_support::readInput(object, kMostCubinBytes));
  return binary;
}
