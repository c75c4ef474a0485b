// RUN: optimus-opt %s --optimus-differentiate --optimus-shard='strategy=megatron' --optimus-partition --optimus-verify-partition --mlir-print-local-scope -o %t.mlir && FileCheck %s < %t.mlir
// RUN: optimus-interpret %t.mlir --gradcheck --draw 7 | FileCheck %s --check-prefix=GRADIENT

// Annotations shard the heads of queries of one group over two columns, each of
// which holds the keys and values that they share. Their gradients are partial sums, and
// are reduced once. The gradient of the partitioned program is that of its loss.
// CHECK-LABEL: func.func @grad
// CHECK: optimus.attention {{.*}} -> (tensor<2x4x1x1x4xf32, #ccl.local<[2, 4, 1, 2, 4], <@mesh, [{}, {}, {}, {"col"}, {}]>>>
// CHECK: %[[D:.*]]:3 = optimus.attention_grad {{.*}} -> {{.*}} unreduced = {"col"}>>>, {{.*}} unreduced = {"col"}>>>)
// CHECK: %[[S:.*]] = optimus.add %[[D]]#{{[12]}}, %[[D]]#{{[12]}} {{.*}} unreduced = {"col"}
// CHECK-NEXT: ccl.all_reduce %[[S]] {axis = "col"}
// GRADIENT: k: 32 elements, max relative error {{[0-9.]+}}e-{{[0-9]+$}}
// GRADIENT-NOT: WRONG
module {
optimus.mesh @mesh <["row" = 1, "col" = 2]>
func.func @loss(%x: tensor<2x4x8xf32> {optimus.param = "x", optimus.role = "batch,sequence,hidden", optimus.init = #optimus.init<normal, stddev = 0.7, stream = 0>},
    %wq: tensor<1x2x4x8xf32> {optimus.param = "q", optimus.init = #optimus.init<normal, stddev = 0.7, stream = 1>, optimus.sharding = #optimus.sharding<@mesh, [{}, {"col"}, {}, {}]>},
    %wk: tensor<1x4x8xf32> {optimus.param = "k", optimus.init = #optimus.init<normal, stddev = 0.7, stream = 2>, optimus.sharding = #optimus.sharding<@mesh, [{}, {}, {}]>},
    %wo: tensor<8x1x2x4xf32> {optimus.param = "o", optimus.init = #optimus.init<normal, stddev = 0.7, stream = 3>, optimus.sharding = #optimus.sharding<@mesh, [{}, {}, {"col"}, {}]>},
    %table: tensor<6x8xf32> {optimus.param = "table", optimus.role = "table vocabulary,hidden", optimus.init = #optimus.init<normal, stddev = 0.7, stream = 4>},
    %tokens: tensor<2x4xi32> {optimus.binding = "tokens"}, %targets: tensor<2x4xi32> {optimus.binding = "targets"}) -> (tensor<f32>, tensor<f32>) {
  %q = optimus.matmul %x, %wq {transpose_b, optimus.shardings = [#optimus.sharding<@mesh, [{}, {}, {}, {"col"}, {}]>]} : (tensor<2x4x8xf32>, tensor<1x2x4x8xf32>) -> tensor<2x4x1x2x4xf32>
  %k = optimus.matmul %x, %wk {transpose_b} : (tensor<2x4x8xf32>, tensor<1x4x8xf32>) -> tensor<2x4x1x4xf32>
  %o, %l = optimus.attention %q, %k, %k {causal} : (tensor<2x4x1x2x4xf32>, tensor<2x4x1x4xf32>, tensor<2x4x1x4xf32>) -> (tensor<2x4x1x2x4xf32>, tensor<2x1x2x4xf32>)
  %y = optimus.matmul %o, %wo {contracting = 3 : i64, transpose_b, optimus.role = "batch,sequence,hidden"} : (tensor<2x4x1x2x4xf32>, tensor<8x1x2x4xf32>) -> tensor<2x4x8xf32>
  %loss, %count = optimus.head_loss %y, %table, %targets : (tensor<2x4x8xf32>, tensor<6x8xf32>, tensor<2x4xi32>) -> (tensor<f32>, tensor<f32>)
  return %loss, %count : tensor<f32>, tensor<f32>
}
}
