// RUN: optimus-opt %s --optimus-shard='mesh=row:2,col:2 strategy=summa' | FileCheck %s

// Functions of one library share their parameters, so the first that uses one says how
// it lies. A table of positions that is added whole is an activation, and lies so where
// another function looks positions up.
// CHECK-LABEL: func.func @forward(
// CHECK-SAME: optimus.param = "wpe"{{[^%]*}}optimus.sharding = #optimus.sharding<@mesh, [{}, {"col"}]>
func.func @forward(%t: tensor<8x4xf32> {optimus.param = "wte"}, %p: tensor<6x4xf32> {optimus.param = "wpe"}, %k: tensor<4x6xi32> {optimus.binding = "tokens"}) -> tensor<4x6x4xf32> attributes {optimus.entry = #optimus.entry<forward, batch = 4, sequence = 6>} {
  %0 = optimus.embedding %t, %k : (tensor<8x4xf32>, tensor<4x6xi32>) -> tensor<4x6x4xf32>
  %1 = optimus.add %0, %p : (tensor<4x6x4xf32>, tensor<6x4xf32>) -> tensor<4x6x4xf32>
  return %1 : tensor<4x6x4xf32>
}

// Nothing here says how the gain lies, which is unused: as in @gained.
// CHECK-LABEL: func.func @looked_up(
// CHECK-SAME: optimus.param = "wpe"{{[^%]*}}optimus.sharding = #optimus.sharding<@mesh, [{}, {"col"}]>
// CHECK-SAME: optimus.param = "gain"{{[^%]*}}optimus.sharding = #optimus.sharding<@mesh, [{"col"}]>
func.func @looked_up(%t: tensor<8x4xf32> {optimus.param = "wte"}, %p: tensor<6x4xf32> {optimus.param = "wpe"}, %g: tensor<4xf32> {optimus.param = "gain"}, %k: tensor<4x6xi32> {optimus.binding = "tokens"}, %at: tensor<4x6xi32> {optimus.binding = "positions"}) -> tensor<4x6x4xf32> attributes {optimus.entry = #optimus.entry<other, batch = 4, sequence = 6>} {
  %0 = optimus.embedding %t, %k : (tensor<8x4xf32>, tensor<4x6xi32>) -> tensor<4x6x4xf32>
  %1 = optimus.embedding %p, %at : (tensor<6x4xf32>, tensor<4x6xi32>) -> tensor<4x6x4xf32>
  %2 = optimus.add %0, %1 : (tensor<4x6x4xf32>, tensor<4x6x4xf32>) -> tensor<4x6x4xf32>
  return %2 : tensor<4x6x4xf32>
}

// CHECK-LABEL: func.func @gained(
// CHECK-SAME: optimus.param = "gain"{{[^%]*}}optimus.sharding = #optimus.sharding<@mesh, [{"col"}]>
func.func @gained(%t: tensor<8x4xf32> {optimus.param = "wte"}, %g: tensor<4xf32> {optimus.param = "gain"}, %k: tensor<4x6xi32> {optimus.binding = "tokens"}) -> tensor<4x6x4xf32> attributes {optimus.entry = #optimus.entry<other, batch = 4, sequence = 6>} {
  %0 = optimus.embedding %t, %k : (tensor<8x4xf32>, tensor<4x6xi32>) -> tensor<4x6x4xf32>
  %1, %r = optimus.rms_norm %0, %g {epsilon = 1.0e-05 : f64} : (tensor<4x6x4xf32>, tensor<4xf32>) -> (tensor<4x6x4xf32>, tensor<4x6xf32>)
  return %1 : tensor<4x6x4xf32>
}
