// RUN: optimus-opt %s --pass-pipeline='builtin.module(func.func(optimus-schedule{machine-profile=%S/Inputs/schedule.json extra-workspace=1KiB},optimus-verify-exec))' --verify-roundtrip | FileCheck %s
// RUN: optimus-opt %s --pass-pipeline='builtin.module(func.func(optimus-schedule{machine-profile=%S/Inputs/schedule.json extra-workspace=0},optimus-verify-exec))' | FileCheck %s --check-prefix=BOUND
// RUN: optimus-opt %s --pass-pipeline='builtin.module(func.func(optimus-schedule{machine-profile=%S/Inputs/schedule.json mode=none},optimus-verify-exec))' | FileCheck %s --check-prefix=NONE
// RUN: optimus-opt %s --pass-pipeline='builtin.module(func.func(optimus-schedule{machine-profile=%S/Inputs/schedule.json extra-workspace=0 report=true}))' -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK
// What is scheduled already stays as it is.
// RUN: optimus-opt %s --pass-pipeline='builtin.module(func.func(optimus-schedule{machine-profile=%S/Inputs/schedule.json extra-workspace=1KiB}))' -o %t.once.mlir
// RUN: optimus-opt %t.once.mlir --pass-pipeline='builtin.module(func.func(optimus-schedule{machine-profile=%S/Inputs/schedule.json extra-workspace=1KiB}))' | FileCheck %s --check-prefix=AGAIN

optimus.mesh @mesh <["row" = 2, "col" = 4]>

// The second panel moves while the first one is multiplied. In the beginning
// there is nothing to hide behind.
// CHECK-LABEL: func.func @broadcasts(
// CHECK-SAME: exec.schedule = {extra_workspace_bytes = 256 : i64, not_overlapped = 1 : i64, out_of_workspace = 0 : i64, predicted_comm_ms
// The profile has 4 ms for a broadcast or a reduction and 3 ms for a product. The
// first is waited for where it starts; the second, behind it on its axis, for 1 ms.
// CHECK-SAME: waits = [{axis = "col", collective = "broadcast", count = 2 : i64, idle_ms = {{4\.0000|3\.9999}}{{[^,]*}}, ms = {{5\.0000|4\.9999}}{{[^,]*}}, queued_ms = {{1\.0000|0\.9999}}{{[^,]*}}}]
// CHECK: %[[P0:.*]] = exec.select_rank "col" is 0
// CHECK: %[[T0:.*]] = exec.collective_start broadcast sum over "col", %{{.*}} to %[[P0]] {{.*}}id = 0
// CHECK: %[[P1:.*]] = exec.select_rank "col" is 1
// CHECK: %[[T1:.*]] = exec.collective_start broadcast sum over "col", %{{.*}} to %[[P1]] {{.*}}id = 1 {{.*}}root = 1
// CHECK: exec.wait %[[T0]] {id = 2 : i32}
// CHECK: exec.gemm %[[P0]]
// CHECK: exec.wait %[[T1]]
// CHECK: exec.gemm %[[P1]]
// BOUND-LABEL: func.func @broadcasts(
// BOUND-SAME: extra_workspace_bytes = 0 : i64, not_overlapped = 2 : i64, out_of_workspace = 1 : i64
// BOUND: exec.collective_start
// BOUND: exec.wait
// BOUND: exec.gemm
// BOUND: exec.collective_start
// BOUND: exec.wait
// BOUND: exec.gemm
// NONE-LABEL: func.func @broadcasts(
// NONE-SAME: extra_workspace_bytes = 0 : i64, not_overlapped = 2 : i64, out_of_workspace = 0 : i64
// NONE-SAME: waits = [{axis = "col", collective = "broadcast", count = 2 : i64, idle_ms = [[ALL:[0-9.e+-]+]] : f64, ms = [[ALL]] : f64, queued_ms = 0.000000e+00 : f64}]
// NONE: exec.collective_start
// NONE-NEXT: exec.wait
// REMARK: remark: 2 collectives are not overlapped: 1 have nothing to hide behind, 1 would exceed the extra workspace
// AGAIN-LABEL: func.func @broadcasts(
// AGAIN-SAME: not_overlapped = 1 : i64
// AGAIN: exec.collective_start
// AGAIN: exec.collective_start
// AGAIN: exec.wait
func.func @broadcasts(%own: memref<64xf32>, %next: memref<64xf32>, %w: memref<64xf32>, %c: memref<64xf32>) {
  %r0 = exec.alloc "workspace" : memref<64xf32>
  %p0 = exec.select_rank "col" is 0, %own, %r0 : memref<64xf32>
  %t0 = exec.collective_start broadcast sum over "col", %own to %p0 {root = 0 : i64, outer = 1 : i64, inner = 64 : i64, src_ld = 64 : i64, dst_ld = 64 : i64} : memref<64xf32>, memref<64xf32>
  exec.wait %t0
  exec.gemm %p0, %w, %c {m = 8 : i64, n = 8 : i64, k = 8 : i64, lda = 8 : i64, ldb = 8 : i64, ldc = 8 : i64} : memref<64xf32>, memref<64xf32>, memref<64xf32>
  %r1 = exec.alloc "workspace" : memref<64xf32>
  %p1 = exec.select_rank "col" is 1, %next, %r1 : memref<64xf32>
  %t1 = exec.collective_start broadcast sum over "col", %next to %p1 {root = 1 : i64, outer = 1 : i64, inner = 64 : i64, src_ld = 64 : i64, dst_ld = 64 : i64} : memref<64xf32>, memref<64xf32>
  exec.wait %t1
  exec.gemm %p1, %w, %c {m = 8 : i64, n = 8 : i64, k = 8 : i64, lda = 8 : i64, ldb = 8 : i64, ldc = 8 : i64, accumulate} : memref<64xf32>, memref<64xf32>, memref<64xf32>
  return
}

