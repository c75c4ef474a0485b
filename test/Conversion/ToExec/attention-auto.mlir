// RUN: optimus-opt %s --optimus-to-exec=target=cuda --verify-roundtrip | FileCheck %s --check-prefixes=CHECK,AUTO
// RUN: optimus-opt %s --optimus-to-exec='target=cuda attention=builtin' | FileCheck %s --check-prefixes=CHECK,BUILTIN
// RUN: optimus-opt %s --optimus-to-exec=target=cpu | FileCheck %s --check-prefix=CPU

// Each attention is computed by the target's library where that does, and by
// kernels elsewhere; on processors it is their own command.

// CHECK-LABEL: func.func @narrow(
// AUTO: exec.attention {{.*}} workspace(
// AUTO: exec.attention_grad {{.*}} workspace(
// BUILTIN-NOT: exec.attention
// BUILTIN: exec.launch @attention_causal_
// BUILTIN: exec.launch @attention_query_grad_
// BUILTIN: exec.launch @attention_key_grad_
// CPU-LABEL: func.func @narrow(
// CPU-NOT: workspace
// CPU: exec.attention %
// CPU: exec.attention_grad %
func.func @narrow(%qkv: tensor<2x4x3x2x8xbf16>, %dout: tensor<2x4x2x8xbf16>) -> tensor<2x4x3x2x8xbf16> {
  %o, %l = optimus.attention %qkv {causal} : (tensor<2x4x3x2x8xbf16>) -> (tensor<2x4x2x8xbf16>, tensor<2x2x4xf32>)
  %d = optimus.attention_grad %dout, %o, %l, %qkv {causal} : (tensor<2x4x2x8xbf16>, tensor<2x4x2x8xbf16>, tensor<2x2x4xf32>, tensor<2x4x3x2x8xbf16>) -> tensor<2x4x3x2x8xbf16>
  return %d : tensor<2x4x3x2x8xbf16>
}

// CHECK-LABEL: func.func @wide(
// CHECK-NOT: exec.attention
// CHECK: exec.launch @attention_causal_
func.func @wide(%qkv: tensor<2x4x3x2x8xf32>) -> tensor<2x4x2x8xf32> {
  %o, %l = optimus.attention %qkv {causal} : (tensor<2x4x3x2x8xf32>) -> (tensor<2x4x2x8xf32>, tensor<2x2x4xf32>)
  return %o : tensor<2x4x2x8xf32>
}

// CHECK-LABEL: func.func @odd_heads(
// CHECK-NOT: exec.attention
// CHECK: exec.launch @attention_causal_
func.func @odd_heads(%qkv: tensor<2x4x3x2x12xbf16>) -> tensor<2x4x2x12xbf16> {
  %o, %l = optimus.attention %qkv {causal} : (tensor<2x4x3x2x12xbf16>) -> (tensor<2x4x2x12xbf16>, tensor<2x2x4xf32>)
  return %o : tensor<2x4x2x12xbf16>
}

// CHECK-LABEL: func.func @one_token(
// CHECK-NOT: exec.attention
// CHECK: exec.launch @attention_causal_
func.func @one_token(%qkv: tensor<2x1x3x2x8xbf16>) -> tensor<2x1x2x8xbf16> {
  %o, %l = optimus.attention %qkv {causal} : (tensor<2x1x3x2x8xbf16>) -> (tensor<2x1x2x8xbf16>, tensor<2x2x1xf32>)
  return %o : tensor<2x1x2x8xbf16>
}

// CHECK-LABEL: func.func @documents(
// CHECK-NOT: exec.attention
// CHECK: exec.launch @attention_causal_positions_
// CPU-LABEL: func.func @documents(
// CPU: exec.attention {{.*}} positions(
func.func @documents(%qkv: tensor<2x4x3x2x8xbf16>, %p: tensor<2x4xi32>) -> tensor<2x4x2x8xbf16> {
  %o, %l = optimus.attention %qkv positions(%p) {causal} : (tensor<2x4x3x2x8xbf16>, tensor<2x4xi32>) -> (tensor<2x4x2x8xbf16>, tensor<2x2x4xf32>)
  return %o : tensor<2x4x2x8xbf16>
}

// CHECK-LABEL: func.func @window(
// CHECK-NOT: exec.attention
// CHECK: exec.launch @attention_causal_window2_
// CPU-LABEL: func.func @window(
// CPU: exec.attention {{.*}} window = 2 : i64
func.func @window(%qkv: tensor<2x4x3x2x8xbf16>) -> tensor<2x4x2x8xbf16> {
  %o, %l = optimus.attention %qkv {causal, window = 2 : i64} : (tensor<2x4x3x2x8xbf16>) -> (tensor<2x4x2x8xbf16>, tensor<2x2x4xf32>)
  return %o : tensor<2x4x2x8xbf16>
}

// One of the whole sequence is none.
// CHECK-LABEL: func.func @wide_window(
// AUTO: exec.attention {{.*}} seq = 4 : i64}
// BUILTIN: exec.launch @attention_causal_q_
// CPU-LABEL: func.func @wide_window(
// CPU: exec.attention {{.*}} seq = 4 : i64}
func.func @wide_window(%qkv: tensor<2x4x3x2x8xbf16>) -> tensor<2x4x2x8xbf16> {
  %o, %l = optimus.attention %qkv {causal, window = 4 : i64} : (tensor<2x4x3x2x8xbf16>) -> (tensor<2x4x2x8xbf16>, tensor<2x2x4xf32>)
  return %o : tensor<2x4x2x8xbf16>
}

// Many keys of few queries, by pieces; CPUs have a command for them.
// CHECK-LABEL: func.func @long_cache(
// CHECK: exec.launch @attention_pieces_causal_lengths_positions_capacity600_{{.*}}_128
// CHECK: exec.launch @attention_of_pieces_causal_lengths_positions_capacity600_{{.*}}_128
// CPU-LABEL: func.func @long_cache(
// CPU: exec.attention {{.*}} capacity = 600 : i64
func.func @long_cache(%q: tensor<2x1x2x16xbf16>, %k: tensor<2x600x2x16xbf16>, %l: tensor<2xi32>, %p: tensor<2x1xi32>) -> tensor<2x1x2x16xbf16> {
  %o, %lse = optimus.attention %q, %k, %k lengths(%l) positions(%p) {cached, causal} : (tensor<2x1x2x16xbf16>, tensor<2x600x2x16xbf16>, tensor<2x600x2x16xbf16>, tensor<2xi32>, tensor<2x1xi32>) -> (tensor<2x1x2x16xbf16>, tensor<2x2x1xf32>)
  return %o : tensor<2x1x2x16xbf16>
}

// Keys of a cache.
// CHECK-LABEL: func.func @cached(
// CHECK-NOT: exec.attention
// CHECK: exec.launch @attention_causal_lengths_positions_capacity64_
// CPU-LABEL: func.func @cached(
// CPU: exec.attention {{.*}} capacity = 64 : i64
func.func @cached(%q: tensor<2x1x2x16xbf16>, %k: tensor<2x64x2x16xbf16>, %l: tensor<2xi32>, %p: tensor<2x1xi32>) -> tensor<2x1x2x16xbf16> {
  %o, %lse = optimus.attention %q, %k, %k lengths(%l) positions(%p) {cached, causal} : (tensor<2x1x2x16xbf16>, tensor<2x64x2x16xbf16>, tensor<2x64x2x16xbf16>, tensor<2xi32>, tensor<2x1xi32>) -> (tensor<2x1x2x16xbf16>, tensor<2x2x1xf32>)
  return %o : tensor<2x1x2x16xbf16>
}
