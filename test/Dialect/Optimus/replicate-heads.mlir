// RUN: optimus-opt %s -split-input-file --optimus-replicate-heads='mesh=row:1,col:4' | FileCheck %s
// RUN: optimus-opt %s -split-input-file --optimus-replicate-heads='mesh=row:4,col:2' | FileCheck %s --check-prefix=SAME
// RUN: optimus-opt %s -split-input-file --optimus-replicate-heads='mesh=data:4 strategy=data' | FileCheck %s --check-prefix=SAME
// RUN: optimus-opt %s -split-input-file --optimus-replicate-heads='mesh=row:1,col:4' --optimus-differentiate | FileCheck %s --check-prefix=ROLES

// Two heads of keys for four columns: each is there twice, and serves two of its
// four heads of queries. Weights of queries are as they were, byte for byte; those of
// keys are repeated behind the input that they are multiplied with, a bias too. Queries,
// keys and values stay next to each other.
// CHECK-LABEL: func.func @loss(
// CHECK-SAME: %[[WQ:.*]]: tensor<4x2x4x8xf32> {optimus.hf_shape = array<i64: 2, 4, 4, 8>, optimus.param = "q"}
// CHECK-SAME: %[[WK:.*]]: tensor<2x4x8xf32> {optimus.param = "k"}
// CHECK-SAME: %[[BK:.*]]: tensor<2x4xf32> {optimus.param = "b"}
// CHECK-SAME: %{{.*}}: tensor<8x4x2x4xf32> {optimus.hf_shape = array<i64: 8, 32>, optimus.param = "o"}
// CHECK: %[[X:.*]] = optimus.embedding
// CHECK: %[[E:.*]] = arith.constant dense<{{\[\[}}1.000000e+00, 0.000000e+00], [1.000000e+00, 0.000000e+00], [0.000000e+00, 1.000000e+00], [0.000000e+00, 1.000000e+00]]> : tensor<4x2xf32>
// CHECK-NEXT: %[[W:.*]] = optimus.matmul %[[E]], %[[WK]] : (tensor<4x2xf32>, tensor<2x4x8xf32>) -> tensor<4x4x8xf32>
// CHECK-NEXT: optimus.matmul %[[X]], %[[WQ]] {{.*}} -> tensor<2x4x4x2x4xf32>
// CHECK-NEXT: %[[K:.*]] = optimus.matmul %[[X]], %[[W]] {{.*}} -> tensor<2x4x4x4xf32>
// CHECK: %[[B:.*]] = optimus.matmul %{{.*}}, %[[BK]] : (tensor<4x2xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
// CHECK-NEXT: optimus.add %[[K]], %[[B]]
// CHECK: optimus.attention {{.*}} -> (tensor<2x4x4x2x4xf32>, tensor<2x4x2x4xf32>)
// SAME: func.func @loss({{.*}}tensor<2x4x4x8xf32>
// SAME-NOT: arith.constant
// The repeated weight is sharded by its heads, the parameter by a head's channels.
// ROLES-LABEL: func.func @loss(
// ROLES-SAME: optimus.role = "first out.heads,-,-,in.hidden of q"
// ROLES-SAME: optimus.role = "first -,out.heads,in.hidden of k"
// ROLES: optimus.matmul {{.*}}optimus.role = "first out.heads,-,in.hidden of k"
// ROLES-LABEL: func.func @grad(
// ROLES: optimus.matmul {{.*}}transpose_a{{.*}} -> tensor<4x4x8xf32>
// ROLES: optimus.matmul {{.*}}optimus.role = "first -,out.heads,in.hidden of k", transpose_a{{.*}} -> tensor<2x4x8xf32>
func.func @loss(%wq: tensor<2x4x4x8xf32> {optimus.param = "q"}, %wk: tensor<2x4x8xf32> {optimus.param = "k"}, %bk: tensor<2x4xf32> {optimus.param = "b"},
    %wo: tensor<8x2x4x4xf32> {optimus.param = "o", optimus.hf_shape = array<i64: 8, 32>}, %table: tensor<6x8xf32> {optimus.param = "table"},
    %tokens: tensor<2x4xi32>, %targets: tensor<2x4xi32>) -> (tensor<f32>, tensor<f32>) {
  %x = optimus.embedding %table, %tokens : (tensor<6x8xf32>, tensor<2x4xi32>) -> tensor<2x4x8xf32>
  %q = optimus.matmul %x, %wq {transpose_b} : (tensor<2x4x8xf32>, tensor<2x4x4x8xf32>) -> tensor<2x4x2x4x4xf32>
  %0 = optimus.matmul %x, %wk {transpose_b} : (tensor<2x4x8xf32>, tensor<2x4x8xf32>) -> tensor<2x4x2x4xf32>
  %k = optimus.add %0, %bk : (tensor<2x4x2x4xf32>, tensor<2x4xf32>) -> tensor<2x4x2x4xf32>
  %o, %l = optimus.attention %q, %k, %k {causal} : (tensor<2x4x2x4x4xf32>, tensor<2x4x2x4xf32>, tensor<2x4x2x4xf32>) -> (tensor<2x4x2x4x4xf32>, tensor<2x2x4x4xf32>)
  %y = optimus.matmul %o, %wo {contracting = 3 : i64, transpose_b} : (tensor<2x4x2x4x4xf32>, tensor<8x2x4x4xf32>) -> tensor<2x4x8xf32>
  %loss, %count = optimus.head_loss %y, %table, %targets : (tensor<2x4x8xf32>, tensor<6x8xf32>, tensor<2x4xi32>) -> (tensor<f32>, tensor<f32>)
  return %loss, %count : tensor<f32>, tensor<f32>
}

