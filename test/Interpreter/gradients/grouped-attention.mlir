// RUN: optimus-opt %s --optimus-differentiate | optimus-interpret --gradcheck --draw 7 | FileCheck %s
// RUN: optimus-opt %s --optimus-differentiate | sed "/attention_grad/s/causal,*//" | not optimus-interpret --gradcheck --draw 7 2>&1 | FileCheck %s --check-prefix=MUTANT

// Three heads of queries share each head of keys and values; then keys and
// values of their own, in tensors of their own.

// MUTANT: q: {{.*}}, WRONG

// CHECK: q: 144 elements, max relative error {{[0-9.]+}}e-{{[0-9]+$}}
// CHECK-NEXT: k: 48 elements
// CHECK-NEXT: v: 48 elements
// CHECK-NEXT: w: 144 elements
// CHECK-NEXT: table: 42 elements
// CHECK-NOT: WRONG
func.func @loss(
    %q: tensor<2x4x2x3x3xf32> {optimus.param = "q", optimus.init = #optimus.init<normal, stddev = 1.0, stream = 0>},
    %k: tensor<2x4x2x3xf32> {optimus.param = "k", optimus.init = #optimus.init<normal, stddev = 1.0, stream = 1>},
    %v: tensor<2x4x2x3xf32> {optimus.param = "v", optimus.init = #optimus.init<normal, stddev = 1.0, stream = 2>},
    %w: tensor<2x3x3x4x2xf32> {optimus.param = "w", optimus.init = #optimus.init<normal, stddev = 1.0, stream = 3>},
    %table: tensor<7x6xf32> {optimus.param = "table", optimus.init = #optimus.init<normal, stddev = 0.5, stream = 4>},
    %tokens: tensor<2x4xi32> {optimus.binding = "tokens"}, %targets: tensor<2x4xi32> {optimus.binding = "targets"}) -> (tensor<f32>, tensor<f32>) {
  %0, %l0 = optimus.attention %q, %k, %v {causal} : (tensor<2x4x2x3x3xf32>, tensor<2x4x2x3xf32>, tensor<2x4x2x3xf32>) -> (tensor<2x4x2x3x3xf32>, tensor<2x2x3x4xf32>)
  %1 = optimus.matmul %0, %w {contracting = 3 : i64} : (tensor<2x4x2x3x3xf32>, tensor<2x3x3x4x2xf32>) -> tensor<2x4x4x2xf32>
  %2, %l2 = optimus.attention %1, %1, %1 : (tensor<2x4x4x2xf32>, tensor<2x4x4x2xf32>, tensor<2x4x4x2xf32>) -> (tensor<2x4x4x2xf32>, tensor<2x4x4xf32>)
  %u = arith.constant dense<[[[0.5, -1.0, 2.0, 0.25, 1.0, -0.5], [1.0, 0.0, -1.0, 0.5, 2.0, 1.0]], [[-0.25, 1.0, 0.5, -2.0, 1.0, 0.0], [1.0, 1.0, -0.5, 0.5, 0.0, -1.0]], [[0.0, 0.5, 1.0, 1.0, -1.0, 0.5], [2.0, -1.0, 0.0, 0.5, 0.5, 1.0]], [[1.0, -0.5, 0.5, 0.0, 1.0, 2.0], [0.5, 1.0, -1.0, 1.0, 0.25, 0.0]]]> : tensor<4x2x6xf32>
  %3 = optimus.matmul %2, %u {contracting = 2 : i64} : (tensor<2x4x4x2xf32>, tensor<4x2x6xf32>) -> tensor<2x4x6xf32>
  %loss, %count = optimus.head_loss %3, %table, %targets : (tensor<2x4x6xf32>, tensor<7x6xf32>, tensor<2x4xi32>) -> (tensor<f32>, tensor<f32>)
  return %loss, %count : tensor<f32>, tensor<f32>
}
