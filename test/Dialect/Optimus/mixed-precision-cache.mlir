// RUN: optimus-opt %s --optimus-mixed-precision --verify-roundtrip | FileCheck %s

// Keys and values of a text are kept as attention reads them, so no call casts a whole
// cache. What else lives for a sequence stays f32.
// CHECK-LABEL: func.func @next(
// CHECK-SAME: %[[Q:[^:]*]]: tensor<2x1x4x16xf32>
// CHECK-SAME: %[[KEYS:[^:]*]]: tensor<2x64x4x16xbf16>
// CHECK-SAME: %[[VALUES:[^:]*]]: tensor<2x64x4x16xbf16>
// CHECK-SAME: %{{[^:]*}}: tensor<f32>
// CHECK-SAME: -> (tensor<2x1x4x16xf32> {{{.*}}}, tensor<2x64x4x16xbf16>, tensor<2x64x4x16xbf16>, tensor<f32>)
// CHECK: %[[ROWS:.*]] = optimus.cast %[[Q]] : (tensor<2x1x4x16xf32>) -> tensor<2x1x4x16xbf16>
// CHECK: %[[K:.*]] = optimus.cache_append %[[KEYS]], %[[ROWS]], {{.*}} -> tensor<2x64x4x16xbf16>
// CHECK: %[[V:.*]] = optimus.cache_append %[[VALUES]], %[[ROWS]], {{.*}} -> tensor<2x64x4x16xbf16>
// CHECK: optimus.attention %[[ROWS]], %[[K]], %[[V]]
// CHECK: return %{{.*}}, %[[K]], %[[V]], %{{.*}} : tensor<2x1x4x16xf32>, tensor<2x64x4x16xbf16>, tensor<2x64x4x16xbf16>, tensor<f32>
#call = #optimus.buffer<role = "next_logits", lifetime = call>
func.func @next(
    %q: tensor<2x1x4x16xf32> {optimus.binding = #optimus.buffer<role = "rows", lifetime = call>},
    %keys: tensor<2x64x4x16xf32> {optimus.binding = #optimus.buffer<role = "keys", lifetime = sequence, init = <zeros>, reset = sequence>, optimus.donates = 1 : i64},
    %values: tensor<2x64x4x16xf32> {optimus.binding = #optimus.buffer<role = "values", lifetime = sequence, init = <zeros>, reset = sequence>, optimus.donates = 2 : i64},
    %sum: tensor<f32> {optimus.binding = #optimus.buffer<role = "loss_sum", lifetime = sequence, init = <zeros>, reset = step>, optimus.donates = 3 : i64},
    %positions: tensor<2x1xi32> {optimus.binding = "positions"},
    %lengths: tensor<2xi32> {optimus.binding = #optimus.buffer<role = "lengths", lifetime = call, filled_by = host>})
    -> (tensor<2x1x4x16xf32> {optimus.binding = #call}, tensor<2x64x4x16xf32>, tensor<2x64x4x16xf32>, tensor<f32>)
    attributes {optimus.entry = #optimus.entry<decode, batch = 2, sequence = 1>} {
  %k = optimus.cache_append %keys, %q, %positions : (tensor<2x64x4x16xf32>, tensor<2x1x4x16xf32>, tensor<2x1xi32>) -> tensor<2x64x4x16xf32>
  %v = optimus.cache_append %values, %q, %positions : (tensor<2x64x4x16xf32>, tensor<2x1x4x16xf32>, tensor<2x1xi32>) -> tensor<2x64x4x16xf32>
  %o, %lse = optimus.attention %q, %k, %v lengths(%lengths) positions(%positions) {cached, causal}
    : (tensor<2x1x4x16xf32>, tensor<2x64x4x16xf32>, tensor<2x64x4x16xf32>, tensor<2xi32>, tensor<2x1xi32>) -> (tensor<2x1x4x16xf32>, tensor<2x4x1xf32>)
  return %o, %k, %v, %sum : tensor<2x1x4x16xf32>, tensor<2x64x4x16xf32>, tensor<2x64x4x16xf32>, tensor<f32>
}
