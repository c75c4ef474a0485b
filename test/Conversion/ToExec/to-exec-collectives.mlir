// RUN: optimus-opt %s --optimus-to-exec --optimus-build-kernels --optimus-verify-exec --verify-roundtrip | FileCheck %s

#sharded = #ccl.local<[4, 6, 8], #optimus.sharding<@mesh, [{}, {"col"}, {}]>>
#partial = #ccl.local<[4, 6, 8], #optimus.sharding<@mesh, [{}, {}, {}], unreduced = {"col"}>>
#rows = #ccl.local<[4, 10], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#table = #ccl.local<[7, 8], #optimus.sharding<@mesh, [{"col"}, {}]>>
#looked_up = #ccl.local<[4, 8], #optimus.sharding<@mesh, [{}, {}], unreduced = {"col"}>>
#moments = #ccl.local<[4, 4], #optimus.sharding<@mesh, [{"row"}, {"col"}]>>
#means = #ccl.local<[4], #optimus.sharding<@mesh, [{"row"}]>>
optimus.mesh @mesh <["row" = 2, "col" = 2]>

// Dimensions before the one that is gathered are rows.
// CHECK-LABEL: func.func @gather_and_scatter(
// CHECK-SAME: %[[X:.*]]: memref<96xf32>, %[[P:.*]]: memref<192xf32>, %[[G:.*]]: memref<192xf32>, %[[S:.*]]: memref<96xf32>, %[[R:.*]]: memref<192xf32>)
// CHECK-NEXT: %[[T0:.*]] = exec.collective_start all_gather sum over "col", %[[X]] to %[[G]] {dst_ld = 48 : i64, id = 0 : i32, inner = 24 : i64, outer = 4 : i64, src_ld = 24 : i64}
// CHECK-NEXT: exec.wait %[[T0]] {id = 1 : i32}
// CHECK-NEXT: exec.collective_start reduce_scatter sum over "col", %[[P]] to %[[S]] {dst_ld = 24 : i64, id = 2 : i32, inner = 24 : i64, outer = 4 : i64, src_ld = 48 : i64}
// CHECK: exec.collective_start all_reduce sum over "col", %[[P]] to %[[R]] {dst_ld = 192 : i64, {{.*}}inner = 192 : i64, outer = 1 : i64, src_ld = 192 : i64}
func.func @gather_and_scatter(%x: tensor<4x3x8xf32, #sharded>, %p: tensor<4x6x8xf32, #partial>) -> (tensor<4x6x8xf32>, tensor<4x3x8xf32, #sharded>, tensor<4x6x8xf32>) {
  %0 = ccl.all_gather %x {axis = "col", dim = 1 : i64} : (tensor<4x3x8xf32, #sharded>) -> tensor<4x6x8xf32>
  %1 = ccl.reduce_scatter %p {axis = "col", dim = 1 : i64} : (tensor<4x6x8xf32, #partial>) -> tensor<4x3x8xf32, #sharded>
  %2 = ccl.all_reduce %p {axis = "col"} : (tensor<4x6x8xf32, #partial>) -> tensor<4x6x8xf32>
  return %0, %1, %2 : tensor<4x6x8xf32>, tensor<4x3x8xf32, #sharded>, tensor<4x6x8xf32>
}

// What ends in its all_reduce is reduced in place.
// CHECK-LABEL: func.func @in_place(
// CHECK-SAME: %{{.*}}: memref<192xf32>, %[[OUT:.*]]: memref<192xf32>) {
// CHECK: exec.launch {{.*}} write %[[OUT]]
// CHECK-NEXT: exec.collective_start all_reduce sum over "col", %[[OUT]] to %[[OUT]]
func.func @in_place(%p: tensor<4x6x8xf32, #partial>) -> tensor<4x6x8xf32> {
  %0 = optimus.gelu %p : tensor<4x6x8xf32, #partial>
  %1 = ccl.all_reduce %0 {axis = "col"} : (tensor<4x6x8xf32, #partial>) -> tensor<4x6x8xf32>
  return %1 : tensor<4x6x8xf32>
}

// CHECK-LABEL: func.func @slice(
// CHECK-SAME: %[[X:.*]]: memref<192xf32>, %[[Y:.*]]: memref<96xf32>)
// CHECK-NEXT: %[[MINE:.*]] = exec.slice_rank %[[X]] over ["col"] stride 24 : memref<192xf32> to memref<168xf32>
// CHECK-NEXT: exec.copy %[[Y]] from %[[MINE]] : memref<168xf32> {cols = 24 : i64, dst_ld = 24 : i64, id = 0 : i32, rows = 4 : i64, src_ld = 48 : i64}
func.func @slice(%x: tensor<4x6x8xf32>) -> tensor<4x3x8xf32, #sharded> {
  %0 = ccl.slice %x {axis = "col", dim = 1 : i64} : (tensor<4x6x8xf32>) -> tensor<4x3x8xf32, #sharded>
  return %0 : tensor<4x3x8xf32, #sharded>
}

// Moments leave padding out, and stand side by side in rank order.
// CHECK-LABEL: func.func @moments(
// CHECK-SAME: %[[X:.*]]: memref<12xf32>, %[[MEAN:.*]]: memref<2xf32>, %[[RSTD:.*]]: memref<2xf32>)
// CHECK: %[[REAL:.*]] = exec.real_extent 6 of 10 over ["col"]
// CHECK: exec.launch @row_moments{{.*}}(read %[[X]] : memref<12xf32>, write %[[M:[^ ]*]] : memref<4xf32>) scalars(%[[REAL]] : i64)
// CHECK: exec.collective_start all_gather sum over "col", %[[M]] to %[[ALL:[^ ]*]] {dst_ld = 4 : i64, {{.*}}inner = 2 : i64, outer = 2 : i64, src_ld = 2 : i64}
// CHECK: exec.launch @merge_moments{{.*}}(read %[[ALL]] : memref<8xf32>, write %[[MEAN]] : memref<2xf32>, write %[[RSTD]]
func.func @moments(%x: tensor<2x6xf32, #rows>) -> (tensor<2xf32, #means>, tensor<2xf32, #means>) {
  %0 = optimus.row_moments %x : (tensor<2x6xf32, #rows>) -> tensor<2x2xf32, #moments>
  %1 = ccl.all_gather %0 {axis = "col", dim = 1 : i64} : (tensor<2x2xf32, #moments>) -> tensor<2x4xf32, #ccl.local<[4, 4], #optimus.sharding<@mesh, [{"row"}, {}]>>>
  %2, %3 = optimus.merge_moments %1 {counts = array<i64: 6, 4>, epsilon = 1.0e-05 : f64} : (tensor<2x4xf32, #ccl.local<[4, 4], #optimus.sharding<@mesh, [{"row"}, {}]>>>) -> (tensor<2xf32, #means>, tensor<2xf32, #means>)
  return %2, %3 : tensor<2xf32, #means>, tensor<2xf32, #means>
}

// The rows of a table that is sharded begin at this rank's offset.
// CHECK-LABEL: func.func @embedding(
// CHECK: %[[FIRST:.*]] = exec.part_offset 4 over ["col"]
// CHECK: exec.launch @embedding{{.*}} scalars(%[[FIRST]] : i64)
func.func @embedding(%table: tensor<4x8xf32, #table>, %tokens: tensor<4xi32>) -> tensor<4x8xf32, #looked_up> {
  %0 = optimus.embedding %table, %tokens : (tensor<4x8xf32, #table>, tensor<4xi32>) -> tensor<4x8xf32, #looked_up>
  return %0 : tensor<4x8xf32, #looked_up>
}
