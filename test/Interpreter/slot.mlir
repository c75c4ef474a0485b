// RUN: optimus-interpret %s --function chunk --compare-with rows --draw 1 | FileCheck %s
// RUN: optimus-interpret %s --function sharded --compare-with chunk --draw 1 | FileCheck %s
// RUN: optimus-opt %s --optimus-verify-partition
// RUN: not optimus-interpret %s --function beyond --draw 1 2>&1 | FileCheck %s --check-prefix=BEYOND
// RUN: not optimus-interpret %s --function too_long --draw 1 2>&1 | FileCheck %s --check-prefix=LONG

// Four tokens of slot 1, the last of which is padding, mean what they do as a row of
// all slots. Slots and tokens may be sharded; parts of what is taken add up.
// CHECK: result0: 0.0e+00 from @
// CHECK: result1: {{0\.0e\+00|[0-9.]+e-1[4-9]}} from @
// CHECK: result2: {{0\.0e\+00|[0-9.]+e-1[4-9]}} from @

optimus.mesh @mesh <["row" = 2, "col" = 2]>
#c = #ccl.local<[3, 4, 2, 2], #optimus.sharding<@mesh, [{"row"}, {}, {"col"}, {}]>>
#new = #ccl.local<[4, 1, 2, 2], #optimus.sharding<@mesh, [{}, {}, {"col"}, {}]>>
#lse = #ccl.local<[1, 2, 4], #optimus.sharding<@mesh, [{}, {"col"}, {}]>>
#part = #ccl.local<[1, 4, 2, 2], #optimus.sharding<@mesh, [{}, {}, {"col"}, {}], unreduced = {"row"}>>
#slot = #ccl.local<[1, 4, 2, 2], #optimus.sharding<@mesh, [{}, {}, {"col"}, {}]>>
#one = #ccl.local<[1, 1, 2, 2], #optimus.sharding<@mesh, [{}, {}, {"col"}, {}]>>

