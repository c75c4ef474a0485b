// RUN: optimus-opt %s --optimus-differentiate --verify-roundtrip --split-input-file | FileCheck %s

// Every operation of a model; the table is both embedding and output head.
// CHECK-LABEL: func.func @loss
// CHECK-LABEL: func.func @grad
func.func @loss(
    %table: tensor<32x16xf32> {optimus.param = "table", optimus.role = "table vocabulary,hidden"},
    %gain: tensor<16xf32> {optimus.param = "gain", optimus.role = "vector hidden"},
    %shift: tensor<16xf32> {optimus.param = "shift", optimus.role = "vector hidden"},
    %wqkv: tensor<16x3x4x4xf32> {optimus.param = "wqkv", optimus.role = "first in.hidden,-,out.heads,-"},
    %wout: tensor<4x4x16xf32> {optimus.param = "wout", optimus.role = "second in.heads,-,out.hidden"},
    %bias: tensor<16xf32> {optimus.param = "bias", optimus.role = "vector hidden"},
    %tokens: tensor<2x8xi32>, %targets: tensor<2x8xi32>) -> (tensor<f32>, tensor<f32>) {
  %x = optimus.embedding %table, %tokens {optimus.role = "batch,sequence,hidden"} : (tensor<32x16xf32>, tensor<2x8xi32>) -> tensor<2x8x16xf32>
  // CHECK: %[[Y:.*]], %[[MEAN:.*]], %[[RSTD:.*]] = optimus.layer_norm %[[X:[^,]*]],
  // CHECK-SAME: optimus.result_roles = ["batch,sequence,hidden", "", ""]
  %y, %mean, %rstd = optimus.layer_norm %x, %gain, %shift {epsilon = 1.0e-05 : f64, optimus.role = "batch,sequence,hidden"} : (tensor<2x8x16xf32>, tensor<16xf32>, tensor<16xf32>) -> (tensor<2x8x16xf32>, tensor<2x8xf32>, tensor<2x8xf32>)
  %qkv = optimus.matmul %y, %wqkv {optimus.role = "batch,sequence,-,heads,-"} : (tensor<2x8x16xf32>, tensor<16x3x4x4xf32>) -> tensor<2x8x3x4x4xf32>
  %heads, %lse = optimus.attention %qkv {causal, optimus.role = "batch,sequence,heads,-"} : (tensor<2x8x3x4x4xf32>) -> (tensor<2x8x4x4xf32>, tensor<2x4x8xf32>)
  %out = optimus.matmul %heads, %wout {contracting = 2 : i64, optimus.role = "batch,sequence,hidden"} : (tensor<2x8x4x4xf32>, tensor<4x4x16xf32>) -> tensor<2x8x16xf32>
  %biased = optimus.add %out, %bias {optimus.role = "batch,sequence,hidden"} : (tensor<2x8x16xf32>, tensor<16xf32>) -> tensor<2x8x16xf32>
  // CHECK-NOT: optimus.gelu %
  // CHECK: optimus.gelu_with_slope {{.*}}optimus.result_roles = ["batch,sequence,hidden", "batch,sequence,hidden"]
  %g = optimus.gelu %biased {optimus.role = "batch,sequence,hidden"} : tensor<2x8x16xf32>
  %z = optimus.add %g, %x {optimus.role = "batch,sequence,hidden"} : (tensor<2x8x16xf32>, tensor<2x8x16xf32>) -> tensor<2x8x16xf32>
  // CHECK-NOT: optimus.head_loss %
  // CHECK: %[[LOSS:.*]], %[[COUNT:.*]], %[[DH:.*]], %[[DTABLE:.*]] = optimus.head_loss_grad
  // CHECK-SAME: optimus.result_roles = ["", "", "batch,sequence,hidden", "table vocabulary,hidden"]
  %loss, %count = optimus.head_loss %z, %table, %targets : (tensor<2x8x16xf32>, tensor<32x16xf32>, tensor<2x8xi32>) -> (tensor<f32>, tensor<f32>)
  // CHECK: %[[DG:.*]] = optimus.mul %[[DH]], %{{.*}} {optimus.role = "batch,sequence,hidden"}
  // CHECK: %[[DBIAS:.*]] = optimus.sum_leading %[[DG]] {optimus.role = "vector hidden"}
  // CHECK: %[[DHEADS:.*]] = optimus.matmul %[[DG]], %{{.*}} {optimus.role = "batch,sequence,heads,-", transpose_b}
  // CHECK: %[[DWOUT:.*]] = optimus.matmul %{{.*}}, %[[DG]] {contracting = 2 : i64, optimus.role = "second in.heads,-,out.hidden", transpose_a}
  // CHECK: %[[DQKV:.*]] = optimus.attention_grad %[[DHEADS]], {{.*}} {causal, optimus.role = "batch,sequence,-,heads,-"}
  // CHECK: %[[DY:.*]] = optimus.matmul %[[DQKV]], %{{.*}} {contracting = 3 : i64, optimus.role = "batch,sequence,hidden", transpose_b}
  // CHECK: %[[DWQKV:.*]] = optimus.matmul %[[Y]], %[[DQKV]] {contracting = 2 : i64, optimus.role = "first in.hidden,-,out.heads,-", transpose_a}
  // CHECK: %[[DX:.*]], %[[DGAIN:.*]], %[[DSHIFT:.*]] = optimus.layer_norm_grad %[[DY]], %[[X]], %[[MEAN]], %[[RSTD]], %{{.*}} residual(%[[DH]])
  // CHECK-SAME: optimus.result_roles = ["batch,sequence,hidden", "vector hidden", "vector hidden"]
  // CHECK: %[[DT:.*]] = optimus.embedding_grad %[[DX]], %{{.*}} accumulate(%[[DTABLE]]) {optimus.role = "table vocabulary,hidden"}
  // CHECK: return %[[LOSS]], %[[COUNT]], %[[DT]], %[[DGAIN]], %[[DSHIFT]], %[[DWQKV]], %[[DWOUT]], %[[DBIAS]]
  return %loss, %count : tensor<f32>, tensor<f32>
}

