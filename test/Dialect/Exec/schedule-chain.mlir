// RUN: optimus-opt %s --pass-pipeline='builtin.module(func.func(optimus-schedule{machine-profile=%S/Inputs/schedule.json extra-workspace=1MiB},optimus-verify-exec))' | FileCheck %s

optimus.mesh @mesh <["row" = 2, "col" = 4]>

// A gradient is summed twice, and the second sum frees what the first one made.
// It is waited for when it has ended and as long again has passed, whatever room
// there is: not at the end, where its result is used.
// CHECK-LABEL: func.func @chain(
// CHECK: %[[SECOND:.*]] = exec.collective_start reduce sum over "row", %{{.*}} to %arg2
// CHECK: exec.collective_start
// CHECK: exec.wait %[[SECOND]]
// CHECK: exec.collective_start
// CHECK: exec.collective_start
// CHECK-NOT: exec.collective_start
func.func @chain(%a: memref<64xf32>, %w: memref<64xf32>, %gradient: memref<64xf32>, %out: memref<64xf32>) {
  %partial = exec.alloc "workspace" : memref<64xf32>
  exec.gemm %a, %w, %partial {m = 8 : i64, n = 8 : i64, k = 8 : i64, lda = 8 : i64, ldb = 8 : i64, ldc = 8 : i64} : memref<64xf32>, memref<64xf32>, memref<64xf32>
  %sum = exec.alloc "workspace" : memref<64xf32>
  %first = exec.collective_start reduce sum over "row", %partial to %sum {root = 0 : i64, outer = 1 : i64, inner = 64 : i64, src_ld = 64 : i64, dst_ld = 64 : i64} : memref<64xf32>, memref<64xf32>
  exec.wait %first
  %second = exec.collective_start reduce sum over "row", %sum to %gradient {root = 1 : i64, outer = 1 : i64, inner = 64 : i64, src_ld = 64 : i64, dst_ld = 64 : i64} : memref<64xf32>, memref<64xf32>
  exec.wait %second
  %s0 = exec.alloc "workspace" : memref<64xf32>
  exec.gemm %a, %w, %s0 {m = 8 : i64, n = 8 : i64, k = 8 : i64, lda = 8 : i64, ldb = 8 : i64, ldc = 8 : i64} : memref<64xf32>, memref<64xf32>, memref<64xf32>
  %r0 = exec.alloc "workspace" : memref<64xf32>
  %t0 = exec.collective_start reduce sum over "row", %s0 to %r0 {root = 0 : i64, outer = 1 : i64, inner = 64 : i64, src_ld = 64 : i64, dst_ld = 64 : i64} : memref<64xf32>, memref<64xf32>
  exec.wait %t0
  %s1 = exec.alloc "workspace" : memref<64xf32>
  exec.gemm %r0, %w, %s1 {m = 8 : i64, n = 8 : i64, k = 8 : i64, lda = 8 : i64, ldb = 8 : i64, ldc = 8 : i64} : memref<64xf32>, memref<64xf32>, memref<64xf32>
  %r1 = exec.alloc "workspace" : memref<64xf32>
  %t1 = exec.collective_start reduce sum over "row", %s1 to %r1 {root = 0 : i64, outer = 1 : i64, inner = 64 : i64, src_ld = 64 : i64, dst_ld = 64 : i64} : memref<64xf32>, memref<64xf32>
  exec.wait %t1
  %s2 = exec.alloc "workspace" : memref<64xf32>
  exec.gemm %r1, %w, %s2 {m = 8 : i64, n = 8 : i64, k = 8 : i64, lda = 8 : i64, ldb = 8 : i64, ldc = 8 : i64} : memref<64xf32>, memref<64xf32>, memref<64xf32>
  %r2 = exec.alloc "workspace" : memref<64xf32>
  %t2 = exec.collective_start reduce sum over "row", %s2 to %r2 {root = 0 : i64, outer = 1 : i64, inner = 64 : i64, src_ld = 64 : i64, dst_ld = 64 : i64} : memref<64xf32>, memref<64xf32>
  exec.wait %t2
  %s3 = exec.alloc "workspace" : memref<64xf32>
  exec.gemm %r2, %w, %s3 {m = 8 : i64, n = 8 : i64, k = 8 : i64, lda = 8 : i64, ldb = 8 : i64, ldc = 8 : i64} : memref<64xf32>, memref<64xf32>, memref<64xf32>
  %r3 = exec.alloc "workspace" : memref<64xf32>
  %t3 = exec.collective_start reduce sum over "row", %s3 to %r3 {root = 0 : i64, outer = 1 : i64, inner = 64 : i64, src_ld = 64 : i64, dst_ld = 64 : i64} : memref<64xf32>, memref<64xf32>
  exec.wait %t3
  %s4 = exec.alloc "workspace" : memref<64xf32>
  exec.gemm %r3, %w, %s4 {m = 8 : i64, n = 8 : i64, k = 8 : i64, lda = 8 : i64, ldb = 8 : i64, ldc = 8 : i64} : memref<64xf32>, memref<64xf32>, memref<64xf32>
  %r4 = exec.alloc "workspace" : memref<64xf32>
  %t4 = exec.collective_start reduce sum over "row", %s4 to %r4 {root = 0 : i64, outer = 1 : i64, inner = 64 : i64, src_ld = 64 : i64, dst_ld = 64 : i64} : memref<64xf32>, memref<64xf32>
  exec.wait %t4
  %s5 = exec.alloc "workspace" : memref<64xf32>
  exec.gemm %r4, %w, %s5 {m = 8 : i64, n = 8 : i64, k = 8 : i64, lda = 8 : i64, ldb = 8 : i64, ldc = 8 : i64} : memref<64xf32>, memref<64xf32>, memref<64xf32>
  %r5 = exec.alloc "workspace" : memref<64xf32>
  %t5 = exec.collective_start reduce sum over "row", %s5 to %r5 {root = 0 : i64, outer = 1 : i64, inner = 64 : i64, src_ld = 64 : i64, dst_ld = 64 : i64} : memref<64xf32>, memref<64xf32>
  exec.wait %t5
  exec.gemm %r5, %gradient, %out {m = 8 : i64, n = 8 : i64, k = 8 : i64, lda = 8 : i64, ldb = 8 : i64, ldc = 8 : i64} : memref<64xf32>, memref<64xf32>, memref<64xf32>
  return
}
