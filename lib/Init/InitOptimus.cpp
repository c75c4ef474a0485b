//===- InitOptimus.cpp - Registers dialects and passes ----------*- C++ -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "optimus/InitOptimus.h"

#include "optimus/Conversion/ExecToLLVM/Passes.h"
#include "optimus/Conversion/ExecToProgram/Passes.h"
#include "optimus/Conversion/ExecToProgram/ProgramActionOpInterface.h"
#include "optimus/Conversion/OptimusToCCL/DecomposableOpInterface.h"
#include "optimus/Conversion/OptimusToCCL/Passes.h"
#include "optimus/Conversion/ToExec/ExecLoweringOpInterface.h"
#include "optimus/Conversion/ToExec/Passes.h"
#include "optimus/Dialect/CCL/IR/CCL.h"
#include "optimus/Dialect/CCL/Transforms/Passes.h"
#include "optimus/Dialect/Exec/IR/Exec.h"
#include "optimus/Dialect/Exec/Transforms/Passes.h"
#include "optimus/Dialect/Optimus/IR/Optimus.h"
#include "optimus/Dialect/Optimus/Transforms/Passes.h"
#include "optimus/Manifest/Passes.h"
#include "optimus/Pipelines/Pipeline.h"
#include "optimus/Target/CPU/CpuDevice.h"
#include "optimus/Target/CUDA/CudaDevice.h"
#include "optimus/Target/CUDA/Passes.h"
#include "optimus/Target/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

void mlir::optimus::registerAllDialects(DialectRegistry &registry) {
  registry.insert<OptimusDialect, ccl::CCLDialect, exec::ExecDialect,
                  arith::ArithDialect, func::FuncDialect, LLVM::LLVMDialect,
                  math::MathDialect, memref::MemRefDialect, NVVM::NVVMDialect,
                  scf::SCFDialect, vector::VectorDialect>();
  registerDecompositions(registry);
  registerExecLowerings(registry);
  registerProgramActions(registry);
}

void mlir::optimus::registerAllTargets() {
  [[maybe_unused]] static const bool areKnown = [] {
    registerCPUTarget();
    registerCUDATarget();
    return true;
  }();
}

void mlir::optimus::registerAllPasses() {
  registerTransformsPasses();
  registerOptimusPasses();
  registerExecToLLVMPasses();
  registerExecToProgramPasses();
  registerOptimusToCCLPasses();
  registerToExecPasses();
  registerTargetPasses();
  registerManifestPasses();
  registerAllTargets();
  registerCUDATargetPasses();
  registerPipelines();
  ccl::registerCCLPasses();
  exec::registerExecPasses();
}
