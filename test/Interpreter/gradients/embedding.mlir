// RUN: optimus-opt %s --optimus-differentiate | optimus-interpret --gradcheck --draw 7 | FileCheck %s
// RUN: optimus-opt %s --optimus-differentiate | sed "s/accumulate(%dtable)/accumulate(%arg0)/" | not optimus-interpret --gradcheck --draw 7 2>&1 | FileCheck %s --check-prefix=MUTANT

// One table of its own, one that is the output head too. Chunks of two tokens
// are the same sum.

// Without what the head gives to its table.
// MUTANT: table: {{.*}}, WRONG

// CHECK: table: 35 elements, max relative error {{[0-9.]+}}e-{{[0-9]+$}}
// CHECK-NEXT: other: 35 elements
// CHECK-NOT: WRONG
func.func @loss(
    %table: tensor<7x5xf32> {optimus.param = "table", optimus.init = #optimus.init<normal, stddev = 1.0, stream = 0>},
    %other: tensor<7x5xf32> {optimus.param = "other", optimus.init = #optimus.init<normal, stddev = 1.0, stream = 1>},
    %tokens: tensor<2x5xi32> {optimus.binding = "tokens"}, %targets: tensor<2x5xi32> {optimus.binding = "targets"}) -> (tensor<f32>, tensor<f32>) {
  %0 = optimus.embedding %table, %tokens : (tensor<7x5xf32>, tensor<2x5xi32>) -> tensor<2x5x5xf32>
  %1 = optimus.embedding %other, %tokens : (tensor<7x5xf32>, tensor<2x5xi32>) -> tensor<2x5x5xf32>
  %2 = optimus.mul %0, %1 : (tensor<2x5x5xf32>, tensor<2x5x5xf32>) -> tensor<2x5x5xf32>
  %loss, %count = optimus.head_loss %2, %table, %targets {chunk = 2 : i64} : (tensor<2x5x5xf32>, tensor<7x5xf32>, tensor<2x5xi32>) -> (tensor<f32>, tensor<f32>)
  return %loss, %count : tensor<f32>, tensor<f32>
}
