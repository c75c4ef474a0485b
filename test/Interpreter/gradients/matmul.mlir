// RUN: optimus-opt %s --optimus-differentiate | optimus-interpret --gradcheck --draw 7 | FileCheck %s
// RUN: optimus-opt %s --optimus-differentiate | sed "/matmul %arg4, %[0-9]* {transpose_a, transpose_b}/s/transpose_a, //" | not optimus-interpret --gradcheck --draw 7 2>&1 | FileCheck %s --check-prefix=MUTANT

// Products with each combination of transpositions, and groups of several
// dimensions: what goes in is [3], [2, 2] or [2] wide.

// A transposition forgotten where the matrix is square.
// MUTANT: a: {{.*}}, WRONG

// CHECK: a: 6 elements, max relative error {{[0-9.]+}}e-{{[0-9]+$}}
// CHECK-NEXT: b: 12 elements
// CHECK-NEXT: c: 20 elements
// CHECK-NEXT: d: 4 elements
// CHECK-NEXT: e: 25 elements
// CHECK-NEXT: table: 14 elements
// CHECK-NOT: WRONG
func.func @loss(
    %a: tensor<2x3xf32> {optimus.param = "a", optimus.init = #optimus.init<normal, stddev = 0.5, stream = 0>},
    %b: tensor<3x2x2xf32> {optimus.param = "b", optimus.init = #optimus.init<normal, stddev = 0.5, stream = 1>},
    %c: tensor<2x2x5xf32> {optimus.param = "c", optimus.init = #optimus.init<normal, stddev = 0.5, stream = 2>},
    %d: tensor<2x2xf32> {optimus.param = "d", optimus.init = #optimus.init<normal, stddev = 0.5, stream = 3>},
    %e: tensor<5x5xf32> {optimus.param = "e", optimus.init = #optimus.init<normal, stddev = 0.5, stream = 4>},
    %table: tensor<7x2xf32> {optimus.param = "table", optimus.init = #optimus.init<normal, stddev = 0.5, stream = 5>},
    %tokens: tensor<5xi32> {optimus.binding = "tokens"}, %targets: tensor<5xi32> {optimus.binding = "targets"}) -> (tensor<f32>, tensor<f32>) {
  %0 = optimus.matmul %a, %b : (tensor<2x3xf32>, tensor<3x2x2xf32>) -> tensor<2x2x2xf32>
  %1 = optimus.matmul %0, %c {contracting = 2 : i64} : (tensor<2x2x2xf32>, tensor<2x2x5xf32>) -> tensor<2x5xf32>
  %2 = optimus.matmul %1, %d {transpose_a} : (tensor<2x5xf32>, tensor<2x2xf32>) -> tensor<5x2xf32>
  %3 = optimus.matmul %2, %d {transpose_b} : (tensor<5x2xf32>, tensor<2x2xf32>) -> tensor<5x2xf32>
  %4 = optimus.matmul %3, %e {transpose_a, transpose_b} : (tensor<5x2xf32>, tensor<5x5xf32>) -> tensor<2x5xf32>
  %5 = optimus.matmul %e, %4 {transpose_b} : (tensor<5x5xf32>, tensor<2x5xf32>) -> tensor<5x2xf32>
  %loss, %count = optimus.head_loss %5, %table, %targets : (tensor<5x2xf32>, tensor<7x2xf32>, tensor<5xi32>) -> (tensor<f32>, tensor<f32>)
  return %loss, %count : tensor<f32>, tensor<f32>
}
