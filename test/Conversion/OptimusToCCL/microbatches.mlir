// RUN: optimus-opt %s --split-input-file --optimus-shard='mesh=data:2,row:2,col:2 strategy=summa' --optimus-partition --optimus-verify-partition --verify-roundtrip --mlir-print-local-scope | FileCheck %s

// The sum of a gradient over microbatches goes on as partial sums of the ranks that
// have different tokens; what is done with it reduces it.
// CHECK-LABEL: func.func @accumulate(
// CHECK-SAME: %arg1: tensor<4xf32, #ccl.local<[8], <@mesh, [{"col"}], unreduced = {"data", "row"}>>>
// CHECK: %[[G:.*]] = optimus.sum_leading %arg0
// CHECK-NOT: = ccl.
// CHECK: %[[S:.*]] = optimus.add %arg1, %[[G]]
// CHECK: return %[[S]]
func.func @accumulate(%x: tensor<8x8x8xf32> {optimus.role = "batch,sequence,hidden"},
                      %sum: tensor<8xf32> {optimus.role = "sum:vector hidden", optimus.binding = #optimus.buffer<role = "grad_sum", of = "b", lifetime = sequence, init = <zeros>, reset = step>, optimus.donates = 0 : i64})
    -> tensor<8xf32> {
  %g = optimus.sum_leading %x : (tensor<8x8x8xf32>) -> tensor<8xf32>
  %0 = optimus.add %sum, %g {optimus.role = "sum:vector hidden"} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// CHECK-LABEL: func.func @update(
// CHECK-SAME: %arg0: tensor<4xf32, #ccl.local<[8], <@mesh, [{"col"}], unreduced = {"data", "row"}>>>
// CHECK: ccl.reduce_scatter %arg0 {axis = "data", dim = 0 : i64}
// CHECK: ccl.all_reduce %{{.*}} {axis = "row"}
func.func @update(%sum: tensor<8xf32> {optimus.role = "sum:vector hidden", optimus.binding = #optimus.buffer<role = "grad_sum", of = "b", lifetime = sequence, init = <zeros>, reset = step>}) -> tensor<8xf32> {
  %0 = optimus.reshard %sum {optimus.role = "state:vector hidden"} : tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// A gradient that is complete where it is made stays so, and its sum with it,
// wherever that is bound: functions may stand in any order.
// CHECK-LABEL: func.func @update(
// CHECK-SAME: %arg0: tensor<2x4xf32, #ccl.local<[2, 8], <@mesh, [{}, {"col"}]>>>
func.func @update(%sum: tensor<2x8xf32> {optimus.role = "sum:vector sequence,hidden", optimus.binding = #optimus.buffer<role = "grad_sum", of = "t", lifetime = sequence, init = <zeros>, reset = step>}) -> tensor<2x8xf32> {
  %0 = optimus.reshard %sum {optimus.role = "state:vector sequence,hidden"} : tensor<2x8xf32>
  return %0 : tensor<2x8xf32>
}

// CHECK-LABEL: func.func @accumulate(
// CHECK-SAME: %arg1: tensor<2x4xf32, #ccl.local<[2, 8], <@mesh, [{}, {"col"}]>>>
// CHECK: %[[G:.*]] = optimus.sum_leading
// CHECK: %[[D:.*]] = ccl.all_reduce %[[G]] {axis = "data"}
// CHECK: %[[R:.*]] = ccl.all_reduce %[[D]] {axis = "row"}
// CHECK: %[[T:.*]] = optimus.row_grad %[[R]]
// CHECK: optimus.add %arg1, %[[T]]
func.func @accumulate(%x: tensor<8x8x8xf32> {optimus.role = "batch,sequence,hidden"},
                      %sum: tensor<2x8xf32> {optimus.role = "sum:vector sequence,hidden", optimus.binding = #optimus.buffer<role = "grad_sum", of = "t", lifetime = sequence, init = <zeros>, reset = step>, optimus.donates = 0 : i64})
    -> tensor<2x8xf32> {
  %g = optimus.sum_leading %x : (tensor<8x8x8xf32>) -> tensor<8xf32>
  %t = optimus.row_grad %g {index = 0 : i64} : (tensor<8xf32>) -> tensor<2x8xf32>
  %0 = optimus.add %sum, %t {optimus.role = "sum:vector sequence,hidden"} : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  return %0 : tensor<2x8xf32>
}
