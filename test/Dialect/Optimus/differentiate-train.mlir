// RUN: optimus-opt %s --optimus-differentiate='train=b*' --verify-roundtrip | FileCheck %s
// RUN: optimus-opt %s --optimus-differentiate='train=b*' --optimus-build-step='optimizer=sgd accumulate' --verify-roundtrip | FileCheck %s --check-prefix=STEP

// Of a and the table nothing is computed: no product for da, and no gradient of
// the rows that were looked up. The gradient that is there says whose it is.
// CHECK-LABEL: func.func @grad(
// CHECK-SAME: -> (tensor<f32>, tensor<f32>, tensor<8x8xf32> {optimus.binding = #optimus.buffer<role = "grad", of = "b", lifetime = call>})
// CHECK: optimus.matmul {{.*}} -> tensor<2x4x8xf32>
// CHECK: optimus.matmul {{.*}} -> tensor<2x4x8xf32>
// CHECK: %[[LOSS:.*]], %[[COUNT:.*]], %[[DH:.*]], %{{.*}} = optimus.head_loss_grad
// CHECK-NEXT: %[[DB:.*]] = optimus.matmul %{{.*}}, %[[DH]] {{.*}}transpose_a} : {{.*}} -> tensor<8x8xf32>
// CHECK-NEXT: return %[[LOSS]], %[[COUNT]], %[[DB]]

// One update and one state; a and the table give their buffers away to nothing.
// STEP-LABEL: func.func @train_step(
// STEP-SAME: tensor<6x8xf32> {optimus.param = "table"
// STEP-NOT: donates
// STEP-SAME: optimus.donates = 0 : i64, optimus.param = "b"
// STEP-SAME: optimus.binding = #optimus.buffer<role = "momentum_buffer", of = "b"
// STEP-SAME: optimus.donates = 1 : i64
// STEP-NOT: role = "momentum_buffer"
// STEP: optimus.global_norm %{{[^,]*}} :
// STEP: optimus.sgd
// STEP-NOT: optimus.sgd
// STEP-LABEL: func.func @grad_step(
// STEP-SAME: of = "b"
// STEP-LABEL: func.func @accumulate(
// STEP-SAME: role = "grad_sum", of = "b"
// STEP-NOT: role = "grad_sum", of = "a"
// STEP: return
// Updates read what they change alone.
// STEP-LABEL: func.func @update(
// STEP-NOT: optimus.param = "a"
// STEP: return
func.func @loss(%table: tensor<6x8xf32> {optimus.param = "table"},
    %a: tensor<8x8xf32> {optimus.param = "a"}, %b: tensor<8x8xf32> {optimus.param = "b"},
    %tokens: tensor<2x4xi32>, %targets: tensor<2x4xi32>) -> (tensor<f32>, tensor<f32>) {
  %x = optimus.embedding %table, %tokens : (tensor<6x8xf32>, tensor<2x4xi32>) -> tensor<2x4x8xf32>
  %y = optimus.matmul %x, %a : (tensor<2x4x8xf32>, tensor<8x8xf32>) -> tensor<2x4x8xf32>
  %z = optimus.matmul %y, %b : (tensor<2x4x8xf32>, tensor<8x8xf32>) -> tensor<2x4x8xf32>
  %loss, %count = optimus.head_loss %z, %table, %targets : (tensor<2x4x8xf32>, tensor<6x8xf32>, tensor<2x4xi32>) -> (tensor<f32>, tensor<f32>)
  return %loss, %count : tensor<f32>, tensor<f32>
}
