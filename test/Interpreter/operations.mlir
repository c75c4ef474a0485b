// RUN: optimus-interpret %s --function norm --print | FileCheck %s --check-prefix=NORM
// RUN: optimus-interpret %s --function rms_norm --print | FileCheck %s --check-prefix=RMS
// RUN: optimus-interpret %s --function rotate --print | FileCheck %s --check-prefix=ROTATE
// RUN: optimus-interpret %s --function frequencies --print | FileCheck %s --check-prefix=FREQUENCIES
// RUN: optimus-interpret %s --function gate --print | FileCheck %s --check-prefix=GATE
// RUN: optimus-interpret %s --function attend --print | FileCheck %s --check-prefix=ATTEND
// RUN: optimus-interpret %s --function attend_in_groups --print | FileCheck %s --check-prefix=GROUP
// RUN: optimus-interpret %s --function head --print | FileCheck %s --check-prefix=HEAD
// RUN: optimus-interpret %s --function look_up --print | FileCheck %s --check-prefix=EMBED
// RUN: optimus-interpret %s --function update --print | FileCheck %s --check-prefix=UPDATE
// RUN: optimus-interpret %s --function product --print | FileCheck %s --check-prefix=PRODUCT

// Values that can be checked by hand.

// The row (1, 2, 3, 6) has mean 3 and variance 14/4 = 3.5; with epsilon 0.5
// rstd is 1/2.
// NORM: result0 = [-1, -0.5, 0, 1.5]
// NORM: result1 = [3]
// NORM: result2 = [0.5]
func.func @norm() -> (tensor<1x4xf32>, tensor<1xf32>, tensor<1xf32>) {
  %x = arith.constant dense<[[1.0, 2.0, 3.0, 6.0]]> : tensor<1x4xf32>
  %gain = arith.constant dense<1.0> : tensor<4xf32>
  %shift = arith.constant dense<0.0> : tensor<4xf32>
  %y, %mean, %rstd = optimus.layer_norm %x, %gain, %shift {epsilon = 0.5 : f64} : (tensor<1x4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<1x4xf32>, tensor<1xf32>, tensor<1xf32>)
  return %y, %mean, %rstd : tensor<1x4xf32>, tensor<1xf32>, tensor<1xf32>
}

// The row (1, 1, 3, 5) has a mean square of 9; with epsilon 7 rstd is 1/4.
// With dy·gamma·x = 2 + 2 + 6 + 10 = 20 each gradient is 1/4·2 − x/64·20/4.
// RMS: result0 = [0.5, 0.5, 1.5, 2.5]
// RMS: result1 = [0.25]
// RMS: result2 = [0.421875, 0.421875, 0.265625, 0.109375]
// RMS: result3 = [0.25, 0.25, 0.75, 1.25]
func.func @rms_norm() -> (tensor<1x4xf32>, tensor<1xf32>, tensor<1x4xf32>, tensor<4xf32>) {
  %x = arith.constant dense<[[1.0, 1.0, 3.0, 5.0]]> : tensor<1x4xf32>
  %gain = arith.constant dense<2.0> : tensor<4xf32>
  %dy = arith.constant dense<1.0> : tensor<1x4xf32>
  %y, %rstd = optimus.rms_norm %x, %gain {epsilon = 7.0 : f64} : (tensor<1x4xf32>, tensor<4xf32>) -> (tensor<1x4xf32>, tensor<1xf32>)
  %dx, %dgain = optimus.rms_norm_grad %dy, %x, %rstd, %gain : (tensor<1x4xf32>, tensor<1x4xf32>, tensor<1xf32>, tensor<4xf32>) -> (tensor<1x4xf32>, tensor<4xf32>)
  return %y, %rstd, %dx, %dgain : tensor<1x4xf32>, tensor<1xf32>, tensor<1x4xf32>, tensor<4xf32>
}

// Position 0 stays; at position 1 the pair (1, 0) turns by an angle of 1, and
// the pair (0, 2) by 1/10. Back again, all is as before.
// ROTATE: result0 = [1, 0, 0, 2, 0.5403023059, -0.1996668333, 0.8414709848, 1.990008331]
// ROTATE: result1 = [1, 0, 0, 2, 1, {{-?[0-9.e-]+}}, {{-?[0-9.e-]+}}, 2]
func.func @rotate() -> (tensor<1x2x4xf32>, tensor<1x2x4xf32>) {
  %x = arith.constant dense<[[[1.0, 0.0, 0.0, 2.0], [1.0, 0.0, 0.0, 2.0]]]> : tensor<1x2x4xf32>
  %y = optimus.rotary %x {theta = 100.0 : f64} : tensor<1x2x4xf32>
  %z = optimus.rotary %y {theta = 100.0 : f64, inverse} : tensor<1x2x4xf32>
  return %y, %z : tensor<1x2x4xf32>, tensor<1x2x4xf32>
}