// -----

// The four transpositions of a product; nothing is ever permuted.
// CHECK-LABEL: func.func @grad
func.func @loss(
    %a: tensor<8x2xf32> {optimus.param = "a"}, %b: tensor<2x16xf32> {optimus.param = "b"},
    %c: tensor<8x8xf32> {optimus.param = "c"}, %d: tensor<16x16xf32> {optimus.param = "d"},
    %table: tensor<32x16xf32> {optimus.param = "table"},
    %tokens: tensor<8xi32>, %targets: tensor<8xi32>) -> (tensor<f32>, tensor<f32>) {
  // CHECK: %[[P:.*]] = optimus.matmul %arg0, %arg1 :
  %p = optimus.matmul %a, %b : (tensor<8x2xf32>, tensor<2x16xf32>) -> tensor<8x16xf32>
  // CHECK: %[[Q:.*]] = optimus.matmul %arg2, %[[P]] {transpose_a}
  %q = optimus.matmul %c, %p {transpose_a} : (tensor<8x8xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
  // CHECK: %[[R:.*]] = optimus.matmul %[[Q]], %arg3 {transpose_b}
  %r = optimus.matmul %q, %d {transpose_b} : (tensor<8x16xf32>, tensor<16x16xf32>) -> tensor<8x16xf32>
  // CHECK: %[[S:.*]] = optimus.matmul %arg2, %[[T:.*]] {transpose_a, transpose_b}
  %t = optimus.matmul %d, %r {transpose_b} : (tensor<16x16xf32>, tensor<8x16xf32>) -> tensor<16x8xf32>
  %s = optimus.matmul %c, %t {transpose_a, transpose_b} : (tensor<8x8xf32>, tensor<16x8xf32>) -> tensor<8x16xf32>
  %loss, %count = optimus.head_loss %s, %table, %targets : (tensor<8x16xf32>, tensor<32x16xf32>, tensor<8xi32>) -> (tensor<f32>, tensor<f32>)
  // CHECK: %{{.*}}, %{{.*}}, %[[DS:.*]], %{{.*}} = optimus.head_loss_grad
  // CHECK: optimus.matmul %[[T]], %[[DS]] {{.*}}transpose_a, transpose_b} : {{.*}} -> tensor<8x8xf32>
  // CHECK: %[[DT:.*]] = optimus.matmul %[[DS]], %arg2 {transpose_a, transpose_b} : {{.*}} -> tensor<16x8xf32>
  // CHECK: optimus.matmul %[[DT]], %[[R]] {optimus.role = "vector hidden,hidden of d"} : {{.*}} -> tensor<16x16xf32>
  // CHECK: %[[DR:.*]] = optimus.matmul %[[DT]], %arg3 {transpose_a} : {{.*}} -> tensor<8x16xf32>
  // CHECK: %[[DQ:.*]] = optimus.matmul %[[DR]], %arg3 : {{.*}} -> tensor<8x16xf32>
  // CHECK: optimus.matmul %[[DR]], %[[Q]] {optimus.role = "vector hidden,hidden of d", transpose_a} : {{.*}} -> tensor<16x16xf32>
  // CHECK: optimus.matmul %[[P]], %[[DQ]] {{.*}}transpose_b} : {{.*}} -> tensor<8x8xf32>
  // CHECK: %[[DP:.*]] = optimus.matmul %arg2, %[[DQ]] : {{.*}} -> tensor<8x16xf32>
  // CHECK: optimus.matmul %[[DP]], %arg1 {{.*}}transpose_b} : {{.*}} -> tensor<8x2xf32>
  // CHECK: optimus.matmul %arg0, %[[DP]] {{.*}}transpose_a} : {{.*}} -> tensor<2x16xf32>
  return %loss, %count : tensor<f32>, tensor<f32>
}

// -----

// The row that pads gets no gradient from where it is looked up.
// CHECK-LABEL: func.func @grad
// CHECK: %{{.*}}, %{{.*}}, %[[DH:.*]], %[[DTABLE:.*]] = optimus.head_loss_grad
// CHECK: optimus.embedding_grad %[[DH]], %{{.*}} accumulate(%[[DTABLE]]) {optimus.role = "table vocabulary,hidden of table", pad = 0 : i64}
func.func @loss(%table: tensor<8x4xf32> {optimus.param = "table"}, %tokens: tensor<2x8xi32>, %targets: tensor<2x8xi32>) -> (tensor<f32>, tensor<f32>) {
  %x = optimus.embedding %table, %tokens {pad = 0 : i64} : (tensor<8x4xf32>, tensor<2x8xi32>) -> tensor<2x8x4xf32>
  %loss, %count = optimus.head_loss %x, %table, %targets : (tensor<2x8x4xf32>, tensor<8x4xf32>, tensor<2x8xi32>) -> (tensor<f32>, tensor<f32>)
  return %loss, %count : tensor<f32>, tensor<f32>
}
