// RUN: %optimus-opt %s --split-input-file --pass-pipeline='builtin.module(func.func(optimus-offload{values=state,parameters,activations least=64 bandwidth=1GiB}))' | FileCheck %s
// RUN: %optimus-opt %s --split-input-file --pass-pipeline='builtin.module(func.func(optimus-offload{values=state,parameters,activations least=64 bandwidth=1GiB space=host},optimus-place-buffers,optimus-order-commands,optimus-verify-exec))' | FileCheck %s --check-prefix=PLACED

// The activation rests while the products run; the state is fetched for its one
// use and stored behind it.

// CHECK-LABEL: func.func @train(
// CHECK-SAME:    %[[W:.*]]: memref<65536xf32, #exec<space file>> {optimus.param = "w"}
// CHECK-SAME:    %[[M:.*]]: memref<65536xf32, #exec<space file>>
// CHECK-SAME:    exec.paging = {exposed_ms = {{.*}}, fetch_ms = {{.*}}, fetched_bytes = 1048576 : i64, store_ms = {{.*}}, stored_bytes = 786432 : i64}
// PLACED-LABEL: func.func @train(
// PLACED-SAME:    %{{.*}}: memref<{{[0-9]+}}xi8>, %{{.*}}: memref<262144xi8, #exec<space host>>
func.func private @update(index, index, memref<65536xf32>, memref<65536xf32>, memref<65536xf32>, memref<65536xf32>)
func.func @train(%w: memref<65536xf32> {optimus.param = "w"},
    %m: memref<65536xf32> {optimus.binding = #optimus.buffer<role = "exp_avg", of = "w", lifetime = state, init = <zeros>, saved_in = optimizer>},
    %x: memref<65536xf32> {optimus.binding = #optimus.buffer<role = "x", lifetime = call>},
    %y: memref<65536xf32> {optimus.binding = #optimus.buffer<role = "y", lifetime = call>}) {
  // CHECK:      %[[HOME:.*]] = exec.alloc "activation" {alignment = 4096 : i64, values = ["a:0"]} : memref<65536xf32, #exec<space file>>
  // CHECK-NOT:  memref<65536xf32> {
  %a = exec.alloc "activation" {values = ["a:0"]} : memref<65536xf32>
  %b = exec.alloc "activation" {values = ["b:0"]} : memref<65536xf32>
  // CHECK:      %[[W0:.*]] = exec.alloc "fetched" {alignment = 4096 : i64, name = "parameter:w"} : memref<65536xf32>
  // CHECK-NEXT: exec.copy %[[W0]] from %[[W]]
  // CHECK:      %[[A0:.*]] = exec.alloc "activation" {alignment = 4096 : i64, values = ["a:0"]} : memref<65536xf32>
  // CHECK:      exec.gemm %{{.*}}, %[[W0]], %[[A0]]
  // CHECK-NEXT: exec.copy %[[HOME]] from %[[A0]] {{.*}}lag = {{[0-9]+}}
  exec.gemm %x, %w, %a {m = 256 : i64, n = 256 : i64, k = 256 : i64, lda = 256 : i64, ldb = 256 : i64, ldc = 256 : i64, id = 0 : i32} : memref<65536xf32>, memref<65536xf32>, memref<65536xf32>
  exec.gemm %x, %x, %b {m = 256 : i64, n = 256 : i64, k = 256 : i64, lda = 256 : i64, ldb = 256 : i64, ldc = 256 : i64, id = 1 : i32} : memref<65536xf32>, memref<65536xf32>, memref<65536xf32>
  exec.gemm %x, %b, %y {m = 256 : i64, n = 256 : i64, k = 256 : i64, lda = 256 : i64, ldb = 256 : i64, ldc = 256 : i64, id = 2 : i32} : memref<65536xf32>, memref<65536xf32>, memref<65536xf32>
  // CHECK:      exec.copy %[[A1:.*]] from %[[HOME]]
  // CHECK:      %[[HALF:.*]] = exec.slice %[[A1]][0]
  // CHECK:      exec.gemm %{{.*}}, %[[HALF]]
  %half = exec.slice %a[0] : memref<65536xf32> to memref<65536xf32>
  exec.gemm %x, %half, %y {m = 256 : i64, n = 256 : i64, k = 256 : i64, lda = 256 : i64, ldb = 256 : i64, ldc = 256 : i64, id = 3 : i32} : memref<65536xf32>, memref<65536xf32>, memref<65536xf32>
  // CHECK:      exec.launch @update(read %[[W1:.*]] : memref<65536xf32>, read %[[M1:.*]] : memref<65536xf32>, write %[[W1]] : memref<65536xf32>, write %[[M1]] : memref<65536xf32>)
  // CHECK-DAG:  exec.copy %[[M]] from %[[M1]]
  // CHECK-DAG:  exec.copy %[[W]] from %[[W1]]
  exec.launch @update(read %w : memref<65536xf32>, read %m : memref<65536xf32>, write %w : memref<65536xf32>, write %m : memref<65536xf32>) {id = 4 : i32}
  return
}

// -----

// An argument that a function leaves alone lies there too: functions share it. What
// is smaller than `least` stays, as does what is filled from outside.

// CHECK-LABEL: func.func @other(
// CHECK-SAME:    memref<64xf32, #exec<space file>>
// CHECK-SAME:    memref<8xf32> {
// CHECK-SAME:    memref<64xf32> {
func.func @other(%w: memref<64xf32> {optimus.param = "w"}, %bias: memref<8xf32> {optimus.param = "b"},
    %y: memref<64xf32> {optimus.binding = #optimus.buffer<role = "y", lifetime = call>}) {
  exec.copy %y {rows = 1, cols = 64, src_ld = 0, dst_ld = 64, id = 0 : i32} : memref<64xf32>
  return
}

// -----

// What only sums up an offloaded buffer moves to where that was written.

// CHECK-LABEL: func.func @hoist(
// CHECK:      exec.copy %[[G:.*]] {
// CHECK-NEXT: %[[SUM:.*]] = exec.alloc "workspace"
// CHECK-NEXT: exec.launch @sum(read %[[G]] {{.*}}, write %[[SUM]]
func.func private @sum(index, index, memref<65536xf32>, memref<1xf32>)
func.func @hoist(%x: memref<65536xf32> {optimus.binding = #optimus.buffer<role = "x", lifetime = call>},
    %y: memref<65536xf32> {optimus.binding = #optimus.buffer<role = "y", lifetime = call>}) {
  %g = exec.alloc "activation" {values = ["g:0"]} : memref<65536xf32>
  exec.copy %g {rows = 1, cols = 65536, src_ld = 0, dst_ld = 65536, id = 0 : i32} : memref<65536xf32>
  exec.gemm %x, %x, %y {m = 256 : i64, n = 256 : i64, k = 256 : i64, lda = 256 : i64, ldb = 256 : i64, ldc = 256 : i64, id = 1 : i32} : memref<65536xf32>, memref<65536xf32>, memref<65536xf32>
  %s = exec.alloc "workspace" : memref<1xf32>
  exec.launch @sum(read %g : memref<65536xf32>, write %s : memref<1xf32>) {id = 2 : i32}
  return
}

// -----

// Where copies take longer than computation, the next command's weight comes in while
// one is at work, and no more than that: memory is double-buffered.

// CHECK-LABEL: func.func @double_buffered(
// CHECK-SAME:    %[[W0:[a-z0-9]+]]: memref<65536xf32, #exec<space file>>{{.*}}, %[[W1:[a-z0-9]+]]: memref<65536xf32, #exec<space file>>{{.*}}, %[[W2:[a-z0-9]+]]: memref<65536xf32, #exec<space file>>
// CHECK:      exec.copy %[[S0:.*]] from %[[W0]]
// CHECK:      exec.copy %[[S1:.*]] from %[[W1]]
// CHECK-NOT:  exec.copy
// CHECK:      exec.gemm %{{.*}}, %[[S0]]
// CHECK:      exec.copy %[[S2:.*]] from %[[W2]]
// CHECK-NOT:  exec.copy
// CHECK:      exec.gemm %{{.*}}, %[[S1]]
// CHECK-NOT:  exec.copy
// CHECK:      exec.gemm %{{.*}}, %[[S2]]
// CHECK-NOT:  exec.copy
func.func @double_buffered(%w0: memref<65536xf32> {optimus.param = "w0"}, %w1: memref<65536xf32> {optimus.param = "w1"},
    %w2: memref<65536xf32> {optimus.param = "w2"},
    %x: memref<65536xf32> {optimus.binding = #optimus.buffer<role = "x", lifetime = call>},
    %y: memref<65536xf32> {optimus.binding = #optimus.buffer<role = "y", lifetime = call>}) {
  exec.gemm %x, %w0, %y {m = 256 : i64, n = 256 : i64, k = 256 : i64, lda = 256 : i64, ldb = 256 : i64, ldc = 256 : i64, id = 0 : i32} : memref<65536xf32>, memref<65536xf32>, memref<65536xf32>
  exec.gemm %x, %w1, %y {m = 256 : i64, n = 256 : i64, k = 256 : i64, lda = 256 : i64, ldb = 256 : i64, ldc = 256 : i64, id = 1 : i32} : memref<65536xf32>, memref<65536xf32>, memref<65536xf32>
  exec.gemm %x, %w2, %y {m = 256 : i64, n = 256 : i64, k = 256 : i64, lda = 256 : i64, ldb = 256 : i64, ldc = 256 : i64, id = 2 : i32} : memref<65536xf32>, memref<65536xf32>, memref<65536xf32>
  return
}
