// RUN: %optimus-opt %s | FileCheck %s
// RUN: %optimus-opt %s --mlir-print-op-generic | %optimus-opt | FileCheck %s

// Attributes, then one case for each operation, in alphabetical order.

#sharded = #optimus.sharding<@mesh, [{"row"}, {}, {"col"}]>
#two_axes = #optimus.sharding<@mesh, [{"row", "col"}, {}]>
#partial = #optimus.sharding<@mesh, [{}], unreduced = {"row", "col"}>
#scalar = #optimus.sharding<@mesh, [], unreduced = {"row"}>

// CHECK: optimus.mesh @mesh <["row" = 2, "col" = 3]>
optimus.mesh @mesh <["row" = 2, "col" = 3]>

// Unreduced axes are put in alphabetic order.
// CHECK-LABEL: func.func private @attributes
// CHECK-SAME: tensor<4x6xf32> {optimus.dims = ["hidden", "heads"], optimus.hf_shape = array<i64: 24>, optimus.init = #optimus.init<normal, stddev = 2.000000e-02, stream = 3>, optimus.param = "w", optimus.role = "first in.hidden,out.ffn", optimus.sharding = #optimus.sharding<@mesh, [{"row", "col"}, {}]>}
// CHECK-SAME: tensor<6xf32> {optimus.donates = 0 : i64, optimus.init = #optimus.init<ones>, optimus.sharding = #optimus.sharding<@mesh, [{}], unreduced = {"col", "row"}>}
// CHECK-SAME: tensor<6xf32> {optimus.binding = #optimus.buffer<role = "exp_avg", of = "b", lifetime = state, init = <zeros>, saved_in = optimizer>}
// CHECK-SAME: tensor<6xf32> {optimus.packed = #optimus.packed<"b", [2, 6], row = 12, begin = 6>}
// CHECK-SAME: -> (tensor<f32> {optimus.sharding = #optimus.sharding<@mesh, [], unreduced = {"row"}>})
func.func private @attributes(
    tensor<4x6xf32> {optimus.param = "w", optimus.hf_shape = array<i64: 24>, optimus.role = "first in.hidden,out.ffn", optimus.dims = ["hidden", "heads"],
                     optimus.init = #optimus.init<normal, stddev = 0.02, stream = 3>, optimus.sharding = #two_axes},
    tensor<6xf32> {optimus.init = #optimus.init<ones>, optimus.donates = 0 : i64, optimus.sharding = #partial},
    tensor<6xf32> {optimus.binding = #optimus.buffer<role = "exp_avg", of = "b", lifetime = state, init = <zeros>, saved_in = optimizer>},
    tensor<6xf32> {optimus.packed = #optimus.packed<"b", [2, 6], row = 12, begin = 6>}) -> (tensor<f32> {optimus.sharding = #scalar})

// CHECK-LABEL: func.func @axis
// CHECK-SAME: attributes {axis = #optimus.axis<"row" = 2>}
func.func @axis() attributes {axis = #optimus.axis<"row" = 2>} {
  return
}

// A result without a decision has `unit` in its place.
// CHECK-LABEL: func.func @shardings
// CHECK: optimus.layer_norm {{.*}} {epsilon = 1.000000e-05 : f64, optimus.result_roles = ["x", "", ""], optimus.role = "x", optimus.shardings = [#optimus.sharding<@mesh, [{"row"}, {}, {"col"}]>, unit, unit]}
func.func @shardings(%x: tensor<2x8x16xf32>, %g: tensor<16xf32>) -> tensor<2x8x16xf32> {
  %y, %mean, %rstd = optimus.layer_norm %x, %g, %g {epsilon = 1.0e-5 : f64, optimus.role = "x", optimus.result_roles = ["x", "", ""], optimus.shardings = [#sharded, unit, unit]}
    : (tensor<2x8x16xf32>, tensor<16xf32>, tensor<16xf32>) -> (tensor<2x8x16xf32>, tensor<2x8xf32>, tensor<2x8xf32>)
  return %y : tensor<2x8x16xf32>
}

// CHECK-LABEL: func.func @adamw(
// CHECK-SAME: %[[P:.*]]: tensor<4x6xf32>, %[[S:.*]]: tensor<f32>)
// CHECK: %{{.*}}, %{{.*}}, %{{.*}} = optimus.adamw %[[P]], %[[P]], %[[P]], %[[P]], %[[S]], %[[S]], %[[S]], %[[S]], %[[S]], %[[S]], %[[S]], %[[S]] {decay} : (tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>)
// CHECK-NEXT: optimus.adamw %{{.*}}, %[[S]] : (
func.func @adamw(%p: tensor<4x6xf32>, %s: tensor<f32>) -> (tensor<4x6xf32>, tensor<4x6xf32>) {
  %0, %1, %2 = optimus.adamw %p, %p, %p, %p, %s, %s, %s, %s, %s, %s, %s, %s {decay}
    : (tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>)
  %3, %4, %5 = optimus.adamw %p, %p, %p, %p, %s, %s, %s, %s, %s, %s, %s, %s
    : (tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>)
  return %0, %3 : tensor<4x6xf32>, tensor<4x6xf32>
}

// CHECK-LABEL: func.func @add
// CHECK: optimus.add %{{.*}}, %{{.*}} : (tensor<2x8x16xf32>, tensor<16xf32>) -> tensor<2x8x16xf32>
// CHECK-NEXT: optimus.add %{{.*}}, %{{.*}} : (tensor<2x8x16xf32>, tensor<2x8x16xf32>) -> tensor<2x8x16xf32>
// CHECK-NEXT: optimus.add %{{.*}}, %{{.*}} : (tensor<2x8x16xf32>, tensor<f32>) -> tensor<2x8x16xf32>
func.func @add(%x: tensor<2x8x16xf32>, %b: tensor<16xf32>, %s: tensor<f32>) -> tensor<2x8x16xf32> {
  %0 = optimus.add %x, %b : (tensor<2x8x16xf32>, tensor<16xf32>) -> tensor<2x8x16xf32>
  %1 = optimus.add %0, %x : (tensor<2x8x16xf32>, tensor<2x8x16xf32>) -> tensor<2x8x16xf32>
  %2 = optimus.add %1, %s : (tensor<2x8x16xf32>, tensor<f32>) -> tensor<2x8x16xf32>
  return %2 : tensor<2x8x16xf32>
}

// CHECK-LABEL: func.func @attention
// CHECK: %{{.*}}, %{{.*}} = optimus.attention %{{.*}} {causal} : (tensor<2x8x3x4x16xf32>) -> (tensor<2x8x4x16xf32>, tensor<2x4x8xf32>)
// CHECK-NEXT: optimus.attention %{{[^ ]*}} : (
func.func @attention(%qkv: tensor<2x8x3x4x16xf32>) -> (tensor<2x8x4x16xf32>, tensor<2x4x8xf32>) {
  %0, %1 = optimus.attention %qkv {causal} : (tensor<2x8x3x4x16xf32>) -> (tensor<2x8x4x16xf32>, tensor<2x4x8xf32>)
  %2, %3 = optimus.attention %qkv : (tensor<2x8x3x4x16xf32>) -> (tensor<2x8x4x16xf32>, tensor<2x4x8xf32>)
  return %0, %3 : tensor<2x8x4x16xf32>, tensor<2x4x8xf32>
}

// CHECK-LABEL: func.func @documents
// CHECK: optimus.rotary %{{.*}} positions(%{{.*}} : tensor<2x8xi32>) {theta = 1.000000e+04 : f64} : tensor<2x8x3x4x16xf32>
// CHECK: optimus.attention %{{.*}} positions(%{{.*}}) {causal} : (tensor<2x8x3x4x16xf32>, tensor<2x8xi32>)
// CHECK: optimus.attention_grad %{{.*}} positions(%{{.*}}) {causal} :
func.func @documents(%x: tensor<2x8x3x4x16xf32>, %p: tensor<2x8xi32>) -> tensor<2x8x3x4x16xf32> {
  %0 = optimus.rotary %x positions(%p : tensor<2x8xi32>) {theta = 1.0e4 : f64} : tensor<2x8x3x4x16xf32>
  %o, %lse = optimus.attention %0 positions(%p) {causal} : (tensor<2x8x3x4x16xf32>, tensor<2x8xi32>) -> (tensor<2x8x4x16xf32>, tensor<2x4x8xf32>)
  %1 = optimus.attention_grad %o, %o, %lse, %0 positions(%p) {causal} : (tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x4x8xf32>, tensor<2x8x3x4x16xf32>, tensor<2x8xi32>) -> tensor<2x8x3x4x16xf32>
  return %1 : tensor<2x8x3x4x16xf32>
}

// CHECK-LABEL: func.func @attention_cached
// CHECK: optimus.attention %{{.*}}, %{{.*}}, %{{.*}} lengths(%{{.*}}) positions(%{{.*}}) {cached, causal} :
func.func @attention_cached(%q: tensor<2x3x4x16xf32>, %k: tensor<2x8x4x16xf32>, %l: tensor<2xi32>, %p: tensor<2x3xi32>) -> tensor<2x3x4x16xf32> {
  %o, %lse = optimus.attention %q, %k, %k lengths(%l) positions(%p) {cached, causal} : (tensor<2x3x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2xi32>, tensor<2x3xi32>) -> (tensor<2x3x4x16xf32>, tensor<2x4x3xf32>)
  return %o : tensor<2x3x4x16xf32>
}

// CHECK-LABEL: func.func @cache_append
// CHECK: optimus.cache_append %{{.*}}, %{{.*}}, %{{.*}} : (tensor<2x8x4x16xf32>, tensor<2x3x4x16xf32>, tensor<2x3xi32>) -> tensor<2x8x4x16xf32>
// CHECK: optimus.rotary {{.*}} {capacity = 8 : i64, theta
func.func @cache_append(%c: tensor<2x8x4x16xf32>, %x: tensor<2x3x4x16xf32>, %p: tensor<2x3xi32>) -> (tensor<2x8x4x16xf32>, tensor<2x3x4x16xf32>) {
  %0 = optimus.cache_append %c, %x, %p : (tensor<2x8x4x16xf32>, tensor<2x3x4x16xf32>, tensor<2x3xi32>) -> tensor<2x8x4x16xf32>
  %1 = optimus.rotary %x positions(%p : tensor<2x3xi32>) {theta = 1.0e4 : f64, capacity = 8 : i64} : tensor<2x3x4x16xf32>
  return %0, %1 : tensor<2x8x4x16xf32>, tensor<2x3x4x16xf32>
}

// CHECK-LABEL: func.func @of_one_slot
// CHECK: optimus.cache_append %{{.*}}, %{{.*}}, %{{.*}} slot(%{{.*}}) : (tensor<2x8x4x16xf32>, tensor<5x1x4x16xf32>, tensor<5x1xi32>, tensor<1xi32>) -> tensor<2x8x4x16xf32>
// CHECK: optimus.take %{{.*}}, %{{.*}} length(%{{.*}}) : (tensor<2x8x4x16xf32>, tensor<1xi32>, tensor<1xi32>) -> tensor<1x8x4x16xf32>
// CHECK: optimus.attention {{.*}} {cached, causal} : (tensor<5x1x4x16xf32>, tensor<1x8x4x16xf32>, tensor<1x8x4x16xf32>, tensor<1xi32>, tensor<5x1xi32>) -> (tensor<5x1x4x16xf32>, tensor<1x4x5xf32>)
// CHECK: optimus.take %{{[^ ]*}}, %{{[^ ]*}} :
// CHECK: optimus.log_probabilities %{{.*}}, %{{.*}} : (tensor<5x1x16xf32>, tensor<5x1xi32>) -> tensor<5x1xf32>
// CHECK: optimus.best %{{.*}} {count = 3 : i64} : (tensor<5x1x16xf32>) -> tensor<5x1x6xf32>
func.func @of_one_slot(%c: tensor<2x8x4x16xf32>, %x: tensor<5x1x4x16xf32>, %p: tensor<5x1xi32>, %s: tensor<1xi32>, %h: tensor<5x1x16xf32>) -> (tensor<1x1x4x16xf32>, tensor<5x1xf32>) {
  %0 = optimus.cache_append %c, %x, %p slot(%s) : (tensor<2x8x4x16xf32>, tensor<5x1x4x16xf32>, tensor<5x1xi32>, tensor<1xi32>) -> tensor<2x8x4x16xf32>
  %k = optimus.take %0, %s length(%s) : (tensor<2x8x4x16xf32>, tensor<1xi32>, tensor<1xi32>) -> tensor<1x8x4x16xf32>
  %o, %lse = optimus.attention %x, %k, %k lengths(%s) positions(%p) {cached, causal} : (tensor<5x1x4x16xf32>, tensor<1x8x4x16xf32>, tensor<1x8x4x16xf32>, tensor<1xi32>, tensor<5x1xi32>) -> (tensor<5x1x4x16xf32>, tensor<1x4x5xf32>)
  %1 = optimus.take %o, %s : (tensor<5x1x4x16xf32>, tensor<1xi32>) -> tensor<1x1x4x16xf32>
  %2 = optimus.log_probabilities %h, %p : (tensor<5x1x16xf32>, tensor<5x1xi32>) -> tensor<5x1xf32>
  %3 = optimus.best %h {count = 3 : i64} : (tensor<5x1x16xf32>) -> tensor<5x1x6xf32>
  return %1, %2 : tensor<1x1x4x16xf32>, tensor<5x1xf32>
}

// CHECK-LABEL: func.func @pages
// CHECK: optimus.cache_append %{{.*}}, %{{.*}}, %{{.*}} pages(%{{.*}}) : (tensor<2x64x4x16xf32>, tensor<2x1x4x16xf32>, tensor<2x1xi32>, tensor<2x3xi32>) -> tensor<2x64x4x16xf32>
// CHECK: optimus.attention {{.*}} pages(%{{.*}}) {cached, causal} :
// CHECK: optimus.take %{{.*}}, %{{.*}} length(%{{.*}}) pages(%{{.*}}) : (tensor<2x64x4x16xf32>, tensor<1xi32>, tensor<1xi32>, tensor<2x3xi32>) -> tensor<1x192x4x16xf32>
func.func @pages(%c: tensor<2x64x4x16xf32>, %x: tensor<2x1x4x16xf32>, %p: tensor<2x1xi32>, %l: tensor<2xi32>, %s: tensor<1xi32>, %t: tensor<2x3xi32>) -> (tensor<2x1x4x16xf32>, tensor<1x192x4x16xf32>) {
  %0 = optimus.cache_append %c, %x, %p pages(%t) : (tensor<2x64x4x16xf32>, tensor<2x1x4x16xf32>, tensor<2x1xi32>, tensor<2x3xi32>) -> tensor<2x64x4x16xf32>
  %o, %lse = optimus.attention %x, %0, %0 lengths(%l) positions(%p) pages(%t) {cached, causal} : (tensor<2x1x4x16xf32>, tensor<2x64x4x16xf32>, tensor<2x64x4x16xf32>, tensor<2xi32>, tensor<2x1xi32>, tensor<2x3xi32>) -> (tensor<2x1x4x16xf32>, tensor<2x4x1xf32>)
  %k = optimus.take %0, %s length(%s) pages(%t) : (tensor<2x64x4x16xf32>, tensor<1xi32>, tensor<1xi32>, tensor<2x3xi32>) -> tensor<1x192x4x16xf32>
  return %o, %k : tensor<2x1x4x16xf32>, tensor<1x192x4x16xf32>
}

// CHECK-LABEL: func.func @attention_window
// CHECK: optimus.attention %{{.*}} {causal, window = 3 : i64} :
// CHECK: optimus.attention_grad %{{.*}} {causal, window = 3 : i64} :
func.func @attention_window(%x: tensor<2x8x3x4x16xf32>, %dy: tensor<2x8x4x16xf32>) -> tensor<2x8x3x4x16xf32> {
  %o, %lse = optimus.attention %x {causal, window = 3 : i64} : (tensor<2x8x3x4x16xf32>) -> (tensor<2x8x4x16xf32>, tensor<2x4x8xf32>)
  %0 = optimus.attention_grad %dy, %o, %lse, %x {causal, window = 3 : i64} : (tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x4x8xf32>, tensor<2x8x3x4x16xf32>) -> tensor<2x8x3x4x16xf32>
  return %0 : tensor<2x8x3x4x16xf32>
}

// CHECK-LABEL: func.func @attention_grad
// CHECK: optimus.attention_grad %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} {causal} : (tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x4x8xf32>, tensor<2x8x3x4x16xf32>) -> tensor<2x8x3x4x16xf32>
func.func @attention_grad(%o: tensor<2x8x4x16xf32>, %qkv: tensor<2x8x3x4x16xf32>, %lse: tensor<2x4x8xf32>) -> tensor<2x8x3x4x16xf32> {
  %0 = optimus.attention_grad %o, %o, %lse, %qkv {causal} : (tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x4x8xf32>, tensor<2x8x3x4x16xf32>) -> tensor<2x8x3x4x16xf32>
  return %0 : tensor<2x8x3x4x16xf32>
}

// CHECK-LABEL: func.func @attention_of_groups
// CHECK: optimus.attention %{{.*}}, %{{.*}}, %{{.*}} {causal} : (tensor<2x8x2x3x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32>) -> (tensor<2x8x2x3x16xf32>, tensor<2x2x3x8xf32>)
// CHECK: optimus.attention_grad %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} {causal} :
// CHECK: optimus.attention %{{.*}}, %{{.*}}, %{{.*}} : (tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32>) -> (tensor<2x8x2x16xf32>, tensor<2x2x8xf32>)
func.func @attention_of_groups(%q: tensor<2x8x2x3x16xf32>, %kv: tensor<2x8x2x16xf32>) -> (tensor<2x8x2x3x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32>) {
  %0, %1 = optimus.attention %q, %kv, %kv {causal} : (tensor<2x8x2x3x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32>) -> (tensor<2x8x2x3x16xf32>, tensor<2x2x3x8xf32>)
  %2, %3, %4 = optimus.attention_grad %0, %0, %1, %q, %kv, %kv {causal} : (tensor<2x8x2x3x16xf32>, tensor<2x8x2x3x16xf32>, tensor<2x2x3x8xf32>, tensor<2x8x2x3x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32>) -> (tensor<2x8x2x3x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32>)
  %5, %6 = optimus.attention %3, %kv, %4 : (tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32>) -> (tensor<2x8x2x16xf32>, tensor<2x2x8xf32>)
  return %2, %3, %5 : tensor<2x8x2x3x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32>
}

// CHECK-LABEL: func.func @cast
// CHECK: optimus.cast %{{.*}} : (tensor<2x8xf32>) -> tensor<2x8xbf16>
// CHECK-NEXT: optimus.cast %{{.*}} : (tensor<2x8xbf16>) -> tensor<2x8xf16>
func.func @cast(%x: tensor<2x8xf32>) -> tensor<2x8xf16> {
  %0 = optimus.cast %x : (tensor<2x8xf32>) -> tensor<2x8xbf16>
  %1 = optimus.cast %0 : (tensor<2x8xbf16>) -> tensor<2x8xf16>
  return %1 : tensor<2x8xf16>
}

// CHECK-LABEL: func.func @clip
// CHECK: %{{.*}}, %{{.*}} = optimus.clip %{{.*}}, %{{.*}}, %{{.*}} : (tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
func.func @clip(%norm: tensor<f32>, %count: tensor<f32>, %limit: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %0, %1 = optimus.clip %norm, %count, %limit : (tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
  return %0, %1 : tensor<f32>, tensor<f32>
}

// CHECK-LABEL: func.func @embedding
// CHECK: optimus.embedding %{{.*}}, %{{.*}} : (tensor<256x16xf32>, tensor<2x8xi32>) -> tensor<2x8x16xf32>
func.func @embedding(%table: tensor<256x16xf32>, %tokens: tensor<2x8xi32>) -> tensor<2x8x16xf32> {
  %0 = optimus.embedding %table, %tokens : (tensor<256x16xf32>, tensor<2x8xi32>) -> tensor<2x8x16xf32>
  return %0 : tensor<2x8x16xf32>
}

// CHECK-LABEL: func.func @embedding_grad
// CHECK: %[[HEAD:.*]] = optimus.embedding_grad %{{.*}}, %{{.*}} : (tensor<2x8x16xf32>, tensor<2x8xi32>) -> tensor<256x16xf32>
// CHECK-NEXT: optimus.embedding_grad %{{.*}}, %{{.*}} accumulate(%[[HEAD]]) {pad = 3 : i64} : (tensor<2x8x16xf32>, tensor<2x8xi32>, tensor<256x16xf32>) -> tensor<256x16xf32>
func.func @embedding_grad(%dy: tensor<2x8x16xf32>, %tokens: tensor<2x8xi32>) -> tensor<256x16xf32> {
  %0 = optimus.embedding_grad %dy, %tokens : (tensor<2x8x16xf32>, tensor<2x8xi32>) -> tensor<256x16xf32>
  %1 = optimus.embedding_grad %dy, %tokens accumulate(%0) {pad = 3 : i64} : (tensor<2x8x16xf32>, tensor<2x8xi32>, tensor<256x16xf32>) -> tensor<256x16xf32>
  return %1 : tensor<256x16xf32>
}

// CHECK-LABEL: func.func @dropout
// CHECK: optimus.dropout %{{.*}}, %{{.*}} {rate = 1.000000e-01 : f64, stream = 3 : i64} : (tensor<2x8xf32>, tensor<5xi32>) -> tensor<2x8xf32>
func.func @dropout(%x: tensor<2x8xf32>, %random: tensor<5xi32>) -> tensor<2x8xf32> {
  %0 = optimus.dropout %x, %random {rate = 0.1 : f64, stream = 3 : i64} : (tensor<2x8xf32>, tensor<5xi32>) -> tensor<2x8xf32>
  return %0 : tensor<2x8xf32>
}

// CHECK-LABEL: func.func @gelu
// CHECK: optimus.gelu %{{.*}} : tensor<2x8xf32>
func.func @gelu(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %0 = optimus.gelu %x : tensor<2x8xf32>
  return %0 : tensor<2x8xf32>
}

// CHECK-LABEL: func.func @gelu_with_slope
// CHECK: %{{.*}}, %{{.*}} = optimus.gelu_with_slope %{{.*}} : tensor<2x8xf32>
func.func @gelu_with_slope(%x: tensor<2x8xf32>) -> (tensor<2x8xf32>, tensor<2x8xf32>) {
  %0, %1 = optimus.gelu_with_slope %x : tensor<2x8xf32>
  return %0, %1 : tensor<2x8xf32>, tensor<2x8xf32>
}

// CHECK-LABEL: func.func @global_norm
// CHECK: optimus.global_norm %{{.*}}, %{{.*}} : (tensor<4x6xf32>, tensor<f32>) -> tensor<f32>
func.func @global_norm(%a: tensor<4x6xf32>, %b: tensor<f32>) -> tensor<f32> {
  %0 = optimus.global_norm %a, %b : (tensor<4x6xf32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// CHECK-LABEL: func.func @head
// CHECK: optimus.head %{{.*}}, %{{[^ ]*}} : (tensor<2x8x16xf32>, tensor<256x16xf32>) -> tensor<2x8x256xf32>
// CHECK: optimus.head %{{.*}}, %{{.*}} bias(%{{.*}}) : (tensor<2x8x16xf32>, tensor<256x16xf32>, tensor<256xf32>) -> tensor<2x8x256xf32>
func.func @head(%h: tensor<2x8x16xf32>, %table: tensor<256x16xf32>, %bias: tensor<256xf32>) -> (tensor<2x8x256xf32>, tensor<2x8x256xf32>) {
  %0 = optimus.head %h, %table : (tensor<2x8x16xf32>, tensor<256x16xf32>) -> tensor<2x8x256xf32>
  %1 = optimus.head %h, %table bias(%bias) : (tensor<2x8x16xf32>, tensor<256x16xf32>, tensor<256xf32>) -> tensor<2x8x256xf32>
  return %0, %1 : tensor<2x8x256xf32>, tensor<2x8x256xf32>
}

// The default chunk is not printed.
// CHECK-LABEL: func.func @head_loss
// CHECK: %{{.*}}, %{{.*}} = optimus.head_loss %{{.*}}, %{{.*}}, %{{[^ ]*}} : (tensor<2x8x16xf32>, tensor<256x16xf32>, tensor<2x8xi32>) -> (tensor<f32>, tensor<f32>)
// CHECK-NEXT: optimus.head_loss %{{.*}} {chunk = 4 : i64} :
func.func @head_loss(%h: tensor<2x8x16xf32>, %table: tensor<256x16xf32>, %targets: tensor<2x8xi32>) -> (tensor<f32>, tensor<f32>) {
  %0, %1 = optimus.head_loss %h, %table, %targets : (tensor<2x8x16xf32>, tensor<256x16xf32>, tensor<2x8xi32>) -> (tensor<f32>, tensor<f32>)
  %2, %3 = optimus.head_loss %h, %table, %targets {chunk = 4 : i64} : (tensor<2x8x16xf32>, tensor<256x16xf32>, tensor<2x8xi32>) -> (tensor<f32>, tensor<f32>)
  return %0, %3 : tensor<f32>, tensor<f32>
}

// CHECK-LABEL: func.func @head_loss_grad
// CHECK: %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} = optimus.head_loss_grad %{{.*}} {chunk = 4 : i64} : (tensor<2x8x16xf32>, tensor<256x16xf32>, tensor<2x8xi32>) -> (tensor<f32>, tensor<f32>, tensor<2x8x16xf32>, tensor<256x16xf32>)
func.func @head_loss_grad(%h: tensor<2x8x16xf32>, %table: tensor<256x16xf32>, %targets: tensor<2x8xi32>) -> (tensor<2x8x16xf32>, tensor<256x16xf32>) {
  %0, %1, %2, %3 = optimus.head_loss_grad %h, %table, %targets {chunk = 4 : i64} : (tensor<2x8x16xf32>, tensor<256x16xf32>, tensor<2x8xi32>) -> (tensor<f32>, tensor<f32>, tensor<2x8x16xf32>, tensor<256x16xf32>)
  return %2, %3 : tensor<2x8x16xf32>, tensor<256x16xf32>
}

// CHECK-LABEL: func.func @layer_norm
// CHECK: %{{.*}}, %{{.*}}, %{{.*}} = optimus.layer_norm %{{.*}}, %{{.*}}, %{{.*}} {epsilon = 1.000000e-05 : f64} : (tensor<2x8x16xf32>, tensor<16xf32>, tensor<16xf32>) -> (tensor<2x8x16xf32>, tensor<2x8xf32>, tensor<2x8xf32>)
func.func @layer_norm(%x: tensor<2x8x16xf32>, %g: tensor<16xf32>) -> tensor<2x8x16xf32> {
  %0, %1, %2 = optimus.layer_norm %x, %g, %g {epsilon = 1.0e-5 : f64} : (tensor<2x8x16xf32>, tensor<16xf32>, tensor<16xf32>) -> (tensor<2x8x16xf32>, tensor<2x8xf32>, tensor<2x8xf32>)
  return %0 : tensor<2x8x16xf32>
}

// CHECK-LABEL: func.func @layer_norm_grad
// CHECK: %[[DX:.*]], %{{.*}}, %{{.*}} = optimus.layer_norm_grad %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{[^ ]*}} : (tensor<8x16xf32>, tensor<8x16xf32>, tensor<8xf32>, tensor<8xf32>, tensor<16xf32>) -> (tensor<8x16xf32>, tensor<16xf32>, tensor<16xf32>)
// CHECK-NEXT: optimus.layer_norm_grad %{{.*}} residual(%[[DX]]) : (tensor<8x16xf32>, tensor<8x16xf32>, tensor<8xf32>, tensor<8xf32>, tensor<16xf32>, tensor<8x16xf32>) ->
func.func @layer_norm_grad(%x: tensor<8x16xf32>, %m: tensor<8xf32>, %g: tensor<16xf32>) -> tensor<8x16xf32> {
  %0, %1, %2 = optimus.layer_norm_grad %x, %x, %m, %m, %g : (tensor<8x16xf32>, tensor<8x16xf32>, tensor<8xf32>, tensor<8xf32>, tensor<16xf32>) -> (tensor<8x16xf32>, tensor<16xf32>, tensor<16xf32>)
  %3, %4, %5 = optimus.layer_norm_grad %x, %x, %m, %m, %g residual(%0) : (tensor<8x16xf32>, tensor<8x16xf32>, tensor<8xf32>, tensor<8xf32>, tensor<16xf32>, tensor<8x16xf32>) -> (tensor<8x16xf32>, tensor<16xf32>, tensor<16xf32>)
  return %3 : tensor<8x16xf32>
}

// CHECK-LABEL: func.func @matmul(
// CHECK: optimus.matmul %{{.*}}, %{{[^ ]*}} : (tensor<2x8x16xf32>, tensor<16x3x4xf32>) -> tensor<2x8x3x4xf32>
// CHECK-NEXT: optimus.matmul %{{.*}}, %{{.*}} bias(%{{.*}}) residual(%{{.*}}) scale(%{{.*}}) : (
// CHECK-NEXT: optimus.matmul %{{.*}}, %{{.*}} {contracting = 2 : i64, transpose_b} : (tensor<2x8x3x4xf32>, tensor<16x3x4xf32>) -> tensor<2x8x16xf32>
// CHECK-NEXT: optimus.matmul %{{.*}}, %{{.*}} {contracting = 2 : i64, transpose_a} : (tensor<2x8x16xf32>, tensor<2x8x3x4xf32>) -> tensor<16x3x4xf32>
func.func @matmul(%x: tensor<2x8x16xf32>, %w: tensor<16x3x4xf32>, %b: tensor<3x4xf32>) -> (tensor<2x8x16xf32>, tensor<16x3x4xf32>) {
  %0 = optimus.matmul %x, %w : (tensor<2x8x16xf32>, tensor<16x3x4xf32>) -> tensor<2x8x3x4xf32>
  %1 = optimus.matmul %x, %w bias(%b) residual(%0) scale(%0) : (tensor<2x8x16xf32>, tensor<16x3x4xf32>, tensor<3x4xf32>, tensor<2x8x3x4xf32>, tensor<2x8x3x4xf32>) -> tensor<2x8x3x4xf32>
  %2 = optimus.matmul %1, %w {contracting = 2 : i64, transpose_b} : (tensor<2x8x3x4xf32>, tensor<16x3x4xf32>) -> tensor<2x8x16xf32>
  %3 = optimus.matmul %x, %1 {contracting = 2 : i64, transpose_a} : (tensor<2x8x16xf32>, tensor<2x8x3x4xf32>) -> tensor<16x3x4xf32>
  return %2, %3 : tensor<2x8x16xf32>, tensor<16x3x4xf32>
}

// CHECK-LABEL: func.func @merge_moments
// CHECK: %{{.*}}, %{{.*}} = optimus.merge_moments %{{.*}} {counts = array<i64: 6, 6, 0>, epsilon = 1.000000e-05 : f64} : (tensor<8x6xf32>) -> (tensor<8xf32>, tensor<8xf32>)
func.func @merge_moments(%x: tensor<8x6xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %0, %1 = optimus.merge_moments %x {counts = array<i64: 6, 6, 0>, epsilon = 1.0e-5 : f64} : (tensor<8x6xf32>) -> (tensor<8xf32>, tensor<8xf32>)
  return %0, %1 : tensor<8xf32>, tensor<8xf32>
}

// CHECK-LABEL: func.func @mul
// CHECK: optimus.mul %{{.*}}, %{{.*}} : (tensor<2x8x16xf32>, tensor<8x16xf32>) -> tensor<2x8x16xf32>
func.func @mul(%x: tensor<2x8x16xf32>, %y: tensor<8x16xf32>) -> tensor<2x8x16xf32> {
  %0 = optimus.mul %x, %y : (tensor<2x8x16xf32>, tensor<8x16xf32>) -> tensor<2x8x16xf32>
  return %0 : tensor<2x8x16xf32>
}

// CHECK-LABEL: func.func @norm_grad_apply
// CHECK: optimus.norm_grad_apply %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} residual(%{{.*}}) {size = 16 : i64} : (tensor<8x16xf32>, tensor<8x16xf32>, tensor<8xf32>, tensor<8xf32>, tensor<16xf32>, tensor<8x2xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
func.func @norm_grad_apply(%x: tensor<8x16xf32>, %m: tensor<8xf32>, %g: tensor<16xf32>, %sums: tensor<8x2xf32>) -> tensor<8x16xf32> {
  %0 = optimus.norm_grad_apply %x, %x, %m, %m, %g, %sums residual(%x) {size = 16 : i64} : (tensor<8x16xf32>, tensor<8x16xf32>, tensor<8xf32>, tensor<8xf32>, tensor<16xf32>, tensor<8x2xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
  return %0 : tensor<8x16xf32>
}

// CHECK-LABEL: func.func @norm_grad_sums
// CHECK: optimus.norm_grad_sums %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : (tensor<8x16xf32>, tensor<8x16xf32>, tensor<8xf32>, tensor<8xf32>, tensor<16xf32>) -> tensor<8x2xf32>
func.func @norm_grad_sums(%x: tensor<8x16xf32>, %m: tensor<8xf32>, %g: tensor<16xf32>) -> tensor<8x2xf32> {
  %0 = optimus.norm_grad_sums %x, %x, %m, %m, %g : (tensor<8x16xf32>, tensor<8x16xf32>, tensor<8xf32>, tensor<8xf32>, tensor<16xf32>) -> tensor<8x2xf32>
  return %0 : tensor<8x2xf32>
}

// CHECK-LABEL: func.func @norm_param_grad
// CHECK: %{{.*}}, %{{.*}} = optimus.norm_param_grad %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : (tensor<8x16xf32>, tensor<8x16xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<16xf32>, tensor<16xf32>)
func.func @norm_param_grad(%x: tensor<8x16xf32>, %m: tensor<8xf32>) -> (tensor<16xf32>, tensor<16xf32>) {
  %0, %1 = optimus.norm_param_grad %x, %x, %m, %m : (tensor<8x16xf32>, tensor<8x16xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<16xf32>, tensor<16xf32>)
  return %0, %1 : tensor<16xf32>, tensor<16xf32>
}

// CHECK-LABEL: func.func @normalize
// CHECK: optimus.normalize %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : (tensor<8x16xf32>, tensor<8xf32>, tensor<8xf32>, tensor<16xf32>, tensor<16xf32>) -> tensor<8x16xf32>
func.func @normalize(%x: tensor<8x16xf32>, %m: tensor<8xf32>, %g: tensor<16xf32>) -> tensor<8x16xf32> {
  %0 = optimus.normalize %x, %m, %m, %g, %g : (tensor<8x16xf32>, tensor<8xf32>, tensor<8xf32>, tensor<16xf32>, tensor<16xf32>) -> tensor<8x16xf32>
  return %0 : tensor<8x16xf32>
}

// CHECK-LABEL: func.func @part
// CHECK: optimus.part %{{.*}} {index = 2 : i64} : (tensor<2x8x3x4x16xf32>) -> tensor<2x8x4x16xf32>
func.func @part(%x: tensor<2x8x3x4x16xf32>) -> tensor<2x8x4x16xf32> {
  %0 = optimus.part %x {index = 2 : i64} : (tensor<2x8x3x4x16xf32>) -> tensor<2x8x4x16xf32>
  return %0 : tensor<2x8x4x16xf32>
}

// CHECK-LABEL: func.func @rms_norm
// CHECK: optimus.rms_norm %{{.*}}, %{{.*}} {epsilon = 1.000000e-05 : f64} : (tensor<2x8x16xf32>, tensor<16xf32>) -> (tensor<2x8x16xf32>, tensor<2x8xf32>)
func.func @rms_norm(%x: tensor<2x8x16xf32>, %g: tensor<16xf32>) -> tensor<2x8x16xf32> {
  %0, %1 = optimus.rms_norm %x, %g {epsilon = 1.0e-05 : f64} : (tensor<2x8x16xf32>, tensor<16xf32>) -> (tensor<2x8x16xf32>, tensor<2x8xf32>)
  return %0 : tensor<2x8x16xf32>
}

// CHECK-LABEL: func.func @rms_norm_grad
// CHECK: optimus.rms_norm_grad %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} :
// CHECK: optimus.rms_norm_grad %{{.*}} residual(%{{.*}}) :
// CHECK: optimus.rms_norm_grad %{{.*}} sums(%{{.*}}) residual(%{{.*}}) {size = 31 : i64} :
func.func @rms_norm_grad(%x: tensor<2x8x16xf32>, %r: tensor<2x8xf32>, %g: tensor<16xf32>) -> (tensor<2x8x16xf32>, tensor<16xf32>) {
  %0, %1 = optimus.rms_norm_grad %x, %x, %r, %g : (tensor<2x8x16xf32>, tensor<2x8x16xf32>, tensor<2x8xf32>, tensor<16xf32>) -> (tensor<2x8x16xf32>, tensor<16xf32>)
  %2, %3 = optimus.rms_norm_grad %0, %x, %r, %1 residual(%x) : (tensor<2x8x16xf32>, tensor<2x8x16xf32>, tensor<2x8xf32>, tensor<16xf32>, tensor<2x8x16xf32>) -> (tensor<2x8x16xf32>, tensor<16xf32>)
  %4, %5 = optimus.rms_norm_grad %2, %x, %r, %3 sums(%r) residual(%x) {size = 31 : i64} : (tensor<2x8x16xf32>, tensor<2x8x16xf32>, tensor<2x8xf32>, tensor<16xf32>, tensor<2x8xf32>, tensor<2x8x16xf32>) -> (tensor<2x8x16xf32>, tensor<16xf32>)
  return %4, %5 : tensor<2x8x16xf32>, tensor<16xf32>
}

// CHECK-LABEL: func.func @rms_rstd
// CHECK: optimus.rms_rstd %{{.*}} {epsilon = 1.000000e-05 : f64, size = 16 : i64} : tensor<2x8xf32>
func.func @rms_rstd(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %0 = optimus.rms_rstd %x {epsilon = 1.0e-05 : f64, size = 16 : i64} : tensor<2x8xf32>
  return %0 : tensor<2x8xf32>
}

// CHECK-LABEL: func.func @rms_scale
// CHECK: optimus.rms_scale %{{.*}}, %{{.*}}, %{{.*}} : (tensor<2x8x16xf32>, tensor<2x8xf32>, tensor<16xf32>) -> tensor<2x8x16xf32>
func.func @rms_scale(%x: tensor<2x8x16xf32>, %r: tensor<2x8xf32>, %g: tensor<16xf32>) -> tensor<2x8x16xf32> {
  %0 = optimus.rms_scale %x, %r, %g : (tensor<2x8x16xf32>, tensor<2x8xf32>, tensor<16xf32>) -> tensor<2x8x16xf32>
  return %0 : tensor<2x8x16xf32>
}

// CHECK-LABEL: func.func @rotary
// CHECK: optimus.rotary %{{.*}} {theta = 1.000000e+04 : f64} : tensor<2x8x16xf32>
// CHECK: optimus.rotary %{{.*}} {inverse, theta = 1.000000e+04 : f64} : tensor<2x8x16xf32>
// CHECK: optimus.rotary %{{.*}} {channels = 4 : i64, frequencies = array<f64: 1.000000e+00, 2.500000e-01>, theta = 1.000000e+04 : f64} : tensor<2x8x16xf32>
func.func @rotary(%x: tensor<2x8x16xf32>) -> tensor<2x8x16xf32> {
  %0 = optimus.rotary %x {theta = 1.0e4 : f64} : tensor<2x8x16xf32>
  %1 = optimus.rotary %0 {theta = 1.0e4 : f64, inverse} : tensor<2x8x16xf32>
  %2 = optimus.rotary %0 {theta = 1.0e4 : f64, channels = 4 : i64, frequencies = array<f64: 1.0, 0.25>} : tensor<2x8x16xf32>
  return %1 : tensor<2x8x16xf32>
}

// CHECK-LABEL: func.func @row_dot
// CHECK: optimus.row_dot %{{.*}}, %{{.*}} : (tensor<2x8x16xf32>, tensor<2x8x16xf32>) -> tensor<2x8xf32>
// CHECK: optimus.row_dot %{{.*}}, %{{.*}} weight(%{{.*}}) : (tensor<2x8x16xf32>, tensor<2x8x16xf32>, tensor<16xf32>) -> tensor<2x8xf32>
func.func @row_dot(%x: tensor<2x8x16xf32>, %g: tensor<16xf32>) -> (tensor<2x8xf32>, tensor<2x8xf32>) {
  %0 = optimus.row_dot %x, %x : (tensor<2x8x16xf32>, tensor<2x8x16xf32>) -> tensor<2x8xf32>
  %1 = optimus.row_dot %x, %x weight(%g) : (tensor<2x8x16xf32>, tensor<2x8x16xf32>, tensor<16xf32>) -> tensor<2x8xf32>
  return %0, %1 : tensor<2x8xf32>, tensor<2x8xf32>
}

// CHECK-LABEL: func.func @row_moments
// CHECK: optimus.row_moments %{{.*}} : (tensor<2x8x16xf32>) -> tensor<2x8x2xf32>
func.func @row_moments(%x: tensor<2x8x16xf32>) -> tensor<2x8x2xf32> {
  %0 = optimus.row_moments %x : (tensor<2x8x16xf32>) -> tensor<2x8x2xf32>
  return %0 : tensor<2x8x2xf32>
}

// CHECK-LABEL: func.func @sqrt
// CHECK: optimus.sqrt %{{.*}} : tensor<f32>
func.func @sqrt(%x: tensor<f32>) -> tensor<f32> {
  %0 = optimus.sqrt %x : tensor<f32>
  return %0 : tensor<f32>
}

// CHECK-LABEL: func.func @sum_leading
// CHECK: optimus.sum_leading %{{.*}} : (tensor<2x8x16xf32>) -> tensor<16xf32>
func.func @sum_leading(%x: tensor<2x8x16xf32>) -> tensor<16xf32> {
  %0 = optimus.sum_leading %x : (tensor<2x8x16xf32>) -> tensor<16xf32>
  return %0 : tensor<16xf32>
}

// CHECK-LABEL: func.func @sum_squares
// CHECK: optimus.sum_squares %{{.*}}, %{{.*}} : (tensor<4x6xf32>, tensor<f32>) -> tensor<f32>
func.func @sum_squares(%a: tensor<4x6xf32>, %b: tensor<f32>) -> tensor<f32> {
  %0 = optimus.sum_squares %a, %b : (tensor<4x6xf32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// CHECK-LABEL: func.func @swiglu
// CHECK: optimus.swiglu %{{.*}}, %{{.*}} : tensor<2x8x16xf32>
// CHECK: optimus.swiglu_grad %{{.*}}, %{{.*}}, %{{.*}} : tensor<2x8x16xf32>
func.func @swiglu(%a: tensor<2x8x16xf32>, %b: tensor<2x8x16xf32>) -> (tensor<2x8x16xf32>, tensor<2x8x16xf32>) {
  %0 = optimus.swiglu %a, %b : tensor<2x8x16xf32>
  %1, %2 = optimus.swiglu_grad %0, %a, %b : tensor<2x8x16xf32>
  return %1, %2 : tensor<2x8x16xf32>, tensor<2x8x16xf32>
}

// CHECK-LABEL: func.func @head_loss_bias
// CHECK: optimus.head_loss %{{.*}}, %{{.*}}, %{{.*}} bias(%{{.*}}) : (tensor<2x8x16xf32>, tensor<32x16xf32>, tensor<2x8xi32>, tensor<32xf32>) -> (tensor<f32>, tensor<f32>)
// CHECK: optimus.head_loss_grad %{{.*}}, %{{.*}}, %{{.*}} bias(%{{.*}}) {chunk = 4 : i64}
func.func @head_loss_bias(%h: tensor<2x8x16xf32>, %t: tensor<32x16xf32>, %i: tensor<2x8xi32>, %b: tensor<32xf32>) -> tensor<32xf32> {
  %0, %1 = optimus.head_loss %h, %t, %i bias(%b) : (tensor<2x8x16xf32>, tensor<32x16xf32>, tensor<2x8xi32>, tensor<32xf32>) -> (tensor<f32>, tensor<f32>)
  %2, %3, %4, %5, %6 = optimus.head_loss_grad %h, %t, %i bias(%b) {chunk = 4 : i64} : (tensor<2x8x16xf32>, tensor<32x16xf32>, tensor<2x8xi32>, tensor<32xf32>) -> (tensor<f32>, tensor<f32>, tensor<2x8x16xf32>, tensor<32x16xf32>, tensor<32xf32>)
  return %6 : tensor<32xf32>
}

// CHECK-LABEL: func.func @tokens_and_rows
// CHECK: optimus.lengths %{{.*}} {pad = 0 : i64} : (tensor<2x8xi32>) -> tensor<2xi32>
// CHECK: optimus.lengths %{{.*}} targets(%{{.*}}) {pad = 0 : i64} : (tensor<2x8xi32>, tensor<2x8xi32>) -> tensor<2xi32>
// CHECK: optimus.row %{{.*}} {index = 1 : i64} : (tensor<2x16xf32>) -> tensor<16xf32>
// CHECK: optimus.gelu %{{.*}} {exact} : tensor<16xf32>
// CHECK: optimus.row_grad %{{.*}} {index = 1 : i64} : (tensor<16xf32>) -> tensor<2x16xf32>
func.func @tokens_and_rows(%i: tensor<2x8xi32>, %t: tensor<2x16xf32>) -> (tensor<2xi32>, tensor<2xi32>, tensor<2x16xf32>) {
  %0 = optimus.lengths %i {pad = 0 : i64} : (tensor<2x8xi32>) -> tensor<2xi32>
  %masked = optimus.lengths %i targets(%i) {pad = 0 : i64} : (tensor<2x8xi32>, tensor<2x8xi32>) -> tensor<2xi32>
  %1 = optimus.row %t {index = 1 : i64} : (tensor<2x16xf32>) -> tensor<16xf32>
  %2 = optimus.gelu %1 {exact} : tensor<16xf32>
  %3 = optimus.row_grad %2 {index = 1 : i64} : (tensor<16xf32>) -> tensor<2x16xf32>
  return %0, %masked, %3 : tensor<2xi32>, tensor<2xi32>, tensor<2x16xf32>
}

// CHECK-LABEL: func.func @optimizers
// CHECK: optimus.adagrad %{{.*}} {decay} :
// CHECK: optimus.lion %{{.*}} {decay} :
// CHECK: optimus.sgd %{{.*}} {decay} :
// CHECK: optimus.lamb_direction %{{.*}} {decay} :
// CHECK: optimus.lamb_update %{{.*}} : (tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> tensor<4xf32>
// CHECK: optimus.lamb_update %{{.*}} : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
func.func @optimizers(%p: tensor<4xf32>, %s: tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a:2 = optimus.adagrad %p, %p, %p, %s, %s, %s, %s {decay}
    : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>)
  %l:2 = optimus.lion %a#0, %p, %p, %s, %s, %s, %s, %s {decay}
    : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>)
  %0:2 = optimus.sgd %l#0, %p, %p, %s, %s, %s, %s {decay}
    : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>)
  %1:3 = optimus.lamb_direction %0#0, %p, %p, %p, %s, %s, %s, %s, %s, %s, %s {decay}
    : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  %2 = optimus.lamb_update %p, %1#0, %s, %s, %s : (tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<f32>, tensor<f32>) -> tensor<4xf32>
  %3 = optimus.lamb_update %p, %1#0, %s : (tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %2, %3 : tensor<4xf32>, tensor<4xf32>
}
