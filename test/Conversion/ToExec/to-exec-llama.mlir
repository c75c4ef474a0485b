// RUN: optimus-opt %s --optimus-to-exec --optimus-build-kernels --verify-roundtrip | FileCheck %s

// The gradient of the gain comes first: dx takes the place of dy, which it reads.
// CHECK-LABEL: func.func @rms_norm
// CHECK: exec.launch @rms_norm_8x4_{{.*}}(read %{{.*}}, read %{{.*}}, write %[[Y:.*]] : memref<32xf32>, write %[[R:.*]] : memref<8xf32>)
// CHECK: exec.launch @rms_param_grad_8x4
// CHECK: exec.launch @rms_norm_grad_residual_4_8x4
func.func @rms_norm(%x: tensor<8x4xf32>, %g: tensor<4xf32>, %dy: tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>, tensor<4xf32>) {
  %y, %r = optimus.rms_norm %x, %g {epsilon = 1.0e-06 : f64} : (tensor<8x4xf32>, tensor<4xf32>) -> (tensor<8x4xf32>, tensor<8xf32>)
  %dx, %dg = optimus.rms_norm_grad %dy, %x, %r, %g residual(%y) : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<8xf32>, tensor<4xf32>, tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<4xf32>)
  return %y, %dx, %dg : tensor<8x4xf32>, tensor<8x4xf32>, tensor<4xf32>
}

// CHECK-LABEL: func.func @sharded_rms_norm
// CHECK: exec.launch @row_dot_8x4
// CHECK: exec.launch @rms_rstd_8x7_
// CHECK: exec.launch @rms_scale_8x4
// CHECK: exec.launch @row_dot_weight_8x4
// CHECK: exec.launch @rms_norm_grad_sums_7_8x4
func.func @sharded_rms_norm(%x: tensor<8x4xf32>, %g: tensor<4xf32>, %dy: tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>, tensor<4xf32>) {
  %s = optimus.row_dot %x, %x : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8xf32>
  %r = optimus.rms_rstd %s {size = 7 : i64, epsilon = 1.0e-06 : f64} : tensor<8xf32>
  %y = optimus.rms_scale %x, %r, %g : (tensor<8x4xf32>, tensor<8xf32>, tensor<4xf32>) -> tensor<8x4xf32>
  %t = optimus.row_dot %dy, %x weight(%g) : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<4xf32>) -> tensor<8xf32>
  %dx, %dg = optimus.rms_norm_grad %dy, %x, %r, %g sums(%t) {size = 7 : i64} : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<8xf32>, tensor<4xf32>, tensor<8xf32>) -> (tensor<8x4xf32>, tensor<4xf32>)
  return %y, %dx, %dg : tensor<8x4xf32>, tensor<8x4xf32>, tensor<4xf32>
}

// Both directions read one table of cosines and sines.
// CHECK-LABEL: func.func @rotary
// CHECK: exec.launch @rotary_2x4_3x8_{{.*}} extent 8
// CHECK: exec.launch @rotary_inverse_2x4_3x8_
func.func @rotary(%x: tensor<2x4x3x8xf32>) -> tensor<2x4x3x8xf32> {
  %y = optimus.rotary %x {theta = 1.0e4 : f64} : tensor<2x4x3x8xf32>
  %z = optimus.rotary %y {theta = 1.0e4 : f64, inverse} : tensor<2x4x3x8xf32>
  return %z : tensor<2x4x3x8xf32>
}

// In the place of the gradient and of one factor.
// CHECK-LABEL: func.func @swiglu
// CHECK: exec.launch @swiglu_32 {{.*}}(read %[[A:.*]] : memref<32xf32>, read %[[B:.*]] : memref<32xf32>, write %[[Y:.*]] : memref<32xf32>)
// CHECK: exec.launch @swiglu_grad_32
func.func @swiglu(%a: tensor<8x4xf32>, %b: tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>) {
  %y = optimus.swiglu %a, %b : tensor<8x4xf32>
  %da, %db = optimus.swiglu_grad %y, %a, %b : tensor<8x4xf32>
  return %da, %db : tensor<8x4xf32>, tensor<8x4xf32>
}

// CHECK-COUNT-1: memref.global "private" constant @rotary_table_4x8_
// CHECK-NOT: memref.global
