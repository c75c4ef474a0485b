// RUN: optimus-opt %s --split-input-file --verify-diagnostics

func.func @elements(%x: tensor<281474976710657xf32>) {
  // expected-error @below {{operand #0 must be static tensor of at most 16 dimensions and 1 to 2^48 elements, of 32-bit float or bfloat16 type or 16-bit float values}}
  %0 = optimus.gelu %x : tensor<281474976710657xf32>
  return
}

// -----

// As a product of 64-bit numbers, the elements wrap around to 16.
func.func @elements_overflow(%x: tensor<4611686018427387908x4xf32>) {
  // expected-error @below {{operand #0 must be static tensor of at most 16 dimensions and 1 to 2^48 elements, of 32-bit float or bfloat16 type or 16-bit float values}}
  %0 = optimus.gelu %x : tensor<4611686018427387908x4xf32>
  return
}

// -----

func.func @dimensions(%x: tensor<1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1xf32>) {
  // expected-error @below {{operand #0 must be static tensor of at most 16 dimensions and 1 to 2^48 elements, of 32-bit float or bfloat16 type or 16-bit float values}}
  %0 = optimus.gelu %x : tensor<1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1xf32>
  return
}

// -----

// expected-error @below {{C5: expected an axis named by 1 to 255 letters, digits or underscores, found "a b"}}
optimus.mesh @mesh <["a b" = 2]>

// -----

// expected-error @below {{C1: expected axis "row" of size 1 at least, found -1}}
func.func @axis() attributes {axis = #optimus.axis<"row" = -1>} {
  return
}

// -----

func.func @epsilon(%x: tensor<4x8xf32>, %g: tensor<8xf32>) {
  // expected-error @below {{attribute 'epsilon' failed to satisfy constraint: 64-bit float attribute which is positive as an f32, and finite}}
  %0, %1 = optimus.rms_norm %x, %g {epsilon = 0x7FF8000000000000 : f64} : (tensor<4x8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>)
  return
}

// -----

func.func @epsilon_f32(%x: tensor<4x8xf32>, %g: tensor<8xf32>) {
  // expected-error @below {{attribute 'epsilon' failed to satisfy constraint: 64-bit float attribute which is positive as an f32, and finite}}
  %0, %1 = optimus.rms_norm %x, %g {epsilon = 1.0e300 : f64} : (tensor<4x8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>)
  return
}

// -----

func.func @size(%x: tensor<4xf32>) {
  // expected-error @below {{attribute 'size' failed to satisfy constraint: 64-bit signless integer attribute whose value is positive whose maximum value is 281474976710656}}
  %0 = optimus.rms_rstd %x {epsilon = 1.0e-6 : f64, size = 9223372036854775807 : i64} : tensor<4xf32>
  return
}

// -----

func.func @merge_moments_c3_sum(%m: tensor<4x4xf32>) {
  // expected-error @below {{C3: expected counts of at most 281474976710656 together, found more than 2^63}}
  %0, %1 = optimus.merge_moments %m {counts = array<i64: 9223372036854775807, 1>, epsilon = 1.0e-6 : f64} : (tensor<4x4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

func.func @pad(%t: tensor<4x8xi32>) {
  // expected-error @below {{attribute 'pad' failed to satisfy constraint: 64-bit signless integer attribute whose value is non-negative whose maximum value is 2147483647}}
  %0 = optimus.lengths %t {pad = 2147483648 : i64} : (tensor<4x8xi32>) -> tensor<4xi32>
  return
}

// -----

func.func @head_c5(%h: tensor<16387x8xf32>, %table: tensor<9x8xf32>, %targets: tensor<16387xi32>) {
  // expected-error @below {{C5: expected at most 4096 chunks, found 4097 of 4 of 16387 tokens; give larger chunks}}
  %0, %1 = optimus.head_loss %h, %table, %targets {chunk = 4 : i64} : (tensor<16387x8xf32>, tensor<9x8xf32>, tensor<16387xi32>) -> (tensor<f32>, tensor<f32>)
  return
}

// -----

func.func @head_c5_logits(%h: tensor<16777216x1xf32>, %table: tensor<33554432x1xf32>, %targets: tensor<16777216xi32>) {
  // expected-error @below {{C5: expected at most 281474976710656 logits in a chunk, found 562949953421312; give smaller chunks}}
  %0, %1, %2, %3 = optimus.head_loss_grad %h, %table, %targets {chunk = 9223372036854775807 : i64}
    : (tensor<16777216x1xf32>, tensor<33554432x1xf32>, tensor<16777216xi32>)
    -> (tensor<f32>, tensor<f32>, tensor<16777216x1xf32>, tensor<33554432x1xf32>)
  return
}

// -----

func.func @init_c2_f32(%x: tensor<4xf32>
    // expected-error @below {{C2: expected a standard deviation of 0 at least, finite as an f32, found 1.000000e+300}}
    {optimus.init = #optimus.init<normal, stddev = 1.0e300, stream = 0>}) {
  return
}

// -----

func.func @init_c3_reserved(%x: tensor<4xf32>
    // expected-error @below {{C3: expected a stream from 0 to 4294967039, found 4294967040}}
    {optimus.init = #optimus.init<normal, stddev = 1.0, stream = 4294967040>}) {
  return
}
