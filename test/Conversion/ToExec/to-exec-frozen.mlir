// RUN: optimus-opt %s --optimus-to-exec --optimus-build-kernels --optimus-verify-exec --verify-roundtrip | FileCheck %s

// Of a frozen table there is no gradient: one product makes logits, one dh.
// CHECK-LABEL: func.func @table(
// CHECK-COUNT-2: exec.gemm
// CHECK-NOT: exec.gemm
// CHECK: return
func.func @table(%h: tensor<2x5x8xf32>, %table: tensor<6x8xf32>, %targets: tensor<2x5xi32>) -> (tensor<f32>, tensor<f32>, tensor<2x5x8xf32>) {
  %0:4 = optimus.head_loss_grad %h, %table, %targets {chunk = 10 : i64} : (tensor<2x5x8xf32>, tensor<6x8xf32>, tensor<2x5xi32>) -> (tensor<f32>, tensor<f32>, tensor<2x5x8xf32>, tensor<6x8xf32>)
  return %0#0, %0#1, %0#2 : tensor<f32>, tensor<f32>, tensor<2x5x8xf32>
}

// Nor of a frozen norm.
// CHECK-LABEL: func.func @norm(
// CHECK-NOT: param_grad
// CHECK: exec.launch @layer_norm_grad
// CHECK: return
func.func @norm(%x: tensor<8x4xf32>, %g: tensor<4xf32>, %m: tensor<8xf32>, %dy: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %dx, %dg, %db = optimus.layer_norm_grad %dy, %x, %m, %m, %g : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<8xf32>, tensor<8xf32>, tensor<4xf32>) -> (tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>)
  return %dx : tensor<8x4xf32>
}

// A splat constant is filled in by a kernel.
// CHECK-LABEL: func.func @scale(
// CHECK: exec.launch @splat_
func.func @scale(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %s = arith.constant dense<2.5> : tensor<4xf32>
  %y = optimus.mul %x, %s : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
  return %y : tensor<8x4xf32>
}
