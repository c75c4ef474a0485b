//===- GpuKernels.cpp - Machine code for GPUs -------------------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GpuKernels.h"

#include "optimus/Planning/Quantities.h"
#include "optimus/Target/CUDA/Assembler.h"
#include "optimus/Target/CUDA/CodeGen.h"
#include "optimus/Target/CUDA/Emulation.h"
#include "optimus/Target/CUDA/Passes.h"

#include "optimus-support/OutputFile.h"

#include "mlir/Pass/PassManager.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"

#include <future>
#include <map>

using namespace mlir;
using namespace mlir::optimus;
using optimus_support::internal;
using optimus_support::invalidArgument;
using optimus_support::OutputFile;
using optimus_support::Status;
using optimus_support::StatusOr;

static std::string getKernelsPath(const CompileOptions &options,
                                  const std::string &architecture,
                                  StringRef suffix) {
  SmallString<128> path(options.cubinFolder);
  llvm::sys::path::append(path, architecture + suffix);
  return path.str().str();
}

namespace {
/// What a kernel takes, by architecture.
using Uses = std::map<std::string, std::vector<CudaKernelUse>>;
} // namespace

static void printUses(const Uses &uses, const CompileOptions &options,
                      llvm::raw_ostream &out) {
  size_t width = StringRef("kernel").size();
  for (const auto &[name, list] : uses)
    width = std::max(width, name.size());
  auto pad = [&](StringRef text) {
    out << text;
    out.indent(width - text.size());
  };
  out << "\nregisters of a thread, shared bytes of a block, and bytes that "
         "registers spill\n";
  pad("kernel");
  for (const std::string &architecture : options.gpuArchitectures)
    out << llvm::formatv("  {0,20}", architecture);
  out << "\n";
  for (const auto &[name, list] : uses) {
    pad(name);
    for (const CudaKernelUse &use : list)
      out << llvm::formatv("  {0,6} {1,6} {2,6}", use.registers,
                           use.sharedBytes, use.spillBytes);
    out << "\n";
  }
}

/// What a GPU loads of them.
static void printSizes(ArrayRef<DeviceImage> images, llvm::raw_ostream &out) {
  out << "code: ";
  llvm::interleaveComma(images, out, [&](const DeviceImage &image) {
    out << formatBytes(int64_t(image.code.size())) << " of "
        << image.architecture;
  });
  out << "; a GPU loads one of them\n";
}

/// The kernels as a library for the host that an emulator opens.
static StatusOr<DeviceImage> buildEmulated(ModuleOp kernels,
                                           LibraryWriter &writer) {
  OPTRT_ASSIGN_OR_RETURN(std::string ir,
                         generateCudaIR(kernels, kEmulatedArchitecture.str()));
  auto machine = llvm::cantFail(CpuTarget::get("generic")).createMachine();
  if (!machine)
    return internal(llvm::toString(machine.takeError()));
  auto context = std::make_unique<llvm::LLVMContext>();
  OPTRT_ASSIGN_OR_RETURN(std::unique_ptr<llvm::Module> module,
                         emulateCudaCode(ir, *context, **machine));
  OPTRT_ASSIGN_OR_RETURN(LLVMCode host,
                         LLVMCode::create(std::move(context), std::move(module),
                                          std::move(*machine)));
  OPTRT_ASSIGN_OR_RETURN(std::string library, writer.build(host));
  return DeviceImage{kEmulated.str(), std::move(library)};
}

/// Adds the images of real architectures.
static Status assembleKernels(ModuleOp kernels, const CompileOptions &options,
                              DeviceImages &images, llvm::raw_ostream &out) {
  StatusOr<CudaAssembler> assembler = CudaAssembler::create("optimus-compile");
  // Of a report, what needs no machine code was printed.
  if (!assembler.ok() && !options.writesLibrary() &&
      options.cubinFolder.empty()) {
    out << "\nwhat kernels take of a GPU is not known: "
        << assembler.status().message() << "\n";
    return optimus_support::okStatus();
  }
  OPTRT_RETURN_IF_ERROR(assembler.status());
  if (!options.cubinFolder.empty())
    if (std::error_code code =
            llvm::sys::fs::create_directories(options.cubinFolder))
      return invalidArgument("--cubins-to: cannot create '" +
                             options.cubinFolder + "': " + code.message());
  // The assembler is a program of its own: while it makes one architecture's
  // code, LLVM makes the PTX of the next.
  std::vector<std::string> sources;
  std::vector<std::future<StatusOr<CudaBinary>>> binaries;
  for (const std::string &architecture : options.gpuArchitectures) {
    OPTRT_ASSIGN_OR_RETURN(std::string ptx, generatePtx(kernels, architecture));
    binaries.push_back(assembler->start(ptx, architecture));
    sources.push_back(std::move(ptx));
  }
  StringRef newest = getNewestArchitecture(options.gpuArchitectures);
  std::string newestPtx;
  Uses uses;
  for (auto [architecture, ptx, started] :
       llvm::zip_equal(options.gpuArchitectures, sources, binaries)) {
    OPTRT_ASSIGN_OR_RETURN(CudaBinary binary, started.get());
    for (CudaKernelUse &use : binary.kernels)
      uses[use.name].push_back(use);
    if (!options.cubinFolder.empty()) {
      OPTRT_RETURN_IF_ERROR(OutputFile::write(
          getKernelsPath(options, architecture, ".ptx"), ptx));
      OPTRT_RETURN_IF_ERROR(OutputFile::write(
          getKernelsPath(options, architecture, ".cubin"), binary.cubin));
    }
    if (architecture == newest)
      newestPtx = std::move(ptx);
    images.push_back({architecture, std::move(binary.cubin)});
  }
  images.push_back({"ptx", std::move(newestPtx)});
  if (options.report) {
    printUses(uses, options, out);
    printSizes(images, out);
  }
  return optimus_support::okStatus();
}

StatusOr<GpuKernels>
mlir::optimus::buildGpuKernels(ModuleOp kernels, const CompileOptions &options,
                               LibraryWriter *writer) {
  auto passes = PassManager::on<ModuleOp>(kernels.getContext());
  passes.addPass(createKernelsToNVVMPass());
  if (failed(passes.run(kernels)))
    return internal("the kernels cannot be lowered");
  GpuKernels built;
  llvm::raw_string_ostream report(built.report);
  if (!options.gpuArchitectures.empty())
    OPTRT_RETURN_IF_ERROR(
        assembleKernels(kernels, options, built.images, report));
  if (options.emulatesGpu && writer) {
    OPTRT_ASSIGN_OR_RETURN(DeviceImage image, buildEmulated(kernels, *writer));
    built.images.push_back(std::move(image));
  }
  return built;
}
