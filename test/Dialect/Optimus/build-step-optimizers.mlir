// RUN: optimus-opt %s --optimus-differentiate --optimus-build-step=optimizer=sgd --verify-roundtrip | FileCheck %s --check-prefix=SGD
// RUN: optimus-opt %s --optimus-differentiate --optimus-build-step=optimizer=lamb | FileCheck %s --check-prefix=LAMB
// RUN: optimus-opt %s --optimus-differentiate --optimus-build-step=optimizer=adagrad | FileCheck %s --check-prefix=ADAGRAD
// RUN: optimus-opt %s --optimus-differentiate --optimus-build-step=optimizer=lion | FileCheck %s --check-prefix=LION
// RUN: optimus-opt %s --optimus-differentiate --optimus-build-step=accumulate | FileCheck %s --check-prefix=SUMS

// The table decays, the bias does not.
func.func @loss(
    %table: tensor<32x16xf32> {optimus.param = "table", optimus.role = "table vocabulary,hidden"},
    %bias: tensor<16xf32> {optimus.param = "bias"},
    %tokens: tensor<8xi32>, %targets: tensor<8xi32>) -> (tensor<f32>, tensor<f32>) {
  %x = optimus.embedding %table, %tokens : (tensor<32x16xf32>, tensor<8xi32>) -> tensor<8x16xf32>
  %h = optimus.add %x, %bias : (tensor<8x16xf32>, tensor<16xf32>) -> tensor<8x16xf32>
  %loss, %count = optimus.head_loss %h, %table, %targets : (tensor<8x16xf32>, tensor<32x16xf32>, tensor<8xi32>) -> (tensor<f32>, tensor<f32>)
  return %loss, %count : tensor<f32>, tensor<f32>
}

// SGD-LABEL: func.func @train_step(
// SGD-SAME: %arg2: tensor<32x16xf32> {optimus.binding = #optimus.buffer<role = "momentum_buffer", of = "table", lifetime = state, init = <zeros>, saved_in = optimizer>, optimus.donates = 2 : i64, optimus.role = "state:table vocabulary,hidden"}
// SGD-SAME: %[[LR:[^:]*]]: tensor<f32> {optimus.binding = #optimus.buffer<role = "lr", lifetime = call, filled_by = host>}, %[[WD:[^:]*]]: tensor<f32> {optimus.binding = #optimus.buffer<role = "weight_decay", lifetime = call, filled_by = host>}
// SGD-SAME: %[[MOMENTUM:[^:]*]]: tensor<f32> {optimus.binding = #optimus.buffer<role = "momentum", lifetime = call, filled_by = host>})
// SGD: %[[SCALE:.*]], %{{.*}} = optimus.clip
// SGD: optimus.sgd %arg0, %{{.*}}, %arg2, %[[SCALE]], %[[LR]], %[[WD]], %[[MOMENTUM]] {decay
// SGD: optimus.sgd %arg1, %{{.*}}, %arg3, %[[SCALE]], %[[LR]], %[[WD]], %[[MOMENTUM]] {optimus.result_roles = ["state:vector hidden of bias", "state:vector hidden of bias"]

// LAMB-LABEL: func.func @train_step(
// LAMB: %[[SCALE:.*]], %{{.*}} = optimus.clip
// LAMB: %[[U:.*]], %{{.*}}, %{{.*}} = optimus.lamb_direction %arg0, %{{.*}}, %arg2, %arg4, %[[SCALE]]{{.*}} {decay
// LAMB: %[[P:.*]] = optimus.global_norm %arg0 :
// LAMB: %[[N:.*]] = optimus.global_norm %[[U]] :
// LAMB: optimus.lamb_update %arg0, %[[U]], %{{.*}}, %[[P]], %[[N]]
// LAMB: %[[V:.*]], %{{.*}}, %{{.*}} = optimus.lamb_direction %arg1,
// LAMB-NOT: optimus.global_norm
// LAMB: optimus.lamb_update %arg1, %[[V]], %{{[^,]*}} {

// ADAGRAD-LABEL: func.func @train_step(
// ADAGRAD-SAME: role = "sum", of = "table", lifetime = state, init = <zeros>, saved_in = optimizer
// ADAGRAD-SAME: %[[LR:[^:]*]]: tensor<f32> {optimus.binding = #optimus.buffer<role = "lr"
// ADAGRAD-SAME: %[[EPSILON:[^:]*]]: tensor<f32> {optimus.binding = #optimus.buffer<role = "epsilon", lifetime = call, filled_by = host>})
// ADAGRAD: %[[SCALE:.*]], %{{.*}} = optimus.clip
// ADAGRAD: optimus.adagrad %arg0, %{{.*}}, %arg2, %[[SCALE]], %[[LR]], %{{.*}}, %[[EPSILON]] {decay
// ADAGRAD: optimus.adagrad %arg1, %{{.*}}, %arg3, {{.*}} {optimus.result_roles

// LION-LABEL: func.func @train_step(
// LION-SAME: role = "exp_avg", of = "table", lifetime = state, init = <zeros>, saved_in = optimizer
// LION-SAME: %[[BETA1:[^:]*]]: tensor<f32> {optimus.binding = #optimus.buffer<role = "beta1", lifetime = call, filled_by = host>}, %[[BETA2:[^:]*]]: tensor<f32> {optimus.binding = #optimus.buffer<role = "beta2", lifetime = call, filled_by = host>})
// LION: optimus.lion %arg0, %{{.*}}, %arg2, {{.*}}, %[[BETA1]], %[[BETA2]] {decay

// SUMS: func.func @train_step(
// SUMS-LABEL: func.func @accumulate(
// SUMS-SAME: %[[LOSS:[^:]*]]: tensor<f32> {optimus.binding = #optimus.buffer<role = "loss_sum", lifetime = sequence, init = <zeros>, reset = step>, optimus.donates = 0 : i64}, %[[COUNT:[^:]*]]: tensor<f32> {optimus.binding = #optimus.buffer<role = "real_count", lifetime = sequence, init = <zeros>, reset = step>, optimus.donates = 1 : i64}
// SUMS-SAME: %[[SUM:[^:]*]]: tensor<32x16xf32> {optimus.binding = #optimus.buffer<role = "grad_sum", of = "table", lifetime = sequence, init = <zeros>, reset = step>, optimus.donates = 2 : i64, optimus.role = "sum:table vocabulary,hidden"}
// SUMS: %[[L:.*]], %[[C:.*]], %{{.*}}, %{{.*}} = optimus.head_loss_grad
// SUMS-DAG: optimus.add %[[LOSS]], %[[L]]
// SUMS-DAG: optimus.add %[[COUNT]], %[[C]]
// SUMS: optimus.add %[[SUM]], %{{.*}} {optimus.role = "sum:table vocabulary,hidden"}
// SUMS-LABEL: func.func @update(
// SUMS-SAME: %[[G:[^:]*]]: tensor<32x16xf32> {optimus.binding = #optimus.buffer<role = "grad_sum", of = "table", lifetime = sequence, init = <zeros>, reset = step>, optimus.role = "sum:table vocabulary,hidden"}
// SUMS-SAME: %[[N:[^:]*]]: tensor<f32> {optimus.binding = #optimus.buffer<role = "real_count", lifetime = sequence, init = <zeros>, reset = step>}
// SUMS-NOT: optimus.embedding
// SUMS: %[[NORM:.*]] = optimus.global_norm
// SUMS: optimus.clip %[[NORM]], %[[N]],
// SUMS: optimus.adamw %arg0,
