// RUN: optimus-opt %s --split-input-file --verify-diagnostics

func.func @rms_norm_c1(%x: tensor<2x8x16xf32>, %r: tensor<2x8xf32>, %g: tensor<16xf32>, %bad: tensor<3xf32>) {
  // expected-error @below {{C1: expected a result of shape [2, 8, 16], found [3]}}
  %0, %1 = optimus.rms_norm %x, %g {epsilon = 1.0e-06 : f64} : (tensor<2x8x16xf32>, tensor<16xf32>) -> (tensor<3xf32>, tensor<2x8xf32>)
  return
}

// -----

func.func @rms_norm_c2(%x: tensor<2x8x16xf32>, %r: tensor<2x8xf32>, %g: tensor<16xf32>, %bad: tensor<3xf32>) {
  // expected-error @below {{C2: expected rstd of shape [2, 8], found [3]}}
  %0, %1 = optimus.rms_norm %x, %g {epsilon = 1.0e-06 : f64} : (tensor<2x8x16xf32>, tensor<16xf32>) -> (tensor<2x8x16xf32>, tensor<3xf32>)
  return
}

// -----

func.func @rms_norm_c3(%x: tensor<2x8x16xf32>, %r: tensor<2x8xf32>, %g: tensor<16xf32>, %bad: tensor<3xf32>) {
  // expected-error @below {{C3: expected gamma of shape [16], found [3]}}
  %0, %1 = optimus.rms_norm %x, %bad {epsilon = 1.0e-06 : f64} : (tensor<2x8x16xf32>, tensor<3xf32>) -> (tensor<2x8x16xf32>, tensor<2x8xf32>)
  return
}

// -----

