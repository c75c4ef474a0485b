// RUN: optimus-opt %s --optimus-shard='strategy=summa' --optimus-partition --verify-roundtrip --mlir-print-local-scope | FileCheck %s

optimus.mesh @mesh <["row" = 2, "col" = 2]>

// Nothing moves before something asks for it, and a layout once made is used
// again.
// CHECK-LABEL: func.func @on_demand(
// CHECK: %[[G:.*]] = ccl.all_gather %arg0 {axis = "col", dim = 1 : i64}
// CHECK-NOT: ccl.all_gather
// CHECK: %[[A:.*]] = optimus.gelu %[[G]]
// CHECK-NOT: ccl.all_gather
// CHECK: %[[B:.*]] = optimus.sqrt %[[G]]
// CHECK: return %[[A]], %[[B]], %arg0
func.func @on_demand(%x: tensor<4x8xf32> {optimus.sharding = #optimus.sharding<@mesh, [{"row"}, {"col"}]>}) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) {
  %0 = optimus.gelu %x {optimus.shardings = [#optimus.sharding<@mesh, [{"row"}, {}]>]} : tensor<4x8xf32>
  %1 = optimus.sqrt %x {optimus.shardings = [#optimus.sharding<@mesh, [{"row"}, {}]>]} : tensor<4x8xf32>
  return %0, %1, %x : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
}

// An axis that goes to another dimension: gathered, then sharded.
// CHECK-LABEL: func.func @across(
// CHECK: %[[G:.*]] = ccl.all_gather %arg0 {axis = "col", dim = 1 : i64}
// CHECK: %[[S:.*]] = ccl.slice %[[G]] {axis = "col", dim = 0 : i64} : {{.*}} -> tensor<1x8xf32, #ccl.local<[4, 8], <@mesh, [{"row", "col"}, {}]>>>
// CHECK: optimus.gelu %[[S]]
func.func @across(%x: tensor<4x8xf32> {optimus.sharding = #optimus.sharding<@mesh, [{"row"}, {"col"}]>}) -> tensor<4x8xf32> {
  %0 = optimus.gelu %x {optimus.shardings = [#optimus.sharding<@mesh, [{"row", "col"}, {}]>]} : tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// Partial sums over an axis that shards the sum are scattered, others are summed on
// every rank.
// CHECK-LABEL: func.func @partial_sums(
// CHECK: %[[S:.*]] = optimus.sum_leading %arg0 {{.*}}unreduced = {"row"}
// CHECK: %[[T:.*]] = optimus.sum_leading %arg0 {{.*}}unreduced = {"row"}
// CHECK-DAG: ccl.reduce_scatter %{{.*}} {axis = "row", dim = 0 : i64} : {{.*}} -> tensor<2xf32, #ccl.local<[8], <@mesh, [{"col", "row"}]>>>
// CHECK-DAG: ccl.all_reduce %{{.*}} {axis = "row"} : {{.*}} -> tensor<4xf32, #ccl.local<[8], <@mesh, [{"col"}]>>>
func.func @partial_sums(%x: tensor<4x8xf32> {optimus.sharding = #optimus.sharding<@mesh, [{"row"}, {"col"}]>}) -> (tensor<8xf32>, tensor<8xf32>) {
  %0 = optimus.sum_leading %x {optimus.shardings = [#optimus.sharding<@mesh, [{"col"}]>]} : (tensor<4x8xf32>) -> tensor<8xf32>
  %1 = optimus.sum_leading %x {optimus.shardings = [#optimus.sharding<@mesh, [{"col", "row"}]>]} : (tensor<4x8xf32>) -> tensor<8xf32>
  return %0, %1 : tensor<8xf32>, tensor<8xf32>
}
