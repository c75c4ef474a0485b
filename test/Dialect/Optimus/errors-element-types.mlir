// RUN: optimus-opt %s --split-input-file --verify-diagnostics

// Element types that do not go together, in the alphabetical order of their
// operations.

func.func @adamw_states(%p: tensor<4xf32>, %m: tensor<4xbf16>, %s: tensor<f32>) {
  // expected-error @below {{operand #2 must be static tensor of at most 16 dimensions and 1 to 2^48 elements, of 32-bit float values, but got 'tensor<4xbf16>'}}
  %0:3 = optimus.adamw %p, %p, %m, %p, %s, %s, %s, %s, %s, %s, %s, %s
    : (tensor<4xf32>, tensor<4xf32>, tensor<4xbf16>, tensor<4xf32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

func.func @add_c3(%x: tensor<8xbf16>) {
  // expected-error @below {{C3: expected a result of 'bf16' elements, found 'f32'}}
  %0 = optimus.add %x, %x : (tensor<8xbf16>, tensor<8xbf16>) -> tensor<8xf32>
  return
}

// -----

func.func @add_c3_rhs(%x: tensor<8xbf16>, %y: tensor<8xf16>) {
  // expected-error @below {{C3: expected rhs of 'bf16' or f32 elements, found 'f16'}}
  %0 = optimus.add %x, %y : (tensor<8xbf16>, tensor<8xf16>) -> tensor<8xbf16>
  return
}

// -----

func.func @attention_c5(%q: tensor<2x8x4x16xbf16>, %kv: tensor<2x8x4x16xf32>) {
  // expected-error @below {{C5: expected an operand of 'bf16' elements, found 'f32'}}
  %0, %1 = optimus.attention %q, %kv, %kv : (tensor<2x8x4x16xbf16>, tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>) -> (tensor<2x8x4x16xbf16>, tensor<2x4x8xf32>)
  return
}

// -----

func.func @attention_lse(%qkv: tensor<2x8x3x4x16xbf16>) {
  // expected-error @below {{result #1 must be static tensor of at most 16 dimensions and 1 to 2^48 elements, of 32-bit float values, but got 'tensor<2x4x8xbf16>'}}
  %0, %1 = optimus.attention %qkv : (tensor<2x8x3x4x16xbf16>) -> (tensor<2x8x4x16xbf16>, tensor<2x4x8xbf16>)
  return
}

// -----

func.func @attention_grad_c5(%o: tensor<2x8x4x16xbf16>, %d: tensor<2x8x4x16xf32>, %lse: tensor<2x4x8xf32>, %qkv: tensor<2x8x3x4x16xbf16>) {
  // expected-error @below {{C5: expected dout of 'bf16' elements, found 'f32'}}
  %0 = optimus.attention_grad %d, %o, %lse, %qkv : (tensor<2x8x4x16xf32>, tensor<2x8x4x16xbf16>, tensor<2x4x8xf32>, tensor<2x8x3x4x16xbf16>) -> tensor<2x8x3x4x16xbf16>
  return
}

// -----

func.func @cast_c1(%x: tensor<8xf32>) {
  // expected-error @below {{C1: expected a result of shape [8], found [4]}}
  %0 = optimus.cast %x : (tensor<8xf32>) -> tensor<4xbf16>
  return
}

// -----

func.func @cast_of_tokens(%x: tensor<8xi32>) {
  // expected-error @below {{operand #0 must be static tensor of at most 16 dimensions and 1 to 2^48 elements, of 32-bit float or bfloat16 type or 16-bit float values, but got 'tensor<8xi32>'}}
  %0 = optimus.cast %x : (tensor<8xi32>) -> tensor<8xf32>
  return
}

// -----

func.func @dropout_c1(%x: tensor<8xbf16>, %random: tensor<5xi32>) {
  // expected-error @below {{C1: expected a result of 'bf16' elements, found 'f32'}}
  %0 = optimus.dropout %x, %random {rate = 0.1 : f64, stream = 10 : i64} : (tensor<8xbf16>, tensor<5xi32>) -> tensor<8xf32>
  return
}

// -----

func.func @embedding_grad_result(%dy: tensor<8x16xbf16>, %tokens: tensor<8xi32>) {
  // expected-error @below {{result #0 must be static tensor of at most 16 dimensions and 1 to 2^48 elements, of 32-bit float values, but got 'tensor<64x16xbf16>'}}
  %0 = optimus.embedding_grad %dy, %tokens : (tensor<8x16xbf16>, tensor<8xi32>) -> tensor<64x16xbf16>
  return
}

// -----

func.func @head_c5(%h: tensor<8x16xbf16>, %table: tensor<64x16xf32>) {
  // expected-error @below {{C5: expected a table of 'bf16' elements, found 'f32'}}
  %0 = optimus.head %h, %table : (tensor<8x16xbf16>, tensor<64x16xf32>) -> tensor<8x64xf32>
  return
}

// -----

func.func @head_loss_c6(%h: tensor<8x16xbf16>, %table: tensor<64x16xf32>, %targets: tensor<8xi32>) {
  // expected-error @below {{C6: expected a table of 'bf16' elements, found 'f32'}}
  %0, %1 = optimus.head_loss %h, %table, %targets : (tensor<8x16xbf16>, tensor<64x16xf32>, tensor<8xi32>) -> (tensor<f32>, tensor<f32>)
  return
}

// -----

func.func @head_loss_grad_c4(%h: tensor<8x16xbf16>, %table: tensor<64x16xbf16>, %targets: tensor<8xi32>) {
  // expected-error @below {{C4: expected dh of 'bf16' elements, found 'f32'}}
  %0:4 = optimus.head_loss_grad %h, %table, %targets : (tensor<8x16xbf16>, tensor<64x16xbf16>, tensor<8xi32>) -> (tensor<f32>, tensor<f32>, tensor<8x16xf32>, tensor<64x16xf32>)
  return
}

// -----

func.func @layer_norm_gamma(%x: tensor<8x16xbf16>, %g: tensor<16xbf16>) {
  // expected-error @below {{operand #1 must be static tensor of at most 16 dimensions and 1 to 2^48 elements, of 32-bit float values, but got 'tensor<16xbf16>'}}
  %y, %mean, %rstd = optimus.layer_norm %x, %g, %g {epsilon = 1.0e-5 : f64} : (tensor<8x16xbf16>, tensor<16xbf16>, tensor<16xbf16>) -> (tensor<8x16xbf16>, tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

func.func @matmul_c5(%x: tensor<8x4xbf16>, %w: tensor<4x6xf32>) {
  // expected-error @below {{C5: expected b of 'bf16' elements, found 'f32'}}
  %0 = optimus.matmul %x, %w : (tensor<8x4xbf16>, tensor<4x6xf32>) -> tensor<8x6xbf16>
  return
}

// -----

func.func @matmul_c5_result(%x: tensor<8x4xf32>, %w: tensor<4x6xf32>) {
  // expected-error @below {{C5: expected a result of 'f32' elements, found 'bf16'}}
  %0 = optimus.matmul %x, %w : (tensor<8x4xf32>, tensor<4x6xf32>) -> tensor<8x6xbf16>
  return
}

// -----

func.func @matmul_c5_bias(%x: tensor<8x4xbf16>, %w: tensor<4x6xbf16>, %b: tensor<6xf16>) {
  // expected-error @below {{C5: expected bias of 'bf16' or f32 elements, found 'f16'}}
  %0 = optimus.matmul %x, %w bias(%b) : (tensor<8x4xbf16>, tensor<4x6xbf16>, tensor<6xf16>) -> tensor<8x6xbf16>
  return
}

// -----

func.func @matmul_c5_residual(%x: tensor<8x4xbf16>, %w: tensor<4x6xbf16>, %r: tensor<8x6xbf16>) {
  // expected-error @below {{C5: expected residual of 'f32' elements, found 'bf16'}}
  %0 = optimus.matmul %x, %w residual(%r) : (tensor<8x4xbf16>, tensor<4x6xbf16>, tensor<8x6xbf16>) -> tensor<8x6xf32>
  return
}

// -----

func.func @matmul_c5_scale(%x: tensor<8x4xbf16>, %w: tensor<4x6xbf16>, %s: tensor<8x6xf16>) {
  // expected-error @below {{C5: expected scale of 'bf16' or f32 elements, found 'f16'}}
  %0 = optimus.matmul %x, %w scale(%s) : (tensor<8x4xbf16>, tensor<4x6xbf16>, tensor<8x6xf16>) -> tensor<8x6xbf16>
  return
}

// -----

func.func @rms_norm_rstd(%x: tensor<8x16xbf16>, %g: tensor<16xf32>) {
  // expected-error @below {{result #1 must be static tensor of at most 16 dimensions and 1 to 2^48 elements, of 32-bit float values, but got 'tensor<8xbf16>'}}
  %y, %rstd = optimus.rms_norm %x, %g {epsilon = 1.0e-5 : f64} : (tensor<8x16xbf16>, tensor<16xf32>) -> (tensor<8x16xbf16>, tensor<8xbf16>)
  return
}