// -----

// Two copies do not divide three heads of queries: all are padded, as
// --optimus-partition says.
// CHECK-LABEL: func.func @loss(
// CHECK-SAME: tensor<2x3x4x8xf32>
// CHECK-NOT: arith.constant
// SAME: func.func @loss({{.*}}tensor<2x3x4x8xf32>
// ROLES-LABEL: func.func @loss(
// ROLES-SAME: optimus.role = "first out.heads,-,in.hidden of k"
func.func @loss(%wq: tensor<2x3x4x8xf32> {optimus.param = "q"}, %wk: tensor<2x4x8xf32> {optimus.param = "k"},
    %wo: tensor<8x2x3x4xf32> {optimus.param = "o"}, %table: tensor<6x8xf32> {optimus.param = "table"},
    %tokens: tensor<2x4xi32>, %targets: tensor<2x4xi32>) -> (tensor<f32>, tensor<f32>) {
  %x = optimus.embedding %table, %tokens : (tensor<6x8xf32>, tensor<2x4xi32>) -> tensor<2x4x8xf32>
  %q = optimus.matmul %x, %wq {transpose_b} : (tensor<2x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x4x2x3x4xf32>
  %k = optimus.matmul %x, %wk {transpose_b} : (tensor<2x4x8xf32>, tensor<2x4x8xf32>) -> tensor<2x4x2x4xf32>
  %o, %l = optimus.attention %q, %k, %k {causal} : (tensor<2x4x2x3x4xf32>, tensor<2x4x2x4xf32>, tensor<2x4x2x4xf32>) -> (tensor<2x4x2x3x4xf32>, tensor<2x2x3x4xf32>)
  %y = optimus.matmul %o, %wo {contracting = 3 : i64, transpose_b} : (tensor<2x4x2x3x4xf32>, tensor<8x2x3x4xf32>) -> tensor<2x4x8xf32>
  %loss, %count = optimus.head_loss %y, %table, %targets : (tensor<2x4x8xf32>, tensor<6x8xf32>, tensor<2x4xi32>) -> (tensor<f32>, tensor<f32>)
  return %loss, %count : tensor<f32>, tensor<f32>
}

// -----

// An annotated weight means the heads as they are.
// CHECK-LABEL: func.func @loss(
// CHECK-SAME: tensor<2x4x4x8xf32>
// CHECK-NOT: arith.constant
// SAME: func.func @loss({{.*}}tensor<2x4x4x8xf32>
// ROLES-LABEL: func.func @loss(
optimus.mesh @mesh <["row" = 1, "col" = 4]>
func.func @loss(%wq: tensor<2x4x4x8xf32> {optimus.param = "q", optimus.sharding = #optimus.sharding<@mesh, [{}, {"col"}, {}, {}]>}, %wk: tensor<2x4x8xf32> {optimus.param = "k"},
    %wo: tensor<8x2x4x4xf32> {optimus.param = "o"}, %table: tensor<6x8xf32> {optimus.param = "table"},
    %tokens: tensor<2x4xi32>, %targets: tensor<2x4xi32>) -> (tensor<f32>, tensor<f32>) {
  %x = optimus.embedding %table, %tokens : (tensor<6x8xf32>, tensor<2x4xi32>) -> tensor<2x4x8xf32>
  %q = optimus.matmul %x, %wq {transpose_b} : (tensor<2x4x8xf32>, tensor<2x4x4x8xf32>) -> tensor<2x4x2x4x4xf32>
  %k = optimus.matmul %x, %wk {transpose_b} : (tensor<2x4x8xf32>, tensor<2x4x8xf32>) -> tensor<2x4x2x4xf32>
  %o, %l = optimus.attention %q, %k, %k {causal} : (tensor<2x4x2x4x4xf32>, tensor<2x4x2x4xf32>, tensor<2x4x2x4xf32>) -> (tensor<2x4x2x4x4xf32>, tensor<2x2x4x4xf32>)
  %y = optimus.matmul %o, %wo {contracting = 3 : i64, transpose_b} : (tensor<2x4x2x4x4xf32>, tensor<8x2x4x4xf32>) -> tensor<2x4x8xf32>
  %loss, %count = optimus.head_loss %y, %table, %targets : (tensor<2x4x8xf32>, tensor<6x8xf32>, tensor<2x4xi32>) -> (tensor<f32>, tensor<f32>)
  return %loss, %count : tensor<f32>, tensor<f32>
}
