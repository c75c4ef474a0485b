// RUN: optimus-opt %s --optimus-fuse --verify-roundtrip | FileCheck %s

// CHECK-LABEL: func.func @bias_then_residual
// CHECK-SAME: (%[[X:.*]]: tensor<2x8x16xf32>, %[[W:.*]]: tensor<16x2x4xf32>, %[[B:.*]]: tensor<2x4xf32>, %[[R:.*]]: tensor<2x8x2x4xf32>)
// CHECK-NEXT: %[[Y:.*]] = optimus.matmul %[[X]], %[[W]] bias(%[[B]]) residual(%[[R]])
// CHECK-NEXT: return %[[Y]]
func.func @bias_then_residual(%x: tensor<2x8x16xf32>, %w: tensor<16x2x4xf32>, %b: tensor<2x4xf32>, %r: tensor<2x8x2x4xf32>) -> tensor<2x8x2x4xf32> {
  %0 = optimus.matmul %x, %w : (tensor<2x8x16xf32>, tensor<16x2x4xf32>) -> tensor<2x8x2x4xf32>
  %1 = optimus.add %0, %b : (tensor<2x8x2x4xf32>, tensor<2x4xf32>) -> tensor<2x8x2x4xf32>
  %2 = optimus.add %r, %1 : (tensor<2x8x2x4xf32>, tensor<2x8x2x4xf32>) -> tensor<2x8x2x4xf32>
  return %2 : tensor<2x8x2x4xf32>
}

// The product moves down to where its addend is.
// CHECK-LABEL: func.func @scale
// CHECK: %[[S:.*]] = optimus.gelu
// CHECK-NEXT: optimus.matmul {{.*}} scale(%[[S]])
// CHECK-NEXT: return
func.func @scale(%x: tensor<8x16xf32>, %w: tensor<16x4xf32>, %s: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0 = optimus.matmul %x, %w : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
  %1 = optimus.gelu %s : tensor<8x4xf32>
  %2 = optimus.mul %1, %0 : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  return %2 : tensor<8x4xf32>
}

// What is multiplied behind a residual is a command of its own.
// CHECK-LABEL: func.func @scale_after_residual
// CHECK: %[[SUM:.*]] = optimus.matmul {{.*}} residual(
// CHECK-NEXT: optimus.mul %[[SUM]]
func.func @scale_after_residual(%x: tensor<8x16xf32>, %w: tensor<16x4xf32>, %r: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0 = optimus.matmul %x, %w : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
  %1 = optimus.add %0, %r : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  %2 = optimus.mul %1, %r : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  return %2 : tensor<8x4xf32>
}

// After the scale nothing can be added inside the product.
// CHECK-LABEL: func.func @nothing_after_scale
// CHECK: optimus.matmul {{.*}} scale(
// CHECK-NEXT: optimus.add
func.func @nothing_after_scale(%x: tensor<8x16xf32>, %w: tensor<16x4xf32>, %s: tensor<8x4xf32>, %b: tensor<4xf32>) -> tensor<8x4xf32> {
  %0 = optimus.matmul %x, %w : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
  %1 = optimus.mul %0, %s : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  %2 = optimus.add %1, %b : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
  return %2 : tensor<8x4xf32>
}

// CHECK-LABEL: func.func @two_uses
// CHECK: optimus.matmul %{{.*}}, %{{.*}} :
// CHECK-NEXT: optimus.add
func.func @two_uses(%x: tensor<8x16xf32>, %w: tensor<16x4xf32>, %b: tensor<4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>) {
  %0 = optimus.matmul %x, %w : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
  %1 = optimus.add %0, %b : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
  return %0, %1 : tensor<8x4xf32>, tensor<8x4xf32>
}

// CHECK-LABEL: func.func @norm_gradients
// CHECK: optimus.layer_norm_grad {{.*}} residual(%[[R:[^)]*]])
// CHECK-NEXT: optimus.norm_grad_apply {{.*}} residual(%[[R]])
// CHECK-NOT: optimus.add
func.func @norm_gradients(%dy: tensor<8x4xf32>, %x: tensor<8x4xf32>, %m: tensor<8xf32>, %g: tensor<4xf32>, %sums: tensor<8x2xf32>, %r: tensor<8x4xf32>)
    -> (tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<8x4xf32>) {
  %dx, %dg, %db = optimus.layer_norm_grad %dy, %x, %m, %m, %g : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<8xf32>, tensor<8xf32>, tensor<4xf32>) -> (tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>)
  %0 = optimus.add %dx, %r : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  %1 = optimus.norm_grad_apply %dy, %x, %m, %m, %g, %sums {size = 4 : i64} : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<8xf32>, tensor<8xf32>, tensor<4xf32>, tensor<8x2xf32>) -> tensor<8x4xf32>
  %2 = optimus.add %r, %1 : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  return %0, %dg, %db, %2 : tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<8x4xf32>
}

// The operation cannot move past a use of another result.
// CHECK-LABEL: func.func @used_before
// CHECK: optimus.layer_norm_grad
// CHECK-NOT: residual
// CHECK: optimus.gelu
// CHECK: optimus.add
func.func @used_before(%dy: tensor<8x4xf32>, %x: tensor<8x4xf32>, %m: tensor<8xf32>, %g: tensor<4xf32>) -> (tensor<8x4xf32>, tensor<4xf32>) {
  %dx, %dg, %db = optimus.layer_norm_grad %dy, %x, %m, %m, %g : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<8xf32>, tensor<8xf32>, tensor<4xf32>) -> (tensor<8x4xf32>, tensor<4xf32>, tensor<4xf32>)
  %0 = optimus.gelu %dg : tensor<4xf32>
  %1 = optimus.add %dx, %x : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  return %1, %0 : tensor<8x4xf32>, tensor<4xf32>
}

// CHECK-LABEL: func.func @residual_of_rms_norm
// CHECK: optimus.rms_norm_grad {{.*}} residual(%{{.*}}) :
// CHECK-NEXT: return
func.func @residual_of_rms_norm(%x: tensor<8x4xf32>, %r: tensor<8xf32>, %g: tensor<4xf32>, %other: tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<4xf32>) {
  %dx, %dg = optimus.rms_norm_grad %x, %x, %r, %g : (tensor<8x4xf32>, tensor<8x4xf32>, tensor<8xf32>, tensor<4xf32>) -> (tensor<8x4xf32>, tensor<4xf32>)
  %sum = optimus.add %other, %dx : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  return %sum, %dg : tensor<8x4xf32>, tensor<4xf32>
}
