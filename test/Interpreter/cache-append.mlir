// RUN: optimus-interpret %s --function sharded --compare-with whole --draw 1 | FileCheck %s
// RUN: optimus-interpret %s --function twice --compare-with whole --draw 1 | FileCheck %s
// RUN: optimus-opt %s --optimus-verify-partition
// RUN: not optimus-interpret %s --function beyond --draw 1 2>&1 | FileCheck %s --check-prefix=BEYOND
// RUN: not optimus-interpret %s --function far --draw 1 2>&1 | FileCheck %s --check-prefix=FAR

// Slots, of which one is empty, and heads may be sharded.
// CHECK: result0: 0.0e+00 from @whole

optimus.mesh @mesh <["row" = 2, "col" = 2]>
#c = #ccl.local<[2, 4, 3, 2], #optimus.sharding<@mesh, [{}, {}, {"col"}, {}]>>
#x = #ccl.local<[2, 2, 3, 2], #optimus.sharding<@mesh, [{}, {}, {"col"}, {}]>>

func.func @whole(%c: tensor<2x4x3x2xf32>, %x: tensor<2x2x3x2xf32>) -> tensor<2x4x3x2xf32> {
  %p = arith.constant dense<[[3, 1], [-1, -1]]> : tensor<2x2xi32>
  %0 = optimus.cache_append %c, %x, %p : (tensor<2x4x3x2xf32>, tensor<2x2x3x2xf32>, tensor<2x2xi32>) -> tensor<2x4x3x2xf32>
  return %0 : tensor<2x4x3x2xf32>
}
func.func @sharded(%c: tensor<2x4x2x2xf32, #c>, %x: tensor<2x2x2x2xf32, #x>) -> tensor<2x4x2x2xf32, #c> {
  %p = arith.constant dense<[[3, 1], [-1, -1]]> : tensor<2x2xi32>
  %0 = optimus.cache_append %c, %x, %p : (tensor<2x4x2x2xf32, #c>, tensor<2x2x2x2xf32, #x>, tensor<2x2xi32>) -> tensor<2x4x2x2xf32, #c>
  return %0 : tensor<2x4x2x2xf32, #c>
}
// What is written again is the same.
func.func @twice(%c: tensor<2x4x3x2xf32>, %x: tensor<2x2x3x2xf32>) -> tensor<2x4x3x2xf32> {
  %p = arith.constant dense<[[3, 1], [-1, -1]]> : tensor<2x2xi32>
  %0 = optimus.cache_append %c, %x, %p : (tensor<2x4x3x2xf32>, tensor<2x2x3x2xf32>, tensor<2x2xi32>) -> tensor<2x4x3x2xf32>
  %1 = optimus.cache_append %0, %x, %p : (tensor<2x4x3x2xf32>, tensor<2x2x3x2xf32>, tensor<2x2xi32>) -> tensor<2x4x3x2xf32>
  return %1 : tensor<2x4x3x2xf32>
}

// BEYOND: expected positions below the capacity of 4, found 4 of token 1 of sequence 1
func.func @beyond(%c: tensor<2x4x3x2xf32>, %x: tensor<2x2x3x2xf32>) -> tensor<2x4x3x2xf32> {
  %p = arith.constant dense<[[3, 1], [3, 4]]> : tensor<2x2xi32>
  %0 = optimus.cache_append %c, %x, %p : (tensor<2x4x3x2xf32>, tensor<2x2x3x2xf32>, tensor<2x2xi32>) -> tensor<2x4x3x2xf32>
  return %0 : tensor<2x4x3x2xf32>
}

// FAR: expected positions below the capacity of 8, found 8 of token 0 of sequence 0
func.func @far(%x: tensor<1x1x2xf32>) -> tensor<1x1x2xf32> {
  %p = arith.constant dense<8> : tensor<1x1xi32>
  %0 = optimus.rotary %x positions(%p : tensor<1x1xi32>) {theta = 1.0e4 : f64, capacity = 8 : i64} : tensor<1x1x2xf32>
  return %0 : tensor<1x1x2xf32>
}
