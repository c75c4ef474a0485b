// RUN: optimus-opt %s --optimus-differentiate --optimus-mixed-precision --optimus-build-step=accumulate --split-input-file --verify-roundtrip | FileCheck %s

// Functions say what they are called for, and the batch that they read.
// CHECK-NOT: func.func @loss
// CHECK: func.func @train_step({{.*}} attributes {optimus.entry = #optimus.entry<train, batch = 2, sequence = 4>}
// CHECK: func.func @eval_step({{.*}} attributes {optimus.entry = #optimus.entry<eval, batch = 2, sequence = 4>}
// CHECK: func.func @grad_step({{.*}} attributes {optimus.entry = #optimus.entry<grad, batch = 2, sequence = 4>}
// CHECK: func.func @accumulate({{.*}} attributes {optimus.entry = #optimus.entry<accumulate, batch = 2, sequence = 4>}
// CHECK: func.func @update({{.*}} attributes {optimus.entry = #optimus.entry<update>}
// Outside of training nothing is drawn; products are narrow, as in the others.
// CHECK: func.func @forward({{.*}} attributes {optimus.entry = #optimus.entry<forward, batch = 2, sequence = 4>}
// CHECK-NOT: optimus.dropout
// CHECK: %[[X:.*]] = optimus.embedding
// CHECK: optimus.head %{{.*}}, %{{.*}} : (tensor<2x4x8xbf16>, tensor<16x8xbf16>) -> tensor<2x4x16xf32>

func.func @loss(%table: tensor<16x8xf32> {optimus.param = "table"}, %tokens: tensor<2x4xi32>, %targets: tensor<2x4xi32>) -> (tensor<f32>, tensor<f32>) {
  %x = optimus.embedding %table, %tokens : (tensor<16x8xf32>, tensor<2x4xi32>) -> tensor<2x4x8xf32>
  %loss, %count = optimus.head_loss %x, %table, %targets : (tensor<2x4x8xf32>, tensor<16x8xf32>, tensor<2x4xi32>) -> (tensor<f32>, tensor<f32>)
  return %loss, %count : tensor<f32>, tensor<f32>
}
func.func @forward(%table: tensor<16x8xf32> {optimus.param = "table"}, %tokens: tensor<2x4xi32> {optimus.binding = "tokens"}, %random: tensor<5xi32> {optimus.binding = "random"})
    -> (tensor<2x4x16xf32> {optimus.binding = #optimus.buffer<role = "logits", lifetime = call>}) attributes {optimus.entry = #optimus.entry<forward, batch = 2, sequence = 4>} {
  %x = optimus.embedding %table, %tokens : (tensor<16x8xf32>, tensor<2x4xi32>) -> tensor<2x4x8xf32>
  %y = optimus.dropout %x, %random {rate = 0.1 : f64, stream = 3 : i64} : (tensor<2x4x8xf32>, tensor<5xi32>) -> tensor<2x4x8xf32>
  %logits = optimus.head %y, %table : (tensor<2x4x8xf32>, tensor<16x8xf32>) -> tensor<2x4x16xf32>
  return %logits : tensor<2x4x16xf32>
}

// -----

// A module without @loss needs none.
// CHECK-LABEL: func.func @logits(
// CHECK-SAME: #optimus.entry<forward, batch = 2, sequence = 4>
// CHECK-NOT: func.func
func.func @logits(%table: tensor<16x8xf32> {optimus.param = "table"}, %tokens: tensor<2x4xi32> {optimus.binding = "tokens"})
    -> (tensor<2x4x16xf32> {optimus.binding = #optimus.buffer<role = "logits", lifetime = call>}) attributes {optimus.entry = #optimus.entry<forward, batch = 2, sequence = 4>} {
  %x = optimus.embedding %table, %tokens : (tensor<16x8xf32>, tensor<2x4xi32>) -> tensor<2x4x8xf32>
  %logits = optimus.head %x, %table : (tensor<2x4x8xf32>, tensor<16x8xf32>) -> tensor<2x4x16xf32>
  return %logits : tensor<2x4x16xf32>
}
