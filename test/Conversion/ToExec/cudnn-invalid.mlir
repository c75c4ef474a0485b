// RUN: optimus-opt %s --optimus-to-exec='target=cuda attention=cudnn' --split-input-file --verify-diagnostics
// RUN: not optimus-opt %s --optimus-to-exec='target=cpu attention=cudnn' 2>&1 | FileCheck %s --check-prefix=CPU
// RUN: not optimus-opt %s --optimus-to-exec='target=cuda attention=cudn' 2>&1 | FileCheck %s --check-prefix=NAME

// CPU: attention: expected auto or builtin, found 'cudnn'
// NAME: attention: expected auto, cudnn or builtin, found 'cudn'

func.func @wide(%qkv: tensor<2x4x3x2x8xf32>) -> tensor<2x4x2x8xf32> {
  // expected-error @below {{is not for cudnn: expected elements of bf16 (--precision bf16), found f32; --attention auto computes it otherwise}}
  %o, %l = optimus.attention %qkv {causal} : (tensor<2x4x3x2x8xf32>) -> (tensor<2x4x2x8xf32>, tensor<2x2x4xf32>)
  return %o : tensor<2x4x2x8xf32>
}

// -----

func.func @odd_heads(%qkv: tensor<2x4x3x2x12xbf16>) -> tensor<2x4x2x12xbf16> {
  // expected-error @below {{is not for cudnn: expected heads whose size is a multiple of 8 up to 128, found 12; --attention auto computes it otherwise}}
  %o, %l = optimus.attention %qkv {causal} : (tensor<2x4x3x2x12xbf16>) -> (tensor<2x4x2x12xbf16>, tensor<2x2x4xf32>)
  return %o : tensor<2x4x2x12xbf16>
}

// -----

func.func @one_token(%qkv: tensor<2x1x3x2x8xbf16>) -> tensor<2x1x2x8xbf16> {
  // expected-error @below {{is not for cudnn: expected sequences of 2 tokens at least, found 1; --attention auto computes it otherwise}}
  %o, %l = optimus.attention %qkv {causal} : (tensor<2x1x3x2x8xbf16>) -> (tensor<2x1x2x8xbf16>, tensor<2x2x1xf32>)
  return %o : tensor<2x1x2x8xbf16>
}
