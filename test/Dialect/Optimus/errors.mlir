// RUN: optimus-opt %s --split-input-file --verify-diagnostics

// One case for each constraint of each operation, in alphabetical order, after
// those of types.

func.func @dynamic(%x: tensor<?xf32>) {
  // expected-error @below {{operand #0 must be static tensor of at most 16 dimensions and 1 to 2^48 elements, of 32-bit float values, but got 'tensor<?xf32>'}}
  %0 = optimus.gelu %x : tensor<?xf32>
  return
}

// -----

func.func @empty(%x: tensor<0xf32>) {
  // expected-error @below {{operand #0 must be static tensor of at most 16 dimensions and 1 to 2^48 elements, of 32-bit float values, but got 'tensor<0xf32>'}}
  %0 = optimus.gelu %x : tensor<0xf32>
  return
}

// -----

func.func @element_type(%x: tensor<4xf64>) {
  // expected-error @below {{operand #0 must be static tensor of at most 16 dimensions and 1 to 2^48 elements, of 32-bit float values, but got 'tensor<4xf64>'}}
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

func.func @embedding_c1(%t: tensor<256xf32>, %i: tensor<2x8xi32>) {
  // expected-error @below {{C1: expected a table of rank 2, found [256]}}
  %0 = optimus.embedding %t, %i : (tensor<256xf32>, tensor<2x8xi32>) -> tensor<2x8xf32>
  return
}

// -----

func.func @embedding_c2(%t: tensor<256x16xf32>, %i: tensor<2x8xi32>) {
  // expected-error @below {{C2: expected a result of shape [2, 8, 16], found [16, 16]}}
  %0 = optimus.embedding %t, %i : (tensor<256x16xf32>, tensor<2x8xi32>) -> tensor<16x16xf32>
  return
}

// -----

func.func @embedding_c3(%t: tensor<256x16xf32>, %i: tensor<2x8xi32>) {
  // expected-error @below {{C3: expected pad to be one of the table's 256 rows, found 256}}
  %0 = optimus.embedding %t, %i {pad = 256 : i64} : (tensor<256x16xf32>, tensor<2x8xi32>) -> tensor<2x8x16xf32>
  return
}

// -----

func.func @embedding_grad_c1(%dy: tensor<2x8x12xf32>, %i: tensor<2x8xi32>) {
  // expected-error @below {{C1: expected dy of shape [2, 8, 16], found [2, 8, 12]}}
  %0 = optimus.embedding_grad %dy, %i : (tensor<2x8x12xf32>, tensor<2x8xi32>) -> tensor<256x16xf32>
  return
}

// -----

func.func @embedding_grad_c2(%dy: tensor<2x8x16xf32>, %i: tensor<2x8xi32>) {
  // expected-error @below {{C2: expected a result of rank 2, found [16]}}
  %0 = optimus.embedding_grad %dy, %i : (tensor<2x8x16xf32>, tensor<2x8xi32>) -> tensor<16xf32>
  return
}

// -----

func.func @embedding_grad_c3(%dy: tensor<2x8x16xf32>, %i: tensor<2x8xi32>, %a: tensor<128x16xf32>) {
  // expected-error @below {{C3: expected accumulate of shape [256, 16], found [128, 16]}}
  %0 = optimus.embedding_grad %dy, %i accumulate(%a) : (tensor<2x8x16xf32>, tensor<2x8xi32>, tensor<128x16xf32>) -> tensor<256x16xf32>
  return
}

// -----

func.func @embedding_grad_c4(%dy: tensor<2x8x16xf32>, %i: tensor<2x8xi32>) {
  // expected-error @below {{C4: expected pad to be one of the table's 256 rows, found -1}}
  %0 = optimus.embedding_grad %dy, %i {pad = -1 : i64} : (tensor<2x8x16xf32>, tensor<2x8xi32>) -> tensor<256x16xf32>
  return
}

// -----

func.func @global_norm_c1() {
  // expected-error @below {{C1: expected one input at least, found none}}
  %0 = optimus.global_norm : () -> tensor<f32>
  return
}

// -----

func.func @head_loss_c1(%h: tensor<2x8x12xf32>, %t: tensor<256x16xf32>, %i: tensor<2x8xi32>) {
  // expected-error @below {{C1: expected h of shape [2, 8, 16], found [2, 8, 12]}}
  %0, %1 = optimus.head_loss %h, %t, %i : (tensor<2x8x12xf32>, tensor<256x16xf32>, tensor<2x8xi32>) -> (tensor<f32>, tensor<f32>)
  return
}

// -----

func.func @head_loss_c2(%h: tensor<2x8x16xf32>, %t: tensor<256xf32>, %i: tensor<2x8xi32>) {
  // expected-error @below {{C2: expected a table of rank 2, found [256]}}
  %0, %1 = optimus.head_loss %h, %t, %i : (tensor<2x8x16xf32>, tensor<256xf32>, tensor<2x8xi32>) -> (tensor<f32>, tensor<f32>)
  return
}

// -----

func.func @head_loss_c3(%h: tensor<2x8x16xf32>, %t: tensor<256x16xf32>, %i: tensor<2x8xi32>, %b: tensor<16xf32>) {
  // expected-error @below {{C3: expected bias of shape [256], found [16]}}
  %0, %1 = optimus.head_loss %h, %t, %i bias(%b) : (tensor<2x8x16xf32>, tensor<256x16xf32>, tensor<2x8xi32>, tensor<16xf32>) -> (tensor<f32>, tensor<f32>)
  return
}

// -----

func.func @head_loss_chunk(%h: tensor<2x8x16xf32>, %t: tensor<256x16xf32>, %i: tensor<2x8xi32>) {
  // expected-error @below {{attribute 'chunk' failed to satisfy constraint: 64-bit signless integer attribute whose value is positive}}
  %0, %1 = optimus.head_loss %h, %t, %i {chunk = 0 : i64} : (tensor<2x8x16xf32>, tensor<256x16xf32>, tensor<2x8xi32>) -> (tensor<f32>, tensor<f32>)
  return
}

// -----

func.func @head_loss_grad_c1(%h: tensor<16x16xf32>, %t: tensor<256x16xf32>, %i: tensor<2x8xi32>) {
  // expected-error @below {{C1: expected h of shape [2, 8, 16], found [16, 16]}}
  %0, %1, %2, %3 = optimus.head_loss_grad %h, %t, %i : (tensor<16x16xf32>, tensor<256x16xf32>, tensor<2x8xi32>) -> (tensor<f32>, tensor<f32>, tensor<16x16xf32>, tensor<256x16xf32>)
  return
}

// -----

func.func @head_loss_grad_c2(%h: tensor<2x8x16xf32>, %t: tensor<256xf32>, %i: tensor<2x8xi32>) {
  // expected-error @below {{C2: expected a table of rank 2, found [256]}}
  %0, %1, %2, %3 = optimus.head_loss_grad %h, %t, %i : (tensor<2x8x16xf32>, tensor<256xf32>, tensor<2x8xi32>) -> (tensor<f32>, tensor<f32>, tensor<2x8x16xf32>, tensor<256xf32>)
  return
}

// -----

func.func @head_loss_grad_c4(%h: tensor<2x8x16xf32>, %t: tensor<256x16xf32>, %i: tensor<2x8xi32>) {
  // expected-error @below {{C4: expected dh of shape [2, 8, 16], found [16, 16]}}
  %0, %1, %2, %3 = optimus.head_loss_grad %h, %t, %i : (tensor<2x8x16xf32>, tensor<256x16xf32>, tensor<2x8xi32>) -> (tensor<f32>, tensor<f32>, tensor<16x16xf32>, tensor<256x16xf32>)
  return
}

// -----

func.func @head_loss_grad_c4_table(%h: tensor<2x8x16xf32>, %t: tensor<256x16xf32>, %i: tensor<2x8xi32>) {
  // expected-error @below {{C4: expected dtable of shape [256, 16], found [16, 256]}}
  %0, %1, %2, %3 = optimus.head_loss_grad %h, %t, %i : (tensor<2x8x16xf32>, tensor<256x16xf32>, tensor<2x8xi32>) -> (tensor<f32>, tensor<f32>, tensor<2x8x16xf32>, tensor<16x256xf32>)
  return
}

// -----

func.func @head_loss_grad_c4_no_dbias(%h: tensor<2x8x16xf32>, %t: tensor<256x16xf32>, %i: tensor<2x8xi32>, %b: tensor<256xf32>) {
  // expected-error @below {{C4: expected dbias exactly where there is a bias}}
  %0, %1, %2, %3 = optimus.head_loss_grad %h, %t, %i bias(%b) : (tensor<2x8x16xf32>, tensor<256x16xf32>, tensor<2x8xi32>, tensor<256xf32>) -> (tensor<f32>, tensor<f32>, tensor<2x8x16xf32>, tensor<256x16xf32>)
  return
}

// -----

func.func @head_loss_grad_c4_dbias(%h: tensor<2x8x16xf32>, %t: tensor<256x16xf32>, %i: tensor<2x8xi32>, %b: tensor<256xf32>) {
  // expected-error @below {{C4: expected dbias of shape [256], found [16]}}
  %0, %1, %2, %3, %4 = optimus.head_loss_grad %h, %t, %i bias(%b) : (tensor<2x8x16xf32>, tensor<256x16xf32>, tensor<2x8xi32>, tensor<256xf32>) -> (tensor<f32>, tensor<f32>, tensor<2x8x16xf32>, tensor<256x16xf32>, tensor<16xf32>)
  return
}

// -----

func.func @layer_norm_row(%x: tensor<f32>, %g: tensor<16xf32>) {
  // expected-error @below {{expected x of rank 1 at least, found a scalar}}
  %0, %1, %2 = optimus.layer_norm %x, %g, %g {epsilon = 1.0e-5 : f64} : (tensor<f32>, tensor<16xf32>, tensor<16xf32>) -> (tensor<f32>, tensor<f32>, tensor<f32>)
  return
}

// -----

func.func @layer_norm_c1(%x: tensor<8x16xf32>, %m: tensor<8xf32>, %g: tensor<16xf32>) {
  // expected-error @below {{C1: expected a result of shape [8, 16], found [16]}}
  %0, %1, %2 = optimus.layer_norm %x, %g, %g {epsilon = 1.0e-5 : f64} : (tensor<8x16xf32>, tensor<16xf32>, tensor<16xf32>) -> (tensor<16xf32>, tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

func.func @layer_norm_c2(%x: tensor<8x16xf32>, %m: tensor<8xf32>, %g: tensor<16xf32>) {
  // expected-error @below {{C2: expected rstd of shape [8], found [16]}}
  %0, %1, %2 = optimus.layer_norm %x, %g, %g {epsilon = 1.0e-5 : f64} : (tensor<8x16xf32>, tensor<16xf32>, tensor<16xf32>) -> (tensor<8x16xf32>, tensor<8xf32>, tensor<16xf32>)
  return
}

// -----

func.func @layer_norm_c3(%x: tensor<8x16xf32>, %m: tensor<8xf32>, %g: tensor<16xf32>) {
  // expected-error @below {{C3: expected gamma of shape [16], found [8]}}
  %0, %1, %2 = optimus.layer_norm %x, %m, %g {epsilon = 1.0e-5 : f64} : (tensor<8x16xf32>, tensor<8xf32>, tensor<16xf32>) -> (tensor<8x16xf32>, tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

func.func @layer_norm_grad_c1(%x: tensor<8x16xf32>, %m: tensor<8xf32>, %g: tensor<16xf32>) {
  // expected-error @below {{C1: expected dy of shape [8, 16], found [16]}}
  %0, %1, %2 = optimus.layer_norm_grad %g, %x, %m, %m, %g : (tensor<16xf32>, tensor<8x16xf32>, tensor<8xf32>, tensor<8xf32>, tensor<16xf32>) -> (tensor<8x16xf32>, tensor<16xf32>, tensor<16xf32>)
  return
}

// -----

func.func @layer_norm_grad_c1_residual(%x: tensor<8x16xf32>, %m: tensor<8xf32>, %g: tensor<16xf32>) {
  // expected-error @below {{C1: expected residual of shape [8, 16], found [8]}}
  %0, %1, %2 = optimus.layer_norm_grad %x, %x, %m, %m, %g residual(%m) : (tensor<8x16xf32>, tensor<8x16xf32>, tensor<8xf32>, tensor<8xf32>, tensor<16xf32>, tensor<8xf32>) -> (tensor<8x16xf32>, tensor<16xf32>, tensor<16xf32>)
  return
}

// -----

func.func @layer_norm_grad_c2(%x: tensor<8x16xf32>, %m: tensor<8xf32>, %g: tensor<16xf32>) {
  // expected-error @below {{C2: expected mean of shape [8], found [16]}}
  %0, %1, %2 = optimus.layer_norm_grad %x, %x, %g, %m, %g : (tensor<8x16xf32>, tensor<8x16xf32>, tensor<16xf32>, tensor<8xf32>, tensor<16xf32>) -> (tensor<8x16xf32>, tensor<16xf32>, tensor<16xf32>)
  return
}

// -----

func.func @layer_norm_grad_c3(%x: tensor<8x16xf32>, %m: tensor<8xf32>, %g: tensor<16xf32>) {
  // expected-error @below {{C3: expected gamma of shape [16], found [8]}}
  %0, %1, %2 = optimus.layer_norm_grad %x, %x, %m, %m, %m : (tensor<8x16xf32>, tensor<8x16xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<8x16xf32>, tensor<16xf32>, tensor<16xf32>)
  return
}

// -----

func.func @layer_norm_grad_c3_result(%x: tensor<8x16xf32>, %m: tensor<8xf32>, %g: tensor<16xf32>) {
  // expected-error @below {{C3: expected dbeta of shape [16], found [8]}}
  %0, %1, %2 = optimus.layer_norm_grad %x, %x, %m, %m, %g : (tensor<8x16xf32>, tensor<8x16xf32>, tensor<8xf32>, tensor<8xf32>, tensor<16xf32>) -> (tensor<8x16xf32>, tensor<16xf32>, tensor<8xf32>)
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

func.func @merge_moments_c1(%x: tensor<8x4xf32>) {
  // expected-error @below {{C1: expected 6 elements a row for 3 counts, found [8, 4]}}
  %0, %1 = optimus.merge_moments %x {counts = array<i64: 6, 6, 6>, epsilon = 1.0e-5 : f64} : (tensor<8x4xf32>) -> (tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

func.func @merge_moments_c2(%x: tensor<8x4xf32>) {
  // expected-error @below {{C2: expected rstd of shape [8], found [8, 2]}}
  %0, %1 = optimus.merge_moments %x {counts = array<i64: 6, 6>, epsilon = 1.0e-5 : f64} : (tensor<8x4xf32>) -> (tensor<8xf32>, tensor<8x2xf32>)
  return
}

// -----

func.func @merge_moments_c3(%x: tensor<8x4xf32>) {
  // expected-error @below {{C3: expected counts of 0 at least, and a positive one, found [6, -1]}}
  %0, %1 = optimus.merge_moments %x {counts = array<i64: 6, -1>, epsilon = 1.0e-5 : f64} : (tensor<8x4xf32>) -> (tensor<8xf32>, tensor<8xf32>)
  return
}

// -----

func.func @merge_moments_c3_none(%x: tensor<8x4xf32>) {
  // expected-error @below {{C3: expected counts of 0 at least, and a positive one, found [0, 0]}}
  %0, %1 = optimus.merge_moments %x {counts = array<i64: 0, 0>, epsilon = 1.0e-5 : f64} : (tensor<8x4xf32>) -> (tensor<8xf32>, tensor<8xf32>)
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

func.func @norm_grad_apply_c1(%x: tensor<8x16xf32>, %m: tensor<8xf32>, %g: tensor<16xf32>, %s: tensor<8x2xf32>) {
  // expected-error @below {{C1: expected dy of shape [8, 16], found [16]}}
  %0 = optimus.norm_grad_apply %g, %x, %m, %m, %g, %s {size = 16 : i64} : (tensor<16xf32>, tensor<8x16xf32>, tensor<8xf32>, tensor<8xf32>, tensor<16xf32>, tensor<8x2xf32>) -> tensor<8x16xf32>
  return
}

// -----

func.func @norm_grad_apply_c2(%x: tensor<8x16xf32>, %m: tensor<8xf32>, %g: tensor<16xf32>, %s: tensor<8x3xf32>) {
  // expected-error @below {{C2: expected sums of shape [8, 2], found [8, 3]}}
  %0 = optimus.norm_grad_apply %x, %x, %m, %m, %g, %s {size = 16 : i64} : (tensor<8x16xf32>, tensor<8x16xf32>, tensor<8xf32>, tensor<8xf32>, tensor<16xf32>, tensor<8x3xf32>) -> tensor<8x16xf32>
  return
}

// -----

func.func @norm_grad_apply_c3(%x: tensor<8x16xf32>, %m: tensor<8xf32>, %g: tensor<16xf32>, %s: tensor<8x2xf32>) {
  // expected-error @below {{C3: expected mean of shape [8], found [16]}}
  %0 = optimus.norm_grad_apply %x, %x, %g, %m, %g, %s {size = 16 : i64} : (tensor<8x16xf32>, tensor<8x16xf32>, tensor<16xf32>, tensor<8xf32>, tensor<16xf32>, tensor<8x2xf32>) -> tensor<8x16xf32>
  return
}

// -----

func.func @norm_grad_apply_c3_gamma(%x: tensor<8x16xf32>, %m: tensor<8xf32>, %g: tensor<16xf32>, %s: tensor<8x2xf32>) {
  // expected-error @below {{C3: expected gamma of shape [16], found [8]}}
  %0 = optimus.norm_grad_apply %x, %x, %m, %m, %m, %s {size = 16 : i64} : (tensor<8x16xf32>, tensor<8x16xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8x2xf32>) -> tensor<8x16xf32>
  return
}

// -----

func.func @norm_grad_apply_size(%x: tensor<8x16xf32>, %m: tensor<8xf32>, %g: tensor<16xf32>, %s: tensor<8x2xf32>) {
  // expected-error @below {{attribute 'size' failed to satisfy constraint: 64-bit signless integer attribute whose value is positive}}
  %0 = optimus.norm_grad_apply %x, %x, %m, %m, %g, %s {size = 0 : i64} : (tensor<8x16xf32>, tensor<8x16xf32>, tensor<8xf32>, tensor<8xf32>, tensor<16xf32>, tensor<8x2xf32>) -> tensor<8x16xf32>
  return
}

// -----

func.func @norm_grad_sums_c1(%x: tensor<8x16xf32>, %m: tensor<8xf32>, %g: tensor<16xf32>) {
  // expected-error @below {{C1: expected dy of shape [8, 16], found [8]}}
  %0 = optimus.norm_grad_sums %m, %x, %m, %m, %g : (tensor<8xf32>, tensor<8x16xf32>, tensor<8xf32>, tensor<8xf32>, tensor<16xf32>) -> tensor<8x2xf32>
  return
}

// -----

func.func @norm_grad_sums_c2(%x: tensor<8x16xf32>, %m: tensor<8xf32>, %g: tensor<16xf32>) {
  // expected-error @below {{C2: expected sums of shape [8, 2], found [8]}}
  %0 = optimus.norm_grad_sums %x, %x, %m, %m, %g : (tensor<8x16xf32>, tensor<8x16xf32>, tensor<8xf32>, tensor<8xf32>, tensor<16xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @norm_grad_sums_c3(%x: tensor<8x16xf32>, %m: tensor<8xf32>, %g: tensor<16xf32>) {
  // expected-error @below {{C3: expected rstd of shape [8], found [16]}}
  %0 = optimus.norm_grad_sums %x, %x, %m, %g, %g : (tensor<8x16xf32>, tensor<8x16xf32>, tensor<8xf32>, tensor<16xf32>, tensor<16xf32>) -> tensor<8x2xf32>
  return
}

// -----

func.func @norm_grad_sums_c3_gamma(%x: tensor<8x16xf32>, %m: tensor<8xf32>, %g: tensor<16xf32>) {
  // expected-error @below {{C3: expected gamma of shape [16], found [8]}}
  %0 = optimus.norm_grad_sums %x, %x, %m, %m, %m : (tensor<8x16xf32>, tensor<8x16xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<8x2xf32>
  return
}

// -----

func.func @norm_param_grad_c1(%x: tensor<8x16xf32>, %m: tensor<8xf32>, %g: tensor<16xf32>) {
  // expected-error @below {{C1: expected dy of shape [8, 16], found [8]}}
  %0, %1 = optimus.norm_param_grad %m, %x, %m, %m : (tensor<8xf32>, tensor<8x16xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<16xf32>, tensor<16xf32>)
  return
}

// -----

func.func @norm_param_grad_c2(%x: tensor<8x16xf32>, %m: tensor<8xf32>, %g: tensor<16xf32>) {
  // expected-error @below {{C2: expected mean of shape [8], found [16]}}
  %0, %1 = optimus.norm_param_grad %x, %x, %g, %m : (tensor<8x16xf32>, tensor<8x16xf32>, tensor<16xf32>, tensor<8xf32>) -> (tensor<16xf32>, tensor<16xf32>)
  return
}

// -----

func.func @norm_param_grad_c3(%x: tensor<8x16xf32>, %m: tensor<8xf32>, %g: tensor<16xf32>) {
  // expected-error @below {{C3: expected dgamma of shape [16], found [8]}}
  %0, %1 = optimus.norm_param_grad %x, %x, %m, %m : (tensor<8x16xf32>, tensor<8x16xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<8xf32>, tensor<16xf32>)
  return
}

// -----

func.func @normalize_c1(%x: tensor<8x16xf32>, %m: tensor<8xf32>, %g: tensor<16xf32>) {
  // expected-error @below {{C1: expected a result of shape [8, 16], found [16]}}
  %0 = optimus.normalize %x, %m, %m, %g, %g : (tensor<8x16xf32>, tensor<8xf32>, tensor<8xf32>, tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  return
}

// -----

func.func @normalize_c2(%x: tensor<8x16xf32>, %m: tensor<8xf32>, %g: tensor<16xf32>) {
  // expected-error @below {{C2: expected mean of shape [8], found [16]}}
  %0 = optimus.normalize %x, %g, %m, %g, %g : (tensor<8x16xf32>, tensor<16xf32>, tensor<8xf32>, tensor<16xf32>, tensor<16xf32>) -> tensor<8x16xf32>
  return
}

// -----

func.func @normalize_c3(%x: tensor<8x16xf32>, %m: tensor<8xf32>, %g: tensor<16xf32>) {
  // expected-error @below {{C3: expected beta of shape [16], found [8]}}
  %0 = optimus.normalize %x, %m, %m, %g, %m : (tensor<8x16xf32>, tensor<8xf32>, tensor<8xf32>, tensor<16xf32>, tensor<8xf32>) -> tensor<8x16xf32>
  return
}

// -----

func.func @row_moments_c1(%x: tensor<8x16xf32>) {
  // expected-error @below {{C1: expected moments of shape [8, 2], found [8]}}
  %0 = optimus.row_moments %x : (tensor<8x16xf32>) -> tensor<8xf32>
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
