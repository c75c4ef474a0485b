// RUN: optimus-opt %s --optimus-add-adapters='lora="rank=2,alpha=4,targets=q_proj,o_proj"' --verify-roundtrip | FileCheck %s
// RUN: optimus-opt %s --optimus-add-adapters='lora="rank=2,alpha=4,targets=q_proj,o_proj"' --optimus-differentiate='train=*lora_*' | FileCheck %s --check-prefix=ROLES

// A is drawn between -1/√8 and 1/√8 from a stream that nothing else has, B is zero.
// The sum stands where the host's product stood, for all its readers.
// CHECK: module attributes {optimus.model = {adapter = "{{.*}}\22fan_in_fan_out\22:false{{.*}}\22lora_alpha\22:4{{.*}}\22r\22:2{{.*}}\22target_modules\22:[\22q_proj\22,\22o_proj\22]
// CHECK-LABEL: func.func @loss(
// CHECK-SAME: %[[A:[^:]*]]: tensor<2x8xf32> {optimus.dims = ["rank", "hidden"], optimus.init = #optimus.init<uniform, bound = 0.35355339059327373, stream = 4>, optimus.param = "base_model.model.q_proj.lora_A.weight"}
// CHECK-SAME: %[[B:[^:]*]]: tensor<2x4x2xf32> {optimus.dims = ["heads", "head_dim", "rank"], optimus.hf_shape = array<i64: 8, 2>, optimus.init = #optimus.init<zeros>, optimus.param = "base_model.model.q_proj.lora_B.weight"}
// CHECK: %[[Q:.*]] = optimus.matmul %[[X:.*]], %{{.*}} {transpose_b}
// CHECK: %[[H:.*]] = optimus.matmul %[[X]], %[[A]] {transpose_b} : (tensor<2x4x8xf32>, tensor<2x8xf32>) -> tensor<2x4x2xf32>
// CHECK: %[[SCALE:.*]] = arith.constant dense<2.000000e+00> : tensor<2xf32>
// CHECK: %[[S:.*]] = optimus.mul %[[H]], %[[SCALE]]
// CHECK: %[[Z:.*]] = optimus.matmul %[[S]], %[[B]] {transpose_b} : (tensor<2x4x2xf32>, tensor<2x4x2xf32>) -> tensor<2x4x2x4xf32>
// CHECK: %[[SUM:.*]] = optimus.add %[[Q]], %[[Z]]
// CHECK: optimus.attention %[[SUM]], %[[SUM]], %[[SUM]]
// Two dimensions are contracted, as of the host.
// CHECK: optimus.matmul %{{.*}}, %{{.*}} {contracting = 2 : i64, transpose_b} : (tensor<2x4x2x4xf32>, tensor<2x2x4xf32>) -> tensor<2x4x2xf32>

// A and B lie as their hosts do; the rank is whole.
// ROLES-LABEL: func.func @loss(
// ROLES-SAME: optimus.role = "first out.heads,-,in.hidden of q_proj.weight"
// ROLES-SAME: optimus.role = "first -,in.hidden of base_model.model.q_proj.lora_A.weight"
// ROLES-SAME: optimus.role = "first out.heads,-,- of base_model.model.q_proj.lora_B.weight"
// ROLES-SAME: optimus.role = "second -,in.heads,- of base_model.model.o_proj.lora_A.weight"
// ROLES-SAME: optimus.role = "second out.hidden,- of base_model.model.o_proj.lora_B.weight"
module attributes {optimus.model = {batch = 2 : i64, sequence = 4 : i64, vocabulary = 6 : i64}} {
  func.func @loss(%table: tensor<6x8xf32> {optimus.param = "table", optimus.init = #optimus.init<normal, stddev = 0.02, stream = 3>},
      %wq: tensor<2x4x8xf32> {optimus.param = "q_proj.weight", optimus.dims = ["heads", "head_dim", "hidden"]},
      %wo: tensor<8x2x4xf32> {optimus.param = "o_proj.weight"},
      %tokens: tensor<2x4xi32>, %targets: tensor<2x4xi32>) -> (tensor<f32>, tensor<f32>) {
    %x = optimus.embedding %table, %tokens : (tensor<6x8xf32>, tensor<2x4xi32>) -> tensor<2x4x8xf32>
    %q = optimus.matmul %x, %wq {transpose_b} : (tensor<2x4x8xf32>, tensor<2x4x8xf32>) -> tensor<2x4x2x4xf32>
    %o, %l = optimus.attention %q, %q, %q {causal} : (tensor<2x4x2x4xf32>, tensor<2x4x2x4xf32>, tensor<2x4x2x4xf32>) -> (tensor<2x4x2x4xf32>, tensor<2x2x4xf32>)
    %y = optimus.matmul %o, %wo {contracting = 2 : i64, transpose_b} : (tensor<2x4x2x4xf32>, tensor<8x2x4xf32>) -> tensor<2x4x8xf32>
    %loss, %count = optimus.head_loss %y, %table, %targets : (tensor<2x4x8xf32>, tensor<6x8xf32>, tensor<2x4xi32>) -> (tensor<f32>, tensor<f32>)
    return %loss, %count : tensor<f32>, tensor<f32>
  }
}
