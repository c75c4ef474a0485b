// RUN: optimus-opt %s --optimus-differentiate='train=h.*.attn.wight' --split-input-file --verify-diagnostics

// expected-error @below {{--train: no parameter matches 'h.*.attn.wight'; the nearest names are h.0.attn.weight, h.0.mlp.weight, table}}
func.func @loss(%table: tensor<6x8xf32> {optimus.param = "table"},
    %a: tensor<8x8xf32> {optimus.param = "h.0.mlp.weight"}, %b: tensor<8x8xf32> {optimus.param = "h.0.attn.weight"},
    %tokens: tensor<2x4xi32>, %targets: tensor<2x4xi32>) -> (tensor<f32>, tensor<f32>) {
  %x = optimus.embedding %table, %tokens : (tensor<6x8xf32>, tensor<2x4xi32>) -> tensor<2x4x8xf32>
  %y = optimus.matmul %x, %a : (tensor<2x4x8xf32>, tensor<8x8xf32>) -> tensor<2x4x8xf32>
  %z = optimus.matmul %y, %b : (tensor<2x4x8xf32>, tensor<8x8xf32>) -> tensor<2x4x8xf32>
  %loss, %count = optimus.head_loss %z, %table, %targets : (tensor<2x4x8xf32>, tensor<6x8xf32>, tensor<2x4xi32>) -> (tensor<f32>, tensor<f32>)
  return %loss, %count : tensor<f32>, tensor<f32>
}
