// RUN: optimus-opt %s --pass-pipeline='builtin.module(func.func(optimus-tune-products),optimus-verify-partition)' --verify-roundtrip --mlir-print-local-scope | FileCheck %s
// RUN: optimus-opt %s --pass-pipeline='builtin.module(func.func(optimus-tune-products{move=panels}),optimus-verify-partition)' --mlir-print-local-scope | FileCheck %s --check-prefix=PANELS
// RUN: optimus-opt %s --pass-pipeline='builtin.module(func.func(optimus-tune-products{move=panels max-factor=1}))' --mlir-print-local-scope | FileCheck %s --check-prefix=LEAST
// RUN: optimus-opt %s --pass-pipeline='builtin.module(func.func(optimus-tune-products{move=whole}),optimus-verify-partition)' --mlir-print-local-scope | FileCheck %s --check-prefix=WHOLE
// Links that start at once make panels free, and slow starts forbid them.
// RUN: echo '{"version": 1, "comm": [{"backend": "mpi", "ranks": 2, "collective": "broadcast", "alpha_s": 1, "beta_s_per_byte": 0}]}' > %t.json
// RUN: optimus-opt %s --pass-pipeline='builtin.module(func.func(optimus-tune-products{machine-profile=%t.json move=panels}))' --mlir-print-local-scope | FileCheck %s --check-prefix=LEAST
// A number that is given is taken, or the nearest smaller one that divides.
// RUN: optimus-opt %s --pass-pipeline='builtin.module(func.func(optimus-tune-products{move=panels panels=13}),optimus-verify-partition)' --mlir-print-local-scope | FileCheck %s --check-prefix=GIVEN
// RUN: not optimus-opt %s --optimus-tune-products='panels=-2' 2>&1 | FileCheck %s --check-prefix=NEGATIVE
// RUN: not optimus-opt %s --optimus-tune-products='panels=999999999999' 2>&1 | FileCheck %s --check-prefix=TOO-MANY
// RUN: not optimus-opt %s --optimus-tune-products='move=slowly' 2>&1 | FileCheck %s --check-prefix=INVALID

// NEGATIVE: error: expected 0 panels, to choose by predicted times, or up to 64; found -2
// TOO-MANY: error: expected 0 panels, to choose by predicted times, or up to 64; found 999999999999
// INVALID: error: unknown movement 'slowly'; known are auto, panels and whole

optimus.mesh @mesh <["row" = 2, "col" = 2]>
#x = #ccl.local<[64, 64], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#wt = #ccl.local<[64, 64], #optimus.sharding<@mesh, [{"col"}, {"row"}]>>
#tall = #ccl.local<[4096, 4096], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#slim = #ccl.local<[4096, 256], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>

// 4 KiB a panel: what a message costs before its first byte decides.
// CHECK-LABEL: func.func @small(
// CHECK: %[[A:.*]] = ccl.all_gather %{{.*}} {axis = "col", dim = 1 : i64}
// CHECK: %[[B:.*]] = ccl.all_gather %{{.*}} {axis = "row", dim = 0 : i64}
// CHECK: optimus.matmul %[[A]], %[[B]]
// PANELS-LABEL: func.func @small(
// PANELS: ccl.matmul {{.*}}panels = 2
// GIVEN-LABEL: func.func @small(
// GIVEN: ccl.matmul {{.*}}panels = 8
// LEAST-LABEL: func.func @small(
// LEAST: ccl.matmul {{.*}}panels = 2
func.func @small(%x: tensor<32x32xf32, #x>, %y: tensor<32x32xf32, #x>) -> tensor<32x32xf32, #x> {
  %a = optimus.gelu %x : tensor<32x32xf32, #x>
  %b = optimus.gelu %y : tensor<32x32xf32, #x>
  %0 = ccl.matmul %a, %b {stationary = "c", panels = 2 : i64} : (tensor<32x32xf32, #x>, tensor<32x32xf32, #x>) -> tensor<32x32xf32, #x>
  return %0 : tensor<32x32xf32, #x>
}

// 16 MiB a panel: more of them, so that less of the first is waited for.
// CHECK-LABEL: func.func @large(
// CHECK: ccl.matmul {{.*}}panels = 4
// LEAST-LABEL: func.func @large(
// LEAST: ccl.matmul {{.*}}panels = 2
// WHOLE-LABEL: func.func @large(
// WHOLE-NOT: ccl.matmul
// WHOLE: ccl.all_gather
// WHOLE: ccl.all_gather
// WHOLE: optimus.matmul
func.func @large(%x: tensor<2048x2048xf32, #tall>, %y: tensor<2048x128xf32, #slim>) -> tensor<2048x128xf32, #slim> {
  %a = optimus.gelu %x : tensor<2048x2048xf32, #tall>
  %b = optimus.gelu %y : tensor<2048x128xf32, #slim>
  %0 = ccl.matmul %a, %b {stationary = "c", panels = 2 : i64} : (tensor<2048x2048xf32, #tall>, tensor<2048x128xf32, #slim>) -> tensor<2048x128xf32, #slim>
  return %0 : tensor<2048x128xf32, #slim>
}

// A result that moves is scattered to its owners.
// WHOLE-LABEL: func.func @scatters(
// WHOLE: %[[W:.*]] = ccl.all_gather %{{.*}} {axis = "row", dim = 1 : i64}
// WHOLE: %[[P:.*]] = optimus.matmul %{{.*}}, %[[W]] {{.*}} -> tensor<32x64xf32, #ccl.local<[64, 64], <@mesh, [{"row"}, {}], unreduced = {"col"}>>>
// WHOLE: ccl.reduce_scatter %[[P]] {axis = "col", dim = 1 : i64}
func.func @scatters(%x: tensor<32x32xf32, #x>, %w: tensor<32x32xf32, #wt>) -> tensor<32x32xf32, #x> {
  %0 = ccl.matmul %x, %w {stationary = "a", panels = 2 : i64} : (tensor<32x32xf32, #x>, tensor<32x32xf32, #wt>) -> tensor<32x32xf32, #x>
  return %0 : tensor<32x32xf32, #x>
}

// What the user chose stands.
// WHOLE-LABEL: func.func @forced(
// WHOLE: ccl.matmul {{.*}}optimus.move = "panels", panels = 4
func.func @forced(%x: tensor<32x32xf32, #x>, %w: tensor<32x32xf32, #x>) -> tensor<32x32xf32, #x> {
  %0 = ccl.matmul %x, %w {stationary = "c", panels = 4 : i64, optimus.move = "panels"} : (tensor<32x32xf32, #x>, tensor<32x32xf32, #x>) -> tensor<32x32xf32, #x>
  return %0 : tensor<32x32xf32, #x>
}
