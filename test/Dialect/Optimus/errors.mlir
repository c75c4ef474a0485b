// RUN: optimus-opt %s --split-input-file --verify-diagnostics

// One case for each constraint of each operation, in alphabetical order, after
// those of types.

func.func @dynamic(%x: tensor<?xf32>) {
  // expected-error @below {{operand #0 must be static tensor of at most 16 dimensions and 1 to 2^48 elements, of 32-bit float or bfloat16 type or 16-bit float values, but got 'tensor<?xf32>'}}
  %0 = optimus.gelu %x : tensor<?xf32>
  return
}

// -----

func.func @empty(%x: tensor<0xf32>) {
  // expected-error @below {{operand #0 must be static tensor of at most 16 dimensions and 1 to 2^48 elements, of 32-bit float or bfloat16 type or 16-bit float values, but got 'tensor<0xf32>'}}
  %0 = optimus.gelu %x : tensor<0xf32>
  return
}

// -----

func.func @element_type(%x: tensor<4xf64>) {
  // expected-error @below {{operand #0 must be static tensor of at most 16 dimensions and 1 to 2^48 elements, of 32-bit float or bfloat16 type or 16-bit float values, but got 'tensor<4xf64>'}}
  %0 = optimus.gelu %x : tensor<4xf64>
  return
}

// -----

