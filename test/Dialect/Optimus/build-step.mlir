// RUN: optimus-opt %s --optimus-differentiate --optimus-build-step=optimizer=adamw --verify-roundtrip | FileCheck %s
// RUN: optimus-opt %s --optimus-differentiate --optimus-build-step=keep-sources | FileCheck %s --check-prefix=KEEP

// CHECK-NOT: @loss
// CHECK-NOT: @grad(
// KEEP: func.func @loss
// KEEP: func.func @grad(
// KEEP: func.func @train_step
func.func @loss(
    %table: tensor<32x16xf32> {optimus.param = "table", optimus.role = "table vocabulary,hidden", optimus.dims = ["vocabulary", "hidden"]},
    // A vector in the checkpoint, cut into two dimensions here: no decay.
    %bias: tensor<4x4xf32> {optimus.param = "bias", optimus.hf_shape = array<i64: 16>, optimus.role = "bias"},
    %w: tensor<4x4x16xf32> {optimus.param = "w", optimus.hf_shape = array<i64: 16, 16>, optimus.role = "weight"},
    %v: tensor<16x4x4xf32> {optimus.param = "v", optimus.hf_shape = array<i64: 16, 16>, optimus.role = "weight"},
    %tokens: tensor<8xi32>, %targets: tensor<8xi32>) -> (tensor<f32>, tensor<f32>) {
  %x = optimus.embedding %table, %tokens : (tensor<32x16xf32>, tensor<8xi32>) -> tensor<8x16xf32>
  %y = optimus.matmul %x, %v : (tensor<8x16xf32>, tensor<16x4x4xf32>) -> tensor<8x4x4xf32>
  %z = optimus.add %y, %bias : (tensor<8x4x4xf32>, tensor<4x4xf32>) -> tensor<8x4x4xf32>
  %h = optimus.matmul %z, %w {contracting = 2 : i64} : (tensor<8x4x4xf32>, tensor<4x4x16xf32>) -> tensor<8x16xf32>
  %loss, %count = optimus.head_loss %h, %table, %targets : (tensor<8x16xf32>, tensor<32x16xf32>, tensor<8xi32>) -> (tensor<f32>, tensor<f32>)
  return %loss, %count : tensor<f32>, tensor<f32>
}

// CHECK-LABEL: func.func @train_step(
// CHECK-SAME: %arg0: tensor<32x16xf32> {optimus.dims = ["vocabulary", "hidden"], optimus.donates = 0 : i64, optimus.param = "table"
// CHECK-SAME: %arg4: tensor<32x16xf32> {optimus.binding = #optimus.buffer<role = "exp_avg", of = "table", lifetime = state, init = <zeros>, saved_in = optimizer>, optimus.dims = ["vocabulary", "hidden"], optimus.donates = 4 : i64, optimus.role = "state:table vocabulary,hidden"}
// CHECK-SAME: %arg8: tensor<32x16xf32> {optimus.binding = #optimus.buffer<role = "exp_avg_sq", of = "table", lifetime = state, init = <zeros>, saved_in = optimizer>, {{.*}}optimus.donates = 8 : i64
// CHECK-SAME: %arg12: tensor<8xi32> {optimus.binding = #optimus.buffer<role = "tokens", lifetime = call, filled_by = data>, optimus.role = "tokens batch"}, %arg13: tensor<8xi32> {optimus.binding = #optimus.buffer<role = "targets", lifetime = call, filled_by = data>, optimus.role = "tokens batch"}
// CHECK-SAME: %[[LR:[^:]*]]: tensor<f32> {optimus.binding = #optimus.buffer<role = "lr", lifetime = call, filled_by = host>}, %[[WD:[^:]*]]: tensor<f32> {optimus.binding = #optimus.buffer<role = "weight_decay", lifetime = call, filled_by = host>}
// CHECK-SAME: %[[CLIP:[^:]*]]: tensor<f32> {optimus.binding = #optimus.buffer<role = "clip", lifetime = call, filled_by = host>}, %[[B1:[^:]*]]: tensor<f32> {optimus.binding = #optimus.buffer<role = "beta1", lifetime = call, filled_by = host>}
// CHECK-SAME: %[[B2:[^:]*]]: tensor<f32> {optimus.binding = #optimus.buffer<role = "beta2", lifetime = call, filled_by = host>}, %[[EPS:[^:]*]]: tensor<f32> {optimus.binding = #optimus.buffer<role = "epsilon", lifetime = call, filled_by = host>}
// CHECK-SAME: %[[P1:[^:]*]]: tensor<f32> {optimus.binding = #optimus.buffer<role = "beta1_power", lifetime = call, filled_by = host>}, %[[P2:[^:]*]]: tensor<f32> {optimus.binding = #optimus.buffer<role = "beta2_power", lifetime = call, filled_by = host>})
// What an argument donates to is that argument's buffer.
// CHECK-SAME: -> (tensor<32x16xf32>, tensor<4x4xf32>,
// CHECK-SAME: {optimus.binding = #optimus.buffer<role = "grad_norm", lifetime = call>}
// CHECK: %[[LOSS:.*]], %[[COUNT:.*]], %{{.*}}, %{{.*}} = optimus.head_loss_grad
// CHECK: %[[G:.*]] = optimus.reshard %{{.*}} {optimus.role = "state:table vocabulary,hidden"}
// CHECK: %[[NORM:.*]] = optimus.global_norm %[[G]],
// CHECK: %[[SCALE:.*]], %[[MEAN_NORM:.*]] = optimus.clip %[[NORM]], %[[COUNT]], %[[CLIP]]
// CHECK: optimus.adamw %arg0, %[[G]], %arg4, %arg8, %[[SCALE]], %[[LR]], %[[WD]], %[[B1]], %[[B2]], %[[EPS]], %[[P1]], %[[P2]] {decay, optimus.result_roles = ["state:table vocabulary,hidden", "state:table vocabulary,hidden", "state:table vocabulary,hidden"], optimus.role = "state:table vocabulary,hidden"}
// CHECK: optimus.adamw %arg1, {{.*}} {optimus.result_roles = ["state:bias", "state:bias", "state:bias"]
// CHECK: optimus.adamw %arg2, {{.*}} {decay
// CHECK: optimus.adamw %arg3, {{.*}} {decay
// CHECK: return {{.*}}%[[LOSS]], %[[COUNT]], %[[MEAN_NORM]] :

// CHECK-LABEL: func.func @eval_step(
// CHECK-SAME: -> (tensor<f32> {optimus.binding = #optimus.buffer<role = "loss_sum", lifetime = call>}, tensor<f32> {optimus.binding = #optimus.buffer<role = "real_count", lifetime = call>})
// CHECK-LABEL: func.func @grad_step(
// CHECK-SAME: tensor<32x16xf32> {optimus.binding = #optimus.buffer<role = "grad", of = "table", lifetime = call>, optimus.dims = ["vocabulary", "hidden"]}, tensor<4x4xf32> {optimus.binding = #optimus.buffer<role = "grad", of = "bias", lifetime = call>}
// CHECK-NOT: func.func
