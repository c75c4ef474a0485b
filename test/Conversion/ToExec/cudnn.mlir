// RUN: optimus-opt %s --optimus-to-exec='target=cuda attention=cudnn' --verify-roundtrip | FileCheck %s --check-prefixes=CHECK,DEFAULT
// RUN: optimus-opt %s --optimus-to-exec='target=cuda attention=cudnn deterministic' --verify-roundtrip | FileCheck %s --check-prefixes=CHECK,ONE-ORDER

// Attention is a command of cuDNN's, whose workspace is a buffer as all are: a
// MiB of its own; what the gradient keeps of 16 rows of queries, and their sums,
// ours and those of some GPUs, or else the gradients of scores, padded to tiles
// of 128.
// CHECK-LABEL: func.func @attention(
// CHECK: %[[W:.*]] = exec.alloc "workspace" {alignment = 256 : i64, name = "attention workspace"} : memref<262144xf32>
// CHECK: exec.attention {{.*}} workspace(%[[W]] : memref<262144xf32>) {batch = 2 : i64, causal,
// DEFAULT: %[[G:.*]] = exec.alloc "workspace" {alignment = 256 : i64, name = "attention workspace"} : memref<262544xf32>
// DEFAULT: exec.attention_grad {{.*}} workspace(%[[G]] : memref<262544xf32>) {batch = 2 : i64, causal, head_dim
// ONE-ORDER: %[[G:.*]] = exec.alloc "workspace" {alignment = 256 : i64, name = "attention workspace"} : memref<294928xf32>
// ONE-ORDER: exec.attention_grad {{.*}} workspace(%[[G]] : memref<294928xf32>) {batch = 2 : i64, causal, deterministic,
func.func @attention(%qkv: tensor<2x4x3x2x8xbf16>, %dout: tensor<2x4x2x8xbf16>) -> tensor<2x4x3x2x8xbf16> {
  %o, %l = optimus.attention %qkv {causal} : (tensor<2x4x3x2x8xbf16>) -> (tensor<2x4x2x8xbf16>, tensor<2x2x4xf32>)
  %d = optimus.attention_grad %dout, %o, %l, %qkv {causal} : (tensor<2x4x2x8xbf16>, tensor<2x4x2x8xbf16>, tensor<2x2x4xf32>, tensor<2x4x3x2x8xbf16>) -> tensor<2x4x3x2x8xbf16>
  return %d : tensor<2x4x3x2x8xbf16>
}
