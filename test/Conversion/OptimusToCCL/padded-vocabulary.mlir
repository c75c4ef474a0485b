// RUN: optimus-opt %s --optimus-shard='strategy=summa' --optimus-partition --verify-roundtrip --mlir-print-local-scope | FileCheck %s

// Rows that a program asks for are added where no axis shards a table, and
// rounded up where one does. A dimension of another size is none of them.
module attributes {optimus.model = {batch = 2 : i64, sequence = 4 : i64, vocabulary = 7 : i64, padded_vocabulary = 10 : i64}} {
optimus.mesh @mesh <["row" = 1, "col" = 3]>

// CHECK-LABEL: func.func @loss(
// CHECK-SAME: %arg0: tensor<10x2xf32, #ccl.local<[7, 2], <@mesh, [{}, {}]>>>
// CHECK-SAME: %arg1: tensor<9x2xf32
// CHECK-SAME: -> tensor<10x2xf32, #ccl.local<[7, 2], <@mesh, [{}, {}]>>>
func.func @loss(%table: tensor<7x2xf32> {optimus.param = "table", optimus.dims = ["vocabulary", "hidden"], optimus.sharding = #optimus.sharding<@mesh, [{}, {}]>},
                %other: tensor<9x2xf32> {optimus.param = "other", optimus.dims = ["vocabulary", "hidden"], optimus.sharding = #optimus.sharding<@mesh, [{}, {}]>}) -> tensor<7x2xf32> {
  %0 = optimus.gelu %table : tensor<7x2xf32>
  return %0 : tensor<7x2xf32>
}

// CHECK-LABEL: func.func @sharded(
// CHECK-SAME: %arg0: tensor<4x2xf32, #ccl.local<[7, 2], <@mesh, [{"col"}, {}]>>>
func.func @sharded(%table: tensor<7x2xf32> {optimus.param = "sharded", optimus.dims = ["vocabulary", "hidden"], optimus.sharding = #optimus.sharding<@mesh, [{"col"}, {}]>}) -> tensor<7x2xf32> {
  %0 = optimus.gelu %table : tensor<7x2xf32>
  return %0 : tensor<7x2xf32>
}
}
