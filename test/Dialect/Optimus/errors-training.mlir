// RUN: optimus-opt %s --split-input-file --verify-diagnostics

// One case for each constraint of the operations on tokens, of lengths of
// sequences, and of the optimizers but AdamW, in alphabetical order.

func.func @adagrad_c1(%p: tensor<4xf32>, %sum: tensor<6xf32>, %s: tensor<f32>) {
  // expected-error @below {{C1: expected sum of shape [4], found [6]}}
  %0:2 = optimus.adagrad %p, %p, %sum, %s, %s, %s, %s
    : (tensor<4xf32>, tensor<4xf32>, tensor<6xf32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

func.func @attention_c4(%x: tensor<2x8x3x4x16xf32>, %l: tensor<8xi32>) {
  // expected-error @below {{C4: expected lengths of shape [2], found [8]}}
  %0, %1 = optimus.attention %x lengths(%l) : (tensor<2x8x3x4x16xf32>, tensor<8xi32>) -> (tensor<2x8x4x16xf32>, tensor<2x4x8xf32>)
  return
}

// -----

func.func @attention_c6(%x: tensor<2x8x3x4x16xf32>, %p: tensor<2x7xi32>) {
  // expected-error @below {{C6: expected positions of shape [2, 8], found [2, 7]}}
  %0, %1 = optimus.attention %x positions(%p) {causal} : (tensor<2x8x3x4x16xf32>, tensor<2x7xi32>) -> (tensor<2x8x4x16xf32>, tensor<2x4x8xf32>)
  return
}

// -----

func.func @attention_c6_causal(%x: tensor<2x8x3x4x16xf32>, %p: tensor<2x8xi32>) {
  // expected-error @below {{C6: expected attention with positions to be causal}}
  %0, %1 = optimus.attention %x positions(%p) : (tensor<2x8x3x4x16xf32>, tensor<2x8xi32>) -> (tensor<2x8x4x16xf32>, tensor<2x4x8xf32>)
  return
}

// -----

func.func @attention_c7(%x: tensor<2x8x3x4x16xf32>) {
  // expected-error @below {{C7: expected a window of at least 1, found 0}}
  %0, %1 = optimus.attention %x {causal, window = 0 : i64} : (tensor<2x8x3x4x16xf32>) -> (tensor<2x8x4x16xf32>, tensor<2x4x8xf32>)
  return
}

// -----

func.func @attention_c7_causal(%x: tensor<2x8x3x4x16xf32>) {
  // expected-error @below {{C7: expected attention with a window to be causal}}
  %0, %1 = optimus.attention %x {window = 3 : i64} : (tensor<2x8x3x4x16xf32>) -> (tensor<2x8x4x16xf32>, tensor<2x4x8xf32>)
  return
}

// -----

func.func @attention_c8_packed(%x: tensor<2x8x3x4x16xf32>) {
  // expected-error @below {{C8: expected q, k and v of cached attention, found one tensor of shape [2, 8, 3, 4, 16]}}
  %0, %1 = optimus.attention %x {cached, causal} : (tensor<2x8x3x4x16xf32>) -> (tensor<2x8x4x16xf32>, tensor<2x4x8xf32>)
  return
}

// -----

func.func @attention_c8(%q: tensor<2x3x4x16xf32>, %k: tensor<2x8x4x16xf32>, %l: tensor<2xi32>) {
  // expected-error @below {{C8: expected cached attention to be causal, with lengths and positions}}
  %0, %1 = optimus.attention %q, %k, %k lengths(%l) {cached, causal} : (tensor<2x3x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2xi32>) -> (tensor<2x3x4x16xf32>, tensor<2x4x3xf32>)
  return
}

// -----

func.func @attention_c1_cached(%q: tensor<2x3x4x16xf32>, %k: tensor<2x8x2x16xf32>, %l: tensor<2xi32>, %p: tensor<2x3xi32>) {
  // expected-error @below {{with k and v of shape [batch, capacity, groups, head dimension], found [2, 3, 4, 16], [2, 8, 2, 16], [2, 8, 2, 16]}}
  %0, %1 = optimus.attention %q, %k, %k lengths(%l) positions(%p) {cached, causal} : (tensor<2x3x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32>, tensor<2xi32>, tensor<2x3xi32>) -> (tensor<2x3x4x16xf32>, tensor<2x4x3xf32>)
  return
}

// -----

func.func @attention_grad_c7(%x: tensor<2x8x3x4x16xf32>, %o: tensor<2x8x4x16xf32>, %s: tensor<2x4x8xf32>) {
  // expected-error @below {{C7: expected a window of at least 1, found -1}}
  %0 = optimus.attention_grad %o, %o, %s, %x {causal, window = -1 : i64} : (tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x4x8xf32>, tensor<2x8x3x4x16xf32>) -> tensor<2x8x3x4x16xf32>
  return
}

// -----

func.func @attention_grad_c6(%x: tensor<2x8x3x4x16xf32>, %o: tensor<2x8x4x16xf32>, %s: tensor<2x4x8xf32>, %p: tensor<8xi32>) {
  // expected-error @below {{C6: expected positions of shape [2, 8], found [8]}}
  %0 = optimus.attention_grad %o, %o, %s, %x positions(%p) {causal} : (tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x4x8xf32>, tensor<2x8x3x4x16xf32>, tensor<8xi32>) -> tensor<2x8x3x4x16xf32>
  return
}

// -----

func.func @attention_grad_c4(%x: tensor<2x8x3x4x16xf32>, %o: tensor<2x8x4x16xf32>, %s: tensor<2x4x8xf32>, %l: tensor<8xi32>) {
  // expected-error @below {{C4: expected lengths of shape [2], found [8]}}
  %0 = optimus.attention_grad %o, %o, %s, %x lengths(%l) : (tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x4x8xf32>, tensor<2x8x3x4x16xf32>, tensor<8xi32>) -> tensor<2x8x3x4x16xf32>
  return
}

// -----

func.func @lamb_direction_c1(%p: tensor<4xf32>, %g: tensor<6xf32>, %s: tensor<f32>) {
  // expected-error @below {{C1: expected grad of shape [4], found [6]}}
  %0:3 = optimus.lamb_direction %p, %g, %p, %p, %s, %s, %s, %s, %s, %s, %s
    : (tensor<4xf32>, tensor<6xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

func.func @lamb_update_c1(%p: tensor<4xf32>, %u: tensor<2x2xf32>, %s: tensor<f32>) {
  // expected-error @below {{C1: expected direction of shape [4], found [2, 2]}}
  %0 = optimus.lamb_update %p, %u, %s : (tensor<4xf32>, tensor<2x2xf32>, tensor<f32>) -> tensor<4xf32>
  return
}

// -----

func.func @lamb_update_c2(%p: tensor<4xf32>, %s: tensor<f32>) {
  // expected-error @below {{C2: expected the norms of param and direction, or neither; found 1}}
  %0 = optimus.lamb_update %p, %p, %s, %s : (tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<f32>) -> tensor<4xf32>
  return
}

// -----

func.func @lengths_c1(%t: tensor<4x8xi32>) {
  // expected-error @below {{C1: expected tokens of shape [b, s] and a result [b], found [4, 8] and [8]}}
  %0 = optimus.lengths %t {pad = 0 : i64} : (tensor<4x8xi32>) -> tensor<8xi32>
  return
}

// -----

func.func @lengths_c2(%t: tensor<4x8xi32>, %y: tensor<4x4xi32>) {
  // expected-error @below {{C2: expected tokens and targets of one shape, found [4, 8] and [4, 4]}}
  %0 = optimus.lengths %t targets(%y) {pad = 0 : i64} : (tensor<4x8xi32>, tensor<4x4xi32>) -> tensor<4xi32>
  return
}

// -----

func.func @row_c1(%t: tensor<2x8xf32>) {
  // expected-error @below {{C1: expected a table of shape [v, h] and a row [h], found [2, 8] and [2]}}
  %0 = optimus.row %t {index = 0 : i64} : (tensor<2x8xf32>) -> tensor<2xf32>
  return
}

// -----

func.func @row_c2(%t: tensor<2x8xf32>) {
  // expected-error @below {{C2: expected an index from 0 to 1, found 2}}
  %0 = optimus.row %t {index = 2 : i64} : (tensor<2x8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @row_grad_c1(%d: tensor<8xf32>) {
  // expected-error @below {{C1: expected a table of shape [v, h] and a row [h], found [2, 2, 8] and [8]}}
  %0 = optimus.row_grad %d {index = 0 : i64} : (tensor<8xf32>) -> tensor<2x2x8xf32>
  return
}

// -----

func.func @row_grad_c2(%d: tensor<8xf32>) {
  // expected-error @below {{C2: expected an index from 0 to 1, found -1}}
  %0 = optimus.row_grad %d {index = -1 : i64} : (tensor<8xf32>) -> tensor<2x8xf32>
  return
}

// -----

func.func @lion_c1_result(%p: tensor<4xf32>, %s: tensor<f32>) {
  // expected-error @below {{C1: expected new_exp_avg of shape [4], found [2, 2]}}
  %0:2 = optimus.lion %p, %p, %p, %s, %s, %s, %s, %s
    : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<4xf32>, tensor<2x2xf32>)
  return
}

// -----

func.func @sgd_c1(%p: tensor<4xf32>, %b: tensor<6xf32>, %s: tensor<f32>) {
  // expected-error @below {{C1: expected momentum_buffer of shape [4], found [6]}}
  %0:2 = optimus.sgd %p, %p, %b, %s, %s, %s, %s
    : (tensor<4xf32>, tensor<4xf32>, tensor<6xf32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>)
  return
}