// A panel is reduced while the next one is made, and its sum is waited for
// where it is used.
// CHECK-LABEL: func.func @reductions(
// CHECK: exec.gemm %{{.*}}, %{{.*}}, %[[S0:.*]] {
// CHECK: %[[T0:.*]] = exec.collective_start reduce sum over "row", %[[S0]]
// CHECK: exec.gemm %{{.*}}, %{{.*}}, %[[S1:.*]] {
// CHECK: %[[T1:.*]] = exec.collective_start reduce sum over "row", %[[S1]]
// CHECK: exec.wait %[[T0]]
// CHECK: exec.copy
// CHECK: exec.wait %[[T1]]
// CHECK-NEXT: return
// NONE-LABEL: func.func @reductions(
// NONE: exec.collective_start
// NONE-NEXT: exec.wait
func.func @reductions(%a: memref<64xf32>, %w: memref<64xf32>, %c0: memref<64xf32>, %c1: memref<64xf32>, %out: memref<64xf32>) {
  %s0 = exec.alloc "workspace" : memref<64xf32>
  exec.gemm %a, %w, %s0 {m = 8 : i64, n = 8 : i64, k = 8 : i64, lda = 8 : i64, ldb = 8 : i64, ldc = 8 : i64} : memref<64xf32>, memref<64xf32>, memref<64xf32>
  %t0 = exec.collective_start reduce sum over "row", %s0 to %c0 {root = 0 : i64, outer = 1 : i64, inner = 64 : i64, src_ld = 64 : i64, dst_ld = 64 : i64} : memref<64xf32>, memref<64xf32>
  exec.wait %t0
  %s1 = exec.alloc "workspace" : memref<64xf32>
  exec.gemm %w, %a, %s1 {m = 8 : i64, n = 8 : i64, k = 8 : i64, lda = 8 : i64, ldb = 8 : i64, ldc = 8 : i64} : memref<64xf32>, memref<64xf32>, memref<64xf32>
  %t1 = exec.collective_start reduce sum over "row", %s1 to %c1 {root = 1 : i64, outer = 1 : i64, inner = 64 : i64, src_ld = 64 : i64, dst_ld = 64 : i64} : memref<64xf32>, memref<64xf32>
  exec.wait %t1
  exec.copy %out from %c0 : memref<64xf32> {rows = 1 : i64, cols = 64 : i64, src_ld = 64 : i64, dst_ld = 64 : i64} : memref<64xf32>
  return
}