// The pair (1, 0) does not turn by an angle to be seen, the pair (0, 2) by 1/10.
// FREQUENCIES: result0 = [1, 0, 0, 2, {{1|0.9999[0-9]*}}, -0.1996668333, {{[0-9.e-]+}}, 1.990008331]
func.func @frequencies() -> tensor<1x2x4xf32> {
  %x = arith.constant dense<[[[1.0, 0.0, 0.0, 2.0], [1.0, 0.0, 0.0, 2.0]]]> : tensor<1x2x4xf32>
  %y = optimus.rotary %x {theta = 100.0 : f64, frequencies = array<f64: 1.0e-9, 0.1>} : tensor<1x2x4xf32>
  return %y : tensor<1x2x4xf32>
}

// At 0 silu is 0 with slope 1/2; far out it is the identity or 0.
// GATE: result0 = [0, 120, {{-0|0|-?[0-9.]+e-[0-9]+}}]
// GATE: result1 = [1.5, 3, {{-0|0|-?[0-9.]+e-[0-9]+}}]
// GATE: result2 = [0, 40, {{-0|0|-?[0-9.]+e-[0-9]+}}]
func.func @gate() -> (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) {
  %gate = arith.constant dense<[0.0, 40.0, -800.0]> : tensor<3xf32>
  %up = arith.constant dense<3.0> : tensor<3xf32>
  %dy = arith.constant dense<1.0> : tensor<3xf32>
  %y = optimus.swiglu %gate, %up : tensor<3xf32>
  %dgate, %dup = optimus.swiglu_grad %dy, %gate, %up : tensor<3xf32>
  return %y, %dgate, %dup : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
}

// Equal scores of 0: the mean of the values seen; lse is the logarithm of
// their number.
// ATTEND: result0 = [2, 3]
// ATTEND: result1 = [0, 0.6931471806]
// ATTEND: result2 = [3, 3]
func.func @attend() -> (tensor<1x2x1x1xf32>, tensor<1x1x2xf32>, tensor<1x2x1x1xf32>) {
  %qkv = arith.constant dense<[[[[[0.0]], [[0.0]], [[2.0]]], [[[0.0]], [[0.0]], [[4.0]]]]]> : tensor<1x2x3x1x1xf32>
  %y, %lse = optimus.attention %qkv {causal} : (tensor<1x2x3x1x1xf32>) -> (tensor<1x2x1x1xf32>, tensor<1x1x2xf32>)
  %z, %l = optimus.attention %qkv : (tensor<1x2x3x1x1xf32>) -> (tensor<1x2x1x1xf32>, tensor<1x1x2xf32>)
  return %y, %lse, %z : tensor<1x2x1x1xf32>, tensor<1x1x2xf32>, tensor<1x2x1x1xf32>
}

// Two heads of queries share one of keys and values: (2), (4). The first scores
// 0 twice, the second 0 and 1000. The gradients of v are sums over both: of
// dout = 1 position 0 gives v_0 one each, position 1 a half and 0; the rest goes
// to v_1.
// GROUP: result0 = [2, 2, 3, 4]
// GROUP: result1 = [0, 0.6931471806, 0, 1000]
// GROUP: result2 = [2.5, 1.5]
func.func @attend_in_groups() -> (tensor<1x2x1x2x1xf32>, tensor<1x1x2x2xf32>, tensor<1x2x1x1xf32>) {
  %q = arith.constant dense<[[[[[0.0], [0.0]]], [[[0.0], [1000.0]]]]]> : tensor<1x2x1x2x1xf32>
  %k = arith.constant dense<[[[[0.0]], [[1.0]]]]> : tensor<1x2x1x1xf32>
  %v = arith.constant dense<[[[[2.0]], [[4.0]]]]> : tensor<1x2x1x1xf32>
  %dy = arith.constant dense<1.0> : tensor<1x2x1x2x1xf32>
  %y, %lse = optimus.attention %q, %k, %v {causal} : (tensor<1x2x1x2x1xf32>, tensor<1x2x1x1xf32>, tensor<1x2x1x1xf32>) -> (tensor<1x2x1x2x1xf32>, tensor<1x1x2x2xf32>)
  %dq, %dk, %dv = optimus.attention_grad %dy, %y, %lse, %q, %k, %v {causal} : (tensor<1x2x1x2x1xf32>, tensor<1x2x1x2x1xf32>, tensor<1x1x2x2xf32>, tensor<1x2x1x2x1xf32>, tensor<1x2x1x1xf32>, tensor<1x2x1x1xf32>) -> (tensor<1x2x1x2x1xf32>, tensor<1x2x1x1xf32>, tensor<1x2x1x1xf32>)
  return %y, %lse, %dv : tensor<1x2x1x2x1xf32>, tensor<1x1x2x2xf32>, tensor<1x2x1x1xf32>
}

