// RUN: not optimus-interpret %s --gradcheck --draw 7 2>&1 | FileCheck %s
// RUN: sed 's/1.001/1.0/' %s | optimus-interpret --gradcheck --draw 7 | FileCheck %s --check-prefix=RIGHT

// A gradient that is off by a thousandth is found, and named.
// CHECK: x: 15 elements, max relative error 1.0e-03, WRONG
// CHECK: error: the gradient of 'x' is wrong at element {{[0-9]+}}: {{.*}}, by central differences {{.*}}, within {{.*}}e-0
// CHECK: table: 35 elements
// CHECK-NOT: WRONG

// RIGHT: x: 15 elements
// RIGHT-NOT: WRONG
func.func @loss(
    %x: tensor<3x5xf32> {optimus.param = "x", optimus.init = #optimus.init<normal, stddev = 1.0, stream = 0>},
    %table: tensor<7x5xf32> {optimus.param = "table", optimus.init = #optimus.init<normal, stddev = 1.0, stream = 1>},
    %tokens: tensor<3xi32> {optimus.binding = "tokens"}, %targets: tensor<3xi32> {optimus.binding = "targets"}) -> (tensor<f32>, tensor<f32>) {
  %loss, %count = optimus.head_loss %x, %table, %targets : (tensor<3x5xf32>, tensor<7x5xf32>, tensor<3xi32>) -> (tensor<f32>, tensor<f32>)
  return %loss, %count : tensor<f32>, tensor<f32>
}
func.func @grad(
    %x: tensor<3x5xf32> {optimus.param = "x"}, %table: tensor<7x5xf32> {optimus.param = "table"},
    %tokens: tensor<3xi32>, %targets: tensor<3xi32>) -> (tensor<f32>, tensor<f32>, tensor<3x5xf32>, tensor<7x5xf32>) {
  %loss, %count, %dx, %dtable = optimus.head_loss_grad %x, %table, %targets : (tensor<3x5xf32>, tensor<7x5xf32>, tensor<3xi32>) -> (tensor<f32>, tensor<f32>, tensor<3x5xf32>, tensor<7x5xf32>)
  %factor = arith.constant dense<1.001> : tensor<f32>
  %scaled = optimus.mul %dx, %factor : (tensor<3x5xf32>, tensor<f32>) -> tensor<3x5xf32>
  return %loss, %count, %scaled, %dtable : tensor<f32>, tensor<f32>, tensor<3x5xf32>, tensor<7x5xf32>
}
