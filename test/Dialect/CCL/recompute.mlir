// RUN: optimus-opt %s --pass-pipeline='builtin.module(func.func(optimus-recompute{policy=layer}))' | FileCheck %s --check-prefixes=CHECK,LAYER
// RUN: optimus-opt %s --pass-pipeline='builtin.module(func.func(optimus-recompute{policy=attention}))' | FileCheck %s --check-prefixes=CHECK,ATTENTION
// RUN: optimus-opt %s --pass-pipeline='builtin.module(func.func(optimus-recompute{policy=none}))' | FileCheck %s --check-prefix=NONE
// RUN: not optimus-opt %s --pass-pipeline='builtin.module(func.func(optimus-recompute{policy=all}))' 2>&1 | FileCheck %s --check-prefix=ALL

// ALL: error: unknown policy of recomputation 'all'; known are none, attention, layer
// NONE-NOT: optimus.recomputed

// The look-up is a cut, and so is %x1; the loss bounds the forward.
// CHECK-LABEL: func.func @grad_step
// CHECK: %[[X0:.*]] = optimus.embedding
// CHECK: %[[UP:.*]] = optimus.matmul %[[X0]]
// CHECK: optimus.gelu_with_slope %[[UP]]
// CHECK: %[[X1:.*]] = optimus.add
// CHECK: optimus.head_loss_grad
func.func @grad_step(%table: tensor<32x16xf32>, %up: tensor<16x64xf32>, %down: tensor<64x16xf32>, %tokens: tensor<8xi32>, %targets: tensor<8xi32>)
    -> (tensor<f32> {optimus.binding = #optimus.buffer<role = "loss_sum", lifetime = call>}, tensor<64x16xf32>, tensor<16x64xf32>) {
  %x0 = optimus.embedding %table, %tokens : (tensor<32x16xf32>, tensor<8xi32>) -> tensor<8x16xf32>
  %0 = optimus.matmul %x0, %up : (tensor<8x16xf32>, tensor<16x64xf32>) -> tensor<8x64xf32>
  %1, %slope = optimus.gelu_with_slope %0 : tensor<8x64xf32>
  %2 = optimus.matmul %1, %down : (tensor<8x64xf32>, tensor<64x16xf32>) -> tensor<8x16xf32>
  %x1 = optimus.add %2, %x0 : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
  %loss, %count, %dh, %dtable = optimus.head_loss_grad %x1, %table, %targets : (tensor<8x16xf32>, tensor<32x16xf32>, tensor<8xi32>) -> (tensor<f32>, tensor<f32>, tensor<8x16xf32>, tensor<32x16xf32>)
  // The product runs again in one policy; the other keeps its result.
  // LAYER: %[[AGAIN:.*]] = optimus.matmul %[[X0]], %arg1 {optimus.recomputed}
  // LAYER: %[[GELU:.*]], %[[SLOPE:.*]] = optimus.gelu_with_slope %[[AGAIN]] {optimus.recomputed}
  // ATTENTION-NOT: optimus.matmul {{.*}}optimus.recomputed
  // ATTENTION: %[[GELU:.*]], %[[SLOPE:.*]] = optimus.gelu_with_slope %[[UP]] {optimus.recomputed}
  // CHECK: optimus.matmul %[[GELU]], %{{.*}} {transpose_a}
  %ddown = optimus.matmul %1, %dh {transpose_a} : (tensor<8x64xf32>, tensor<8x16xf32>) -> tensor<64x16xf32>
  %d1 = optimus.matmul %dh, %down {transpose_b} : (tensor<8x16xf32>, tensor<64x16xf32>) -> tensor<8x64xf32>
  // CHECK: optimus.mul %{{.*}}, %[[SLOPE]]
  %d0 = optimus.mul %d1, %slope : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
  // A cut is kept.
  // CHECK: optimus.matmul %[[X0]], %{{.*}} {transpose_a}
  %dup = optimus.matmul %x0, %d0 {transpose_a} : (tensor<8x16xf32>, tensor<8x64xf32>) -> tensor<16x64xf32>
  return %loss, %ddown, %dup : tensor<f32>, tensor<64x16xf32>, tensor<16x64xf32>
}

// The forward of a microbatch ends with its own loss, not where that is added to
// those before.
// CHECK-LABEL: func.func @accumulate
// CHECK: %[[X0:.*]] = optimus.embedding
// CHECK: %[[UP:.*]] = optimus.matmul %[[X0]]
// CHECK: optimus.head_loss_grad
func.func @accumulate(%table: tensor<32x16xf32>, %up: tensor<16x64xf32>, %down: tensor<64x16xf32>, %tokens: tensor<8xi32>, %targets: tensor<8xi32>,
                      %before: tensor<f32> {optimus.binding = #optimus.buffer<role = "loss_sum", lifetime = sequence, init = <zeros>, reset = step>, optimus.donates = 0 : i64},
                      %sum: tensor<64x16xf32> {optimus.donates = 1 : i64})
    -> (tensor<f32>, tensor<64x16xf32>) {
  %x0 = optimus.embedding %table, %tokens : (tensor<32x16xf32>, tensor<8xi32>) -> tensor<8x16xf32>
  %0 = optimus.matmul %x0, %up : (tensor<8x16xf32>, tensor<16x64xf32>) -> tensor<8x64xf32>
  %1, %slope = optimus.gelu_with_slope %0 : tensor<8x64xf32>
  %2 = optimus.matmul %1, %down : (tensor<8x64xf32>, tensor<64x16xf32>) -> tensor<8x16xf32>
  %loss, %count, %dh, %dtable = optimus.head_loss_grad %2, %table, %targets : (tensor<8x16xf32>, tensor<32x16xf32>, tensor<8xi32>) -> (tensor<f32>, tensor<f32>, tensor<8x16xf32>, tensor<32x16xf32>)
  // LAYER: %[[AGAIN:.*]] = optimus.matmul %[[X0]], %arg1 {optimus.recomputed}
  // LAYER: %[[GELU:.*]], %{{.*}} = optimus.gelu_with_slope %[[AGAIN]] {optimus.recomputed}
  // ATTENTION: %[[GELU:.*]], %{{.*}} = optimus.gelu_with_slope %[[UP]] {optimus.recomputed}
  // CHECK: optimus.matmul %[[GELU]], %{{.*}} {transpose_a}
  %ddown = optimus.matmul %1, %dh {transpose_a} : (tensor<8x64xf32>, tensor<8x16xf32>) -> tensor<64x16xf32>
  // CHECK-NOT: optimus.recomputed
  %total = optimus.add %before, %loss : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %dtotal = optimus.add %sum, %ddown : (tensor<64x16xf32>, tensor<64x16xf32>) -> tensor<64x16xf32>
  return %total, %dtotal : tensor<f32>, tensor<64x16xf32>
}
