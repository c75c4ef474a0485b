// RUN: optimus-opt %s --optimus-differentiate | optimus-interpret --gradcheck --draw 7 | FileCheck %s
// RUN: optimus-opt %s --optimus-differentiate --optimus-fuse | optimus-interpret --gradcheck --draw 7 | FileCheck %s
// RUN: optimus-opt %s --optimus-differentiate | sed "s/, .slope :/, %result :/" | not optimus-interpret --gradcheck --draw 7 2>&1 | FileCheck %s --check-prefix=MUTANT

// Sums and products, the right side repeated over no, one or two leading
// dimensions and a value used twice; GELU. Fused, a product carries bias,
// residual and scale.

// With the value of GELU for its slope.
// MUTANT: same: {{.*}}, WRONG

// CHECK: w: 12 elements, max relative error {{[0-9.]+}}e-{{[0-9]+$}}
// CHECK-NEXT: same: 24 elements
// CHECK-NEXT: rows: 12 elements
// CHECK-NEXT: vector: 4 elements
// CHECK-NEXT: table: 28 elements
// CHECK-NOT: WRONG
func.func @loss(
    %w: tensor<3x4xf32> {optimus.param = "w", optimus.init = #optimus.init<normal, stddev = 1.0, stream = 0>},
    %same: tensor<2x3x4xf32> {optimus.param = "same", optimus.init = #optimus.init<normal, stddev = 1.0, stream = 1>},
    %rows: tensor<3x4xf32> {optimus.param = "rows", optimus.init = #optimus.init<normal, stddev = 1.0, stream = 2>},
    %vector: tensor<4xf32> {optimus.param = "vector", optimus.init = #optimus.init<normal, stddev = 1.0, stream = 3>},
    %table: tensor<7x4xf32> {optimus.param = "table", optimus.init = #optimus.init<normal, stddev = 0.5, stream = 4>},
    %tokens: tensor<2x3xi32> {optimus.binding = "tokens"}, %targets: tensor<2x3xi32> {optimus.binding = "targets"}) -> (tensor<f32>, tensor<f32>) {
  %0 = optimus.add %same, %rows : (tensor<2x3x4xf32>, tensor<3x4xf32>) -> tensor<2x3x4xf32>
  %1 = optimus.mul %0, %vector : (tensor<2x3x4xf32>, tensor<4xf32>) -> tensor<2x3x4xf32>
  %2 = optimus.mul %1, %rows : (tensor<2x3x4xf32>, tensor<3x4xf32>) -> tensor<2x3x4xf32>
  %3 = optimus.gelu %2 : tensor<2x3x4xf32>
  %4 = optimus.mul %3, %same : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %5 = optimus.matmul %4, %w {transpose_b} : (tensor<2x3x4xf32>, tensor<3x4xf32>) -> tensor<2x3x3xf32>
  %6 = optimus.matmul %5, %w : (tensor<2x3x3xf32>, tensor<3x4xf32>) -> tensor<2x3x4xf32>
  %7 = optimus.add %6, %vector : (tensor<2x3x4xf32>, tensor<4xf32>) -> tensor<2x3x4xf32>
  %8 = optimus.add %7, %4 : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %loss, %count = optimus.head_loss %8, %table, %targets : (tensor<2x3x4xf32>, tensor<7x4xf32>, tensor<2x3xi32>) -> (tensor<f32>, tensor<f32>)
  return %loss, %count : tensor<f32>, tensor<f32>
}
