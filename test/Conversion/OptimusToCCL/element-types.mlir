// RUN: optimus-opt %s --optimus-shard='mesh=row:2,col:2 strategy=summa' --optimus-partition --optimus-verify-partition --verify-roundtrip --mlir-print-local-scope | FileCheck %s
// RUN: optimus-opt %s --optimus-shard='mesh=row:1,col:2 strategy=megatron' --optimus-partition --optimus-verify-partition --mlir-print-local-scope | FileCheck %s --check-prefix=SUM
// RUN: optimus-opt %s --optimus-shard='mesh=row:1,col:2 strategy=megatron' --optimus-partition=reduce-precision=f32 --optimus-verify-partition --mlir-print-local-scope | FileCheck %s --check-prefix=WIDE
// RUN: optimus-opt %s --optimus-shard='mesh=row:2,col:2 strategy=summa' --optimus-partition=reduce-precision=f32 --optimus-verify-partition --mlir-print-local-scope | FileCheck %s --check-prefix=PANELS
// RUN: not optimus-opt %s --optimus-partition=reduce-precision=f64 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// UNKNOWN: unknown reduce-precision 'f64'; expected f32

// Narrow activations move narrow; what is known of rows is f32.
// CHECK-LABEL: func.func @layer_norm(
// CHECK: %[[M:.*]] = optimus.row_moments %arg0 : (tensor<2x8x3xbf16, {{.*}}>) -> tensor<2x8x2xf32,
// CHECK: ccl.all_gather %[[M]] {{.*}} -> tensor<2x8x4xf32,
// CHECK: optimus.normalize %arg0, {{.*}} -> tensor<2x8x3xbf16,
// CHECK: %[[S:.*]] = optimus.norm_grad_sums {{.*}} -> tensor<2x8x2xf32,
// CHECK: ccl.all_reduce %[[S]]
// CHECK: optimus.norm_grad_apply {{.*}} -> tensor<2x8x3xbf16,
func.func @layer_norm(%x: tensor<4x8x5xbf16> {optimus.role = "batch,sequence,hidden"}, %g: tensor<5xf32> {optimus.role = "vector hidden"}, %dy: tensor<4x8x5xbf16> {optimus.role = "batch,sequence,hidden"})
    -> (tensor<4x8x5xbf16>, tensor<4x8x5xbf16>, tensor<5xf32>) {
  %y, %m, %r = optimus.layer_norm %x, %g, %g {epsilon = 1.0e-05 : f64} : (tensor<4x8x5xbf16>, tensor<5xf32>, tensor<5xf32>) -> (tensor<4x8x5xbf16>, tensor<4x8xf32>, tensor<4x8xf32>)
  %dx, %dg, %db = optimus.layer_norm_grad %dy, %x, %m, %r, %g : (tensor<4x8x5xbf16>, tensor<4x8x5xbf16>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<5xf32>) -> (tensor<4x8x5xbf16>, tensor<5xf32>, tensor<5xf32>)
  return %y, %dx, %dg : tensor<4x8x5xbf16>, tensor<4x8x5xbf16>, tensor<5xf32>
}

// An f32 residual stream whose norm is narrow.
// CHECK-LABEL: func.func @rms_norm(
// CHECK: optimus.row_dot %arg0, %arg0 : {{.*}} -> tensor<2x8xf32,
// CHECK: optimus.rms_scale %arg0, {{.*}} -> tensor<2x8x3xbf16,
func.func @rms_norm(%x: tensor<4x8x5xf32> {optimus.role = "batch,sequence,hidden"}, %g: tensor<5xf32> {optimus.role = "vector hidden"}) -> tensor<4x8x5xbf16> {
  %y, %r = optimus.rms_norm %x, %g {epsilon = 1.0e-06 : f64, optimus.role = "batch,sequence,hidden"} : (tensor<4x8x5xf32>, tensor<5xf32>) -> (tensor<4x8x5xbf16>, tensor<4x8xf32>)
  return %y : tensor<4x8x5xbf16>
}