func.func @rows(%c: tensor<3x4x2x2xf32>, %x: tensor<4x1x2x2xf32>) -> (tensor<3x4x2x2xf32>, tensor<4x1x2x2xf32>, tensor<1x1x2x2xf32>) {
  %p = arith.constant dense<[[-1], [-1], [0], [-1]]> : tensor<4x1xi32>
  %slot = arith.constant dense<1> : tensor<1xi32>
  %l = arith.constant dense<3> : tensor<1xi32>
  %places = arith.constant dense<[[1], [2], [0], [-1]]> : tensor<4x1xi32>
  %a = arith.constant dense<[[1], [-1], [-1], [-1]]> : tensor<4x1xi32>
  %b = arith.constant dense<[[-1], [2], [-1], [-1]]> : tensor<4x1xi32>
  %0 = optimus.cache_append %c, %x, %p slot(%slot) : (tensor<3x4x2x2xf32>, tensor<4x1x2x2xf32>, tensor<4x1xi32>, tensor<1xi32>) -> tensor<3x4x2x2xf32>
  %1 = optimus.cache_append %0, %x, %a slot(%slot) : (tensor<3x4x2x2xf32>, tensor<4x1x2x2xf32>, tensor<4x1xi32>, tensor<1xi32>) -> tensor<3x4x2x2xf32>
  %2 = optimus.cache_append %1, %x, %b slot(%slot) : (tensor<3x4x2x2xf32>, tensor<4x1x2x2xf32>, tensor<4x1xi32>, tensor<1xi32>) -> tensor<3x4x2x2xf32>
  %k = optimus.take %2, %slot length(%l) : (tensor<3x4x2x2xf32>, tensor<1xi32>, tensor<1xi32>) -> tensor<1x4x2x2xf32>
  %y, %lse = optimus.attention %x, %k, %k lengths(%l) positions(%places) {cached, causal} : (tensor<4x1x2x2xf32>, tensor<1x4x2x2xf32>, tensor<1x4x2x2xf32>, tensor<1xi32>, tensor<4x1xi32>) -> (tensor<4x1x2x2xf32>, tensor<1x2x4xf32>)
  %t = optimus.take %y, %slot : (tensor<4x1x2x2xf32>, tensor<1xi32>) -> tensor<1x1x2x2xf32>
  return %2, %y, %t : tensor<3x4x2x2xf32>, tensor<4x1x2x2xf32>, tensor<1x1x2x2xf32>
}
func.func @chunk(%c: tensor<3x4x2x2xf32>, %x: tensor<4x1x2x2xf32>) -> (tensor<3x4x2x2xf32>, tensor<4x1x2x2xf32>, tensor<1x1x2x2xf32>) {
  %p = arith.constant dense<[[1], [2], [0], [-1]]> : tensor<4x1xi32>
  %slot = arith.constant dense<1> : tensor<1xi32>
  %l = arith.constant dense<3> : tensor<1xi32>
  %0 = optimus.cache_append %c, %x, %p slot(%slot) : (tensor<3x4x2x2xf32>, tensor<4x1x2x2xf32>, tensor<4x1xi32>, tensor<1xi32>) -> tensor<3x4x2x2xf32>
  %k = optimus.take %0, %slot length(%l) : (tensor<3x4x2x2xf32>, tensor<1xi32>, tensor<1xi32>) -> tensor<1x4x2x2xf32>
  %y, %lse = optimus.attention %x, %k, %k lengths(%l) positions(%p) {cached, causal} : (tensor<4x1x2x2xf32>, tensor<1x4x2x2xf32>, tensor<1x4x2x2xf32>, tensor<1xi32>, tensor<4x1xi32>) -> (tensor<4x1x2x2xf32>, tensor<1x2x4xf32>)
  %t = optimus.take %y, %slot : (tensor<4x1x2x2xf32>, tensor<1xi32>) -> tensor<1x1x2x2xf32>
  return %0, %y, %t : tensor<3x4x2x2xf32>, tensor<4x1x2x2xf32>, tensor<1x1x2x2xf32>
}
func.func @sharded(%c: tensor<2x4x1x2xf32, #c>, %x: tensor<4x1x1x2xf32, #new>) -> (tensor<2x4x1x2xf32, #c>, tensor<4x1x1x2xf32, #new>, tensor<1x1x1x2xf32, #one>) {
  %p = arith.constant dense<[[1], [2], [0], [-1]]> : tensor<4x1xi32>
  %slot = arith.constant dense<1> : tensor<1xi32>
  %l = arith.constant dense<3> : tensor<1xi32>
  %0 = optimus.cache_append %c, %x, %p slot(%slot) : (tensor<2x4x1x2xf32, #c>, tensor<4x1x1x2xf32, #new>, tensor<4x1xi32>, tensor<1xi32>) -> tensor<2x4x1x2xf32, #c>
  %part = optimus.take %0, %slot length(%l) : (tensor<2x4x1x2xf32, #c>, tensor<1xi32>, tensor<1xi32>) -> tensor<1x4x1x2xf32, #part>
  %k = ccl.all_reduce %part {axis = "row"} : (tensor<1x4x1x2xf32, #part>) -> tensor<1x4x1x2xf32, #slot>
  %y, %lse = optimus.attention %x, %k, %k lengths(%l) positions(%p) {cached, causal} : (tensor<4x1x1x2xf32, #new>, tensor<1x4x1x2xf32, #slot>, tensor<1x4x1x2xf32, #slot>, tensor<1xi32>, tensor<4x1xi32>) -> (tensor<4x1x1x2xf32, #new>, tensor<1x1x4xf32, #lse>)
  %t = optimus.take %y, %slot : (tensor<4x1x1x2xf32, #new>, tensor<1xi32>) -> tensor<1x1x1x2xf32, #one>
  return %0, %y, %t : tensor<2x4x1x2xf32, #c>, tensor<4x1x1x2xf32, #new>, tensor<1x1x1x2xf32, #one>
}

// BEYOND: expected an index below 3, found 3
func.func @beyond(%c: tensor<3x4x2x2xf32>) -> tensor<1x4x2x2xf32> {
  %slot = arith.constant dense<3> : tensor<1xi32>
  %0 = optimus.take %c, %slot : (tensor<3x4x2x2xf32>, tensor<1xi32>) -> tensor<1x4x2x2xf32>
  return %0 : tensor<1x4x2x2xf32>
}

// LONG: expected a length from 0 to 4, found 5
func.func @too_long(%c: tensor<3x4x2x2xf32>) -> tensor<1x4x2x2xf32> {
  %slot = arith.constant dense<2> : tensor<1xi32>
  %l = arith.constant dense<5> : tensor<1xi32>
  %0 = optimus.take %c, %slot length(%l) : (tensor<3x4x2x2xf32>, tensor<1xi32>, tensor<1xi32>) -> tensor<1x4x2x2xf32>
  return %0 : tensor<1x4x2x2xf32>
}