// Nothing passes a command that writes what it reads or touches what it
// writes: %x is made by the copy, and read before it is overwritten.
// CHECK-LABEL: func.func @dependences(
// CHECK: exec.copy
// CHECK-NEXT: %[[T:.*]] = exec.collective_start all_reduce
// CHECK: exec.gemm
// CHECK-NEXT: exec.wait %[[T]]
// CHECK-NEXT: exec.copy
func.func @dependences(%x: memref<64xf32>, %y: memref<64xf32>, %z: memref<64xf32>) {
  exec.copy %x from %z : memref<64xf32> {rows = 1 : i64, cols = 64 : i64, src_ld = 64 : i64, dst_ld = 64 : i64} : memref<64xf32>
  %other = exec.alloc "workspace" : memref<64xf32>
  exec.gemm %z, %z, %other {m = 8 : i64, n = 8 : i64, k = 8 : i64, lda = 8 : i64, ldb = 8 : i64, ldc = 8 : i64} : memref<64xf32>, memref<64xf32>, memref<64xf32>
  %t = exec.collective_start all_reduce sum over "row", %x to %y {root = 0 : i64, outer = 1 : i64, inner = 64 : i64, src_ld = 64 : i64, dst_ld = 64 : i64} : memref<64xf32>, memref<64xf32>
  exec.wait %t
  exec.copy %x {rows = 1 : i64, cols = 64 : i64, src_ld = 0 : i64, dst_ld = 64 : i64} : memref<64xf32>
  exec.copy %other from %y : memref<64xf32> {rows = 1 : i64, cols = 64 : i64, src_ld = 64 : i64, dst_ld = 64 : i64} : memref<64xf32>
  return
}

// One collective after another that it needs: the second reads what the first
// one makes, and starts when it has ended.
// CHECK-LABEL: func.func @chain(
// CHECK: %[[T0:.*]] = exec.collective_start all_reduce sum over "row"
// CHECK: exec.wait %[[T0]]
// CHECK: %[[T1:.*]] = exec.collective_start all_reduce sum over "col"
// CHECK: exec.wait %[[T1]]
// CHECK-NEXT: return
func.func @chain(%x: memref<64xf32>, %y: memref<64xf32>, %a: memref<64xf32>, %b: memref<64xf32>) {
  %t0 = exec.collective_start all_reduce sum over "row", %x to %y {root = 0 : i64, outer = 1 : i64, inner = 64 : i64, src_ld = 64 : i64, dst_ld = 64 : i64} : memref<64xf32>, memref<64xf32>
  exec.wait %t0
  %t1 = exec.collective_start all_reduce sum over "col", %y to %y {root = 0 : i64, outer = 1 : i64, inner = 64 : i64, src_ld = 64 : i64, dst_ld = 64 : i64} : memref<64xf32>, memref<64xf32>
  exec.wait %t1
  exec.gemm %a, %a, %b {m = 8 : i64, n = 8 : i64, k = 8 : i64, lda = 8 : i64, ldb = 8 : i64, ldc = 8 : i64} : memref<64xf32>, memref<64xf32>, memref<64xf32>
  return
}

// Columns of one matrix are apart, though their stretches overlap: both panels
// of %c are under way at once.
// CHECK-LABEL: func.func @columns(
// CHECK: exec.collective_start reduce
// CHECK: exec.gemm
// CHECK: exec.collective_start reduce
// CHECK: exec.gemm
// CHECK: exec.wait
// CHECK: exec.wait
// CHECK: return
func.func @columns(%a: memref<64xf32>, %w: memref<64xf32>, %c: memref<128xf32>, %d: memref<64xf32>) {
  %s0 = exec.alloc "workspace" : memref<64xf32>
  exec.gemm %a, %w, %s0 {m = 8 : i64, n = 8 : i64, k = 8 : i64, lda = 8 : i64, ldb = 8 : i64, ldc = 8 : i64} : memref<64xf32>, memref<64xf32>, memref<64xf32>
  %c0 = exec.slice %c[0] : memref<128xf32> to memref<120xf32>
  %t0 = exec.collective_start reduce sum over "row", %s0 to %c0 {outer = 8 : i64, inner = 8 : i64, src_ld = 8 : i64, dst_ld = 16 : i64} : memref<64xf32>, memref<120xf32>
  exec.wait %t0
  %s1 = exec.alloc "workspace" : memref<64xf32>
  exec.gemm %w, %a, %s1 {m = 8 : i64, n = 8 : i64, k = 8 : i64, lda = 8 : i64, ldb = 8 : i64, ldc = 8 : i64} : memref<64xf32>, memref<64xf32>, memref<64xf32>
  %c1 = exec.slice %c[8] : memref<128xf32> to memref<120xf32>
  %t1 = exec.collective_start reduce sum over "row", %s1 to %c1 {root = 1 : i64, outer = 8 : i64, inner = 8 : i64, src_ld = 8 : i64, dst_ld = 16 : i64} : memref<64xf32>, memref<120xf32>
  exec.wait %t1
  exec.gemm %w, %w, %d {m = 8 : i64, n = 8 : i64, k = 8 : i64, lda = 8 : i64, ldb = 8 : i64, ldc = 8 : i64} : memref<64xf32>, memref<64xf32>, memref<64xf32>
  return
}

