// RUN: optimus-opt %s --optimus-build-step --split-input-file --verify-diagnostics

// expected-error @below {{expected a function @loss(params}}
module {}

// -----

// expected-error @below {{expected a function @grad; run --optimus-differentiate first}}
module {
  func.func @loss(%w: tensor<4xf32> {optimus.param = "w"}, %tokens: tensor<2xi32>, %targets: tensor<2xi32>) -> (tensor<f32>, tensor<f32>) {
    %0 = arith.constant dense<0.0> : tensor<f32>
    return %0, %0 : tensor<f32>, tensor<f32>
  }
}
