// RUN: optimus-opt %s --optimus-differentiate | optimus-interpret --gradcheck --draw 7 | FileCheck %s
// RUN: optimus-opt %s --optimus-differentiate | sed "/attention_grad/s/causal,*//" | not optimus-interpret --gradcheck --draw 7 2>&1 | FileCheck %s --check-prefix=MUTANT

// Causal attention, then full attention on its result.

// Without the mask the gradient of what came before it is wrong.
// MUTANT: qkv: {{.*}}, WRONG

// CHECK: qkv: 144 elements, max relative error {{[0-9.]+}}e-{{[0-9]+$}}
// CHECK-NEXT: w: 144 elements
// CHECK-NEXT: v: 48 elements
// CHECK-NEXT: table: 42 elements
// CHECK-NOT: WRONG
func.func @loss(
    %qkv: tensor<2x4x3x2x3xf32> {optimus.param = "qkv", optimus.init = #optimus.init<normal, stddev = 1.0, stream = 0>},
    %w: tensor<2x3x3x4x2xf32> {optimus.param = "w", optimus.init = #optimus.init<normal, stddev = 1.0, stream = 1>},
    %v: tensor<4x2x6xf32> {optimus.param = "v", optimus.init = #optimus.init<normal, stddev = 1.0, stream = 2>},
    %table: tensor<7x6xf32> {optimus.param = "table", optimus.init = #optimus.init<normal, stddev = 0.5, stream = 3>},
    %tokens: tensor<2x4xi32> {optimus.binding = "tokens"}, %targets: tensor<2x4xi32> {optimus.binding = "targets"}) -> (tensor<f32>, tensor<f32>) {
  %0, %l0 = optimus.attention %qkv {causal} : (tensor<2x4x3x2x3xf32>) -> (tensor<2x4x2x3xf32>, tensor<2x2x4xf32>)
  %1 = optimus.matmul %0, %w {contracting = 2 : i64} : (tensor<2x4x2x3xf32>, tensor<2x3x3x4x2xf32>) -> tensor<2x4x3x4x2xf32>
  %2, %l2 = optimus.attention %1 : (tensor<2x4x3x4x2xf32>) -> (tensor<2x4x4x2xf32>, tensor<2x4x4xf32>)
  %3 = optimus.matmul %2, %v {contracting = 2 : i64} : (tensor<2x4x4x2xf32>, tensor<4x2x6xf32>) -> tensor<2x4x6xf32>
  %loss, %count = optimus.head_loss %3, %table, %targets : (tensor<2x4x6xf32>, tensor<7x6xf32>, tensor<2x4xi32>) -> (tensor<f32>, tensor<f32>)
  return %loss, %count : tensor<f32>, tensor<f32>
}
