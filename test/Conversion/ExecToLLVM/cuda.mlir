// RUN: optimus-opt %s --pass-pipeline='builtin.module(optimus-to-exec{target=cuda},optimus-build-kernels{target=cuda},func.func(optimus-place-buffers,optimus-order-commands),optimus-exec-to-llvm{target=cuda})' > %t
// RUN: FileCheck %s < %t
// RUN: FileCheck %s --check-prefix=CODE < %t
// RUN: not optimus-opt %s --optimus-exec-to-llvm=target=abacus 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// A kernel for GPUs is no function here. Its entry says what it is called there, how many threads
// a block has and how many iterations that does at a time. Whoever compiles it adds images.
// CHECK:      llvm.mlir.global internal constant @optimus.model()
// CHECK:        llvm.mlir.addressof @optimus.kernels
// CHECK:        llvm.mlir.constant(0 : i32)
// CHECK:        llvm.mlir.addressof @optimus.images
// CHECK:      llvm.mlir.global internal constant @optimus.kernels() {{.*}} : !llvm.array<1 x struct<(ptr, ptr, i64, ptr, i32, i32)>>
// CHECK-DAG:    llvm.mlir.zero : !llvm.ptr
// CHECK-DAG:    llvm.mlir.addressof @optimus.name.gelu_4096
// CHECK-DAG:    llvm.mlir.constant(256 : i32)
// CHECK-DAG:    llvm.mlir.constant(1024 : i32)
// CHECK:      llvm.mlir.global internal constant @optimus.name.gelu_4096("gelu_4096\00")
// CODE-NOT: llvm.func
// CODE:     llvm.func @optimus_model_query
// CODE-NOT: llvm.func

// UNKNOWN: unknown target 'abacus'; known are cpu, cuda

func.func @f(%x: tensor<4096xf32>) -> tensor<4096xf32> {
  %0 = optimus.gelu %x : tensor<4096xf32>
  return %0 : tensor<4096xf32>
}
