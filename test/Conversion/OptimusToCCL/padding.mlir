// RUN: optimus-opt %s --optimus-shard='strategy=summa' --optimus-partition --verify-roundtrip --mlir-print-local-scope | FileCheck %s

optimus.mesh @mesh <["row" = 2, "col" = 3]>

// A class has one padded extent. The contracted dimension, 7, is sharded by 3 in x
// and by 2 in w, so it is padded to 12; the other dimensions, 3 and 5, to 4
// and 6.
// CHECK-LABEL: func.func @classes(
// CHECK-SAME: %arg0: tensor<2x4xf32, #ccl.local<[3, 7], <@mesh, [{"row"}, {"col"}]>>>
// CHECK-SAME: %arg1: tensor<6x2xf32, #ccl.local<[7, 5], <@mesh, [{"row"}, {"col"}]>>>
// CHECK-SAME: -> tensor<2x2xf32, #ccl.local<[3, 5], <@mesh, [{"row"}, {"col"}]>>>
// CHECK: ccl.matmul %arg0, %arg1 {panels = 6 : i64, stationary = "c"}
func.func @classes(%x: tensor<3x7xf32> {optimus.param = "x", optimus.sharding = #optimus.sharding<@mesh, [{"row"}, {"col"}]>},
                   %w: tensor<7x5xf32> {optimus.param = "w", optimus.sharding = #optimus.sharding<@mesh, [{"row"}, {"col"}]>}) -> tensor<3x5xf32> {
  %y = optimus.matmul %x, %w {optimus.shardings = [#optimus.sharding<@mesh, [{"row"}, {"col"}]>]} : (tensor<3x7xf32>, tensor<7x5xf32>) -> tensor<3x5xf32>
  return %y : tensor<3x5xf32>
}

// A parameter has one layout in all functions, whatever they do with it; here
// nothing asks for 12.
// CHECK-LABEL: func.func @elsewhere(
// CHECK-SAME: %arg0: tensor<6x2xf32, #ccl.local<[7, 5], <@mesh, [{"row"}, {"col"}]>>>
func.func @elsewhere(%w: tensor<7x5xf32> {optimus.param = "w", optimus.sharding = #optimus.sharding<@mesh, [{"row"}, {"col"}]>}) -> tensor<7x5xf32> {
  %0 = optimus.gelu %w : tensor<7x5xf32>
  return %0 : tensor<7x5xf32>
}

// What is whole on every rank is padded too, where its class is.
// CHECK-LABEL: func.func @whole(
// CHECK-SAME: %arg0: tensor<4xf32, #ccl.local<[3], <@mesh, [{}]>>>
func.func @whole(%b: tensor<3xf32> {optimus.sharding = #optimus.sharding<@mesh, [{}]>}, %x: tensor<8x3xf32>) -> tensor<8x3xf32> {
  %0 = optimus.add %x, %b {optimus.shardings = [#optimus.sharding<@mesh, [{}, {"row"}]>]} : (tensor<8x3xf32>, tensor<3xf32>) -> tensor<8x3xf32>
  return %0 : tensor<8x3xf32>
}
