// RUN: %optimus-opt %s --pass-pipeline='builtin.module(func.func(optimus-schedule{machine-profile=%S/Inputs/schedule.json extra-workspace=25%}))' | FileCheck %s --check-prefix=STAYS
// RUN: %optimus-opt %s --pass-pipeline='builtin.module(func.func(optimus-schedule{machine-profile=%S/Inputs/schedule.json extra-workspace=25% offload=activations offload-bandwidth=1GiB offload-least=64}))' | FileCheck %s --check-prefix=RESTS
// RUN: not %optimus-opt %s --pass-pipeline='builtin.module(func.func(optimus-schedule{offload=activations offload-space=moon}))' 2>&1 | FileCheck %s --check-prefix=INVALID

// INVALID: offload: expected file or host as the space, found 'moon'

optimus.mesh @mesh <["row" = 2, "col" = 4]>

// A quarter of three activations and two buffers has room for the panel while
// these are there; a quarter of the two buffers has none. The activations are
// fetched one by one in the end.
// STAYS-LABEL: func.func @offloaded(
// STAYS-SAME: exec.schedule = {extra_workspace_bytes = 4096 : i64, not_overlapped = 0 : i64, out_of_workspace = 0 : i64
// RESTS-LABEL: func.func @offloaded(
// RESTS-SAME: exec.schedule = {extra_workspace_bytes = 0 : i64, not_overlapped = 1 : i64, out_of_workspace = 1 : i64
func.func @offloaded(%x: memref<1024xf32>, %w: memref<1024xf32>, %y: memref<1024xf32>) {
  %a0 = exec.alloc "activation" {values = ["a0:0"]} : memref<1024xf32>
  exec.gemm %x, %w, %a0 {m = 32 : i64, n = 32 : i64, k = 32 : i64, lda = 32 : i64, ldb = 32 : i64, ldc = 32 : i64} : memref<1024xf32>, memref<1024xf32>, memref<1024xf32>
  %a1 = exec.alloc "activation" {values = ["a1:0"]} : memref<1024xf32>
  exec.gemm %x, %w, %a1 {m = 32 : i64, n = 32 : i64, k = 32 : i64, lda = 32 : i64, ldb = 32 : i64, ldc = 32 : i64} : memref<1024xf32>, memref<1024xf32>, memref<1024xf32>
  %a2 = exec.alloc "activation" {values = ["a2:0"]} : memref<1024xf32>
  exec.gemm %x, %w, %a2 {m = 32 : i64, n = 32 : i64, k = 32 : i64, lda = 32 : i64, ldb = 32 : i64, ldc = 32 : i64} : memref<1024xf32>, memref<1024xf32>, memref<1024xf32>
  exec.gemm %x, %w, %y {m = 32 : i64, n = 32 : i64, k = 32 : i64, lda = 32 : i64, ldb = 32 : i64, ldc = 32 : i64} : memref<1024xf32>, memref<1024xf32>, memref<1024xf32>
  %b0 = exec.alloc "workspace" : memref<1024xf32>
  exec.gemm %x, %w, %b0 {m = 32 : i64, n = 32 : i64, k = 32 : i64, lda = 32 : i64, ldb = 32 : i64, ldc = 32 : i64} : memref<1024xf32>, memref<1024xf32>, memref<1024xf32>
  %b1 = exec.alloc "workspace" : memref<1024xf32>
  exec.gemm %x, %w, %b1 {m = 32 : i64, n = 32 : i64, k = 32 : i64, lda = 32 : i64, ldb = 32 : i64, ldc = 32 : i64} : memref<1024xf32>, memref<1024xf32>, memref<1024xf32>
  exec.gemm %b0, %b1, %y {m = 32 : i64, n = 32 : i64, k = 32 : i64, lda = 32 : i64, ldb = 32 : i64, ldc = 32 : i64} : memref<1024xf32>, memref<1024xf32>, memref<1024xf32>
  %p = exec.alloc "workspace" : memref<1024xf32>
  %r = exec.select_rank "col" is 0, %x, %p : memref<1024xf32>
  %t = exec.collective_start broadcast sum over "col", %x to %r {root = 0 : i64, outer = 1 : i64, inner = 1024 : i64, src_ld = 1024 : i64, dst_ld = 1024 : i64} : memref<1024xf32>, memref<1024xf32>
  exec.wait %t
  exec.gemm %r, %w, %y {m = 32 : i64, n = 32 : i64, k = 32 : i64, lda = 32 : i64, ldb = 32 : i64, ldc = 32 : i64} : memref<1024xf32>, memref<1024xf32>, memref<1024xf32>
  exec.gemm %x, %w, %y {m = 32 : i64, n = 32 : i64, k = 32 : i64, lda = 32 : i64, ldb = 32 : i64, ldc = 32 : i64} : memref<1024xf32>, memref<1024xf32>, memref<1024xf32>
  exec.gemm %a0, %w, %y {m = 32 : i64, n = 32 : i64, k = 32 : i64, lda = 32 : i64, ldb = 32 : i64, ldc = 32 : i64} : memref<1024xf32>, memref<1024xf32>, memref<1024xf32>
  exec.gemm %a1, %w, %y {m = 32 : i64, n = 32 : i64, k = 32 : i64, lda = 32 : i64, ldb = 32 : i64, ldc = 32 : i64} : memref<1024xf32>, memref<1024xf32>, memref<1024xf32>
  exec.gemm %a2, %w, %y {m = 32 : i64, n = 32 : i64, k = 32 : i64, lda = 32 : i64, ldb = 32 : i64, ldc = 32 : i64} : memref<1024xf32>, memref<1024xf32>, memref<1024xf32>
  return
}
