// RUN: optimus-opt %s --optimus-differentiate --optimus-build-step --split-input-file --verify-diagnostics --verify-roundtrip | FileCheck %s

// Training and its gradient draw; evaluation computes with what is drawn on
// average and has no use for the words.

func.func @loss(
    %table: tensor<32x16xf32> {optimus.param = "table"},
    %tokens: tensor<8xi32>, %targets: tensor<8xi32>, %random: tensor<5xi32>) -> (tensor<f32>, tensor<f32>) {
  %x = optimus.embedding %table, %tokens : (tensor<32x16xf32>, tensor<8xi32>) -> tensor<8x16xf32>
  %y = optimus.dropout %x, %random {rate = 0.1 : f64, stream = 3 : i64} : (tensor<8x16xf32>, tensor<5xi32>) -> tensor<8x16xf32>
  %loss, %count = optimus.head_loss %y, %table, %targets : (tensor<8x16xf32>, tensor<32x16xf32>, tensor<8xi32>) -> (tensor<f32>, tensor<f32>)
  return %loss, %count : tensor<f32>, tensor<f32>
}

// CHECK-LABEL: func.func @train_step(
// CHECK-SAME: %[[RANDOM:[^:]*]]: tensor<5xi32> {optimus.binding = #optimus.buffer<role = "random", lifetime = call, filled_by = host>}, %{{[^:]*}}: tensor<f32> {optimus.binding = #optimus.buffer<role = "lr", lifetime = call, filled_by = host>}
// CHECK: optimus.dropout %{{.*}}, %[[RANDOM]] {optimus.role = "batch,hidden", rate = 1.000000e-01 : f64, stream = 3 : i64}
// CHECK: %{{.*}}, %{{.*}}, %[[DH:.*]], %{{.*}} = optimus.head_loss_grad
// CHECK: optimus.dropout %[[DH]], %[[RANDOM]] {optimus.role = "batch,hidden", rate = 1.000000e-01 : f64, stream = 3 : i64}
// CHECK-LABEL: func.func @eval_step(
// CHECK-SAME: %{{[^:]*}}: tensor<8xi32> {optimus.binding = #optimus.buffer<role = "targets", lifetime = call, filled_by = data>, optimus.role = "tokens batch"})
// CHECK: %[[X:.*]] = optimus.embedding
// CHECK-NOT: optimus.dropout
// CHECK: optimus.head_loss %[[X]]
// CHECK-LABEL: func.func @grad_step(
// CHECK-SAME: tensor<5xi32> {optimus.binding = #optimus.buffer<role = "random", lifetime = call, filled_by = host>}
// CHECK-COUNT-2: optimus.dropout

// -----

func.func @loss(
    %table: tensor<5x16xf32> {optimus.param = "table"},
    %tokens: tensor<5xi32>, %targets: tensor<5xi32>, %random: tensor<5xi32>) -> (tensor<f32>, tensor<f32>) {
  // expected-error @below {{uses the random words of @eval_step, but outside of training no numbers are drawn and the operation does not say what it is on average}}
  %x = optimus.embedding %table, %random : (tensor<5x16xf32>, tensor<5xi32>) -> tensor<5x16xf32>
  %loss, %count = optimus.head_loss %x, %table, %targets : (tensor<5x16xf32>, tensor<5x16xf32>, tensor<5xi32>) -> (tensor<f32>, tensor<f32>)
  return %loss, %count : tensor<f32>, tensor<f32>
}
