// RUN: optimus-opt %s --pass-pipeline='builtin.module(func.func(optimus-recompute{values=mlp.gelu:*}))' | FileCheck %s --check-prefixes=CHECK,ONE
// RUN: optimus-opt %s --pass-pipeline='builtin.module(func.func(optimus-recompute{values=mlp.gelu:*,mlp.up:0,look_up:0}))' | FileCheck %s --check-prefixes=CHECK,CHAIN
// RUN: not optimus-opt %s --pass-pipeline='builtin.module(func.func(optimus-recompute{values=mlp.gleu:0}))' 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not optimus-opt %s --pass-pipeline='builtin.module(func.func(optimus-recompute{values=mlp.[:0}))' 2>&1 | FileCheck %s --check-prefix=PATTERN

// UNKNOWN: error: expected values of the forward to recompute, as h.*.mlp.gelu:0; found none that 'mlp.gleu:0' matches
// PATTERN: error: expected a value, in which * stands for any part of it; found 'mlp.[:0'

// CHECK-LABEL: func.func @grad_step
func.func @grad_step(%table: tensor<32x16xf32>, %up: tensor<16x64xf32>, %down: tensor<64x16xf32>, %tokens: tensor<8xi32>, %targets: tensor<8xi32>)
    -> (tensor<f32> {optimus.binding = #optimus.buffer<role = "loss_sum", lifetime = call>}, tensor<64x16xf32>, tensor<16x64xf32>) {
  // CHECK: %[[X0:.*]] = optimus.embedding
  %x0 = optimus.embedding %table, %tokens : (tensor<32x16xf32>, tensor<8xi32>) -> tensor<8x16xf32> loc("look_up")
  // CHECK: %[[UP:.*]] = optimus.matmul %[[X0]]
  %0 = optimus.matmul %x0, %up : (tensor<8x16xf32>, tensor<16x64xf32>) -> tensor<8x64xf32> loc("mlp.up")
  // It stays what it is, though nothing uses its slope: as another operation it might round otherwise.
  // CHECK: optimus.gelu_with_slope %[[UP]]
  %1, %slope = optimus.gelu_with_slope %0 : tensor<8x64xf32> loc("mlp.gelu")
  // What the product adds to is not used later where it is recomputed, but was.
  // ONE: optimus.matmul {{.*}} residual(%[[X0]])
  // ONE-NOT: ccl.own_buffer
  // CHAIN: optimus.matmul {{.*}} residual(%[[X0]]) {ccl.own_buffer
  %x1 = optimus.matmul %1, %down residual(%x0) : (tensor<8x64xf32>, tensor<64x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32> loc("mlp.down")
  // CHECK: optimus.head_loss_grad
  %loss, %count, %dh, %dtable = optimus.head_loss_grad %x1, %table, %targets : (tensor<8x16xf32>, tensor<32x16xf32>, tensor<8xi32>) -> (tensor<f32>, tensor<f32>, tensor<8x16xf32>, tensor<32x16xf32>)
  // ONE: %[[GELU:.*]], %[[SLOPE:.*]] = optimus.gelu_with_slope %[[UP]] {optimus.recomputed}
  // CHAIN: %[[X:.*]] = optimus.embedding {{.*}} {optimus.recomputed}
  // CHAIN: %[[AGAIN:.*]] = optimus.matmul %[[X]], %arg1 {optimus.recomputed}
  // CHAIN: %[[GELU:.*]], %[[SLOPE:.*]] = optimus.gelu_with_slope %[[AGAIN]] {optimus.recomputed}
  // CHECK: optimus.matmul %[[GELU]], %{{.*}} {transpose_a}
  %ddown = optimus.matmul %1, %dh {transpose_a} : (tensor<8x64xf32>, tensor<8x16xf32>) -> tensor<64x16xf32>
  %d1 = optimus.matmul %dh, %down {transpose_b} : (tensor<8x16xf32>, tensor<64x16xf32>) -> tensor<8x64xf32>
  // CHECK: optimus.mul %{{.*}}, %[[SLOPE]]
  %d0 = optimus.mul %d1, %slope : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
  %dup = optimus.matmul %x0, %d0 {transpose_a} : (tensor<8x16xf32>, tensor<8x64xf32>) -> tensor<16x64xf32>
  return %loss, %ddown, %dup : tensor<f32>, tensor<64x16xf32>, tensor<16x64xf32>
}

// A product that adds to what the backward never uses adds to it in place. It may not run again.
// CHECK-LABEL: func.func @in_place
func.func @in_place(%table: tensor<32x16xf32>, %w: tensor<16x16xf32>, %tokens: tensor<8xi32>, %targets: tensor<8xi32>)
    -> (tensor<f32> {optimus.binding = #optimus.buffer<role = "loss_sum", lifetime = call>}, tensor<16x16xf32>) {
  %x0 = optimus.embedding %table, %tokens : (tensor<32x16xf32>, tensor<8xi32>) -> tensor<8x16xf32> loc("look_up")
  %0 = optimus.gelu %x0 : tensor<8x16xf32> loc("mlp.up")
  %1 = optimus.mul %x0, %x0 : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32> loc("mlp.other")
  %x1 = optimus.matmul %0, %w residual(%1) : (tensor<8x16xf32>, tensor<16x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32> loc("mlp.gelu")
  // CHECK: optimus.head_loss_grad
  %loss, %count, %dh, %dtable = optimus.head_loss_grad %x1, %table, %targets : (tensor<8x16xf32>, tensor<32x16xf32>, tensor<8xi32>) -> (tensor<f32>, tensor<f32>, tensor<8x16xf32>, tensor<32x16xf32>)
  // CHECK-NOT: residual
  %d = optimus.matmul %x1, %dh {transpose_a} : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<16x16xf32>
  return %loss, %d : tensor<f32>, tensor<16x16xf32>
}
