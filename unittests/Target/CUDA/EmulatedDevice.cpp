//===- EmulatedDevice.cpp - Runs kernels for GPUs on the host * -*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "EmulatedDevice.h"

#include "optimus/Target/CUDA/Emulation.h"

#include "optimus-support/emulator_abi.h"

#include "llvm/ExecutionEngine/Orc/AbsoluteSymbols.h"
#include "llvm/ExecutionEngine/Orc/JITTargetMachineBuilder.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/TargetParser/Host.h"

using namespace mlir::optimus::emulator;
using llvm::ArrayRef;

/// Lets the code find what it calls.
static llvm::Error defineCalls(llvm::orc::LLJIT &jit) {
  llvm::orc::SymbolMap symbols;
  auto define = [&](const char *name, auto *function) {
    symbols[jit.mangleAndIntern(name)] = {
        llvm::orc::ExecutorAddr::fromPtr(function),
        llvm::JITSymbolFlags::Exported};
  };
  define("optimus_emulated_thread", optimus_emulated_thread);
  define("optimus_emulated_block", optimus_emulated_block);
  define("optimus_emulated_num_blocks", optimus_emulated_num_blocks);
  define("optimus_emulated_barrier", optimus_emulated_barrier);
  define("optimus_emulated_warp_barrier", optimus_emulated_warp_barrier);
  define("optimus_emulated_shuffle", optimus_emulated_shuffle);
  define("optimus_emulated_shuffle_float", optimus_emulated_shuffle_float);
  define("optimus_emulated_product", optimus_emulated_product);
  define("optimus_emulated_matrices", optimus_emulated_matrices);
  define("optimus_emulated_copy", optimus_emulated_copy);
  define("optimus_emulated_copy_commit", optimus_emulated_copy_commit);
  define("optimus_emulated_copy_wait", optimus_emulated_copy_wait);
  define("optimus_emulated_exp2", optimus_emulated_exp2);
  define("optimus_emulated_access", optimus_emulated_access);
  return jit.getMainJITDylib().define(
      llvm::orc::absoluteSymbols(std::move(symbols)));
}

EmulatedDevice::EmulatedDevice() = default;
EmulatedDevice::~EmulatedDevice() = default;

llvm::Expected<std::unique_ptr<EmulatedDevice>>
EmulatedDevice::create(const std::string &ir) {
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  // For any processor, as the images of libraries are: conversions to bf16 that
  // some have make small numbers zero, and GPUs' do not.
  llvm::orc::JITTargetMachineBuilder builder{
      llvm::Triple(llvm::sys::getProcessTriple())};
  auto machine = builder.createTargetMachine();
  if (!machine)
    return machine.takeError();
  auto context = std::make_unique<llvm::LLVMContext>();
  auto module = emulateCudaCode(ir, *context, **machine);
  if (!module.ok())
    return llvm::createStringError(module.status().message());

  std::unique_ptr<EmulatedDevice> device(new EmulatedDevice());
  auto jit = llvm::orc::LLJITBuilder()
                 .setJITTargetMachineBuilder(std::move(builder))
                 .create();
  if (!jit)
    return jit.takeError();
  device->jit = std::move(*jit);
  llvm::orc::LLJIT &compiler = *device->jit;
  if (llvm::Error error = defineCalls(compiler))
    return error;
  if (llvm::Error error = compiler.addIRModule(llvm::orc::ThreadSafeModule(
          std::move(module).value(), std::move(context))))
    return error;
  auto address = compiler.lookup("optimus_emulated_image");
  if (!address)
    return address.takeError();
  device->code = address->toPtr<const optimus_emulated_code *>();
  for (const optimus_emulated_global &global :
       ArrayRef(device->code->globals, device->code->num_globals)) {
    if (global.is_shared)
      device->memory.addShared(global.name, global.begin, global.bytes);
    else
      device->memory.addTable(global.name, global.begin, global.bytes);
  }
  return device;
}

std::string EmulatedDevice::run(const EmulatedLaunch &launch, Order order) {
  ArrayRef kernels(code->kernels, code->num_kernels);
  const optimus_emulated_kernel *kernel =
      llvm::find_if(kernels, [&](const optimus_emulated_kernel &known) {
        return known.name == launch.kernel;
      });
  if (kernel == kernels.end())
    return "there is no kernel " + launch.kernel;
  if (kernel->block_threads != uint32_t(launch.threads))
    return launch.kernel + " has blocks of another size";
  std::vector<int64_t> args{launch.iterations};
  memory.reset();
  for (const EmulatedLaunch::Buffer &buffer : launch.buffers) {
    args.push_back(reinterpret_cast<intptr_t>(buffer.begin));
    memory.addBuffer(buffer.name, buffer.begin, buffer.bytes, buffer.isWritten);
  }
  args.insert(args.end(), launch.scalars.begin(), launch.scalars.end());
  if (args.size() != kernel->num_parameters)
    return launch.kernel + " has another number of parameters";
  std::vector<void *> parameters;
  for (int64_t &argument : args)
    parameters.push_back(&argument);
  for (int32_t number = 0; number < launch.blocks; ++number)
    if (std::string problem =
            block.run(number, launch.blocks, launch.threads, order,
                      [&] { kernel->run(parameters.data()); });
        !problem.empty())
      return launch.kernel + ": " + problem;
  return "";
}
