// RUN: optimus-opt %s --optimus-to-exec=target=cpu --verify-roundtrip | FileCheck %s
// RUN: optimus-opt %s --optimus-to-exec=target=cuda | FileCheck %s

// Rows of a part lie as far from each other as those of all parts together.
// CHECK-LABEL: func.func @keys(
// CHECK-SAME: %[[QKV:[a-z0-9]+]]: memref<144xf32>
// CHECK: %[[PART:.*]] = exec.slice %[[QKV]]
// CHECK: exec.copy
func.func @keys(%qkv: tensor<2x3x3x2x4xf32>) -> tensor<2x3x2x4xf32> {
  %0 = optimus.part %qkv {index = 1 : i64} : (tensor<2x3x3x2x4xf32>) -> tensor<2x3x2x4xf32>
  return %0 : tensor<2x3x2x4xf32>
}