// A partial sum is reduced before it is cast.
// SUM-LABEL: func.func @cast_of_partial_sum(
// SUM: %[[P:.*]] = optimus.matmul %arg0, %arg1 {{.*}} unreduced = {"col"}
// SUM: %[[R:.*]] = ccl.all_reduce %[[P]] {axis = "col"} : (tensor<4x8x6xbf16, {{.*}}>) -> tensor<4x8x6xbf16>
// SUM: %[[C:.*]] = optimus.cast %[[R]] {{.*}}: (tensor<4x8x6xbf16>) -> tensor<4x8x6xf32>
// SUM: return %[[C]]
func.func @cast_of_partial_sum(%x: tensor<4x8x16xbf16> {optimus.role = "batch,sequence,ffn"}, %w: tensor<16x6xbf16> {optimus.role = "first out.ffn,in.hidden"}) -> tensor<4x8x6xf32> {
  %0 = optimus.matmul %x, %w {optimus.role = "batch,sequence,hidden"} : (tensor<4x8x16xbf16>, tensor<16x6xbf16>) -> tensor<4x8x6xbf16>
  %1 = optimus.cast %0 {optimus.role = "batch,sequence,hidden"} : (tensor<4x8x6xbf16>) -> tensor<4x8x6xf32>
  return %1 : tensor<4x8x6xf32>
}

// With reduce-precision=f32 ranks round the sum alone, before they add it to
// others. Rows of a table, which one rank has, move narrow.
// WIDE-LABEL: func.func @sums(
// WIDE: %[[A:.*]] = optimus.matmul {{.*}} -> tensor<4x8x6xf32, {{.*}} unreduced = {"col"}
// WIDE: %[[B:.*]] = optimus.matmul {{.*}} -> tensor<4x8x6xf32, {{.*}} unreduced = {"col"}
// WIDE: %[[RA:.*]] = ccl.all_reduce %[[A]] {axis = "col"} : (tensor<4x8x6xf32, {{.*}}>) -> tensor<4x8x6xf32
// WIDE: %[[CA:.*]] = optimus.cast %[[RA]] {{.*}} -> tensor<4x8x6xbf16
// WIDE: %[[RB:.*]] = ccl.all_reduce %[[B]]
// WIDE: %[[CB:.*]] = optimus.cast %[[RB]]
// WIDE: %[[S:.*]] = optimus.add %[[CA]], %[[CB]]
// WIDE: ccl.all_reduce {{.*}} -> tensor<4x8x6xbf16
// WIDE: return %[[S]],
// PANELS-LABEL: func.func @sums(
// PANELS: %[[P:.*]] = ccl.matmul {{.*}} stationary = "a"{{.*}} -> tensor<2x8x3xf32,
// PANELS: optimus.cast %[[P]] {{.*}} -> tensor<2x8x3xbf16,
func.func @sums(%x: tensor<4x8x16xbf16> {optimus.role = "batch,sequence,ffn"}, %w: tensor<16x6xbf16> {optimus.role = "first out.ffn,in.hidden"}, %table: tensor<10x6xf32> {optimus.role = "table vocabulary,hidden"}, %tokens: tensor<4x8xi32> {optimus.role = "batch,sequence"}) -> (tensor<4x8x6xbf16>, tensor<4x8x6xbf16>) {
  %0 = optimus.matmul %x, %w {optimus.role = "batch,sequence,hidden"} : (tensor<4x8x16xbf16>, tensor<16x6xbf16>) -> tensor<4x8x6xbf16>
  %1 = optimus.matmul %x, %w {optimus.role = "batch,sequence,hidden"} : (tensor<4x8x16xbf16>, tensor<16x6xbf16>) -> tensor<4x8x6xbf16>
  %2 = optimus.add %0, %1 {optimus.role = "batch,sequence,hidden"} : (tensor<4x8x6xbf16>, tensor<4x8x6xbf16>) -> tensor<4x8x6xbf16>
  %3 = optimus.embedding %table, %tokens {optimus.role = "batch,sequence,hidden"} : (tensor<10x6xf32>, tensor<4x8xi32>) -> tensor<4x8x6xbf16>
  return %2, %3 : tensor<4x8x6xbf16>, tensor<4x8x6xbf16>
}
