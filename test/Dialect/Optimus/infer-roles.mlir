// RUN: optimus-opt %s --optimus-differentiate --split-input-file | FileCheck %s

// Roles follow from the program, not from sizes or names: the inner width may be
// less than the hidden one, as the keys' may, and all may be the same. What a
// linear leads to and a second one contracts is ffn; heads are what attention says.
// CHECK-LABEL: func.func @loss(
// CHECK-SAME: optimus.role = "table vocabulary,hidden of a"
// CHECK-SAME: optimus.role = "vector hidden of b"
// CHECK-SAME: optimus.role = "first in.hidden,out.heads,-,- of c"
// CHECK-SAME: optimus.role = "first in.hidden,out.heads,- of d"
// CHECK-SAME: optimus.role = "second in.heads,-,-,out.hidden of e"
// CHECK-SAME: optimus.role = "first out.ffn,in.hidden of f"
// CHECK-SAME: optimus.role = "vector ffn of g"
// CHECK-SAME: optimus.role = "second in.ffn,out.hidden of h"
// CHECK-SAME: optimus.role = "unpaired in.hidden,out.hidden of i"
// CHECK-SAME: %arg9: tensor<2x8xi32> {optimus.role = "tokens batch,sequence"}
// CHECK: optimus.embedding {{.*}}optimus.role = "batch,sequence,hidden of embedded"
// CHECK: optimus.matmul {{.*}}optimus.role = "batch,sequence,heads,-,-"
// CHECK: optimus.attention {{.*}}optimus.role = "batch,sequence,heads,-,-"
// CHECK: optimus.matmul {{.*}}optimus.role = "batch,sequence,ffn"
// A gradient has the role of what it is the gradient of.
// CHECK-LABEL: func.func @grad(
// CHECK: optimus.matmul {{.*}}optimus.role = "second in.ffn,out.hidden of h"
func.func @loss(%a: tensor<8x8xf32> {optimus.param = "a"}, %b: tensor<8xf32> {optimus.param = "b"},
    %c: tensor<8x1x4x2xf32> {optimus.param = "c"}, %d: tensor<8x1x2xf32> {optimus.param = "d"}, %e: tensor<1x4x2x8xf32> {optimus.param = "e"},
    %f: tensor<2x8xf32> {optimus.param = "f"}, %g: tensor<2xf32> {optimus.param = "g"}, %h: tensor<2x8xf32> {optimus.param = "h"},
    %i: tensor<8x8xf32> {optimus.param = "i"}, %tokens: tensor<2x8xi32>, %targets: tensor<2x8xi32>) -> (tensor<f32>, tensor<f32>) {
  %x = optimus.embedding %a, %tokens : (tensor<8x8xf32>, tensor<2x8xi32>) -> tensor<2x8x8xf32> loc("embedded")
  %y, %r = optimus.rms_norm %x, %b {epsilon = 1.0e-05 : f64} : (tensor<2x8x8xf32>, tensor<8xf32>) -> (tensor<2x8x8xf32>, tensor<2x8xf32>)
  %q = optimus.matmul %y, %c : (tensor<2x8x8xf32>, tensor<8x1x4x2xf32>) -> tensor<2x8x1x4x2xf32>
  %k = optimus.matmul %y, %d : (tensor<2x8x8xf32>, tensor<8x1x2xf32>) -> tensor<2x8x1x2xf32>
  %o, %l = optimus.attention %q, %k, %k {causal} : (tensor<2x8x1x4x2xf32>, tensor<2x8x1x2xf32>, tensor<2x8x1x2xf32>) -> (tensor<2x8x1x4x2xf32>, tensor<2x1x4x8xf32>)
  %p = optimus.matmul %o, %e {contracting = 3 : i64} : (tensor<2x8x1x4x2xf32>, tensor<1x4x2x8xf32>) -> tensor<2x8x8xf32>
  %u = optimus.matmul %p, %f {transpose_b} : (tensor<2x8x8xf32>, tensor<2x8xf32>) -> tensor<2x8x2xf32>
  %v = optimus.add %u, %g : (tensor<2x8x2xf32>, tensor<2xf32>) -> tensor<2x8x2xf32>
  %w = optimus.matmul %v, %h : (tensor<2x8x2xf32>, tensor<2x8xf32>) -> tensor<2x8x8xf32>
  %t = optimus.matmul %w, %i : (tensor<2x8x8xf32>, tensor<8x8xf32>) -> tensor<2x8x8xf32>
  %loss, %count = optimus.head_loss %t, %a, %targets : (tensor<2x8x8xf32>, tensor<8x8xf32>, tensor<2x8xi32>) -> (tensor<f32>, tensor<f32>)
  return %loss, %count : tensor<f32>, tensor<f32>
}

// -----

// A role that is there stays; a cast weight is the weight; a linear that ends one
// pair begins no other.
// CHECK-LABEL: func.func @loss(
// CHECK-SAME: optimus.role = "first in.hidden,out.ffn of a"
// CHECK-SAME: optimus.role = "second in.ffn,out.hidden of b"
// CHECK-SAME: optimus.role = "unpaired in.hidden,out.hidden"
// CHECK: optimus.gelu {{.*}}optimus.role = "batch,ffn"
func.func @loss(%a: tensor<8x4xf32> {optimus.param = "a"}, %b: tensor<4x8xf32> {optimus.param = "b"},
    %c: tensor<8x8xf32> {optimus.param = "c", optimus.role = "unpaired in.hidden,out.hidden"}, %table: tensor<16x8xf32> {optimus.param = "t"},
    %tokens: tensor<6xi32>, %targets: tensor<6xi32>) -> (tensor<f32>, tensor<f32>) {
  %x = optimus.embedding %table, %tokens : (tensor<16x8xf32>, tensor<6xi32>) -> tensor<6x8xf32>
  %0 = optimus.cast %a : (tensor<8x4xf32>) -> tensor<8x4xbf16>
  %1 = optimus.cast %x : (tensor<6x8xf32>) -> tensor<6x8xbf16>
  %2 = optimus.matmul %1, %0 : (tensor<6x8xbf16>, tensor<8x4xbf16>) -> tensor<6x4xbf16>
  %3 = optimus.cast %2 : (tensor<6x4xbf16>) -> tensor<6x4xf32>
  %4 = optimus.gelu %3 : tensor<6x4xf32>
  %5 = optimus.matmul %4, %b : (tensor<6x4xf32>, tensor<4x8xf32>) -> tensor<6x8xf32>
  %6 = optimus.matmul %5, %c : (tensor<6x8xf32>, tensor<8x8xf32>) -> tensor<6x8xf32>
  %loss, %count = optimus.head_loss %6, %table, %targets : (tensor<6x8xf32>, tensor<16x8xf32>, tensor<6xi32>) -> (tensor<f32>, tensor<f32>)
  return %loss, %count : tensor<f32>, tensor<f32>
}
