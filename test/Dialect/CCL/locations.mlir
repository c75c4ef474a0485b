// RUN: %optimus-opt %s --pass-pipeline='builtin.module(func.func(optimus-group-products,optimus-tune-products{move=whole}))' --mlir-print-debuginfo --mlir-print-local-scope | FileCheck %s --check-prefix=WHOLE
// RUN: %optimus-opt %s --pass-pipeline='builtin.module(func.func(optimus-recompute{policy=layer}))' --mlir-print-debuginfo --mlir-print-local-scope | FileCheck %s --check-prefix=AGAIN
// RUN: %optimus-opt %s --pass-pipeline='builtin.module(func.func(optimus-group-products,optimus-tune-products{move=panels}))' --mlir-print-debuginfo --mlir-print-local-scope | FileCheck %s --check-prefix=PANELS

optimus.mesh @mesh <["row" = 2, "col" = 2]>
#x = #ccl.local<[64, 64], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>

// WHOLE-LABEL: func.func @products(
// WHOLE: ccl.all_gather {{.*}} loc(fused<#optimus.origin<phase = forward, part = "all_gather">>["q"("m.py":2:0)])
// WHOLE: ccl.all_gather {{.*}} loc(fused<#optimus.origin<phase = forward, part = "all_gather", ordinal = 1>>["q"("m.py":2:0)])
// WHOLE: optimus.matmul {{.*}} loc("q"("m.py":2:0))
// The partial sums of a product that is scattered are values of their own.
// WHOLE: optimus.matmul {{.*}} loc(fused<#optimus.origin<phase = backward, part = "partial">>["k"("m.py":3:0)])
// WHOLE: ccl.reduce_scatter {{.*}} loc(fused<#optimus.origin<phase = backward>>["k"("m.py":3:0)])
// PANELS-LABEL: func.func @products(
// PANELS: ccl.matmul {{.*}} loc("q"("m.py":2:0))
// PANELS: ccl.matmul {{.*}} loc(fused<#optimus.origin<phase = backward>>["k"("m.py":3:0)])
func.func @products(%x: tensor<32x32xf32, #x>, %y: tensor<32x32xf32, #x>) -> (tensor<32x32xf32, #x>, tensor<32x32xf32, #x>) {
  %0 = ccl.matmul %x, %y {stationary = "c", panels = 2 : i64} : (tensor<32x32xf32, #x>, tensor<32x32xf32, #x>) -> tensor<32x32xf32, #x> loc("q"("m.py":2:0))
  %1 = ccl.matmul %0, %y {stationary = "a", panels = 2 : i64, transpose_b} : (tensor<32x32xf32, #x>, tensor<32x32xf32, #x>) -> tensor<32x32xf32, #x> loc(fused<#optimus.origin<phase = backward>>["k"("m.py":3:0)])
  return %0, %1 : tensor<32x32xf32, #x>, tensor<32x32xf32, #x>
}

// AGAIN-LABEL: func.func @grad_step(
// AGAIN: optimus.matmul {{.*}} {optimus.recomputed} {{.*}} loc(fused<#optimus.origin<phase = recomputed>>["up"("m.py":4:0)])
// AGAIN: optimus.gelu_with_slope {{.*}} {optimus.recomputed} {{.*}} loc(fused<#optimus.origin<phase = recomputed>>["gelu"("m.py":5:0)])
// AGAIN: optimus.mul {{.*}} loc(fused<#optimus.origin<phase = backward>>["gelu"("m.py":5:0)])
func.func @grad_step(%table: tensor<32x16xf32>, %up: tensor<16x64xf32>, %down: tensor<64x16xf32>, %tokens: tensor<8xi32>, %targets: tensor<8xi32>)
    -> (tensor<f32> {optimus.binding = #optimus.buffer<role = "loss_sum", lifetime = call>}, tensor<64x16xf32>, tensor<16x64xf32>) {
  %x0 = optimus.embedding %table, %tokens : (tensor<32x16xf32>, tensor<8xi32>) -> tensor<8x16xf32>
  %0 = optimus.matmul %x0, %up : (tensor<8x16xf32>, tensor<16x64xf32>) -> tensor<8x64xf32> loc("up"("m.py":4:0))
  %1, %slope = optimus.gelu_with_slope %0 : tensor<8x64xf32> loc("gelu"("m.py":5:0))
  %2 = optimus.matmul %1, %down : (tensor<8x64xf32>, tensor<64x16xf32>) -> tensor<8x16xf32>
  %x1 = optimus.add %2, %x0 : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
  %loss, %count, %dh, %dtable = optimus.head_loss_grad %x1, %table, %targets : (tensor<8x16xf32>, tensor<32x16xf32>, tensor<8xi32>) -> (tensor<f32>, tensor<f32>, tensor<8x16xf32>, tensor<32x16xf32>)
  %ddown = optimus.matmul %1, %dh {transpose_a} : (tensor<8x64xf32>, tensor<8x16xf32>) -> tensor<64x16xf32>
  %d1 = optimus.matmul %dh, %down {transpose_b} : (tensor<8x16xf32>, tensor<64x16xf32>) -> tensor<8x64xf32>
  %d0 = optimus.mul %d1, %slope : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32> loc(fused<#optimus.origin<phase = backward>>["gelu"("m.py":5:0)])
  %dup = optimus.matmul %x0, %d0 {transpose_a} : (tensor<8x16xf32>, tensor<8x64xf32>) -> tensor<16x64xf32>
  return %loss, %ddown, %dup : tensor<f32>, tensor<64x16xf32>, tensor<16x64xf32>
}
