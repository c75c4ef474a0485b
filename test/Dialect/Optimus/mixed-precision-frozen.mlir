// RUN: optimus-opt %s --optimus-differentiate='train=gain;adapter' --optimus-mixed-precision --optimus-build-step --verify-roundtrip | FileCheck %s
// RUN: optimus-opt %s --optimus-differentiate='train=gain;adapter' --optimus-mixed-precision=type=f32 --optimus-build-step | FileCheck %s --check-prefix=FULL

// What is frozen and read as bf16 alone is of that type in every function, with
// nothing else of it; what is trained, and what somebody reads in f32, stays: a
// table that is looked up, a vector.
// CHECK-LABEL: func.func @train_step(
// CHECK-SAME: %[[TABLE:[^:]*]]: tensor<32x16xf32>
// CHECK-SAME: tensor<16xf32>
// CHECK-SAME: tensor<16xf32>
// CHECK-SAME: %[[W:[^:]*]]: tensor<16x16xbf16>
// CHECK-SAME: %[[ADAPTER:[^:]*]]: tensor<16x16xf32>
// CHECK-NOT: optimus.cast
// CHECK: optimus.matmul %{{.*}}, %[[W]]
// CHECK: optimus.cast %[[ADAPTER]]
// CHECK: optimus.cast %[[TABLE]]
// CHECK-NOT: optimus.cast
// CHECK: return
// CHECK-LABEL: func.func @eval_step(
// CHECK-SAME: tensor<32x16xf32>
// CHECK-SAME: tensor<16x16xbf16>
// CHECK-SAME: tensor<16x16xf32>
// FULL-LABEL: func.func @train_step(
// FULL-NOT: bf16
func.func @loss(
    %table: tensor<32x16xf32> {optimus.param = "table"},
    %gain: tensor<16xf32> {optimus.param = "gain"},
    %shift: tensor<16xf32> {optimus.param = "shift"},
    %w: tensor<16x16xf32> {optimus.param = "w"},
    %adapter: tensor<16x16xf32> {optimus.param = "adapter"},
    %tokens: tensor<2x8xi32>, %targets: tensor<2x8xi32>) -> (tensor<f32>, tensor<f32>) {
  %x = optimus.embedding %table, %tokens : (tensor<32x16xf32>, tensor<2x8xi32>) -> tensor<2x8x16xf32>
  %y, %mean, %rstd = optimus.layer_norm %x, %gain, %shift {epsilon = 1.0e-05 : f64} : (tensor<2x8x16xf32>, tensor<16xf32>, tensor<16xf32>) -> (tensor<2x8x16xf32>, tensor<2x8xf32>, tensor<2x8xf32>)
  %p = optimus.matmul %y, %w : (tensor<2x8x16xf32>, tensor<16x16xf32>) -> tensor<2x8x16xf32>
  %q = optimus.matmul %p, %adapter : (tensor<2x8x16xf32>, tensor<16x16xf32>) -> tensor<2x8x16xf32>
  %loss, %count = optimus.head_loss %q, %table, %targets : (tensor<2x8x16xf32>, tensor<32x16xf32>, tensor<2x8xi32>) -> (tensor<f32>, tensor<f32>)
  return %loss, %count : tensor<f32>, tensor<f32>
}
