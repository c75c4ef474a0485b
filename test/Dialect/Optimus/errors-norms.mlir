// RUN: optimus-opt %s --split-input-file --verify-diagnostics

// One case for each constraint of each normalisation and its parts, in
// alphabetical order.

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
