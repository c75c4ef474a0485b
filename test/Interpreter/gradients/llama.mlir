// RUN: optimus-opt %s --optimus-differentiate | optimus-interpret --gradcheck --draw 7 | FileCheck %s
// RUN: optimus-opt %s --optimus-differentiate --optimus-fuse | optimus-interpret --gradcheck --draw 7 | FileCheck %s
// RUN: optimus-opt %s --optimus-differentiate | sed "s/inverse, //" | not optimus-interpret --gradcheck --draw 7 2>&1 | FileCheck %s --check-prefix=ROTARY
// RUN: optimus-opt %s --optimus-differentiate | sed "s/residual(%dgate)/residual(%result)/" | not optimus-interpret --gradcheck --draw 7 2>&1 | FileCheck %s --check-prefix=RESIDUAL
// RUN: optimus-opt %s --optimus-differentiate | sed "/swiglu_grad/s/%dgate, %dup/%dup, %dgate/" | not optimus-interpret --gradcheck --draw 7 2>&1 | FileCheck %s --check-prefix=SWIGLU

// What a Llama has and a GPT-2 has not: two normalisations by the root mean
// square, the input of one of which reaches the loss on another path; rotations
// of tensors with and without heads; a gated product.

// A gradient that turns forwards, another residual, and the gradients of gate
// and up exchanged are seen.
// ROTARY: x: {{.*}}, WRONG
// RESIDUAL: x: {{.*}}, WRONG
// SWIGLU: x: {{.*}}, WRONG

// CHECK: x: 48 elements, max relative error {{[0-9.]+}}e-{{[0-9]+$}}
// CHECK-NEXT: gain: 4 elements
// CHECK-NEXT: gain2: 4 elements
// CHECK-NEXT: up: 48 elements
// CHECK-NEXT: table: 28 elements
// CHECK-NOT: WRONG
func.func @loss(
    %x: tensor<2x3x2x4xf32> {optimus.param = "x", optimus.init = #optimus.init<normal, stddev = 1.0, stream = 0>},
    %gain: tensor<4xf32> {optimus.param = "gain", optimus.init = #optimus.init<normal, stddev = 1.0, stream = 1>},
    %gain2: tensor<4xf32> {optimus.param = "gain2", optimus.init = #optimus.init<normal, stddev = 1.0, stream = 2>},
    %up: tensor<2x3x2x4xf32> {optimus.param = "up", optimus.init = #optimus.init<normal, stddev = 1.0, stream = 3>},
    %table: tensor<7x4xf32> {optimus.param = "table", optimus.init = #optimus.init<normal, stddev = 0.5, stream = 4>},
    %tokens: tensor<2x6xi32> {optimus.binding = "tokens"}, %targets: tensor<2x3x2xi32> {optimus.binding = "targets"}) -> (tensor<f32>, tensor<f32>) {
  %0, %r0 = optimus.rms_norm %x, %gain {epsilon = 1.0e-02 : f64} : (tensor<2x3x2x4xf32>, tensor<4xf32>) -> (tensor<2x3x2x4xf32>, tensor<2x3x2xf32>)
  %1 = optimus.rotary %0 {theta = 1.0e1 : f64} : tensor<2x3x2x4xf32>
  %2, %r2 = optimus.rms_norm %1, %gain2 {epsilon = 1.0e-06 : f64} : (tensor<2x3x2x4xf32>, tensor<4xf32>) -> (tensor<2x3x2x4xf32>, tensor<2x3x2xf32>)
  %3 = optimus.swiglu %1, %up : tensor<2x3x2x4xf32>
  %4 = optimus.add %2, %3 : (tensor<2x3x2x4xf32>, tensor<2x3x2x4xf32>) -> tensor<2x3x2x4xf32>
  %loss, %count = optimus.head_loss %4, %table, %targets : (tensor<2x3x2x4xf32>, tensor<7x4xf32>, tensor<2x3x2xi32>) -> (tensor<f32>, tensor<f32>)
  return %loss, %count : tensor<f32>, tensor<f32>
}
