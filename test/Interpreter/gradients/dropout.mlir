// RUN: optimus-opt %s --optimus-differentiate | optimus-interpret --gradcheck --draw 7 --seed 1234567890123 | FileCheck %s
// RUN: optimus-opt %s --optimus-differentiate | sed "/dropout %dh/s/stream = 11/stream = 12/" | not optimus-interpret --gradcheck --draw 7 2>&1 | FileCheck %s --check-prefix=MUTANT

// @loss and @grad draw the same numbers, so that the loss that differences are
// taken of is a smooth function.

// With another mask in the gradient than in the loss.
// MUTANT: x: {{.*}}, WRONG

// CHECK: x: 24 elements, max relative error {{[0-9.]+}}e-{{[0-9]+$}}
// CHECK-NEXT: w: 16 elements
// CHECK-NEXT: table: 28 elements
// CHECK-NOT: WRONG
func.func @loss(
    %x: tensor<2x3x4xf32> {optimus.param = "x", optimus.init = #optimus.init<normal, stddev = 1.0, stream = 1>},
    %w: tensor<4x4xf32> {optimus.param = "w", optimus.init = #optimus.init<normal, stddev = 1.0, stream = 2>},
    %table: tensor<7x4xf32> {optimus.param = "table", optimus.init = #optimus.init<normal, stddev = 0.5, stream = 4>},
    %tokens: tensor<2x3xi32> {optimus.binding = "tokens"}, %targets: tensor<2x3xi32> {optimus.binding = "targets"},
    %random: tensor<5xi32> {optimus.binding = "random"}) -> (tensor<f32>, tensor<f32>) {
  %0 = optimus.dropout %x, %random {rate = 0.5 : f64, stream = 10 : i64} : (tensor<2x3x4xf32>, tensor<5xi32>) -> tensor<2x3x4xf32>
  %1 = optimus.matmul %0, %w : (tensor<2x3x4xf32>, tensor<4x4xf32>) -> tensor<2x3x4xf32>
  %2 = optimus.gelu %1 : tensor<2x3x4xf32>
  %3 = optimus.dropout %2, %random {rate = 0.25 : f64, stream = 11 : i64} : (tensor<2x3x4xf32>, tensor<5xi32>) -> tensor<2x3x4xf32>
  %loss, %count = optimus.head_loss %3, %table, %targets : (tensor<2x3x4xf32>, tensor<7x4xf32>, tensor<2x3xi32>) -> (tensor<f32>, tensor<f32>)
  return %loss, %count : tensor<f32>, tensor<f32>
}
