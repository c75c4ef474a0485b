// RUN: optimus-opt %s --optimus-differentiate --split-input-file --verify-diagnostics

// expected-error-re @below {{expected @loss{{.*}}found 0 leading parameters and 1 other arguments}}
func.func @loss(%w: tensor<4xf32>) -> tensor<f32> {
  %0 = arith.constant dense<0.0> : tensor<f32>
  return %0 : tensor<f32>
}

// -----

func.func @loss(%table: tensor<32x16xf32> {optimus.param = "table"},
    // expected-error @below {{the loss does not depend on parameter 'unused'}}
    %unused: tensor<4xf32> {optimus.param = "unused"},
    %tokens: tensor<8xi32>, %targets: tensor<8xi32>) -> (tensor<f32>, tensor<f32>) {
  %x = optimus.embedding %table, %tokens : (tensor<32x16xf32>, tensor<8xi32>) -> tensor<8x16xf32>
  %loss, %count = optimus.head_loss %x, %table, %targets : (tensor<8x16xf32>, tensor<32x16xf32>, tensor<8xi32>) -> (tensor<f32>, tensor<f32>)
  return %loss, %count : tensor<f32>, tensor<f32>
}

// -----

func.func @loss(%table: tensor<32x16xf32> {optimus.param = "table"},
    %tokens: tensor<8xi32>, %targets: tensor<8xi32>) -> (tensor<f32>, tensor<f32>) {
  %x = optimus.embedding %table, %tokens : (tensor<32x16xf32>, tensor<8xi32>) -> tensor<8x16xf32>
  // expected-error @below {{is not differentiable, and it is between a parameter and the loss}}
  %y = optimus.sqrt %x : tensor<8x16xf32>
  %loss, %count = optimus.head_loss %y, %table, %targets : (tensor<8x16xf32>, tensor<32x16xf32>, tensor<8xi32>) -> (tensor<f32>, tensor<f32>)
  return %loss, %count : tensor<f32>, tensor<f32>
}

// -----

func.func @loss(%table: tensor<32x16xf32> {optimus.param = "table"},
    %tokens: tensor<8xi32>, %targets: tensor<8xi32>) -> (tensor<f32>, tensor<f32>) {
  %x = optimus.embedding %table, %tokens : (tensor<32x16xf32>, tensor<8xi32>) -> tensor<8x16xf32>
  // expected-error @below {{another operation uses it on the way to the loss}}
  %loss, %count = optimus.head_loss %x, %table, %targets : (tensor<8x16xf32>, tensor<32x16xf32>, tensor<8xi32>) -> (tensor<f32>, tensor<f32>)
  %twice = optimus.add %loss, %loss : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %twice, %count : tensor<f32>, tensor<f32>
}
