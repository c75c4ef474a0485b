// RUN: optimus-opt %s --optimus-to-exec=target=cpu --verify-roundtrip | FileCheck %s --check-prefixes=CHECK,CPU
// RUN: optimus-opt %s --optimus-to-exec=target=cuda | FileCheck %s --check-prefixes=CHECK,CUDA

// Rows of a part lie as far from each other as those of all parts together.
// CHECK-LABEL: func.func @keys(
// CHECK-SAME: %[[QKV:[a-z0-9]+]]: memref<144xf32>
// CHECK: %[[PART:.*]] = exec.slice %[[QKV]]
// CHECK: exec.copy
func.func @keys(%qkv: tensor<2x3x3x2x4xf32>) -> tensor<2x3x2x4xf32> {
  %0 = optimus.part %qkv {index = 1 : i64} : (tensor<2x3x3x2x4xf32>) -> tensor<2x3x2x4xf32>
  return %0 : tensor<2x3x2x4xf32>
}

// Attention and the cache take them as they lie: 24 elements a token.
// CHECK-LABEL: func.func @token(
// CHECK-SAME: %[[QKV:[a-z0-9]+]]: memref<48xf32>
// CHECK-NOT: exec.copy
// CHECK: %[[KEYS:.*]] = exec.slice %[[QKV]][8]
// CHECK: %[[ROWS:.*]] = exec.slice %[[KEYS]][0] : memref<40xf32> to memref<32xf32>
// CHECK: exec.launch @cache_append_stride24_2x1_64x8{{.*}}(read %[[ROWS]]
// CPU: exec.attention %[[QKV]], {{.*}} q_ld = 24
// CUDA: exec.launch @attention_
// CHECK-NOT: exec.copy
func.func @token(%qkv: tensor<2x1x3x2x4xf32>, %c: tensor<2x64x2x4xf32> {optimus.donates = 1 : i64}, %l: tensor<2xi32>, %p: tensor<2x1xi32>) -> (tensor<2x1x2x4xf32>, tensor<2x64x2x4xf32>) {
  %q = optimus.part %qkv {index = 0 : i64} : (tensor<2x1x3x2x4xf32>) -> tensor<2x1x2x4xf32>
  %k = optimus.part %qkv {index = 1 : i64} : (tensor<2x1x3x2x4xf32>) -> tensor<2x1x2x4xf32>
  %0 = optimus.cache_append %c, %k, %p : (tensor<2x64x2x4xf32>, tensor<2x1x2x4xf32>, tensor<2x1xi32>) -> tensor<2x64x2x4xf32>
  %y, %lse = optimus.attention %q, %0, %0 lengths(%l) positions(%p) {cached, causal} : (tensor<2x1x2x4xf32>, tensor<2x64x2x4xf32>, tensor<2x64x2x4xf32>, tensor<2xi32>, tensor<2x1xi32>) -> (tensor<2x1x2x4xf32>, tensor<2x2x1xf32>)
  return %y, %0 : tensor<2x1x2x4xf32>, tensor<2x64x2x4xf32>
}
