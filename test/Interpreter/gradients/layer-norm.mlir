// RUN: optimus-opt %s --optimus-differentiate | optimus-interpret --gradcheck --draw 7 | FileCheck %s
// RUN: optimus-opt %s --optimus-differentiate | sed "s/residual(%dh)/residual(%result)/" | not optimus-interpret --gradcheck --draw 7 2>&1 | FileCheck %s --check-prefix=RESIDUAL
// RUN: optimus-opt %s --optimus-differentiate | sed "/layer_norm_grad/s/%mean, %rstd/%rstd, %mean/" | not optimus-interpret --gradcheck --draw 7 2>&1 | FileCheck %s --check-prefix=STATISTICS

// One normalisation whose input reaches the loss on no other path, and one
// where it does, so that its gradient is added in the same operation.

// Another residual, or mean and rstd exchanged, are seen.
// RESIDUAL: x: {{.*}}, WRONG
// STATISTICS: x: {{.*}}, WRONG

// CHECK: x: 20 elements, max relative error {{[0-9.]+}}e-{{[0-9]+$}}
// CHECK-NEXT: gain: 5 elements
// CHECK-NEXT: shift: 5 elements
// CHECK-NEXT: gain2: 5 elements
// CHECK-NEXT: shift2: 5 elements
// CHECK-NEXT: table: 35 elements
// CHECK-NOT: WRONG
func.func @loss(
    %x: tensor<2x2x5xf32> {optimus.param = "x", optimus.init = #optimus.init<normal, stddev = 1.0, stream = 0>},
    %gain: tensor<5xf32> {optimus.param = "gain", optimus.init = #optimus.init<normal, stddev = 1.0, stream = 1>},
    %shift: tensor<5xf32> {optimus.param = "shift", optimus.init = #optimus.init<normal, stddev = 1.0, stream = 2>},
    %gain2: tensor<5xf32> {optimus.param = "gain2", optimus.init = #optimus.init<normal, stddev = 1.0, stream = 3>},
    %shift2: tensor<5xf32> {optimus.param = "shift2", optimus.init = #optimus.init<normal, stddev = 1.0, stream = 4>},
    %table: tensor<7x5xf32> {optimus.param = "table", optimus.init = #optimus.init<normal, stddev = 0.5, stream = 5>},
    %tokens: tensor<2x2xi32> {optimus.binding = "tokens"}, %targets: tensor<2x2xi32> {optimus.binding = "targets"}) -> (tensor<f32>, tensor<f32>) {
  %0, %m0, %r0 = optimus.layer_norm %x, %gain, %shift {epsilon = 1.0e-02 : f64} : (tensor<2x2x5xf32>, tensor<5xf32>, tensor<5xf32>) -> (tensor<2x2x5xf32>, tensor<2x2xf32>, tensor<2x2xf32>)
  %1, %m1, %r1 = optimus.layer_norm %0, %gain2, %shift2 {epsilon = 1.0e-05 : f64} : (tensor<2x2x5xf32>, tensor<5xf32>, tensor<5xf32>) -> (tensor<2x2x5xf32>, tensor<2x2xf32>, tensor<2x2xf32>)
  %2 = optimus.add %1, %0 : (tensor<2x2x5xf32>, tensor<2x2x5xf32>) -> tensor<2x2x5xf32>
  %loss, %count = optimus.head_loss %2, %table, %targets : (tensor<2x2x5xf32>, tensor<7x5xf32>, tensor<2x2xi32>) -> (tensor<f32>, tensor<f32>)
  return %loss, %count : tensor<f32>, tensor<f32>
}