func.func @rms_norm_row(%x: tensor<f32>) {
  // expected-error @below {{expected x of rank 1 at least, found a scalar}}
  %0, %1 = optimus.rms_norm %x, %x {epsilon = 1.0e-06 : f64} : (tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
  return
}

// -----

func.func @rms_norm_grad_c1(%x: tensor<2x8x16xf32>, %r: tensor<2x8xf32>, %g: tensor<16xf32>, %bad: tensor<3xf32>) {
  // expected-error @below {{C1: expected dy of shape [2, 8, 16], found [3]}}
  %0, %1 = optimus.rms_norm_grad %bad, %x, %r, %g : (tensor<3xf32>, tensor<2x8x16xf32>, tensor<2x8xf32>, tensor<16xf32>) -> (tensor<2x8x16xf32>, tensor<16xf32>)
  return
}

// -----

func.func @rms_norm_grad_c1_residual(%x: tensor<2x8x16xf32>, %r: tensor<2x8xf32>, %g: tensor<16xf32>, %bad: tensor<3xf32>) {
  // expected-error @below {{C1: expected residual of shape [2, 8, 16], found [3]}}
  %0, %1 = optimus.rms_norm_grad %x, %x, %r, %g residual(%bad) : (tensor<2x8x16xf32>, tensor<2x8x16xf32>, tensor<2x8xf32>, tensor<16xf32>, tensor<3xf32>) -> (tensor<2x8x16xf32>, tensor<16xf32>)
  return
}

// -----

func.func @rms_norm_grad_c2(%x: tensor<2x8x16xf32>, %r: tensor<2x8xf32>, %g: tensor<16xf32>, %bad: tensor<3xf32>) {
  // expected-error @below {{C2: expected rstd of shape [2, 8], found [3]}}
  %0, %1 = optimus.rms_norm_grad %x, %x, %bad, %g : (tensor<2x8x16xf32>, tensor<2x8x16xf32>, tensor<3xf32>, tensor<16xf32>) -> (tensor<2x8x16xf32>, tensor<16xf32>)
  return
}

// -----

func.func @rms_norm_grad_c2_sums(%x: tensor<2x8x16xf32>, %r: tensor<2x8xf32>, %g: tensor<16xf32>, %bad: tensor<3xf32>) {
  // expected-error @below {{C2: expected sums of shape [2, 8], found [3]}}
  %0, %1 = optimus.rms_norm_grad %x, %x, %r, %g sums(%bad) {size = 16 : i64} : (tensor<2x8x16xf32>, tensor<2x8x16xf32>, tensor<2x8xf32>, tensor<16xf32>, tensor<3xf32>) -> (tensor<2x8x16xf32>, tensor<16xf32>)
  return
}

// -----

func.func @rms_norm_grad_c3(%x: tensor<2x8x16xf32>, %r: tensor<2x8xf32>, %g: tensor<16xf32>, %bad: tensor<3xf32>) {
  // expected-error @below {{C3: expected dgamma of shape [16], found [3]}}
  %0, %1 = optimus.rms_norm_grad %x, %x, %r, %g : (tensor<2x8x16xf32>, tensor<2x8x16xf32>, tensor<2x8xf32>, tensor<16xf32>) -> (tensor<2x8x16xf32>, tensor<3xf32>)
  return
}

// -----

func.func @rms_norm_grad_c4(%x: tensor<2x8x16xf32>, %r: tensor<2x8xf32>, %g: tensor<16xf32>, %bad: tensor<3xf32>) {
  // expected-error @below {{C4: expected sums and size together, found sums alone}}
  %0, %1 = optimus.rms_norm_grad %x, %x, %r, %g sums(%r) : (tensor<2x8x16xf32>, tensor<2x8x16xf32>, tensor<2x8xf32>, tensor<16xf32>, tensor<2x8xf32>) -> (tensor<2x8x16xf32>, tensor<16xf32>)
  return
}

// -----

func.func @rms_norm_grad_c4_size(%x: tensor<2x8x16xf32>, %r: tensor<2x8xf32>, %g: tensor<16xf32>, %bad: tensor<3xf32>) {
  // expected-error @below {{C4: expected sums and size together, found size alone}}
  %0, %1 = optimus.rms_norm_grad %x, %x, %r, %g {size = 16 : i64} : (tensor<2x8x16xf32>, tensor<2x8x16xf32>, tensor<2x8xf32>, tensor<16xf32>) -> (tensor<2x8x16xf32>, tensor<16xf32>)
  return
}

// -----

func.func @rms_rstd_size(%x: tensor<2x8x16xf32>, %r: tensor<2x8xf32>, %g: tensor<16xf32>, %bad: tensor<3xf32>) {
  // expected-error @below {{attribute 'size' failed to satisfy constraint: 64-bit signless integer attribute whose value is positive}}
  %0 = optimus.rms_rstd %r {size = 0 : i64, epsilon = 1.0e-06 : f64} : tensor<2x8xf32>
  return
}

// -----

func.func @rms_scale_c1(%x: tensor<2x8x16xf32>, %r: tensor<2x8xf32>, %g: tensor<16xf32>, %bad: tensor<3xf32>) {
  // expected-error @below {{C1: expected a result of shape [2, 8, 16], found [3]}}
  %0 = optimus.rms_scale %x, %r, %g : (tensor<2x8x16xf32>, tensor<2x8xf32>, tensor<16xf32>) -> tensor<3xf32>
  return
}

// -----

func.func @rms_scale_c2(%x: tensor<2x8x16xf32>, %r: tensor<2x8xf32>, %g: tensor<16xf32>, %bad: tensor<3xf32>) {
  // expected-error @below {{C2: expected rstd of shape [2, 8], found [3]}}
  %0 = optimus.rms_scale %x, %bad, %g : (tensor<2x8x16xf32>, tensor<3xf32>, tensor<16xf32>) -> tensor<2x8x16xf32>
  return
}

// -----

func.func @rms_scale_c3(%x: tensor<2x8x16xf32>, %r: tensor<2x8xf32>, %g: tensor<16xf32>, %bad: tensor<3xf32>) {
  // expected-error @below {{C3: expected gamma of shape [16], found [3]}}
  %0 = optimus.rms_scale %x, %r, %bad : (tensor<2x8x16xf32>, tensor<2x8xf32>, tensor<3xf32>) -> tensor<2x8x16xf32>
  return
}

// -----

func.func @rotary_c1(%x: tensor<2x8x16xf32>, %r: tensor<2x8xf32>, %g: tensor<16xf32>, %bad: tensor<3xf32>) {
  // expected-error @below {{C1: expected x of shape [batch, sequence, ..., an even number], found [2, 8]}}
  %0 = optimus.rotary %r {theta = 1.0e4 : f64} : tensor<2x8xf32>
  return
}

// -----

func.func @rotary_c1_odd(%x: tensor<2x8x3xf32>) {
  // expected-error @below {{C1: expected x of shape [batch, sequence, ..., an even number], found [2, 8, 3]}}
  %0 = optimus.rotary %x {theta = 1.0e4 : f64} : tensor<2x8x3xf32>
  return
}

// -----

func.func @rotary_c2(%x: tensor<2x8x16xf32>, %r: tensor<2x8xf32>, %g: tensor<16xf32>, %bad: tensor<3xf32>) {
  // expected-error @below {{C2: expected a positive theta, found -1}}
  %0 = optimus.rotary %x {theta = -1.0 : f64} : tensor<2x8x16xf32>
  return
}

// -----

func.func @rotary_c2_infinite(%x: tensor<2x8x16xf32>, %r: tensor<2x8xf32>, %g: tensor<16xf32>, %bad: tensor<3xf32>) {
  // expected-error @below {{C2: expected a positive theta, found}}
  %0 = optimus.rotary %x {theta = 0x7FF0000000000000 : f64} : tensor<2x8x16xf32>
  return
}

// -----

func.func @rotary_c3(%x: tensor<2x8x16xf32>) {
  // expected-error @below {{C3: expected channels to be an even number from 2 to the 16 of x, found 18}}
  %0 = optimus.rotary %x {theta = 1.0e4 : f64, channels = 18 : i64} : tensor<2x8x16xf32>
  return
}

// -----

func.func @rotary_c3_odd(%x: tensor<2x8x15xf32>) {
  // expected-error @below {{C3: expected channels to be an even number from 2 to the 15 of x, found 7}}
  %0 = optimus.rotary %x {theta = 1.0e4 : f64, channels = 7 : i64} : tensor<2x8x15xf32>
  return
}

// -----

func.func @rotary_c4(%x: tensor<2x8x3x4x16xf32>) {
  // expected-error @below {{C4: expected parts to be from 1 to the third dimension of x, which has at least four; found 4 of [2, 8, 3, 4, 16]}}
  %0 = optimus.rotary %x {theta = 1.0e4 : f64, parts = 4 : i64} : tensor<2x8x3x4x16xf32>
  return
}

// -----

func.func @rotary_c4_rank(%x: tensor<2x8x16xf32>) {
  // expected-error @below {{C4: expected parts to be from 1 to the third dimension of x, which has at least four; found 1 of [2, 8, 16]}}
  %0 = optimus.rotary %x {theta = 1.0e4 : f64, parts = 1 : i64} : tensor<2x8x16xf32>
  return
}

// -----

func.func @row_dot_c1(%x: tensor<2x8x16xf32>, %r: tensor<2x8xf32>, %g: tensor<16xf32>, %bad: tensor<3xf32>) {
  // expected-error @below {{C1: expected b of shape [2, 8, 16], found [2, 8]}}
  %0 = optimus.row_dot %x, %r : (tensor<2x8x16xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  return
}

// -----

func.func @row_dot_c2(%x: tensor<2x8x16xf32>, %r: tensor<2x8xf32>, %g: tensor<16xf32>, %bad: tensor<3xf32>) {
  // expected-error @below {{C2: expected a result of shape [2, 8], found [3]}}
  %0 = optimus.row_dot %x, %x : (tensor<2x8x16xf32>, tensor<2x8x16xf32>) -> tensor<3xf32>
  return
}

// -----

func.func @row_dot_c3(%x: tensor<2x8x16xf32>, %r: tensor<2x8xf32>, %g: tensor<16xf32>, %bad: tensor<3xf32>) {
  // expected-error @below {{C3: expected weight of shape [16], found [3]}}
  %0 = optimus.row_dot %x, %x weight(%bad) : (tensor<2x8x16xf32>, tensor<2x8x16xf32>, tensor<3xf32>) -> tensor<2x8xf32>
  return
}

// -----

func.func @swiglu(%x: tensor<2x8x16xf32>, %r: tensor<2x8xf32>, %g: tensor<16xf32>, %bad: tensor<3xf32>) {
  // expected-error @below {{requires the same type for all operands and results}}
  %0 = "optimus.swiglu"(%x, %r) : (tensor<2x8x16xf32>, tensor<2x8xf32>) -> tensor<2x8x16xf32>
  return
}

// -----

func.func @rotary_c5(%x: tensor<2x8x16xf32>, %p: tensor<8xi32>) {
  // expected-error @below {{C5: expected positions of shape [2, 8], found [8]}}
  %0 = optimus.rotary %x positions(%p : tensor<8xi32>) {theta = 1.0e4 : f64} : tensor<2x8x16xf32>
  return
}

// -----

func.func @rotary_c6(%x: tensor<2x8x16xf32>) {
  // expected-error @below {{C6: expected the result to have the type of x, 'tensor<2x8x16xf32>', found 'tensor<2x8x14xf32>'}}
  %0 = "optimus.rotary"(%x) <{theta = 1.0e4 : f64}> : (tensor<2x8x16xf32>) -> tensor<2x8x14xf32>
  return
}

// -----

func.func @rotary_c8(%x: tensor<2x8x16xf32>) {
  // expected-error @below {{C8: expected 8 frequencies, one for each pair, found 2}}
  %0 = optimus.rotary %x {theta = 1.0e4 : f64, frequencies = array<f64: 1.0, 0.5>} : tensor<2x8x16xf32>
  return
}

// -----

func.func @rotary_c8_negative(%x: tensor<2x8x4xf32>) {
  // expected-error @below {{C8: expected positive frequencies, found -5.000000e-01}}
  %0 = optimus.rotary %x {theta = 1.0e4 : f64, frequencies = array<f64: 1.0, -0.5>} : tensor<2x8x4xf32>
  return
}
