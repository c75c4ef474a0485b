// RUN: optimus-opt %s --optimus-to-exec --optimus-build-kernels --optimus-verify-exec --split-input-file --verify-diagnostics --verify-roundtrip | FileCheck %s

// Lengths are found once and given to attention and to its gradient.
// CHECK-LABEL: func.func @attention(
// CHECK-SAME: %[[X:[^:]*]]: memref<3072xf32>, %[[TOKENS:[^:]*]]: memref<16xi32>
// CHECK: %[[LENGTHS:.*]] = exec.alloc "activation" {{.*}} : memref<2xi32>
// CHECK: exec.launch @lengths_2x8_0 extent 2 grain {{.*}}(read %[[TOKENS]] : memref<16xi32>, write %[[LENGTHS]] : memref<2xi32>) scalars(%{{.*}} : i64)
// CHECK: exec.attention %{{.*}} lengths(%[[LENGTHS]] : memref<2xi32>)
// CHECK: exec.attention_grad %{{.*}} lengths(%[[LENGTHS]] : memref<2xi32>)
func.func @attention(%x: tensor<2x8x3x4x16xf32>, %tokens: tensor<2x8xi32>) -> tensor<2x8x3x4x16xf32> {
  %lengths = optimus.lengths %tokens {pad = 0 : i64} : (tensor<2x8xi32>) -> tensor<2xi32>
  %o, %lse = optimus.attention %x lengths(%lengths) : (tensor<2x8x3x4x16xf32>, tensor<2xi32>) -> (tensor<2x8x4x16xf32>, tensor<2x4x8xf32>)
  %d = optimus.attention_grad %o, %o, %lse, %x lengths(%lengths) : (tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x4x8xf32>, tensor<2x8x3x4x16xf32>, tensor<2xi32>) -> tensor<2x8x3x4x16xf32>
  return %d : tensor<2x8x3x4x16xf32>
}

// Targets tell where a token was hidden.
// CHECK-LABEL: func.func @masked(
// CHECK-SAME: %[[TOKENS:[^:]*]]: memref<16xi32>, %[[TARGETS:[^:]*]]: memref<16xi32>
// CHECK: exec.launch @lengths_masked_2x8_0 extent 2 grain {{.*}}(read %[[TOKENS]] : memref<16xi32>, read %[[TARGETS]] : memref<16xi32>, write %{{.*}} : memref<2xi32>) scalars(%{{.*}} : i64)
func.func @masked(%tokens: tensor<2x8xi32>, %targets: tensor<2x8xi32>) -> tensor<2xi32> {
  %lengths = optimus.lengths %tokens targets(%targets) {pad = 0 : i64} : (tensor<2x8xi32>, tensor<2x8xi32>) -> tensor<2xi32>
  return %lengths : tensor<2xi32>
}

// A row is a copy, and its gradient zeros and a copy.
// CHECK-LABEL: func.func @row(
// CHECK-SAME: %[[T:[^:]*]]: memref<32xf32>, %[[ROW:[^:]*]]: memref<16xf32>, %[[DT:[^:]*]]: memref<32xf32>)
// CHECK: %[[FROM:.*]] = exec.slice %[[T]][16] : memref<32xf32> to memref<16xf32>
// CHECK: exec.copy %[[ROW]] from %[[FROM]]
// CHECK: exec.copy %[[DT]] {
// CHECK: %[[TO:.*]] = exec.slice %[[DT]][16] : memref<32xf32> to memref<16xf32>
// CHECK: exec.copy %[[TO]] from %[[ROW]]
func.func @row(%t: tensor<2x16xf32>) -> (tensor<16xf32>, tensor<2x16xf32>) {
  %0 = optimus.row %t {index = 1 : i64} : (tensor<2x16xf32>) -> tensor<16xf32>
  %1 = optimus.row_grad %0 {index = 1 : i64} : (tensor<16xf32>) -> tensor<2x16xf32>
  return %0, %1 : tensor<16xf32>, tensor<2x16xf32>
}

// The bias of the head rides on the product; its gradient is added up over
// chunks.
// CHECK-LABEL: func.func @head(
// CHECK-SAME: %[[B:[^:]*]]: memref<6xf32>,
// CHECK-SAME: %[[DB:[^:]*]]: memref<6xf32>)
// CHECK: exec.gemm {{.*}} bias(%[[B]] : memref<6xf32>)
// CHECK: exec.launch @sum_leading_4x6 {{.*}}write %[[DB]] : memref<6xf32>
// CHECK: exec.gemm {{.*}} bias(%[[B]] : memref<6xf32>)
// CHECK: %[[PARTIAL:.*]] = exec.alloc "workspace" {name = "partial dbias"} : memref<6xf32>
// CHECK: exec.launch @sum_leading_4x6 {{.*}}write %[[PARTIAL]] : memref<6xf32>
// CHECK: exec.launch @add_6 {{.*}}(read %[[DB]] : memref<6xf32>, read %[[PARTIAL]] : memref<6xf32>, write %[[DB]] : memref<6xf32>)
func.func @head(%h: tensor<8x8xf32>, %table: tensor<6x8xf32>, %bias: tensor<6xf32>, %targets: tensor<8xi32>) -> (tensor<f32>, tensor<6xf32>) {
  %0:5 = optimus.head_loss_grad %h, %table, %targets bias(%bias) {chunk = 4 : i64} : (tensor<8x8xf32>, tensor<6x8xf32>, tensor<8xi32>, tensor<6xf32>) -> (tensor<f32>, tensor<f32>, tensor<8x8xf32>, tensor<6x8xf32>, tensor<6xf32>)
  return %0#0, %0#4 : tensor<f32>, tensor<6xf32>
}

// -----

func.func @exec_lengths(%x: memref<192xf32>, %o: memref<64xf32>, %s: memref<16xf32>, %l: memref<1xi32>) {
  // expected-error @below {{lengths needs 2 elements, but its buffer has 1}}
  exec.attention %x, %x, %x, %o, %s lengths(%l : memref<1xi32>) {batch = 2, seq = 4, heads = 2, kv_heads = 2, head_dim = 4, q_ld = 8, kv_ld = 8}
    : memref<192xf32>, memref<192xf32>, memref<192xf32>, memref<64xf32>, memref<16xf32>
  return
}
