// RUN: optimus-opt %s --optimus-add-adapters='lora="rank=2,alpha=4,targets=q_proj"' --split-input-file --verify-diagnostics

// expected-error @below {{--lora: no linear is called 'q_proj'; modules are q_prj; did you mean 'q_prj'?}}
module {
  func.func @forward(%x: tensor<4x8xf32>, %w: tensor<8x8xf32> {optimus.param = "h.q_prj.weight"}) -> tensor<4x8xf32> {
    %y = optimus.matmul %x, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
    return %y : tensor<4x8xf32>
  }
}

// -----

// expected-error @below {{--lora: expected 'h.q_proj' to be a linear; found its weight in optimus.gelu}}
func.func @forward(%w: tensor<8x8xf32> {optimus.param = "h.q_proj.weight"}) -> tensor<8x8xf32> {
  %y = optimus.gelu %w : tensor<8x8xf32>
  return %y : tensor<8x8xf32>
}

// -----

// expected-error @below {{--lora: the target 'q_proj' has several parameters in one tensor, "q_proj.weight"; expected a linear with a tensor of its own}}
func.func @forward(%x: tensor<4x8xf32>, %w: tensor<8x8xf32> {optimus.param = "q_proj.query.weight", optimus.packed = #optimus.packed<"q_proj.weight", [16, 8], row = 128, begin = 0>}) -> tensor<4x8xf32> {
  %y = optimus.matmul %x, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// expected-error @below {{--lora: expected a rank below 2, the smaller side of 'q_proj', found 2}}
func.func @forward(%x: tensor<4x8xf32>, %w: tensor<8x2xf32> {optimus.param = "q_proj.weight"}) -> tensor<4x2xf32> {
  %y = optimus.matmul %x, %w : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  return %y : tensor<4x2xf32>
}

// -----

// expected-error @below {{--lora: expected 'b.q_proj' to be a linear; found it to lie across the others, [in, out] beside [out, in], of which an adapter_config.json has one}}
func.func @forward(%x: tensor<4x8xf32>, %v: tensor<8x8xf32> {optimus.param = "a.q_proj.weight"}, %w: tensor<8x8xf32> {optimus.param = "b.q_proj.weight"}) -> tensor<4x8xf32> {
  %y = optimus.matmul %x, %v {transpose_b} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %z = optimus.matmul %y, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  return %z : tensor<4x8xf32>
}
