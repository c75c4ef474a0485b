//===- Passes.td - From the device program to LLVM ---------*- tablegen -*-===//
//
// Part of the Optimus project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for licence information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef OPTIMUS_CONVERSION_EXECTOLLVM_PASSES
#define OPTIMUS_CONVERSION_EXECTOLLVM_PASSES

include "mlir/Pass/PassBase.td"

def ExecToLLVMPass : Pass<"optimus-exec-to-llvm", "::mlir::ModuleOp"> {
  let summary = "Lowers the device program and its kernels to the LLVM dialect";
  let description = [{
    The result has the binary interface of
    `support/include/optimus-support/model_abi.h`:

    * functions of commands become tables, one flatbuffer in the section
      `.optimus.programs` (`support/schema/program.fbs`);
    * a kernel, a function with `exec.kernel`, takes plain pointers, and a
      wrapper with the type of `optrt_kernel` unpacks its arguments;
    * `optimus_model_query` checks the version and returns the
      model: the tables, their kernels, and the manifest, which is the text of
      the module attribute `exec.manifest`, empty without one.

    Where the target is a device with code of its own, kernels have no function here:
    their entries say by what name, with how many threads and for how many iterations a
    device launches them. `optimus-compile` has the library carry that code, for each
    architecture; the pass by itself leaves none.

    Fails on a command without number or queue, on a buffer without place in the arena,
    and on a mesh axis that the module's `optimus.mesh` lacks.

    ```mlir
    func.func @f(%arena: memref<0xi8>, …) {…}
    func.func private @gelu_32(%begin: index, %end: index, %x: memref<32xf32>, %y: memref<32xf32>)
      attributes {exec.kernel, exec.computes = {…}} {…}
    // becomes
    llvm.mlir.global internal constant @optimus.programs("…") {section = ".optimus.programs", …}
    llvm.func internal @gelu_32(%begin: i64, %end: i64, %x: !llvm.ptr, %y: !llvm.ptr) {…}
    llvm.func hidden @optimus.kernel.gelu_32(%begin: i64, %end: i64, %arguments: !llvm.ptr) {…}
    llvm.func @optimus_model_query(%version: i32) -> !llvm.ptr {…}
    ```
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect",
                           "::mlir::cf::ControlFlowDialect"];
  let options = [
    Option<"target", "target", "std::string", "\"cpu\"",
           "The device that the program is for: cpu or cuda">,
    Option<"kernelsApart", "kernels-apart", "bool", "false",
           "Only declare the wrappers of kernels, as --optimus-kernels-to-llvm "
           "makes them for another object of the library">,
    Option<"isPlan", "plan", "bool", "false",
           "Leave kernels out of the library, which then cannot run">
  ];
  let statistics = [
    Statistic<"numCommands", "commands", "Number of commands">,
    Statistic<"numKernels", "kernels", "Number of distinct kernels">,
    Statistic<"numProgramBytes", "program-bytes", "Bytes of the tables">
  ];
}

def KernelsToLLVMPass : Pass<"optimus-kernels-to-llvm", "::mlir::ModuleOp"> {
  let summary = "Lowers a program's kernels and nothing else to the LLVM dialect";
  let description = [{
    Leaves of a module its kernels, the functions with `exec.kernel`, and their wrappers,
    as `--optimus-exec-to-llvm` makes them. What launches them may change
    meanwhile: with the option `kernels-apart` that pass only declares the
    wrappers. Only modules linked with the wrappers see them.

    ```mlir
    func.func private @gelu_32(%begin: index, %end: index, %x: memref<32xf32>, %y: memref<32xf32>)
      attributes {exec.kernel, exec.computes = {…}} {…}
    // becomes
    llvm.func internal @gelu_32(%begin: i64, %end: i64, %x: !llvm.ptr, %y: !llvm.ptr) {…}
    llvm.func hidden @optimus.kernel.gelu_32(%begin: i64, %end: i64, %arguments: !llvm.ptr) {
      …
      llvm.call @gelu_32(%begin, %end, %x, %y) : (i64, i64, !llvm.ptr, !llvm.ptr) -> ()
    ```
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect",
                           "::mlir::cf::ControlFlowDialect"];
}

#endif // OPTIMUS_CONVERSION_EXECTOLLVM_PASSES