func.func @adamw_c1(%p: tensor<4xf32>, %g: tensor<6xf32>, %s: tensor<f32>) {
  // expected-error @below {{C1: expected grad of shape [4], found [6]}}
  %0, %1, %2 = optimus.adamw %p, %g, %p, %p, %s, %s, %s, %s, %s, %s, %s, %s
    : (tensor<4xf32>, tensor<6xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

func.func @adamw_c1_result(%p: tensor<4xf32>, %s: tensor<f32>) {
  // expected-error @below {{C1: expected new_exp_avg_sq of shape [4], found [6]}}
  %0, %1, %2 = optimus.adamw %p, %p, %p, %p, %s, %s, %s, %s, %s, %s, %s, %s
    : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<6xf32>)
  return
}

// -----

func.func @add_c1(%x: tensor<8x16xf32>, %b: tensor<16xf32>) {
  // expected-error @below {{C1: expected a result of shape [8, 16], found [16]}}
  %0 = optimus.add %x, %b : (tensor<8x16xf32>, tensor<16xf32>) -> tensor<16xf32>
  return
}

// -----

func.func @add_c2(%x: tensor<8x16xf32>, %b: tensor<8xf32>) {
  // expected-error @below {{C2: expected rhs to have the last dimensions of [8, 16], found [8]}}
  %0 = optimus.add %x, %b : (tensor<8x16xf32>, tensor<8xf32>) -> tensor<8x16xf32>
  return
}

// -----

func.func @add_c2_rank(%x: tensor<8x16xf32>, %b: tensor<2x8x16xf32>) {
  // expected-error @below {{C2: expected rhs to have the last dimensions of [8, 16], found [2, 8, 16]}}
  %0 = optimus.add %x, %b : (tensor<8x16xf32>, tensor<2x8x16xf32>) -> tensor<8x16xf32>
  return
}

// -----

func.func @attention_c1(%qkv: tensor<2x8x2x4x16xf32>) {
  // expected-error @below {{C1: expected qkv of shape [batch, sequence, 3, heads, head dimension], or q of shape [batch, sequence, groups, (queries,) head dimension] with k and v of shape [batch, sequence, groups, head dimension], found [2, 8, 2, 4, 16]}}
  %0, %1 = optimus.attention %qkv {causal} : (tensor<2x8x2x4x16xf32>) -> (tensor<2x8x4x16xf32>, tensor<2x4x8xf32>)
  return
}

// -----

func.func @attention_c1_number(%q: tensor<2x8x4x16xf32>) {
  // expected-error @below {{C1: expected qkv of shape}}
  %0, %1 = optimus.attention %q, %q : (tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>) -> (tensor<2x8x4x16xf32>, tensor<2x4x8xf32>)
  return
}

// -----

func.func @attention_c1_groups(%q: tensor<2x8x2x3x16xf32>, %kv: tensor<2x8x3x16xf32>) {
  // expected-error @below {{found [2, 8, 2, 3, 16], [2, 8, 3, 16], [2, 8, 3, 16]}}
  %0, %1 = optimus.attention %q, %kv, %kv : (tensor<2x8x2x3x16xf32>, tensor<2x8x3x16xf32>, tensor<2x8x3x16xf32>) -> (tensor<2x8x2x3x16xf32>, tensor<2x2x3x8xf32>)
  return
}

// -----

func.func @attention_c2(%qkv: tensor<2x8x3x4x16xf32>) {
  // expected-error @below {{C2: expected a result of shape [2, 8, 4, 16], found [2, 8, 64]}}
  %0, %1 = optimus.attention %qkv {causal} : (tensor<2x8x3x4x16xf32>) -> (tensor<2x8x64xf32>, tensor<2x4x8xf32>)
  return
}

// -----

func.func @attention_c3(%qkv: tensor<2x8x3x4x16xf32>) {
  // expected-error @below {{C3: expected lse of shape [2, 4, 8], found [2, 8, 4]}}
  %0, %1 = optimus.attention %qkv {causal} : (tensor<2x8x3x4x16xf32>) -> (tensor<2x8x4x16xf32>, tensor<2x8x4xf32>)
  return
}

// -----

func.func @attention_c3_groups(%q: tensor<2x8x2x3x16xf32>, %kv: tensor<2x8x2x16xf32>) {
  // expected-error @below {{C3: expected lse of shape [2, 2, 3, 8], found [2, 6, 8]}}
  %0, %1 = optimus.attention %q, %kv, %kv : (tensor<2x8x2x3x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32>) -> (tensor<2x8x2x3x16xf32>, tensor<2x6x8xf32>)
  return
}

// -----

func.func @attention_grad_c1(%o: tensor<2x8x4x16xf32>, %qkv: tensor<2x8x3x4x16xf32>, %lse: tensor<2x4x8xf32>) {
  // expected-error @below {{C1: expected a gradient of shape [2, 8, 3, 4, 16], found [2, 8, 4, 16]}}
  %0 = optimus.attention_grad %o, %o, %lse, %qkv : (tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x4x8xf32>, tensor<2x8x3x4x16xf32>) -> tensor<2x8x4x16xf32>
  return
}

// -----

func.func @attention_grad_c1_inputs(%o: tensor<2x8x4x16xf32>, %lse: tensor<2x4x8xf32>) {
  // expected-error @below {{C1: expected qkv of shape}}
  %0 = optimus.attention_grad %o, %o, %lse, %o : (tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x4x8xf32>, tensor<2x8x4x16xf32>) -> tensor<2x8x4x16xf32>
  return
}

// -----

func.func @attention_grad_c1_number(%q: tensor<2x8x4x16xf32>, %lse: tensor<2x4x8xf32>) {
  // expected-error @below {{C1: expected a gradient for each of 3 operands of attention, found 1}}
  %0 = optimus.attention_grad %q, %q, %lse, %q, %q, %q : (tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x4x8xf32>, tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>) -> tensor<2x8x4x16xf32>
  return
}

// -----

func.func @attention_grad_c2(%o: tensor<2x8x4x16xf32>, %qkv: tensor<2x8x3x4x16xf32>, %lse: tensor<2x4x8xf32>) {
  // expected-error @below {{C2: expected dout of shape [2, 8, 4, 16], found [2, 8, 3, 4, 16]}}
  %0 = optimus.attention_grad %qkv, %o, %lse, %qkv : (tensor<2x8x3x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x4x8xf32>, tensor<2x8x3x4x16xf32>) -> tensor<2x8x3x4x16xf32>
  return
}

// -----

func.func @attention_grad_c3(%o: tensor<2x8x4x16xf32>, %qkv: tensor<2x8x3x4x16xf32>, %lse: tensor<2x8x4xf32>) {
  // expected-error @below {{C3: expected lse of shape [2, 4, 8], found [2, 8, 4]}}
  %0 = optimus.attention_grad %o, %o, %lse, %qkv : (tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x8x4xf32>, tensor<2x8x3x4x16xf32>) -> tensor<2x8x3x4x16xf32>
  return
}

// -----

func.func @clip(%n: tensor<f32>, %x: tensor<4xf32>) {
  // expected-error @below {{operand #2 must be 0D tensor of 32-bit float values, but got 'tensor<4xf32>'}}
  %0, %1 = optimus.clip %n, %n, %x : (tensor<f32>, tensor<f32>, tensor<4xf32>) -> (tensor<f32>, tensor<f32>)
  return
}

// -----

func.func @dropout_c1(%x: tensor<4x8xf32>, %r: tensor<5xi32>) {
  // expected-error @below {{C1: expected a result of shape [4, 8], of one dimension at least, found [8, 4]}}
  %0 = optimus.dropout %x, %r {rate = 0.5 : f64, stream = 0 : i64} : (tensor<4x8xf32>, tensor<5xi32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @dropout_c1_scalar(%x: tensor<f32>, %r: tensor<5xi32>) {
  // expected-error @below {{C1: expected a result of shape [], of one dimension at least, found []}}
  %0 = optimus.dropout %x, %r {rate = 0.5 : f64, stream = 0 : i64} : (tensor<f32>, tensor<5xi32>) -> tensor<f32>
  return
}

// -----

func.func @dropout_c2(%x: tensor<4x8xf32>, %r: tensor<4xi32>) {
  // expected-error @below {{C2: expected random of shape [5], found [4]}}
  %0 = optimus.dropout %x, %r {rate = 0.5 : f64, stream = 0 : i64} : (tensor<4x8xf32>, tensor<4xi32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @dropout_c3(%x: tensor<4x8xf32>, %r: tensor<5xi32>) {
  // expected-error @below {{C3: expected a rate of 0 at least and below 1, found 1.0}}
  %0 = optimus.dropout %x, %r {rate = 1.0 : f64, stream = 0 : i64} : (tensor<4x8xf32>, tensor<5xi32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @dropout_c3_nan(%x: tensor<4x8xf32>, %r: tensor<5xi32>) {
  // expected-error @below {{C3: expected a rate of 0 at least and below 1, found nan}}
  %0 = optimus.dropout %x, %r {rate = 0x7FF8000000000000 : f64, stream = 0 : i64} : (tensor<4x8xf32>, tensor<5xi32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @dropout_c4(%x: tensor<4x8xf32>, %r: tensor<5xi32>) {
  // expected-error @below {{C4: expected a stream from 0 to 4294967039, found 4294967040}}
  %0 = optimus.dropout %x, %r {rate = 0.5 : f64, stream = 4294967040 : i64} : (tensor<4x8xf32>, tensor<5xi32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @global_norm_c1() {
  // expected-error @below {{C1: expected one input at least, found none}}
  %0 = optimus.global_norm : () -> tensor<f32>
  return
}

// -----

func.func @matmul_c1(%x: tensor<8x16xf32>, %w: tensor<16x4xf32>) {
  // expected-error @below {{C1: expected operands of at least `contracting` dimensions, and one contracted at least; found 3 contracted of [8, 16] and [16, 4]}}
  %0 = optimus.matmul %x, %w {contracting = 3 : i64} : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<f32>
  return
}

// -----

func.func @matmul_c1_none(%x: tensor<8x16xf32>, %w: tensor<16x4xf32>) {
  // expected-error @below {{found 0 contracted of [8, 16] and [16, 4]}}
  %0 = optimus.matmul %x, %w {contracting = 0 : i64} : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x16x16x4xf32>
  return
}

// -----

func.func @matmul_c2(%x: tensor<8x16xf32>, %w: tensor<16x4xf32>) {
  // expected-error @below {{C2: expected equal contracted dimensions, found [16] of a and [4] of b}}
  %0 = optimus.matmul %x, %w {transpose_b} : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x16xf32>
  return
}

// -----

func.func @matmul_c3(%x: tensor<8x16xf32>, %w: tensor<16x4xf32>) {
  // expected-error @below {{C3: expected a result of shape [8, 4], found [4, 8]}}
  %0 = optimus.matmul %x, %w : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @matmul_c4_bias(%x: tensor<8x16xf32>, %w: tensor<16x4xf32>, %y: tensor<8xf32>) {
  // expected-error @below {{C4: expected bias of shape [4], found [8]}}
  %0 = optimus.matmul %x, %w bias(%y) : (tensor<8x16xf32>, tensor<16x4xf32>, tensor<8xf32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @matmul_c4_residual(%x: tensor<8x16xf32>, %w: tensor<16x4xf32>, %y: tensor<4xf32>) {
  // expected-error @below {{C4: expected residual of shape [8, 4], found [4]}}
  %0 = optimus.matmul %x, %w residual(%y) : (tensor<8x16xf32>, tensor<16x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
  return
}

// -----

func.func @matmul_c4_scale(%x: tensor<8x16xf32>, %w: tensor<16x4xf32>, %y: tensor<4xf32>) {
  // expected-error @below {{C4: expected scale of shape [8, 4], found [4]}}
  %0 = optimus.matmul %x, %w scale(%y) : (tensor<8x16xf32>, tensor<16x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
  return
}

// -----

// expected-error @below {{C1: expected axis "row" of size 1 at least, found 0}}
optimus.mesh @mesh_c1 <["row" = 0]>

// -----

// expected-error @below {{C2: expected distinct axes, found "row" twice}}
optimus.mesh @mesh_c2 <["row" = 2, "row" = 2]>

// -----

optimus.mesh @first <["row" = 2]>
// expected-error @below {{C3: expected one mesh in a module, found @first and @mesh_c3}}
optimus.mesh @mesh_c3 <["row" = 2]>

// -----

// expected-error @below {{C4: expected at most 65536 ranks, found more up to axis "col"}}
optimus.mesh @mesh_c4 <["row" = 257, "col" = 256]>

// -----

// expected-error @below {{C4: expected at most 65536 ranks, found 9223372036854775807 on axis "row"}}
optimus.mesh @mesh_c4_overflow <["row" = 9223372036854775807]>

// -----

// expected-error @below {{attribute 'axes' failed to satisfy constraint: array of mesh axes}}
"optimus.mesh"() <{sym_name = "mesh_axes", axes = ["row"]}> : () -> ()

// -----

func.func @mesh_parent() {
  // expected-error @below {{expects parent op 'builtin.module'}}
  optimus.mesh @mesh_parent <["row" = 2]>
  return
}

// -----

func.func @mul_c1(%x: tensor<8x16xf32>, %b: tensor<16xf32>) {
  // expected-error @below {{C1: expected a result of shape [8, 16], found [16]}}
  %0 = optimus.mul %x, %b : (tensor<8x16xf32>, tensor<16xf32>) -> tensor<16xf32>
  return
}

// -----

func.func @mul_c2(%x: tensor<8x16xf32>, %b: tensor<8xf32>) {
  // expected-error @below {{C2: expected rhs to have the last dimensions of [8, 16], found [8]}}
  %0 = optimus.mul %x, %b : (tensor<8x16xf32>, tensor<8xf32>) -> tensor<8x16xf32>
  return
}

// -----

func.func @sqrt(%x: tensor<i32>) {
  // expected-error @below {{operand #0 must be static tensor of at most 16 dimensions and 1 to 2^48 elements, of 32-bit float values, but got 'tensor<i32>'}}
  %0 = optimus.sqrt %x : tensor<i32>
  return
}

// -----

func.func @sum_leading_c1(%x: tensor<8x16xf32>) {
  // expected-error @below {{C1: expected a result with the last dimensions of [8, 16], found [8]}}
  %0 = optimus.sum_leading %x : (tensor<8x16xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @sum_squares_c1() {
  // expected-error @below {{C1: expected one input at least, found none}}
  %0 = optimus.sum_squares : () -> tensor<f32>
  return
}
