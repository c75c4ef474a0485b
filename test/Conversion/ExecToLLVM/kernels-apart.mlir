// RUN: %optimus-opt %s --optimus-kernels-to-llvm | FileCheck %s --check-prefix=KERNELS
// RUN: %optimus-opt %s --pass-pipeline='builtin.module(func.func(optimus-order-commands),optimus-exec-to-llvm{kernels-apart})' | FileCheck %s --check-prefix=TABLE

// A library can be linked of two objects: its kernels, which are known as soon as a program is lowered
// to commands, and the table of those commands as they are scheduled and placed later. Wrappers are seen by
// what they are linked with and by nobody else.

// KERNELS-NOT:   exec.manifest
// KERNELS-NOT:   optimus.mesh
// KERNELS-NOT:   @step
// KERNELS:       llvm.func internal @twice(
// KERNELS:       llvm.func hidden @optimus.kernel.twice(%{{.*}}: i64, %{{.*}}: i64, %{{.*}}: !llvm.ptr) {
// KERNELS:         llvm.call @twice(
// KERNELS-NOT:   optimus_model_query

// TABLE:         llvm.mlir.global internal constant @optimus.kernels()
// TABLE-DAG:       llvm.mlir.addressof @optimus.kernel.twice
// TABLE:         llvm.mlir.global internal constant @optimus.programs(
// TABLE-NOT:     @twice(
// TABLE:         llvm.func hidden @optimus.kernel.twice(i64, i64, !llvm.ptr){{$}}
// TABLE:         llvm.func @optimus_model_query(

module attributes {exec.manifest = "{}"} {
optimus.mesh @mesh <["row" = 2, "col" = 3]>

func.func @step(%arena: memref<8192xi8>, %x: memref<512xf32>) {
  %slot = exec.arena_slot %arena[1024] "activation" : memref<8192xi8> to memref<512xf32>
  exec.launch @twice extent 4 grain 2 (read %x : memref<512xf32>, write %slot : memref<512xf32>) {id = 0 : i32}
  return
}

func.func private @twice(%begin: index, %end: index, %x: memref<512xf32>, %y: memref<512xf32>)
    attributes {exec.kernel} {
  return
}
}
