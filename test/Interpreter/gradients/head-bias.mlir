// RUN: optimus-opt %s --optimus-differentiate | optimus-interpret --gradcheck --draw 7 | FileCheck %s
// RUN: optimus-opt %s --optimus-differentiate | sed "s/row_grad \(.*\)index = 1/row_grad \1index = 0/" | not optimus-interpret --gradcheck --draw 7 2>&1 | FileCheck %s --check-prefix=MUTANT

// What BERT has and GPT-2 has not: exact GELU, a row of a table, and a bias of
// the logits.

// With the gradient in another row.
// MUTANT: rows: {{.*}}, WRONG

// CHECK: x: 24 elements, max relative error {{[0-9.]+}}e-{{[0-9]+$}}
// CHECK-NEXT: rows: 8 elements
// CHECK-NEXT: table: 28 elements
// CHECK-NEXT: bias: 7 elements
// CHECK-NOT: WRONG
func.func @loss(
    %x: tensor<2x3x4xf32> {optimus.param = "x", optimus.init = #optimus.init<normal, stddev = 1.0, stream = 1>},
    %rows: tensor<2x4xf32> {optimus.param = "rows", optimus.init = #optimus.init<normal, stddev = 1.0, stream = 2>},
    %table: tensor<7x4xf32> {optimus.param = "table", optimus.init = #optimus.init<normal, stddev = 0.5, stream = 4>},
    %bias: tensor<7xf32> {optimus.param = "bias", optimus.init = #optimus.init<normal, stddev = 0.5, stream = 5>},
    %tokens: tensor<2x3xi32> {optimus.binding = "tokens"}, %targets: tensor<2x3xi32> {optimus.binding = "targets"}) -> (tensor<f32>, tensor<f32>) {
  %0 = optimus.row %rows {index = 1 : i64} : (tensor<2x4xf32>) -> tensor<4xf32>
  %1 = optimus.add %x, %0 : (tensor<2x3x4xf32>, tensor<4xf32>) -> tensor<2x3x4xf32>
  %2 = optimus.gelu %1 {exact} : tensor<2x3x4xf32>
  %loss, %count = optimus.head_loss %2, %table, %targets bias(%bias) : (tensor<2x3x4xf32>, tensor<7x4xf32>, tensor<2x3xi32>, tensor<7xf32>) -> (tensor<f32>, tensor<f32>)
  return %loss, %count : tensor<f32>, tensor<f32>
}
