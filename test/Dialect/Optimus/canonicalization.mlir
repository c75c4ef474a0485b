// RUN: %optimus-opt %s --canonicalize | FileCheck %s

// CHECK-LABEL: func.func @add_zero
// CHECK-SAME: (%[[X:.*]]: tensor<8x4xf32>)
// CHECK-NEXT: return %[[X]], %[[X]], %[[X]]
func.func @add_zero(%x: tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>) {
  %zero = arith.constant dense<0.0> : tensor<8x4xf32>
  %minus_zero = arith.constant dense<-0.0> : tensor<4xf32>
  %0 = optimus.add %x, %zero : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  %1 = optimus.add %zero, %x : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  %2 = optimus.add %x, %minus_zero : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
  return %0, %1, %2 : tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>
}

// The bias has another shape than the sum, the constant is not zero everywhere.
// CHECK-LABEL: func.func @add_something
// CHECK-COUNT-2: optimus.add
func.func @add_something(%x: tensor<8x2xf32>, %b: tensor<2xf32>) -> (tensor<8x2xf32>, tensor<8x2xf32>) {
  %zero = arith.constant dense<0.0> : tensor<8x2xf32>
  %some = arith.constant dense<[0.0, 1.0]> : tensor<2xf32>
  %0 = optimus.add %zero, %b : (tensor<8x2xf32>, tensor<2xf32>) -> tensor<8x2xf32>
  %1 = optimus.add %x, %some : (tensor<8x2xf32>, tensor<2xf32>) -> tensor<8x2xf32>
  return %0, %1 : tensor<8x2xf32>, tensor<8x2xf32>
}