// Equal logits cost ln 4 for each of the two real tokens.
// HEAD: result0 = 2.772588722
// HEAD: result1 = 2
// HEAD: result2 = [0, 0, 0]
// HEAD: result3 = [-0.5, 0.5, 0.5, -0.5]
func.func @head() -> (tensor<f32>, tensor<f32>, tensor<3x1xf32>, tensor<4x1xf32>) {
  %h = arith.constant dense<1.0> : tensor<3x1xf32>
  %table = arith.constant dense<0.0> : tensor<4x1xf32>
  %targets = arith.constant dense<[3, -1, 0]> : tensor<3xi32>
  %loss, %count, %dh, %dtable = optimus.head_loss_grad %h, %table, %targets : (tensor<3x1xf32>, tensor<4x1xf32>, tensor<3xi32>) -> (tensor<f32>, tensor<f32>, tensor<3x1xf32>, tensor<4x1xf32>)
  return %loss, %count, %dh, %dtable : tensor<f32>, tensor<f32>, tensor<3x1xf32>, tensor<4x1xf32>
}

// EMBED: result0 = [5, 6, 1, 2, 5, 6]
// EMBED: result1 = [11, 12, 10, 10, 20, 22]
// Look-ups of the row that pads give it nothing.
// EMBED: result2 = [11, 12, 10, 10, 10, 10]
func.func @look_up() -> (tensor<3x2xf32>, tensor<3x2xf32>, tensor<3x2xf32>) {
  %table = arith.constant dense<[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]> : tensor<3x2xf32>
  %tokens = arith.constant dense<[2, 0, 2]> : tensor<3xi32>
  %start = arith.constant dense<10.0> : tensor<3x2xf32>
  %y = optimus.embedding %table, %tokens : (tensor<3x2xf32>, tensor<3xi32>) -> tensor<3x2xf32>
  %dy = optimus.embedding_grad %y, %tokens accumulate(%start) : (tensor<3x2xf32>, tensor<3xi32>, tensor<3x2xf32>) -> tensor<3x2xf32>
  %padded = optimus.embedding_grad %y, %tokens accumulate(%start) {pad = 2 : i64} : (tensor<3x2xf32>, tensor<3xi32>, tensor<3x2xf32>) -> tensor<3x2xf32>
  return %y, %dy, %padded : tensor<3x2xf32>, tensor<3x2xf32>, tensor<3x2xf32>
}

// A gradient of norm 10 over 2 tokens has a mean of norm 5, clipped to 5/2:
// scale 1/4 but for the 1e-6 in the divisor.
// With g' = 2 and both betas 1/2: m = 1, v = 2, corrected 2 and 4, so the step
// is 1; with decay 1/2 · 4 the parameter moves by lr · 3.
// UPDATE: result0 = 0.24999995
// UPDATE: result1 = 5
// UPDATE: result2 = [3.25]
// UPDATE: result3 = [1]
// UPDATE: result4 = [2]
func.func @update() -> (tensor<f32>, tensor<f32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) {
  %norm = arith.constant dense<10.0> : tensor<f32>
  %count = arith.constant dense<2.0> : tensor<f32>
  %limit = arith.constant dense<2.5> : tensor<f32>
  %scale, %mean = optimus.clip %norm, %count, %limit : (tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
  %p = arith.constant dense<4.0> : tensor<1xf32>
  %g = arith.constant dense<8.0> : tensor<1xf32>
  %zero = arith.constant dense<0.0> : tensor<1xf32>
  %quarter = arith.constant dense<0.25> : tensor<f32>
  %half = arith.constant dense<0.5> : tensor<f32>
  %lr = arith.constant dense<0.25> : tensor<f32>
  %nothing = arith.constant dense<0.0> : tensor<f32>
  %np, %nm, %nv = optimus.adamw %p, %g, %zero, %zero, %quarter, %lr, %half, %half, %half, %nothing, %half, %half {decay} : (tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<1xf32>, tensor<1xf32>, tensor<1xf32>)
  return %scale, %mean, %np, %nm, %nv : tensor<f32>, tensor<f32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>
}

// (A·B + bias + residual) * scale, and a sum over leading dimensions.
// PRODUCT: result0 = [20, 30]
// PRODUCT: result1 = [4, 6]
// PRODUCT: result2 = 5
func.func @product() -> (tensor<1x2xf32>, tensor<2xf32>, tensor<f32>) {
  %a = arith.constant dense<[[1.0], [2.0]]> : tensor<2x1xf32>
  %b = arith.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %bias = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %residual = arith.constant dense<[[2.0, 3.0]]> : tensor<1x2xf32>
  %scale = arith.constant dense<2.0> : tensor<1x2xf32>
  %y = optimus.matmul %a, %b bias(%bias) residual(%residual) scale(%scale) {transpose_a} : (tensor<2x1xf32>, tensor<2x2xf32>, tensor<2xf32>, tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x2xf32>
  %sum = optimus.sum_leading %b : (tensor<2x2xf32>) -> tensor<2xf32>
  %three_four = arith.constant dense<[3.0, 4.0]> : tensor<2xf32>
  %norm = optimus.global_norm %three_four : (tensor<2xf32>) -> tensor<f32>
  return %y, %sum, %norm : tensor<1x2xf32>, tensor<2xf32>, tensor<f32>
}
