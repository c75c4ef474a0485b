// RUN: optimus-opt %s --optimus-shard='mesh=row:1,col:2 strategy=megatron' --optimus-partition --optimus-verify-partition --mlir-print-local-scope | FileCheck %s

// The gradient of what two products read: its two parts are partial sums on each
// rank, are added there, and their sum is reduced once.
// CHECK-LABEL: func.func @shared_input(
// CHECK: %[[A:.*]] = optimus.matmul %arg0, %arg2 {{.*}} unreduced = {"col"}
// CHECK: %[[B:.*]] = optimus.matmul %arg1, %arg3 {{.*}} unreduced = {"col"}
// CHECK: %[[S:.*]] = optimus.add %[[A]], %[[B]] {{.*}} unreduced = {"col"}
// CHECK: %[[R:.*]] = ccl.all_reduce %[[S]] {axis = "col"}
// CHECK-NOT: ccl.all_reduce
// CHECK: return %[[R]]
func.func @shared_input(%da: tensor<4x8x16xf32> {optimus.role = "batch,sequence,ffn"}, %db: tensor<4x8x16xf32> {optimus.role = "batch,sequence,ffn"}, %wa: tensor<16x6xf32> {optimus.role = "first out.ffn,in.hidden"}, %wb: tensor<16x6xf32> {optimus.role = "first out.ffn,in.hidden"}) -> tensor<4x8x6xf32> {
  %0 = optimus.matmul %da, %wa {optimus.role = "batch,sequence,hidden"} : (tensor<4x8x16xf32>, tensor<16x6xf32>) -> tensor<4x8x6xf32>
  %1 = optimus.matmul %db, %wb {optimus.role = "batch,sequence,hidden"} : (tensor<4x8x16xf32>, tensor<16x6xf32>) -> tensor<4x8x6xf32>
  %2 = optimus.add %0, %1 {optimus.role = "batch,sequence,hidden"} : (tensor<4x8x6xf32>, tensor<4x8x6xf32>) -> tensor<4x8x6xf32>
  return %2 : tensor<4x8x6xf32>
}

// What is complete already is added complete, and a vector that is complete on
// every rank is not added once for each.
// CHECK-LABEL: func.func @complete(
// CHECK: %[[A:.*]] = optimus.matmul
// CHECK: %[[R:.*]] = ccl.all_reduce %[[A]] {axis = "col"}
// CHECK: %[[G:.*]] = optimus.gelu %[[R]]
// CHECK: %[[B:.*]] = optimus.matmul
// CHECK: %[[T:.*]] = ccl.all_reduce %[[B]] {axis = "col"}
// CHECK: optimus.add %[[R]], %[[T]]
// CHECK: %[[C:.*]] = optimus.matmul
// CHECK: %[[U:.*]] = ccl.all_reduce %[[C]] {axis = "col"}
// CHECK: optimus.add %[[U]], %arg4
func.func @complete(%da: tensor<4x8x16xf32> {optimus.role = "batch,sequence,ffn"}, %db: tensor<4x8x16xf32> {optimus.role = "batch,sequence,ffn"}, %wa: tensor<16x6xf32> {optimus.role = "first out.ffn,in.hidden"}, %wb: tensor<16x6xf32> {optimus.role = "first out.ffn,in.hidden"}, %bias: tensor<6xf32> {optimus.role = "vector hidden"}) -> (tensor<4x8x6xf32>, tensor<4x8x6xf32>, tensor<4x8x6xf32>) {
  %0 = optimus.matmul %da, %wa {optimus.role = "batch,sequence,hidden"} : (tensor<4x8x16xf32>, tensor<16x6xf32>) -> tensor<4x8x6xf32>
  %1 = optimus.gelu %0 {optimus.role = "batch,sequence,hidden"} : tensor<4x8x6xf32>
  %2 = optimus.matmul %db, %wb {optimus.role = "batch,sequence,hidden"} : (tensor<4x8x16xf32>, tensor<16x6xf32>) -> tensor<4x8x6xf32>
  %3 = optimus.add %0, %2 {optimus.role = "batch,sequence,hidden"} : (tensor<4x8x6xf32>, tensor<4x8x6xf32>) -> tensor<4x8x6xf32>
  %4 = optimus.matmul %db, %wa {optimus.role = "batch,sequence,hidden"} : (tensor<4x8x16xf32>, tensor<16x6xf32>) -> tensor<4x8x6xf32>
  %5 = optimus.add %4, %bias {optimus.role = "batch,sequence,hidden"} : (tensor<4x8x6xf32>, tensor<6xf32>) -> tensor<4x8x6xf32>
  return %1, %3, %5 : tensor<4x8x6xf32>, tensor<4x8x6xf32>, tensor<4x8x6xf32>
}