// The sum is decided to live elsewhere than x.
// CHECK-LABEL: func.func @add_zero_elsewhere
// CHECK: optimus.add
func.func @add_zero_elsewhere(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %zero = arith.constant dense<0.0> : tensor<8x4xf32>
  %0 = optimus.add %x, %zero {optimus.shardings = [#optimus.sharding<@mesh, [{"row"}, {}]>]} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// CHECK-LABEL: func.func @cast_to_its_own_type
// CHECK-SAME: (%[[X:.*]]: tensor<8xbf16>)
// CHECK-NEXT: return %[[X]]
func.func @cast_to_its_own_type(%x: tensor<8xbf16>) -> tensor<8xbf16> {
  %0 = optimus.cast %x : (tensor<8xbf16>) -> tensor<8xbf16>
  return %0 : tensor<8xbf16>
}

// f32 has every bf16 and every f16.
// CHECK-LABEL: func.func @cast_and_back
// CHECK-SAME: (%[[X:.*]]: tensor<8xbf16>, %[[Y:.*]]: tensor<8xf16>)
// CHECK-NEXT: return %[[X]], %[[Y]]
func.func @cast_and_back(%x: tensor<8xbf16>, %y: tensor<8xf16>) -> (tensor<8xbf16>, tensor<8xf16>) {
  %0 = optimus.cast %x : (tensor<8xbf16>) -> tensor<8xf32>
  %1 = optimus.cast %0 : (tensor<8xf32>) -> tensor<8xbf16>
  %2 = optimus.cast %y : (tensor<8xf16>) -> tensor<8xf32>
  %3 = optimus.cast %2 : (tensor<8xf32>) -> tensor<8xf16>
  return %1, %3 : tensor<8xbf16>, tensor<8xf16>
}

// A rounding stays: neither bf16 nor f16 has every number of the other.
// CHECK-LABEL: func.func @cast_that_rounds
// CHECK-COUNT-6: optimus.cast
func.func @cast_that_rounds(%x: tensor<8xf32>, %y: tensor<8xf16>, %z: tensor<8xbf16>) -> (tensor<8xf32>, tensor<8xf16>, tensor<8xbf16>) {
  %0 = optimus.cast %x : (tensor<8xf32>) -> tensor<8xbf16>
  %1 = optimus.cast %0 : (tensor<8xbf16>) -> tensor<8xf32>
  %2 = optimus.cast %y : (tensor<8xf16>) -> tensor<8xbf16>
  %3 = optimus.cast %2 : (tensor<8xbf16>) -> tensor<8xf16>
  %4 = optimus.cast %z : (tensor<8xbf16>) -> tensor<8xf16>
  %5 = optimus.cast %4 : (tensor<8xf16>) -> tensor<8xbf16>
  return %1, %3, %5 : tensor<8xf32>, tensor<8xf16>, tensor<8xbf16>
}

// The result is decided to live elsewhere than x.
// CHECK-LABEL: func.func @cast_elsewhere
// CHECK: optimus.cast
func.func @cast_elsewhere(%x: tensor<8xbf16>) -> tensor<8xbf16> {
  %0 = optimus.cast %x {optimus.shardings = [#optimus.sharding<@mesh, [{"row"}]>]} : (tensor<8xbf16>) -> tensor<8xbf16>
  return %0 : tensor<8xbf16>
}

// Nothing reads what these make.
// CHECK-LABEL: func.func @dead
// CHECK-NEXT: return
func.func @dead(%x: tensor<8x4xf32>, %w: tensor<4x4xf32>) {
  %0 = optimus.matmul %x, %w : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %1, %2 = optimus.gelu_with_slope %0 : tensor<8x4xf32>
  %3 = optimus.sum_squares %1, %2 : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<f32>
  return
}

// CHECK-LABEL: func.func @gelu_without_slope
// CHECK: %[[Y:.*]] = optimus.gelu %{{.*}} {optimus.role = "mlp", optimus.shardings = [#optimus.sharding<@mesh, [{"row"}, {}]>]} : tensor<8x4xf32>
// CHECK-NEXT: return %[[Y]]
func.func @gelu_without_slope(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0, %1 = optimus.gelu_with_slope %x {optimus.role = "mlp", optimus.shardings = [#optimus.sharding<@mesh, [{"row"}, {}]>, unit]} : tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// CHECK-LABEL: func.func @gelu_slope_only
// CHECK: optimus.gelu_with_slope
func.func @gelu_slope_only(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0, %1 = optimus.gelu_with_slope %x : tensor<8x4xf32>
  return %1 : tensor<8x4xf32>
}

// CHECK-LABEL: func.func @head_loss_without_gradients
// CHECK: %[[LOSS:.*]], %[[COUNT:.*]] = optimus.head_loss %{{.*}}, %{{.*}}, %{{.*}} {chunk = 4 : i64}
// CHECK-NEXT: return %[[LOSS]], %[[COUNT]]
func.func @head_loss_without_gradients(%h: tensor<8x4xf32>, %table: tensor<6x4xf32>, %targets: tensor<8xi32>) -> (tensor<f32>, tensor<f32>) {
  %0, %1, %2, %3 = optimus.head_loss_grad %h, %table, %targets {chunk = 4 : i64} : (tensor<8x4xf32>, tensor<6x4xf32>, tensor<8xi32>) -> (tensor<f32>, tensor<f32>, tensor<8x4xf32>, tensor<6x4xf32>)
  return %0, %1 : tensor<f32>, tensor<f32>
}

// CHECK-LABEL: func.func @head_loss_with_one_gradient
// CHECK: optimus.head_loss_grad
func.func @head_loss_with_one_gradient(%h: tensor<8x4xf32>, %table: tensor<6x4xf32>, %targets: tensor<8xi32>) -> tensor<8x4xf32> {
  %0, %1, %2, %3 = optimus.head_loss_grad %h, %table, %targets : (tensor<8x4xf32>, tensor<6x4xf32>, tensor<8xi32>) -> (tensor<f32>, tensor<f32>, tensor<8x4xf32>, tensor<6x4xf32>)
  return %2 : tensor<8x4xf32>
}

// A product takes in the sum after it in --optimus-fuse, not here: partition
// needs plain products.
// CHECK-LABEL: func.func @matmul_stays_plain
// CHECK: optimus.matmul %{{.*}}, %{{[^ ]*}} :
// CHECK-NEXT: optimus.add
func.func @matmul_stays_plain(%x: tensor<8x4xf32>, %w: tensor<4x4xf32>, %b: tensor<4xf32>) -> tensor<8x4xf32> {
  %0 = optimus.matmul %x, %w : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %1 = optimus.add %0, %b : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
  return %1 : tensor<8x4xf32>
}

// CHECK-LABEL: func.func @mul_one
// CHECK-SAME: (%[[X:.*]]: tensor<8x4xf32>)
// CHECK-NEXT: return %[[X]], %[[X]]
func.func @mul_one(%x: tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>) {
  %one = arith.constant dense<1.0> : tensor<8x4xf32>
  %0 = optimus.mul %x, %one : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  %1 = optimus.mul %one, %x : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  return %0, %1 : tensor<8x4xf32>, tensor<8x4xf32>
}

// CHECK-LABEL: func.func @mul_two
// CHECK: optimus.mul
func.func @mul_two(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %two = arith.constant dense<2.0> : tensor<8x4xf32>
  %0 = optimus.mul %x, %two : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// CHECK-LABEL: func.func @sum_nothing
// CHECK-SAME: (%[[X:.*]]: tensor<8x4xf32>)
// CHECK-NEXT: return %[[X]]
func.func @sum_nothing(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0 = optimus.sum_leading %x : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// A dimension of one element is not a sum over none, and not the same type.
// CHECK-LABEL: func.func @sum_one
// CHECK: optimus.sum_leading
func.func @sum_one(%x: tensor<1x4xf32>) -> tensor<4xf32> {
  %0 = optimus.sum_leading %x : (tensor<1x4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
