// RUN: optimus-opt %s --optimus-differentiate --verify-roundtrip | FileCheck %s

// A gradient has the element type of its value; what is summed into it is f32
// on the way.
// CHECK-LABEL: func.func @loss
// CHECK-LABEL: func.func @grad
// CHECK: %[[W16:.*]] = optimus.cast %{{.*}} : (tensor<16x16xf32>) -> tensor<16x16xbf16>
// CHECK: %[[T16:.*]] = optimus.cast %{{.*}} : (tensor<32x16xf32>) -> tensor<32x16xbf16>
// CHECK: optimus.head_loss_grad {{.*}} -> (tensor<f32>, tensor<f32>, tensor<2x8x16xbf16>, tensor<32x16xf32>)
// CHECK: %[[DT16:.*]] = optimus.cast %{{.*}} : (tensor<32x16xf32>) -> tensor<32x16xbf16>
// CHECK: optimus.cast %[[DT16]] {{.*}}: (tensor<32x16xbf16>) -> tensor<32x16xf32>
// CHECK: optimus.sum_leading %{{.*}} {optimus.role = "vector hidden of bias"} : (tensor<2x8x16xbf16>) -> tensor<16xf32>
// CHECK: optimus.matmul %[[DY:.*]], %[[W16]] {optimus.role = "batch,sequence,hidden", transpose_b} : {{.*}} -> tensor<2x8x16xbf16>
// CHECK: %[[DW16:.*]] = optimus.matmul %{{.*}}, %[[DY]] {contracting = 2 : i64, transpose_a} : {{.*}} -> tensor<16x16xbf16>
// CHECK: optimus.cast %[[DW16]] {optimus.role = "unpaired in.hidden,out.hidden of w"} : (tensor<16x16xbf16>) -> tensor<16x16xf32>
// CHECK: optimus.layer_norm_grad {{.*}} : (tensor<2x8x16xbf16>, tensor<2x8x16xf32>, {{.*}}) -> (tensor<2x8x16xf32>, tensor<16xf32>, tensor<16xf32>)
// CHECK: optimus.embedding_grad {{.*}} accumulate({{.*}}) {optimus.role = "table vocabulary,hidden of table"} : (tensor<2x8x16xf32>, tensor<2x8xi32>, tensor<32x16xf32>) -> tensor<32x16xf32>
func.func @loss(
    %table: tensor<32x16xf32> {optimus.param = "table"},
    %gain: tensor<16xf32> {optimus.param = "gain"},
    %w: tensor<16x16xf32> {optimus.param = "w"},
    %bias: tensor<16xf32> {optimus.param = "bias"},
    %tokens: tensor<2x8xi32>, %targets: tensor<2x8xi32>) -> (tensor<f32>, tensor<f32>) {
  %x = optimus.embedding %table, %tokens : (tensor<32x16xf32>, tensor<2x8xi32>) -> tensor<2x8x16xf32>
  %y, %mean, %rstd = optimus.layer_norm %x, %gain, %gain {epsilon = 1.0e-05 : f64} : (tensor<2x8x16xf32>, tensor<16xf32>, tensor<16xf32>) -> (tensor<2x8x16xbf16>, tensor<2x8xf32>, tensor<2x8xf32>)
  %w16 = optimus.cast %w : (tensor<16x16xf32>) -> tensor<16x16xbf16>
  %z = optimus.matmul %y, %w16 : (tensor<2x8x16xbf16>, tensor<16x16xbf16>) -> tensor<2x8x16xbf16>
  %biased = optimus.add %z, %bias : (tensor<2x8x16xbf16>, tensor<16xf32>) -> tensor<2x8x16xbf16>
  %table16 = optimus.cast %table : (tensor<32x16xf32>) -> tensor<32x16xbf16>
  %loss, %count = optimus.head_loss %biased, %table16, %targets : (tensor<2x8x16xbf16>, tensor<32x16xbf16>, tensor<2x8xi32>) -> (tensor<f32>, tensor<f32>)
  return %loss, %count : tensor<f32>, tensor<f32>
}
