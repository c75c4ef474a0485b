// RUN: optimus-opt %s --optimus-differentiate | optimus-interpret --gradcheck --draw 7 | FileCheck %s
// RUN: optimus-opt %s --optimus-differentiate | sed "/attention_grad/s/window = 2/window = 3/" | not optimus-interpret --gradcheck --draw 7 2>&1 | FileCheck %s --check-prefix=MUTANT

// Windows of two tokens, in documents of three and two.

// With another window the gradient of what came before it is wrong.
// MUTANT: qkv: {{.*}}, WRONG

// CHECK: qkv: 180 elements, max relative error {{[0-9.]+}}e-{{[0-9]+$}}
// CHECK-NEXT: w: 36 elements
// CHECK-NEXT: table: 42 elements
// CHECK-NOT: WRONG
func.func @loss(
    %qkv: tensor<2x5x3x2x3xf32> {optimus.param = "qkv", optimus.init = #optimus.init<normal, stddev = 1.0, stream = 0>},
    %w: tensor<2x3x6xf32> {optimus.param = "w", optimus.init = #optimus.init<normal, stddev = 1.0, stream = 1>},
    %table: tensor<7x6xf32> {optimus.param = "table", optimus.init = #optimus.init<normal, stddev = 0.5, stream = 3>},
    %tokens: tensor<2x5xi32> {optimus.binding = "tokens"}, %targets: tensor<2x5xi32> {optimus.binding = "targets"}) -> (tensor<f32>, tensor<f32>) {
  %p = arith.constant dense<[[0, 1, 2, 3, 4], [0, 1, 2, 0, 1]]> : tensor<2x5xi32>
  %0, %l0 = optimus.attention %qkv positions(%p) {causal, window = 2 : i64} : (tensor<2x5x3x2x3xf32>, tensor<2x5xi32>) -> (tensor<2x5x2x3xf32>, tensor<2x2x5xf32>)
  %1 = optimus.matmul %0, %w {contracting = 2 : i64} : (tensor<2x5x2x3xf32>, tensor<2x3x6xf32>) -> tensor<2x5x6xf32>
  %loss, %count = optimus.head_loss %1, %table, %targets : (tensor<2x5x6xf32>, tensor<7x6xf32>, tensor<2x5xi32>) -> (tensor<f32>, tensor<f32>)
  return %loss, %count : tensor<f32>, tensor<f32>
}
