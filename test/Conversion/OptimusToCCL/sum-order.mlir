// RUN: optimus-opt %s --optimus-shard='mesh=row:1,col:2 strategy=megatron' --optimus-partition --optimus-verify-partition --mlir-print-local-scope | FileCheck %s
// RUN: optimus-opt %s --optimus-shard='mesh=row:1,col:1 strategy=megatron' --optimus-partition --mlir-print-local-scope | FileCheck %s --check-prefix=SERIAL

// A residual in front of two products comes after them: their partial sums are
// reduced once. On one rank the order stays.
// CHECK-LABEL: func.func @residual_first(
// CHECK: %[[A:.*]] = optimus.matmul %arg0, %arg2
// CHECK: %[[B:.*]] = optimus.matmul %arg1, %arg3
// CHECK: %[[S:.*]] = optimus.add %[[A]], %[[B]] {{.*}} unreduced = {"col"}
// CHECK: %[[R:.*]] = ccl.all_reduce %[[S]] {axis = "col"}
// CHECK-NOT: ccl.all_reduce
// CHECK: %[[T:.*]] = optimus.add %[[R]], %arg4
// CHECK: return %[[T]]
// SERIAL-LABEL: func.func @residual_first(
// SERIAL: %[[A:.*]] = optimus.matmul
// SERIAL: %[[S:.*]] = optimus.add %arg4, %[[A]]
// SERIAL: optimus.add %[[S]]
func.func @residual_first(%da: tensor<4x8x16xf32> {optimus.role = "batch,sequence,ffn"}, %db: tensor<4x8x16xf32> {optimus.role = "batch,sequence,ffn"}, %wa: tensor<16x6xf32> {optimus.role = "first out.ffn,in.hidden"}, %wb: tensor<16x6xf32> {optimus.role = "first out.ffn,in.hidden"}, %residual: tensor<4x8x6xf32> {optimus.role = "batch,sequence,hidden"}) -> tensor<4x8x6xf32> {
  %0 = optimus.matmul %da, %wa {optimus.role = "batch,sequence,hidden"} : (tensor<4x8x16xf32>, tensor<16x6xf32>) -> tensor<4x8x6xf32>
  %1 = optimus.add %residual, %0 {optimus.role = "batch,sequence,hidden"} : (tensor<4x8x6xf32>, tensor<4x8x6xf32>) -> tensor<4x8x6xf32>
  %2 = optimus.matmul %db, %wb {optimus.role = "batch,sequence,hidden"} : (tensor<4x8x16xf32>, tensor<16x6xf32>) -> tensor<4x8x6xf32>
  %3 = optimus.add %1, %2 {optimus.role = "batch,sequence,hidden"} : (tensor<4x8x6xf32>, tensor<4x8x6xf32>) -> tensor<4x8x6xf32>
  return %3 : tensor<4x8x6xf32>
}

// One product, and a sum that is used elsewhere, stay as they are.
// CHECK-LABEL: func.func @as_they_are(
// CHECK: optimus.add %arg4, %{{.*}}
// CHECK: %[[B:.*]] = ccl.all_reduce
// CHECK: optimus.add %{{.*}}, %[[B]]
func.func @as_they_are(%da: tensor<4x8x16xf32> {optimus.role = "batch,sequence,ffn"}, %db: tensor<4x8x16xf32> {optimus.role = "batch,sequence,ffn"}, %wa: tensor<16x6xf32> {optimus.role = "first out.ffn,in.hidden"}, %wb: tensor<16x6xf32> {optimus.role = "first out.ffn,in.hidden"}, %residual: tensor<4x8x6xf32> {optimus.role = "batch,sequence,hidden"}) -> (tensor<4x8x6xf32>, tensor<4x8x6xf32>) {
  %0 = optimus.matmul %da, %wa {optimus.role = "batch,sequence,hidden"} : (tensor<4x8x16xf32>, tensor<16x6xf32>) -> tensor<4x8x6xf32>
  %1 = optimus.add %residual, %0 {optimus.role = "batch,sequence,hidden"} : (tensor<4x8x6xf32>, tensor<4x8x6xf32>) -> tensor<4x8x6xf32>
  %2 = optimus.matmul %db, %wb {optimus.role = "batch,sequence,hidden"} : (tensor<4x8x16xf32>, tensor<16x6xf32>) -> tensor<4x8x6xf32>
  %3 = optimus.add %1, %2 {optimus.role = "batch,sequence,hidden"} : (tensor<4x8x6xf32>, tensor<4x8x6xf32>) -> tensor<4x8x6xf32>
  return %1, %3 : tensor<4x8x6xf32>, tensor<4x8x6xf32>
}