// Without communication there are times to predict.
// CHECK-LABEL: func.func @alone(
// CHECK-SAME: predicted_comm_ms = 0.000000e+00 : f64, predicted_exposed_ms = 0.000000e+00 : f64, predicted_parts_ms = {gemm = {{[0-9].*}}}, predicted_step_ms = {{[0-9]}}
func.func @alone(%a: memref<64xf32>, %b: memref<64xf32>) {
  exec.gemm %a, %a, %b {m = 8 : i64, n = 8 : i64, k = 8 : i64, lda = 8 : i64, ldb = 8 : i64, ldc = 8 : i64} : memref<64xf32>, memref<64xf32>, memref<64xf32>
  return
}

// A kernel is no device program.
// CHECK: func.func private @kernel(index, index)
func.func private @kernel(index, index)

// Behind the panel that moves while the first one is multiplied one more is
// under way, which takes the links of ranks that are done with the former. It
// takes longer than the product, so nothing would wait for a third.
// CHECK-LABEL: func.func @one_more(
// CHECK: exec.collective_start broadcast
// CHECK: exec.collective_start broadcast {{.*}}root = 1
// CHECK: exec.collective_start broadcast {{.*}}root = 2
// CHECK: exec.gemm
// CHECK: exec.collective_start broadcast {{.*}}root = 3
// CHECK: exec.gemm
func.func @one_more(%x0: memref<64xf32>, %x1: memref<64xf32>, %x2: memref<64xf32>, %x3: memref<64xf32>, %w: memref<64xf32>, %c: memref<64xf32>) {
  %r0 = exec.alloc "workspace" : memref<64xf32>
  %p0 = exec.select_rank "col" is 0, %x0, %r0 : memref<64xf32>
  %t0 = exec.collective_start broadcast sum over "col", %x0 to %p0 {root = 0 : i64, outer = 1 : i64, inner = 64 : i64, src_ld = 64 : i64, dst_ld = 64 : i64} : memref<64xf32>, memref<64xf32>
  exec.wait %t0
  exec.gemm %p0, %w, %c {m = 8 : i64, n = 8 : i64, k = 8 : i64, lda = 8 : i64, ldb = 8 : i64, ldc = 8 : i64} : memref<64xf32>, memref<64xf32>, memref<64xf32>
  %r1 = exec.alloc "workspace" : memref<64xf32>
  %p1 = exec.select_rank "col" is 1, %x1, %r1 : memref<64xf32>
  %t1 = exec.collective_start broadcast sum over "col", %x1 to %p1 {root = 1 : i64, outer = 1 : i64, inner = 64 : i64, src_ld = 64 : i64, dst_ld = 64 : i64} : memref<64xf32>, memref<64xf32>
  exec.wait %t1
  exec.gemm %p1, %w, %c {m = 8 : i64, n = 8 : i64, k = 8 : i64, lda = 8 : i64, ldb = 8 : i64, ldc = 8 : i64, accumulate} : memref<64xf32>, memref<64xf32>, memref<64xf32>
  %r2 = exec.alloc "workspace" : memref<64xf32>
  %p2 = exec.select_rank "col" is 2, %x2, %r2 : memref<64xf32>
  %t2 = exec.collective_start broadcast sum over "col", %x2 to %p2 {root = 2 : i64, outer = 1 : i64, inner = 64 : i64, src_ld = 64 : i64, dst_ld = 64 : i64} : memref<64xf32>, memref<64xf32>
  exec.wait %t2
  exec.gemm %p2, %w, %c {m = 8 : i64, n = 8 : i64, k = 8 : i64, lda = 8 : i64, ldb = 8 : i64, ldc = 8 : i64, accumulate} : memref<64xf32>, memref<64xf32>, memref<64xf32>
  %r3 = exec.alloc "workspace" : memref<64xf32>
  %p3 = exec.select_rank "col" is 3, %x3, %r3 : memref<64xf32>
  %t3 = exec.collective_start broadcast sum over "col", %x3 to %p3 {root = 3 : i64, outer = 1 : i64, inner = 64 : i64, src_ld = 64 : i64, dst_ld = 64 : i64} : memref<64xf32>, memref<64xf32>
  exec.wait %t3
  exec.gemm %p3, %w, %c {m = 8 : i64, n = 8 : i64, k = 8 : i64, lda = 8 : i64, ldb = 8 : i64, ldc = 8 : i64, accumulate} : memref<64xf32>, memref<64xf32>, memref<64xf32>
  return
}
